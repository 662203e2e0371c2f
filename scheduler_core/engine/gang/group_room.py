"""Arithmetic of a group's preemption: how many members fit without some units, and which units must go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.engine.gang.group_units import Units
from scheduler_core.engine.gang.members import Members, kinds_of
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.preemption.demand import Rows
from scheduler_core.model.names import CLUSTER_TOPOLOGY_PLACEMENT_GROUP as TOPOLOGY
from scheduler_core.state.cluster import ClusterState

_NO_LIMIT: Final = np.iinfo(np.int64).max


class GroupRoom:
    """How many members fit the nodes by resources, as if all had the largest requests among them.

    `most` is their number once all units are gone; without such rules as affinity no more can start, if all
    members are equal. `gaining` bool [N + 1] marks the nodes that fit more members then; the last is for rows
    without a node. Leaving pods count as gone.
    """

    def __init__(self, cycle: PodCycle, members: Members, units: Units, now: float) -> None:
        state, size = cycle.state, cycle.state.nodes.size
        self._units = units
        self._table = state.table
        self._table.cover(len(state.index))
        self._open: Bool = state.nodes.alive[:size].copy()  # [N]
        request: Int64 = np.zeros(len(state.index), dtype=np.int64)  # [R]
        for profile, pod in dict(zip(kinds_of(state, members), members, strict=True)).values():
            own = cycle.new_cycle(profile, pod, now)
            request[: len(own.vector)] = np.maximum(request[: len(own.vector)], own.vector)
            self._open &= cycle.scores_for(profile, own).static.ok
            gang = state.gangs.of(pod)
            if gang is not None and gang.topology_key and cycle.pre_filter(profile, own) is None:
                bits = cycle.filter_bits(profile, own, cycle.scores_for(profile, own))
                self._open &= bits[TOPOLOGY] == 0 if TOPOLOGY in bits else True
        self._asked: Rows = np.flatnonzero(request)
        self._request: Int64 = request[self._asked][:, None]  # [k, 1]
        self._one_each = any(pod.host_ports for _, pod in members)
        free = state.nodes.allocatable[self._asked][:, :size] - state.nodes.requested[self._asked][:, :size]
        self._free: Int64 = free + self._table.leaving_requests(size)[self._asked]  # [k, N]
        self._slots: Rows = self._table.slot[units.rows].astype(np.int64)  # [M]
        self._held: Int64 = self._table.requests[self._asked][:, units.rows]  # [k, M]
        fits = self._fits(self._without(units.size))
        self.gaining: Bool = np.append(fits > self._fits(self._free), False)  # [N + 1]
        self.most = int(fits.sum())

    def _without(self, count: int) -> Int64:
        """int64 [k, N]: what is free without the first units."""
        cells = int(np.searchsorted(self._units.of, count))
        free = self._free.copy()
        for row in range(len(free)):
            np.add.at(free[row], self._slots[:cells], self._held[row, :cells])
        return free

    def _fits(self, free: Int64) -> Int64:
        """int64 [N]: members that fit every node."""
        fits = (np.maximum(free, 0) // self._request).min(axis=0, initial=_NO_LIMIT)
        found: Int64 = np.where(self._open, np.minimum(fits, 1) if self._one_each else fits, 0)
        return found

    def fewest(self, wanted: int, need: Int64) -> Units:
        """The least important units that make room for `wanted` members and free `need` (int64 [R]).

        All units if they do not suffice. None of them can be given back.
        """
        freed: Int64 = np.zeros((len(need), self._units.size + 1), dtype=np.int64)  # [R, U + 1]
        for row in range(len(need)):
            np.add.at(freed[row], self._units.of + 1, self._table.requests[row, self._units.rows])
        enough: Bool = np.asarray((np.cumsum(freed, axis=1) >= need[:, None]).all(axis=0))  # [U + 1]
        low, high = 0, self._units.size
        while low < high:
            middle = (low + high) // 2
            if enough[middle] and self._fits(self._without(middle)).sum() >= wanted:
                high = middle
            else:
                low = middle + 1
        return self._units.some(self._needed(low, wanted, freed[:, 1 : low + 1], need))

    def _needed(self, count: int, wanted: int, frees: Int64, need: Int64) -> list[int]:
        """The numbers of the first `count` units that cannot be given back, the most important first."""
        free = self._without(count)
        spare = int(self._fits(free).sum()) - wanted
        if spare < 0:
            return list(range(count))
        asked: Bool = np.asarray(need > 0)  # [R]
        frees = frees[asked]
        left = frees.sum(axis=1) - need[asked]
        bounds = np.searchsorted(self._units.of, np.arange(count + 1)).tolist()
        needed: list[int] = []
        makes_room = self._on(self._fits(free) > self._fits(self._free), count)
        # What a unit frees elsewhere counts only where the quota needs it.
        tested = range(count) if asked.any() else np.flatnonzero(makes_room).tolist()
        for number in reversed(tested):
            enough = bool((left >= frees[:, number]).all())
            if enough and makes_room[number]:
                cells = slice(bounds[number], bounds[number + 1])
                nodes = np.unique(self._slots[cells])
                before = self._fits_on(free, nodes)
                back = free.copy() if len(nodes) > 1 else free
                np.subtract.at(back.T, self._slots[cells], self._held[:, cells].T)
                lost = before - self._fits_on(back, nodes)
                enough = lost <= spare
                if enough:
                    free, spare = back, spare - lost
                elif back is free:
                    np.add.at(free.T, self._slots[cells], self._held[:, cells].T)
            if enough:
                left = left - frees[:, number]
            else:
                needed.append(number)
        return needed

    def _on(self, nodes: Bool, count: int) -> Bool:
        """bool [count]: which of the first units hold something on some nodes, bool [N]."""
        cells = int(np.searchsorted(self._units.of, count))
        found: Bool = np.zeros(count, dtype=np.bool_)
        found[self._units.of[:cells][nodes[self._slots[:cells]]]] = True
        return found

    def _fits_on(self, free: Int64, nodes: Rows) -> int:
        fits = (np.maximum(free[:, nodes], 0) // self._request).min(axis=0, initial=_NO_LIMIT)
        if self._one_each:
            fits = np.minimum(fits, 1)
        return int(fits[self._open[nodes]].sum())


def needed_units(
    state: ClusterState, units: Units, taken: Sequence[tuple[int, Int64]], spare: Int64, bounded: Bool
) -> list[int]:
    """The numbers of the units that the placed members' resources and their quota need.

    `taken` are slots and vectors (int64 [R]) of members that are placed once all units are gone. `spare`
    int64 [R] is what the units free beyond the need of the quota, which counts where `bounded` (bool [R]).
    """
    table, nodes = state.table, state.nodes
    table.cover(len(nodes.allocatable))
    free: Int64 = nodes.allocatable[:, : nodes.size] - nodes.requested[:, : nodes.size]  # [R, N]
    free = free + table.leaving_requests(nodes.size)[: len(free)]
    slots, held = table.slot[units.rows], table.requests[: len(free), units.rows]  # [M], [R, M]
    np.add.at(free.T, slots, held.T)
    asked: Bool = np.zeros_like(free, dtype=np.bool_)  # [R, N] what members on a node request
    for slot, vector in taken:
        free[: len(vector), slot] -= vector
        asked[: len(vector), slot] |= vector > 0
    contested: Bool = np.asarray(asked.any(axis=0))  # [N]
    bounds = np.searchsorted(units.of, np.arange(units.size + 1)).tolist()
    tested = set(range(units.size)) if bounded.any() else set(units.of[contested[slots]].tolist())
    spare = spare.copy()
    needed: list[int] = []
    for number in sorted(tested, reverse=True):
        cells = slice(bounds[number], bounds[number + 1])
        at, back = slots[cells], held[:, cells]
        np.subtract.at(free.T, at, back.T)
        freed = back.sum(axis=1)[: len(spare)]
        short = bool(((free[:, at] < 0) & asked[:, at]).any()) or bool((freed > spare)[bounded].any())
        if short:
            np.add.at(free.T, at, back.T)
            needed.append(number)
        else:
            spare -= freed
    return needed
