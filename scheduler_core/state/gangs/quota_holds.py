"""Which waiting groups hold ElasticQuota, since when and until when; `held_quota` says how much.

A group with the annotation muster.dev/hold-quota holds its share while it waits, for the time that the
annotation gives and never longer than the limit. A hold that ended before its group started was in vain: then
the namespace begins no other hold for as long. So no new group, name or pod makes a hold longer.
See docs/gangs.md#quota-that-is-held.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.resources import ResourceList
from scheduler_core.state.due_times import DueTimes, earliest
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

    `touched` are groups to review; `changed` are those whose hold changed, for their conditions, and for
    others to clear. `begun` counts holds that began or changed their amounts. `shares` caches what groups
    need until their pods change. `ended` are the times at which groups reached their limit, `rests` the times
    until which namespaces begin no hold. `faulty` are groups whose last cycle found a fault that somebody
    must correct before they can start: they hold nothing.
    """

    def __init__(self) -> None:
        self.limit = DEFAULT_LIMIT_SECONDS
        self._holds: dict[str, QuotaHold] = {}
        self.touched: set[str] = set()
        self.changed: set[str] = set()
        self.begun = 0
        self.shares: dict[str, HeldShare] = {}
        self.ended: dict[str, float] = {}
        self.rests: DueTimes[str] = DueTimes()
        self.faulty: set[str] = set()
        self._asking: dict[str, str] = {}
        self._ends: DueTimes[str] = DueTimes()

    @property
    def holds(self) -> Mapping[str, QuotaHold]:
        """The holds of now, by group."""
        return self._holds

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
        self._holds[key] = hold
        self._ends.put(key, hold.until)
        self.begun += 1
        self.ended.pop(key, None)
        self.changed.add(key)

    def end(self, key: str, now: float, *, in_vain: bool) -> None:
        """A hold ends; the namespace rests if its group did not start."""
        hold = self._holds.pop(key)
        self._ends.drop(key)
        self.changed.add(key)
        if not in_vain:
            return
        ended = min(now, hold.until)
        self.rest(hold.namespace, ended + (ended - hold.since))
        if now >= hold.until:
            self.ended[key] = hold.until

    def rest(self, namespace: str, until: float) -> None:
        """No hold begins in a namespace before a time."""
        self.rests.put(namespace, max(until, self.rests.get(namespace) or 0.0))

    def take_due(self, now: float) -> set[str]:
        """Take the groups to review: touched ones, holds at their end, those whose namespace has rested."""
        if not (self.touched or self._holds or self.rests):
            # Most clusters hold no quota: no cost.
            return set()
        found = self.touched.union(self._ends.take(now))
        self.touched.clear()
        if rested := self.rests.take(now):
            found |= {key for key, namespace in self._asking.items() if namespace in rested}
        return found

    def next_time(self) -> float | None:
        """When the next hold ends, or the next rest that a group may wait for; or None."""
        return earliest(self._ends.next_time(), self.rests.next_time() if self._asking else None)
