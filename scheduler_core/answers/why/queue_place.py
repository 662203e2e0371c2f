"""The place of waiting work in the queue, and the nodes that are kept for others."""

from __future__ import annotations

import msgspec

from scheduler_core.answers.why.subject import Subject
from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.model.groups.gang import GroupRef, group_of
from scheduler_core.simulate.world import Simulation

# Names of others in one answer.
_MOST: int = 10


class QueuePlace(msgspec.Struct, frozen=True):
    """The place in the order in which waiting work is tried, from 1; 0 if it does not wait.

    `ahead` names the first of those before it. `since`: when its first pod was created, in seconds since the
    epoch.
    """

    position: int
    length: int
    ahead: tuple[str, ...] = ()
    since: float = 0.0
    priority: int = 0


class Keeper(msgspec.Struct, frozen=True):
    """Waiting work for which nodes are kept."""

    text: str
    nodes: tuple[str, ...]


def queue_place(simulation: Simulation, subject: Subject) -> QueuePlace:
    """The place of a subject among all that waits after a run."""
    queue = simulation.scheduler.queue
    own = {f"{pod.namespace}/{pod.name}" for pod in simulation.state.pods.values()} & set(subject.waiting)
    units = sorted(queue.units.values(), key=queue.order)
    for number, unit in enumerate(units):
        if any(pod.key in own for pod in unit.pods.values()):
            ahead = tuple(_unit_text(other) for other in units[:number][:_MOST])
            since = min(pod.created for pod in unit.pods.values())
            return QueuePlace(number + 1, len(units), ahead, since, unit.priority)
    return QueuePlace(0, len(units))


def unit_ref(unit: QueuedUnit) -> GroupRef | None:
    """The group whose pods a unit of the queue has; None for a single pod."""
    return group_of(next(iter(unit.pods.values())))


def _unit_text(unit: QueuedUnit) -> str:
    ref = unit_ref(unit)
    return str(ref) if ref is not None else f"Pod {next(iter(unit.pods.values())).key}"


def keepers(simulation: Simulation, subject: Subject) -> tuple[Keeper, ...]:
    """Work for which nodes are kept or being freed, without the subject itself."""
    nominations = simulation.state.nominations
    kept: dict[str, set[str]] = {}
    for uid in nominations.uids:
        item = nominations.get(uid)
        if item is None or item.pod.key in subject.waiting:
            continue
        ref = group_of(item.pod)
        text = str(ref) if ref is not None else f"Pod {item.pod.key}"
        kept.setdefault(text, set()).add(item.node)
    return tuple(Keeper(text, tuple(sorted(kept[text]))) for text in sorted(kept)[:_MOST])
