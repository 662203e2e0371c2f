"""Where the members of a gang would sit: on empty nodes, or once running pods have ended that must end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.engine.gang_capacity import Members, beyond_quota, in_use
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.preemption.eligibility import usable
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState

Float = NDArray[np.float64]


class Seat(msgspec.Struct, frozen=True):
    """A member, the node kept for it, and its requests: int64 [R]."""

    pod: Pod
    slot: int
    vector: Int64


class Plan(msgspec.Struct, frozen=True):
    """Seats for enough members. `start` is when all of them are free, in seconds; 0 where nobody knows."""

    seats: tuple[Seat, ...]
    start: float = 0.0


# Nothing is kept.
NO_SEATS: Final = Plan(())


def plan_on_empty(cycle: PodCycle, members: Members, need: int, now: float) -> Plan | None:
    """Seats as if all nodes were empty, where most room is now; None if even that is not enough."""
    nodes, size = cycle.state.nodes, cycle.state.nodes.size
    allocatable = nodes.allocatable[:, :size]
    seats = _seats(cycle, members, need, now, allocatable, allocatable - nodes.requested[:, :size])
    return Plan(tuple(seats)) if seats is not None else None


def plan_by_ends(
    cycle: PodCycle, members: Members, need: int, now: float, held: Plan = NO_SEATS
) -> Plan | None:
    """Seats at the earliest time at which enough running pods must have ended (activeDeadlineSeconds).

    Those that are `held` already if they will do by then, so that a new process keeps the same nodes. None if
    the ends that are known do not make room enough, on the nodes or in the quota.
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


def seats_held(state: ClusterState, members: Members) -> Plan:
    """Seats on the nodes that are kept for members now."""
    seats = []
    for _, pod in members:
        item = state.nominations.get(pod.uid)
        slot = state.nodes.slot(item.node) if item is not None else None
        if item is not None and slot is not None:
            seats.append(Seat(pod, slot, state.vector(pod)))
    return Plan(tuple(seats))


def still_possible(cycle: PodCycle, plan: Plan, members: Members, need: int) -> bool:
    """Whether the seats of a plan are enough, and their nodes can still give them if all else ended.

    What others evicted for is theirs.
    """
    nodes = cycle.state.nodes
    return _will_do(cycle, plan, members, need, nodes.allocatable[:, : nodes.size])


def _will_do(cycle: PodCycle, plan: Plan, members: Members, need: int, limit: Int64) -> bool:
    """Whether the seats of a plan are enough and find room in `limit`: int64 [R, N]."""
    waiting = {pod.uid for _, pod in members}
    if sum(seat.pod.uid in waiting for seat in plan.seats) < need:
        return False
    left = limit - _paid(cycle.state, members)  # [R, N]
    for seat in plan.seats:
        left[: len(seat.vector), seat.slot] -= seat.vector
    taken = [seat.slot for seat in plan.seats]
    usables = all(usable(cycle.state, seat.pod, seat.slot) for seat in plan.seats)
    return usables and bool((left[:, taken] >= 0).all())


def _paid(state: ClusterState, members: Members) -> Int64:
    """int64 [R, N]: what others evicted for, and is theirs."""
    own = {pod.uid for _, pod in members}
    nominated = state.nominations.waiting(lambda _: True)
    ignored = [item for item in nominated if item.kept or item.pod.uid in own]
    return state.nominations.room(ignored).copy()


def _ends(state: ClusterState, now: float) -> Float:
    """float64 [rows]: when each placed pod has ended at the latest; pods on their way out end now."""
    table, size = state.table, state.table.size
    ends = np.maximum(table.start[:size] + table.lasts[:size], now)
    ends[table.going[:size]] = now
    ends[~table.alive[:size]] = np.inf
    return ends


def _at(
    cycle: PodCycle, members: Members, need: int, now: float, ends: Float, moment: float, held: Plan
) -> Plan | None:
    """The plan for one moment, if what ends until then makes room enough."""
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
    if held.seats and _will_do(cycle, held, members, need, free):
        return Plan(held.seats, moment)
    seats = _seats(cycle, members, need, now, free, free)
    return Plan(tuple(seats), moment) if seats is not None else None


def ending_on(state: ClusterState, slot: int, moment: float) -> dict[str, Int64]:
    """The pods of a node that must have ended by then, by uid, with what they hold: int64 [R].

    Not those on their way out: whoever looks for room to come counts theirs as free.
    """
    table = state.table
    found = {}
    for uid in state.nodes.pods[slot]:
        item = state.placed[uid]
        if not table.going[item.row] and table.start[item.row] + table.lasts[item.row] <= moment:
            found[uid] = item.vector
    return found


def kept_of(seats: Sequence[Seat], ending: Iterable[Int64], resources: int) -> list[Int64]:
    """What has to be kept for each seat of one node beside what ends there by itself; int64 [R] each."""
    left: Int64 = np.zeros(resources, dtype=np.int64)  # [R]
    for vector in ending:
        left[: len(vector)] += vector
    kept = []
    for seat in seats:
        own = left[: len(seat.vector)]
        met = np.minimum(seat.vector, own)
        own -= met
        kept.append(seat.vector - met)
    return kept


def _seats(
    cycle: PodCycle, members: Members, need: int, now: float, limit: Int64, free: Int64
) -> list[Seat] | None:
    """Nodes for `need` members, each where `limit` allows and `free` is largest; both int64 [R, N]."""
    state = cycle.state
    kept = _paid(state, members)  # [R, N]
    seats: list[Seat] = []
    for left, (profile, pod) in zip(range(len(members), 0, -1), members, strict=True):
        if len(seats) == need or len(seats) + left < need:
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
            seats.append(Seat(pod, slot, attempt.vector))
    return seats if len(seats) == need and state.nodes.size else None
