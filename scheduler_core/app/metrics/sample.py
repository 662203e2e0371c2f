"""Sample of the state for gauges, taken by the loop's thread."""

from __future__ import annotations

import msgspec

from scheduler_core.engine.queue.unit import Part
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.model.names import CPU
from scheduler_core.quota.policy import borrowed

ByResource = dict[tuple[str, str], float]


class Sample(msgspec.Struct, frozen=True):
    """Values of gauges. `quotas` by min, max, used, borrowed; `incoming` counts by queue and event since the
    start.
    """

    pending: dict[str, float]
    cache: dict[str, float]
    incoming: dict[tuple[str, str], float]
    quotas: dict[str, ByResource]
    nodes_without_allocatable: int


def take_sample(scheduler: Scheduler) -> Sample:
    """Take a sample, in time proportional to the waiting pods and the quotas."""
    state = scheduler.state
    pending = dict.fromkeys((part.value for part in Part), 0.0)
    for unit in scheduler.queue.units.values():
        pending[unit.part] += len(unit.pods)
    exist = sum(node is not None for node in state.nodes.nodes)
    assumed = sum(placement.assumed for placement in state.placed.values())
    return Sample(
        pending,
        {"nodes": float(exist), "pods": float(len(state.placed)), "assumed_pods": float(assumed)},
        {key: float(value) for key, value in scheduler.queue.incoming.items()},
        _quotas(scheduler),
        exist - state.nodes.count,
    )


def _quotas(scheduler: Scheduler) -> dict[str, ByResource]:
    ledger = scheduler.state.ledger
    found: dict[str, ByResource] = {"min": {}, "max": {}, "used": {}, "borrowed": {}}
    for quota in ledger.quotas():
        used = ledger.status_used(quota)
        over = {**dict.fromkeys(used, 0), **borrowed(ledger, quota)}
        for name, values in zip(found, (quota.min, quota.max, used, over), strict=True):
            for resource, value in values.items():
                found[name][quota.namespace, resource] = _base_units(resource, value)
    return found


def _base_units(resource: str, value: int) -> float:
    return value / 1000 if resource == CPU else float(value)
