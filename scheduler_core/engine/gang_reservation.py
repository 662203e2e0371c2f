"""Keeping nodes for a gang that has waited too long (coscheduling reference, item 5).

The first such gang of the queue gets a node nominated for every member: those it fits now, then those with
the most room. Pods behind it may still start wherever a nominated member keeps its room (backfill); pods of
higher priority are not held up. `strictReservation` does so as soon as a gang fails.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler_core.arrays.index import Int64
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.engine.queue import QueuedUnit, SchedulingQueue
from scheduler_core.framework.profile import Profile
from scheduler_core.model.pod import Pod


class GangReservations:
    """Which gang nodes are kept for: one at a time, the first in the order of the queue."""

    def __init__(self, cycle: PodCycle, queue: SchedulingQueue) -> None:
        self._cycle = cycle
        self._queue = queue
        self._kept_for = ""

    def consider(self, unit: QueuedUnit, members: Sequence[tuple[Profile, Pod]], now: float) -> None:
        """A gang did not fit: keep nodes for it if it has waited long enough and none before it has them."""
        profile = members[0][0]
        seconds = patience(profile)
        waited = now - unit.since if unit.since is not None else 0.0
        if seconds is None or waited < seconds:
            return
        holder = self._queue.units.get(self._kept_for)
        order = profile.queue_sort.sort_key
        if holder is not None and holder is not unit and order(holder) < order(unit):
            return
        for uid in holder.pods if holder is not None else ():
            self._cycle.state.nominations.remove(uid)
        self._kept_for = unit.key if keep_nodes(self._cycle, members, now) else ""


def patience(profile: Profile) -> float | None:
    """Seconds that a gang of this profile waits before nodes are kept for it; None if none ever are."""
    seconds = [getattr(plugin, "reservation_seconds", None) for plugin in profile.plugins]
    given = [float(value) for value in seconds if value is not None]
    return min(given, default=None)


def keep_nodes(cycle: PodCycle, members: Sequence[tuple[Profile, Pod]], now: float) -> bool:
    """Nominate a node for every member; False (and nothing nominated) if not even empty nodes would do."""
    state = cycle.state
    nodes, size = state.nodes, state.nodes.size
    kept: Int64 = np.zeros((len(state.index), size), dtype=np.int64)  # [R, N]
    chosen: list[tuple[Pod, int, Int64]] = []
    for profile, pod in members:
        own = cycle.new_cycle(profile, pod, now)
        ok = cycle.scores_for(profile, own).static.ok  # [N]
        rows = np.flatnonzero(own.vector)
        asked = own.vector[rows][:, None]
        empty = nodes.allocatable[rows][:, :size] - kept[rows]
        possible = ok & (asked <= empty).all(axis=0)
        if not possible.any():
            return False
        free = empty - nodes.requested[rows][:, :size]
        room = (free / np.maximum(asked, 1)).min(axis=0)  # [N] how many more would fit now
        slot = int(np.where(possible, room, -np.inf).argmax())
        kept[: len(own.vector), slot] += own.vector
        chosen.append((pod, slot, own.vector))
    for pod, slot, vector in chosen:
        state.nominations.put(pod, nodes.names[slot], vector)
    return True
