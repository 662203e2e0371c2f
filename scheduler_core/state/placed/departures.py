"""Departures: which of the pods that end leave soon enough for others to wait for them.

A reclaim gives its victims at most `limit` seconds to end. So whoever waits for a pod that leaves within the
limit waits no longer than for a victim of its own. Room that comes later is not room that comes: such a pod
counts as any pod that runs, until the limit is all that it has left.

The API server may refuse to let a pod go: its object is so large that etcd takes no change of it, or a policy
protects it. Such a pod is no victim for a while, so that others go in its place.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import Final

from scheduler_core.model.names import EVICTION_GRACE_LIMIT_SECONDS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.due_times import DueTimes, earliest

# The API server counts grace periods in nanoseconds, as int64. With a longer one, `deletionTimestamp` has
# wrapped around and tells nothing.
_MOST_COUNTED_SECONDS: Final = (2**63 - 1) // 10**9
# How far the clock of the API server may be ahead: clocks may be wrong by hours, or by a day.
_CLOCKS_APART_SECONDS: Final = 86_400.0
# For how long a pod is no victim whose eviction was refused; for twice as long after each further refusal.
REFUSED_SECONDS: Final = 600.0
MOST_REFUSED_SECONDS: Final = 86_400.0


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
    """The placed pods that end later than the limit, those evicted here, and those that cannot go, by uid.

    `limit`: seconds (`evictionGraceLimitSeconds` of CapacityScheduling). `now`: the latest that was told.
    """

    def __init__(self) -> None:
        self.limit = EVICTION_GRACE_LIMIT_SECONDS
        self.now: float | None = None
        self._later: DueTimes[str] = DueTimes()
        self._evicted: set[str] = set()
        self._stuck: DueTimes[str] = DueTimes()
        # How often the eviction of a pod was refused.
        self._refusals: dict[str, int] = {}

    @property
    def stuck(self) -> Collection[str]:
        """The pods that cannot go: their evictions were refused not long ago."""
        return self._stuck

    def refused(self, uid: str, now: float) -> None:
        """The API server does not let a pod go."""
        times = self._refusals[uid] = self._refusals.get(uid, 0) + 1
        self._stuck.put(uid, now + min(REFUSED_SECONDS * 2.0 ** min(times - 1, 30), MOST_REFUSED_SECONDS))

    def not_evicted(self, uid: str, refused_at: float | None) -> None:
        """The eviction of a pod failed; `refused_at`: the API server does not let it go, as it said then."""
        self.forget(uid)
        if refused_at is not None:
            self.refused(uid, refused_at)

    def gone(self, uid: str) -> None:
        """A pod is gone, or has no node any more."""
        self.forget(uid)
        self._stuck.drop(uid)
        self._refusals.pop(uid, None)

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
        """The eviction of a pod failed, or is decided anew."""
        self._evicted.discard(uid)
        self._later.drop(uid)

    def due(self, now: float) -> list[str]:
        """Pods (uids) that leave from `now` on, since the last call."""
        self.now = now
        return self._later.take(now)

    def may_go_again(self, now: float) -> list[str]:
        """Pods (uids) that could not go and may be tried again, since the last call."""
        return self._stuck.take(now)

    def next_time(self) -> float | None:
        """The next moment from which on a pod leaves, or one that could not go may be tried again."""
        return earliest(self._later.next_time(), self._stuck.next_time())
