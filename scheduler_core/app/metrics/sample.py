"""Sample of the state for gauges, taken by the loop's thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from scheduler_core.engine.queue.unit import Part, QueuedUnit
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.names import CPU
from scheduler_core.quota.entitled import entitled
from scheduler_core.quota.fair_shares import borrows, scale_of
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.policy import borrowed

ByResource = dict[tuple[str, str], float]


class Sample(msgspec.Struct, frozen=True):
    """Values of gauges. `quotas` by min, max, used, borrowed; `incoming` counts by queue and event since the
    start. `shares` by namespace and quota, `entitled` by namespace, quota and resource, `gangs` by phase.
    `groups` by min, max, used of QuotaGroups, each by group and resource. `longest_waits` in seconds by
    namespace and by `pod` or `gang`.
    """

    pending: dict[str, float]
    cache: dict[str, float]
    incoming: dict[tuple[str, str], float]
    quotas: dict[str, ByResource]
    nodes_without_allocatable: int
    shares: dict[tuple[str, str], float] = {}
    entitled: dict[tuple[str, str, str], float] = {}
    gangs: dict[str, float] = {}
    groups: dict[str, ByResource] = {}
    longest_waits: dict[tuple[str, str], float] = {}


def take_sample(scheduler: Scheduler, now: float) -> Sample:
    """Take a sample, in time proportional to the waiting pods and the quotas. `now` is the loop's time."""
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
        _shares(state.ledger),
        _entitled(scheduler),
        _gangs(state.gangs.gangs.values()),
        _groups(state.ledger),
        _longest_waits(scheduler.queue.units.values(), now),
    )


def _shares(ledger: QuotaLedger) -> dict[tuple[str, str], float]:
    scale = scale_of(ledger)
    return {
        (quota.namespace, quota.name): float(scale.fraction(scale.share(over, quota.sharing.weight)))
        for quota in ledger.quotas()
        for over in [borrows(ledger, quota)]
    }


def _entitled(scheduler: Scheduler) -> dict[tuple[str, str, str], float]:
    ledger = scheduler.state.ledger
    names = {quota.namespace: quota.name for quota in ledger.quotas()}
    return {
        (namespace, names[namespace], resource): base_units(resource, value)
        for resource, amounts in entitled(ledger, scheduler.queue.demand.by_namespace).items()
        for namespace, value in amounts.items()
    }


def _gangs(gangs: Iterable[Gang]) -> dict[str, float]:
    """The number of PodGroups by the phase that they show; other groups have none."""
    phases = Counter(gang.status.phase for gang in gangs if gang.status.phase)
    return {phase: float(number) for phase, number in phases.items()}


def _longest_waits(units: Iterable[QueuedUnit], now: float) -> dict[tuple[str, str], float]:
    """Seconds since the oldest pod and gang of each namespace came; those behind a gate do not count."""
    pods: dict[str, float] = {}
    gangs: dict[str, float] = {}
    gated = Part.GATED
    for unit in units:
        if unit.part is not gated:
            first, namespace = gangs if unit.gang else pods, unit.namespace
            if first.get(namespace, now) >= unit.came:
                first[namespace] = unit.came
    kinds = ("pod", pods), ("gang", gangs)
    return {(name, kind): now - came for kind, first in kinds for name, came in first.items()}


def _quotas(scheduler: Scheduler) -> dict[str, ByResource]:
    ledger = scheduler.state.ledger
    found: dict[str, ByResource] = {"min": {}, "max": {}, "used": {}, "borrowed": {}}
    for quota in ledger.quotas():
        used = ledger.status_used(quota)
        over = {**dict.fromkeys(used, 0), **borrowed(ledger, quota)}
        for name, values in zip(found, (quota.min, quota.max, used, over), strict=True):
            for resource, value in values.items():
                found[name][quota.namespace, resource] = base_units(resource, value)
    return found


def _groups(ledger: QuotaLedger) -> dict[str, ByResource]:
    found: dict[str, ByResource] = {"min": {}, "max": {}, "used": {}}
    for name, account in ledger.tree.accounts.items():
        used = {resource: account.sums.amount(resource) for resource in {*account.min, *account.group.max}}
        for values, amounts in zip(found.values(), (account.min, account.group.max, used), strict=True):
            for resource, value in amounts.items():
                values[name, resource] = base_units(resource, value)
    return found


def base_units(resource: str, value: int) -> float:
    """An amount as metrics show it: CPU in cores, all others as they are."""
    return value / 1000 if resource == CPU else float(value)
