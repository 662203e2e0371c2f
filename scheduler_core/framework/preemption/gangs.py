"""Victims that belong to gangs: a gang goes as a whole if it would fall below minMembers (rule 16)."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_core.framework.preemption.demand import Demand
from scheduler_core.model.gang import Gang, group_of
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState


def whole_gangs(state: ClusterState, demand: Demand, victims: Sequence[Pod]) -> list[Pod] | None:
    """The victims with the other members of every gang that they would tear apart.

    None if such a member may not be a victim of this preemptor. A gang that is below minMembers already, or
    stays at or above it, loses single members.
    """
    torn: dict[str, Gang] = {}
    for gang, leaving in _by_gang(state, victims).values():
        stays = len(_running(state, gang))
        if stays >= gang.min_members > stays - leaving:
            torn[gang.key] = gang
    if not torn:
        return list(victims)
    chosen = {pod.uid: pod for pod in victims}
    for gang in torn.values():
        for pod in _running(state, gang):
            if pod.uid not in chosen and not demand.eligible[state.placed[pod.uid].row]:
                return None
            chosen.setdefault(pod.uid, pod)
    return list(chosen.values())


def _by_gang(state: ClusterState, victims: Sequence[Pod]) -> dict[str, tuple[Gang, int]]:
    """(gang, number of its members among the victims) by the gang's key."""
    found: dict[str, tuple[Gang, int]] = {}
    for pod in victims:
        ref = group_of(pod)
        gang = state.gangs.gangs.get(ref.key) if ref is not None else None
        if gang is not None:
            found[gang.key] = (gang, found.get(gang.key, (gang, 0))[1] + 1)
    return found


def _running(state: ClusterState, gang: Gang) -> list[Pod]:
    """Members that hold a node and are not on their way out."""
    return [
        pod
        for uid, pod in sorted(state.gangs.members(gang.key).items())
        if uid in state.placed and not state.table.going[state.placed[uid].row]
    ]
