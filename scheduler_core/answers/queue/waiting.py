"""All waiting work after one run of the scheduler, in the order in which the scheduler tries it."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from scheduler_core.answers.why.queue_place import unit_ref
from scheduler_core.engine.decisions import Rejected
from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.model import names
from scheduler_core.model.groups.gang import Gang
from scheduler_core.simulate.world import Simulation
from scheduler_core.state.gangs.gangs import take_census, too_few

# What keeps work waiting: the kind of its first obstacle.
Cause = Literal["gates", "gang", "quota", "topology", "load", "nodes", "kept", "unknown"]

_CAUSES: Final[dict[str, Cause]] = {
    names.CAPACITY_SCHEDULING: "quota",
    names.QUOTA_FLAVORS: "quota",
    names.COSCHEDULING: "gang",
    names.LOAD_AWARE_SCHEDULING: "load",
    names.CLUSTER_TOPOLOGY_PLACEMENT_GROUP: "topology",
}
# The filters that look at nodes: what they refuse is a matter of nodes, unless they are in _CAUSES.
_NODE_FILTERS: Final = frozenset(
    {
        *(names.NODE_RESOURCES_FIT, names.NODE_AFFINITY, names.NODE_NAME, names.NODE_PORTS),
        *(
            names.NODE_UNSCHEDULABLE,
            names.TAINT_TOLERATION,
            names.POD_TOPOLOGY_SPREAD,
            names.INTER_POD_AFFINITY,
        ),
    }
)


class WaitingUnit(msgspec.Struct, frozen=True):
    """A pod or a group that waits.

    `position` counts from 1 in the order in which the scheduler tries; 0 where that is not known. `kind` is
    PodGroup or Pod, `pods` is the number of its waiting pods. `since`: when its first pod was created, in
    seconds since the epoch. `cause` is the kind of obstacle, `message` what the scheduler says. `nodes` are
    kept for it, or are being freed.
    """

    position: int
    kind: str
    namespace: str
    name: str
    pods: int
    priority: int
    since: float
    cause: Cause
    message: str
    nodes: tuple[str, ...] = ()


class WaitingQueue(msgspec.Struct, frozen=True):
    """What waits, and how many pods the next run of the scheduler starts and evicts."""

    units: tuple[WaitingUnit, ...] = ()
    starting: int = 0
    evicted: int = 0


def queue_of(simulation: Simulation) -> WaitingQueue:
    """Run the scheduler once and read its queue."""
    simulation.run()
    queue = simulation.scheduler.queue
    units = sorted((unit for unit in queue.units.values() if unit.pods), key=queue.order)
    found = tuple(_waiting(simulation, unit, number) for number, unit in enumerate(units, 1))
    return WaitingQueue(found, len(simulation.placed), len(simulation.evicted))


def told_queue(simulation: Simulation) -> WaitingQueue:
    """What waits as the conditions of its pods tell, for those who may not read what a run needs.

    Without positions, the work that has waited longest first.
    """
    queue = simulation.scheduler.queue
    found = (_told(simulation, unit) for unit in queue.units.values() if unit.pods)
    return WaitingQueue(tuple(sorted(found, key=lambda item: (item.since, item.namespace, item.name))))


def _told(simulation: Simulation, unit: QueuedUnit) -> WaitingUnit:
    found = _waiting(simulation, unit, 0)
    cause: Cause = found.cause if found.cause in ("gates", "gang", "kept") else "unknown"
    conditions = (pod.scheduled_condition for pod in unit.pods.values())
    message = next((item.message for item in conditions if item is not None and item.message), "")
    return msgspec.structs.replace(found, cause=cause, message=message)


def _waiting(simulation: Simulation, unit: QueuedUnit, position: int) -> WaitingUnit:
    ref = unit_ref(unit)
    pods = sorted(unit.pods.values(), key=lambda pod: pod.key)
    first = pods[0]
    rejected = next((told for pod in pods if (told := simulation.rejected.get(pod.key)) is not None), None)
    message = rejected.message if rejected is not None else ""
    gang = simulation.state.gangs.gangs.get(ref.key) if ref is not None else None
    nominations = simulation.state.nominations
    kept = {item.node for pod in pods if (item := nominations.get(pod.uid)) is not None}
    return WaitingUnit(
        position,
        "PodGroup" if ref is not None else "Pod",
        first.namespace,
        ref.name if ref is not None else first.name,
        len(pods),
        unit.priority,
        min(pod.created for pod in pods),
        _cause(simulation, unit, gang, rejected, kept=bool(kept)),
        message,
        tuple(sorted(kept)),
    )


def _cause(
    simulation: Simulation, unit: QueuedUnit, gang: Gang | None, rejected: Rejected | None, *, kept: bool
) -> Cause:
    if any(pod.gates for pod in unit.pods.values()):
        return "gates"
    if gang is not None and too_few(gang, take_census(simulation.state, gang.key)):
        return "gang"
    run = simulation.state.topology.runs.get(gang.key) if gang is not None else None
    if run is not None and run.reason:
        return "topology"
    found = _of_group(unit) if gang is not None else _of_pod(rejected)
    return "kept" if kept and found == "nodes" else found


def _of_group(unit: QueuedUnit) -> Cause:
    """Its members were tried together: what each met is only known by the plugins that may help."""
    if unit.plugins & _NODE_FILTERS:
        return "nodes"
    if names.LOAD_AWARE_SCHEDULING in unit.plugins:
        return "load"
    return "quota" if unit.plugins & {names.CAPACITY_SCHEDULING, names.QUOTA_FLAVORS} else "nodes"


def _of_pod(rejected: Rejected | None) -> Cause:
    """What refused it before the nodes were filtered, else what refused most nodes."""
    told = rejected.diagnosis if rejected is not None else None
    if told is None:
        return "nodes"
    if told.status is not None:
        return _CAUSES.get(told.status.plugin, "nodes")
    most = max(told.rejections, key=lambda item: item.nodes, default=None)
    return _CAUSES.get(most.plugin, "nodes") if most is not None else "nodes"
