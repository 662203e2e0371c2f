"""Which waiting groups hold ElasticQuota, since when and until when; `held_quota` says how much.

A group with the annotation muster.dev/hold-quota holds its share while it waits, for the time that the
annotation gives and never longer than the limit. A hold that ended before its group started was in vain: then
the namespace begins no other hold for as long. So no new group, name or pod makes a hold longer.
See docs/gangs.md#quota-that-is-held.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.resources import ResourceList
from scheduler_core.state.gangs.kept_nodes import DEFAULT_LIMIT_SECONDS


class QuotaHold(NamedTuple):
    """The hold of one group: `since` and `until` in seconds, `amounts` as reviewed last."""

    namespace: str
    since: float
    until: float
    amounts: ResourceList


class HeldShare(NamedTuple):
    """What a waiting group needs in all, and what of it its placed members do not use yet.

    `priority` and `created` are those of the group, as the queue orders it.
    """

    need: ResourceList
    held: ResourceList
    priority: int
    created: float


class QuotaHolds:
    """Holds by the key of the group. `limit` is in seconds.

    `touched` are groups to review, `changed` those whose hold changed, for their conditions; both are for
    others to clear. `begun` counts holds that began or changed their amounts. `shares` caches what groups
    need until their pods change. `ended` are the times at which groups reached their limit, `rests` the times
    until which namespaces begin no hold. `faulty` are groups whose last cycle found a fault that somebody
    must correct before they can start: they hold nothing.
    """

    def __init__(self) -> None:
        self.limit = DEFAULT_LIMIT_SECONDS
        self.holds: dict[str, QuotaHold] = {}
        self.touched: set[str] = set()
        self.changed: set[str] = set()
        self.begun = 0
        self.shares: dict[str, HeldShare] = {}
        self.ended: dict[str, float] = {}
        self.rests: dict[str, float] = {}
        self.faulty: set[str] = set()
        self._asking: dict[str, str] = {}

    def put(self, gang: Gang) -> None:
        """A group was added or changed."""
        if gang.hold > 0:
            self._asking[gang.key] = gang.ref.namespace

    def touch(self, key: str) -> None:
        """A group, one of its pods, or their placement changed."""
        if key in self._asking:
            self.shares.pop(key, None)
            self.touched.add(key)

    def quotas_changed(self) -> None:
        """What quotas can ever give changed: it concerns all groups that ask for a hold."""
        self.touched.update(self._asking)

    def judge(self, key: str, *, faulty: bool) -> None:
        """The cycle of a group came to an end, or the group is gone."""
        if faulty != (key in self.faulty):
            self.faulty ^= {key}
            self.touch(key)

    def forget(self, key: str) -> None:
        """The group is gone, or asks for no hold any more."""
        self._asking.pop(key, None)
        self.ended.pop(key, None)
        self.shares.pop(key, None)

    def begin(self, key: str, hold: QuotaHold) -> None:
        """A hold begins, or its amounts change."""
        self.holds[key] = hold
        self.begun += 1
        self.ended.pop(key, None)
        self.changed.add(key)

    def end(self, key: str, now: float, *, in_vain: bool) -> None:
        """A hold ends; the namespace rests if its group did not start."""
        hold = self.holds.pop(key)
        self.changed.add(key)
        if not in_vain:
            return
        ended = min(now, hold.until)
        self.rest(hold.namespace, ended + (ended - hold.since))
        if now >= hold.until:
            self.ended[key] = hold.until

    def rest(self, namespace: str, until: float) -> None:
        """No hold begins in a namespace before a time."""
        self.rests[namespace] = max(until, self.rests.get(namespace, 0.0))

    def due(self, now: float) -> set[str]:
        """Groups to review: touched ones, holds at their end, and groups whose namespace has rested."""
        found = self.touched | {key for key, hold in self.holds.items() if hold.until <= now}
        rested = {namespace for namespace, until in self.rests.items() if until <= now}
        if rested:
            found |= {key for key, namespace in self._asking.items() if namespace in rested}
            for namespace in rested:
                del self.rests[namespace]
        return found

    def next_time(self) -> float | None:
        """When the next hold or rest ends, or None."""
        times = [*(hold.until for hold in self.holds.values()), *self.rests.values()]
        return min(times, default=None)

    def quiet(self, now: float) -> bool:
        """Whether there is nothing to review."""
        return not self.touched and (not self._asking or (self.next_time() or math.inf) > now)
