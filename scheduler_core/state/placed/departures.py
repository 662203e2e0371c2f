"""Departures: which of the pods that end leave soon enough for others to wait for them.

A reclaim gives its victims at most `limit` seconds to end. So whoever waits for a pod that leaves within the
limit waits no longer than for a victim of its own. Room that comes later is not room that comes: such a pod
counts as any pod that runs, until the limit is all that it has left.
"""

from __future__ import annotations

from math import inf
from typing import Final

from scheduler_core.model.names import EVICTION_GRACE_LIMIT_SECONDS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.due_times import DueTimes

# The API server counts grace periods in nanoseconds, as int64. With a longer one, `deletionTimestamp` has
# wrapped around and tells nothing.
_MOST_COUNTED_SECONDS: Final = (2**63 - 1) // 10**9
# How far the clock of the API server may be ahead: clocks may be wrong by hours, or by a day.
_CLOCKS_APART_SECONDS: Final = 86_400.0


def leaves_from(pod: Pod, limit: int) -> float:
    """Since when a terminating pod counts as leaving, in seconds since the epoch: `limit` before its end.

    Infinite if nobody can tell its end. With a grace period within the limit, a moment that is later than the
    limit comes from clocks that differ: a new leader must not take the victims of the last one for pods that
    stay. No server stores a deletion without a grace period: whoever writes one down means a pod that leaves.
    """
    if pod.deleted is None:
        return inf
    if pod.ending_grace is None:
        return -inf
    if pod.ending_grace <= limit:
        return pod.deleted - limit - _CLOCKS_APART_SECONDS
    return inf if pod.ending_grace > _MOST_COUNTED_SECONDS else pod.deleted - limit


def can_end_sooner(pod: Pod, limit: int) -> bool:
    """Whether a second deletion with the limit (seconds) shortens the time that a terminating pod has to end.

    The API server lets the grace period of a deletion only be shortened.
    """
    return pod.terminating and pod.ending_grace is not None and pod.ending_grace > limit


class Departures:
    """The placed pods that end later than the limit, and those that were evicted here, by uid.

    `limit`: seconds (`evictionGraceLimitSeconds` of CapacityScheduling). `now`: the latest that was told.
    """

    def __init__(self) -> None:
        self.limit = EVICTION_GRACE_LIMIT_SECONDS
        self.now: float | None = None
        self._later: DueTimes[str] = DueTimes()
        self._evicted: set[str] = set()

    def leaves(self, pod: Pod, now: float | None) -> bool:
        """Whether a placed pod, as seen at `now`, leaves within the limit. None: now as it was told last.

        Whoever was evicted here does, whatever the clocks of scheduler and API server make of its deletion.
        """
        self.now = now = self.now if now is None else now
        if pod.uid in self._evicted or not pod.terminating:
            return pod.uid in self._evicted
        begins = leaves_from(pod, self.limit)
        leaves = now is None or begins <= now
        if leaves or begins == inf:
            self._later.drop(pod.uid)
        else:
            self._later.put(pod.uid, begins)
        return leaves

    def evicted(self, uid: str) -> None:
        """The eviction of a pod was decided: it leaves from now on."""
        self.forget(uid)
        self._evicted.add(uid)

    def forget(self, uid: str) -> None:
        """A pod is gone, or its eviction failed."""
        self._evicted.discard(uid)
        self._later.drop(uid)

    def due(self, now: float) -> list[str]:
        """Pods (uids) that leave from `now` on, since the last call."""
        self.now = now
        return self._later.take(now)

    def next_time(self) -> float | None:
        """The next moment from which on a pod leaves."""
        return self._later.next_time()
