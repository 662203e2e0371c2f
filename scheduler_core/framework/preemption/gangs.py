"""Victims that belong to gangs: a gang goes as a whole if it would fall below minMembers (rule 16)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scheduler_core.model.gang import Gang
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState


class Torn(NamedTuple):
    """A gang that some victims would leave below minMembers: its running members, most important first.

    With `quorum` of them it may go on.
    """

    key: str
    members: tuple[Pod, ...]
    quorum: int


def torn_gangs(state: ClusterState, victims: Iterable[Pod]) -> list[Torn]:
    """Gangs that cannot go on without the victims.

    A gang that is below minMembers already, or stays at or above it, loses single members.
    """
    leaving: dict[str, tuple[Gang, int]] = {}
    for pod in victims:
        gang = state.gangs.of(pod)
        if gang is not None:
            leaving[gang.key] = (gang, leaving.get(gang.key, (gang, 0))[1] + 1)
    found = []
    for gang, count in leaving.values():
        members = _running(state, gang)
        if len(members) >= gang.min_members > len(members) - count:
            found.append(Torn(gang.key, tuple(members), gang.min_members))
    return found


def units_of(victims: Sequence[Pod], torn: Iterable[Torn]) -> list[list[Pod]]:
    """The victims in the units in which they go: gangs that end as a whole, and single pods."""
    together = {pod.uid: gang.key for gang in torn for pod in gang.members}
    units: dict[str, list[Pod]] = {}
    for pod in victims:
        units.setdefault(together.get(pod.uid, pod.uid), []).append(pod)
    return list(units.values())


def _running(state: ClusterState, gang: Gang) -> list[Pod]:
    """Members that hold a node and are not on their way out, most important first."""
    table = state.table
    rows = {
        uid: state.placed[uid].row
        for uid in state.gangs.members(gang.key)
        if uid in state.placed and not table.going[state.placed[uid].row]
    }
    order = sorted(
        rows, key=lambda uid: (-int(table.priority[rows[uid]]), float(table.start[rows[uid]]), uid)
    )
    return [state.placed[uid].pod for uid in order]
