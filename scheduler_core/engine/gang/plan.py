"""Plans the nodes to keep for a gang: empty nodes, or nodes on which running pods must have ended by then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np

from scheduler_core.arrays.types import Float, Int64
from scheduler_core.engine.gang.capacity import beyond_quota, in_use
from scheduler_core.engine.gang.members import Members
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.preemption.eligibility import usable
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState


class PlannedMember(msgspec.Struct, frozen=True):
    """A member, the node kept for it, and its requests: int64 [R]."""

    pod: Pod
    slot: int
    vector: Int64


class GangPlan(msgspec.Struct, frozen=True):
    """Planned nodes for enough members. `start`: when all are free, in seconds; 0 if that is not known."""

    members: tuple[PlannedMember, ...]
    start: float = 0.0


# No node is kept.
EMPTY_PLAN: Final = GangPlan(())


def plan_on_empty(cycle: PodCycle, members: Members, need: int, now: float) -> GangPlan | None:
    """A plan as if all nodes were empty, preferring nodes with most free room; None if that is not enough."""
    nodes, size = cycle.state.nodes, cycle.state.nodes.size
    allocatable = nodes.allocatable[:, :size]
    planned = _planned_members(
        cycle, members, need, now, allocatable, allocatable - nodes.requested[:, :size]
    )
    return GangPlan(tuple(planned)) if planned is not None else None


def plan_by_ends(
    cycle: PodCycle, members: Members, need: int, now: float, held: GangPlan = EMPTY_PLAN
) -> GangPlan | None:
    """A plan for the earliest time at which enough running pods must have ended (activeDeadlineSeconds).

    It uses the nodes of `held` if they suffice by then, so that a new process keeps the same nodes. None if
    the known ends do not free enough room, on the nodes or in the quota.
    """
    state = cycle.state
    ends = _ends(state, now)
    times = np.unique(ends[np.isfinite(ends)])
    if not (times > now).any():
        return None
    low, high = 0, len(times) - 1
    best = _at(cycle, members, need, now, ends, float(times[high]), held)
    if best is None:
        return None
    while low < high:
        middle = (low + high) // 2
        found = _at(cycle, members, need, now, ends, float(times[middle]), held)
        low, high, best = (low, middle, found) if found is not None else (middle + 1, high, best)
    return best


def plan_of_kept_nodes(state: ClusterState, members: Members) -> GangPlan:
    """The plan of the nodes that are nominated for members now."""
    planned = []
    for _, pod in members:
        item = state.nominations.get(pod.uid)
        slot = state.nodes.slot(item.node) if item is not None else None
        if item is not None and slot is not None:
            planned.append(PlannedMember(pod, slot, state.vector(pod)))
    return GangPlan(tuple(planned))


def still_possible(cycle: PodCycle, plan: GangPlan, members: Members, need: int) -> bool:
    """Whether a plan has enough members, and its nodes would fit them if all other pods ended.

    Room that other pods were nominated for with victims is not available.
    """
    nodes = cycle.state.nodes
    return _will_do(cycle, plan, members, need, nodes.allocatable[:, : nodes.size])


def fits_after_leaving(cycle: PodCycle, plan: GangPlan, members: Members, need: int) -> bool:
    """Whether a plan has enough members, and its nodes have room for them once all leaving pods are gone."""
    nodes, size = cycle.state.nodes, cycle.state.nodes.size
    cycle.state.table.cover(len(cycle.state.index))
    held = cycle.state.table.leaving_requests(size)[: len(nodes.allocatable)]
    free = nodes.allocatable[:, :size] - nodes.requested[:, :size] + held
    return _will_do(cycle, plan, members, need, free)


def _will_do(cycle: PodCycle, plan: GangPlan, members: Members, need: int, limit: Int64) -> bool:
    """Whether a plan has enough members and they fit `limit`: int64 [R, N]."""
    waiting = {pod.uid for _, pod in members}
    if sum(member.pod.uid in waiting for member in plan.members) < need:
        return False
    left = limit - _paid(cycle.state, members)  # [R, N]
    for member in plan.members:
        left[: len(member.vector), member.slot] -= member.vector
    taken = [member.slot for member in plan.members]
    usables = all(usable(cycle.state, member.pod, member.slot) for member in plan.members)
    return usables and bool((left[:, taken] >= 0).all())


def _paid(state: ClusterState, members: Members) -> Int64:
    """int64 [R, N]: requests of other pods that were nominated with victims."""
    own = {pod.uid for _, pod in members}
    nominated = state.nominations.waiting(lambda _: True)
    ignored = [item for item in nominated if item.kept or item.pod.uid in own]
    return state.nominations.room(ignored).copy()


def _ends(state: ClusterState, now: float) -> Float:
    """float64 [rows]: the latest end of each placed pod; leaving pods end now."""
    table, size = state.table, state.table.size
    ends = np.maximum(table.start[:size] + table.lasts[:size], now)
    ends[table.leaving[:size]] = now
    ends[~table.alive[:size]] = np.inf
    return ends


def _at(
    cycle: PodCycle, members: Members, need: int, now: float, ends: Float, moment: float, held: GangPlan
) -> GangPlan | None:
    """The plan for one moment, or None if the pods that end until then do not free enough room."""
    state = cycle.state
    nodes, size = state.nodes, state.nodes.size
    gone = ends <= moment
    used, total = in_use(state, members[0][1].namespace, gone)
    if beyond_quota(state, members, need, used, total):
        return None
    rows = np.flatnonzero(gone)
    state.table.cover(len(state.index))
    ending: Int64 = np.zeros((size, len(state.index)), dtype=np.int64)  # [N, R]
    np.add.at(ending, state.table.slot[rows], state.table.requests[: len(state.index)][:, rows].T)
    free = nodes.allocatable[:, :size] - nodes.requested[:, :size] + ending.T[: len(nodes.allocatable)]
    if held.members and _will_do(cycle, held, members, need, free):
        return GangPlan(held.members, moment)
    planned = _planned_members(cycle, members, need, now, free, free)
    return GangPlan(tuple(planned), moment) if planned is not None else None


def ending_on(state: ClusterState, slot: int, moment: float) -> dict[str, Int64]:
    """Requests (int64 [R]) by uid of the pods on a node that must have ended by `moment`.

    Leaving pods are not included: their room counts as free already.
    """
    table = state.table
    found = {}
    for uid in state.nodes.pods[slot]:
        item = state.placed[uid]
        if not table.leaving[item.row] and table.start[item.row] + table.lasts[item.row] <= moment:
            found[uid] = item.vector
    return found


def kept_of(planned: Sequence[PlannedMember], ending: Iterable[Int64], resources: int) -> list[Int64]:
    """int64 [R] per planned member of one node: its requests beyond the room of pods that end there."""
    left: Int64 = np.zeros(resources, dtype=np.int64)  # [R]
    for vector in ending:
        left[: len(vector)] += vector
    kept = []
    for member in planned:
        own = left[: len(member.vector)]
        met = np.minimum(member.vector, own)
        own -= met
        kept.append(member.vector - met)
    return kept


def _planned_members(
    cycle: PodCycle, members: Members, need: int, now: float, limit: Int64, free: Int64
) -> list[PlannedMember] | None:
    """Nodes for `need` members, each where `limit` allows it and `free` is largest; both int64 [R, N]."""
    state = cycle.state
    kept = _paid(state, members)  # [R, N]
    planned: list[PlannedMember] = []
    for left, (profile, pod) in zip(range(len(members), 0, -1), members, strict=True):
        if len(planned) == need or len(planned) + left < need:
            break
        attempt = cycle.new_cycle(profile, pod, now)
        ok = cycle.scores_for(profile, attempt).static.ok  # [N]
        rows = np.flatnonzero(attempt.vector)
        asked = attempt.vector[rows][:, None]
        possible = ok & (asked <= limit[rows] - kept[rows]).all(axis=0)
        if possible.any():
            room = ((free[rows] - kept[rows]) / asked).min(axis=0)  # [N] how many more would fit
            slot = int(np.where(possible, room, -np.inf).argmax())
            kept[: len(attempt.vector), slot] += attempt.vector
            planned.append(PlannedMember(pod, slot, attempt.vector))
    return planned if len(planned) == need and state.nodes.size else None
