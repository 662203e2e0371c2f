"""All waiting work after one run of the scheduler, in the order in which the scheduler tries it."""

from __future__ import annotations

import msgspec

from scheduler_core.answers.queue.causes import Cause, Causes, obstacle_of_its_own
from scheduler_core.answers.why.queue_place import unit_ref
from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.model.groups.gang import DIALECT_NAMES
from scheduler_core.simulate.world import Simulation

# (kind, namespace, dialect, name) of waiting work.
UnitKey = tuple[str, str, str, str]


class WaitingUnit(msgspec.Struct, frozen=True):
    """A pod or a group that waits.

    `position` counts from 1 in the order in which the scheduler tries; 0 where that is not known. `kind` is
    PodGroup or Pod, `pods` is the number of its waiting pods. `dialect` is that of a PodGroup, in words for
    people: names of several dialects may be equal. `since`: when its first pod was created, in seconds since
    the epoch. `cause` is the kind of obstacle, `message` what the scheduler says. `nodes` are
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
    dialect: str = ""

    @property
    def key(self) -> UnitKey:
        """What tells it from all other work."""
        return self.kind, self.namespace, self.dialect, self.name


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
    causes = Causes(simulation)
    found = tuple(
        _waiting(simulation, unit, number, causes.first(unit)) for number, unit in enumerate(units, 1)
    )
    return WaitingQueue(found, len(simulation.placed), len(simulation.evicted))


def told_queue(simulation: Simulation) -> WaitingQueue:
    """What waits as the conditions of its pods tell, for those who may not read what a run needs.

    Without positions, the work that has waited longest first.
    """
    queue = simulation.scheduler.queue
    found = (_told(simulation, unit) for unit in queue.units.values() if unit.pods)
    return WaitingQueue(tuple(sorted(found, key=lambda item: (item.since, item.namespace, item.name))))


def _told(simulation: Simulation, unit: QueuedUnit) -> WaitingUnit:
    own = obstacle_of_its_own(simulation, unit)
    found = _waiting(simulation, unit, 0, own or "unknown")
    cause: Cause = "kept" if own is None and found.nodes else found.cause
    conditions = (pod.scheduled_condition for pod in unit.pods.values())
    message = next((item.message for item in conditions if item is not None and item.message), "")
    return msgspec.structs.replace(found, cause=cause, message=message)


def _waiting(simulation: Simulation, unit: QueuedUnit, position: int, cause: Cause) -> WaitingUnit:
    ref = unit_ref(unit)
    pods = sorted(unit.pods.values(), key=lambda pod: pod.key)
    first = pods[0]
    messages = (told.message for pod in pods if (told := simulation.rejected.get(pod.key)) is not None)
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
        "kept" if kept and cause == "nodes" else cause,
        next(messages, ""),
        tuple(sorted(kept)),
        DIALECT_NAMES[ref.dialect] if ref is not None else "",
    )
