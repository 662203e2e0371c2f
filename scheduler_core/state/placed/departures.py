"""Departures: which of the pods that end leave soon enough for others to wait for them.

A reclaim gives its victims at most `limit` seconds to end. So whoever waits for a pod that leaves within the
limit waits no longer than for a victim of its own. Room that comes later is not room that comes: such a pod
counts as any pod that runs, until the limit is all that it has left. Nor is a pod awaited that should have
been gone for as long as the limit: its node may be gone, or its kubelet.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from math import inf
from typing import Final, NamedTuple

from scheduler_core.model.names import EVICTION_GRACE_LIMIT_SECONDS
from scheduler_core.model.pods.pod import Pod

# The API server counts grace periods in nanoseconds, as int64. With a longer one, `deletionTimestamp` has
# wrapped around and tells nothing.
_MOST_COUNTED_SECONDS: Final = (2**63 - 1) // 10**9


class Departure(NamedTuple):
    """A pod that ends counts as leaving from `begins` on, before `overdue`; seconds since the epoch."""

    begins: float
    overdue: float

    def leaves(self, now: float) -> bool:
        """Whether the pod leaves within the limit, as far as it is known at `now`."""
        return self.begins <= now < self.overdue


def ends_at(pod: Pod) -> float:
    """When a terminating pod must have ended, in seconds since the epoch; infinite if nobody can tell."""
    if pod.deleted is None or (pod.ending_grace or 0) > _MOST_COUNTED_SECONDS:
        return inf
    return pod.deleted


def departure_of(pod: Pod, limit: int) -> Departure:
    """The departure of a terminating pod; `limit` in seconds.

    No server stores a deletion without a grace period: whoever writes one down means a pod that leaves.
    """
    if pod.ending_grace is None:
        return Departure(-inf, inf)
    end = ends_at(pod)
    return Departure(end - limit, end + limit)


def can_end_sooner(pod: Pod, limit: int) -> bool:
    """Whether a second deletion with the limit (seconds) shortens the time that a terminating pod has to end.

    The API server lets the grace period of a deletion only be shortened.
    """
    return pod.terminating and pod.ending_grace is not None and pod.ending_grace > limit


class _Known(NamedTuple):
    """A departure, and the deletion that it was made of: its moment and its grace period."""

    departure: Departure
    deleted: float | None
    grace: int | None


class Departures:
    """The departures of placed pods by uid, and the moments at which they begin or are overdue.

    `limit`: seconds (`evictionGraceLimitSeconds` of CapacityScheduling).
    """

    def __init__(self) -> None:
        self.limit = EVICTION_GRACE_LIMIT_SECONDS
        self._known: dict[str, _Known] = {}
        self._evicted: set[str] = set()
        self._moments: list[tuple[float, str]] = []

    def leaves(self, pod: Pod, now: float | None) -> bool:
        """Whether a placed pod, as seen at `now`, leaves within the limit. None: it does if it terminates."""
        uid = pod.uid
        if not pod.terminating or now is None:
            return pod.terminating or uid in self._evicted
        known = self._known.get(uid)
        if known is None or (known.deleted, known.grace) != (pod.deleted, pod.ending_grace):
            departure = departure_of(pod, self.limit)
            if uid in self._evicted:
                # Decided here: it goes, whatever the clocks of scheduler and API server make of its deletion.
                departure = Departure(-inf, max(departure.overdue, now + self.limit))
            known = self._known[uid] = _Known(departure, pod.deleted, pod.ending_grace)
            for moment in departure:
                if now < moment < inf:
                    heapq.heappush(self._moments, (moment, uid))
        return known.departure.leaves(now)

    def evicted(self, uid: str) -> None:
        """The eviction of a pod was decided: it leaves from now on."""
        self._evicted.add(uid)
        self._known.pop(uid, None)

    def forget(self, uid: str) -> None:
        """A pod is gone, or its eviction failed."""
        self._evicted.discard(uid)
        self._known.pop(uid, None)

    def due(self, now: float) -> Iterator[str]:
        """Pods (uids) whose departure begins or is overdue at `now`, since the last call."""
        while self._next() <= now:
            yield heapq.heappop(self._moments)[1]

    def next_time(self) -> float | None:
        """The next moment at which a departure begins or is overdue."""
        moment = self._next()
        return moment if moment < inf else None

    def _next(self) -> float:
        while self._moments:
            moment, uid = self._moments[0]
            known = self._known.get(uid)
            if known is not None and moment in known.departure:
                return moment
            heapq.heappop(self._moments)
        return inf
