"""Since when nodes are kept for gangs, until when at most, and whose gangs rest after that.

Nodes that are nominated for a gang as a whole, for whatever reason, are kept for it no longer than the limit;
what gangs of the same namespace had kept before, and did not use, is taken off. Then the namespace rests for
as long as the limit: no deleted member, no new gang and no new name makes it longer. Nodes that were kept for
a gang that then starts on them were of use, and are not held against its namespace. What is nominated while a
namespace rests is for a gang within its min (engine.gang_capacity.must_rest): it has the limit, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from scheduler_core.model.conditions import ConditionWire, find
from scheduler_core.model.gang import Gang
from scheduler_core.model.names import NODES_KEPT_CONDITION, REASON_LIMIT_REACHED
from scheduler_core.model.resources import ResourceList
from scheduler_core.state.nominations import Nomination, Nominations

# Where no plugin says another limit.
DEFAULT_LIMIT_SECONDS: Final = 3600.0


class Kept(NamedTuple):
    """What is kept for a gang: `since` and `until` in seconds, and the nominations that it is made of."""

    namespace: str
    since: float
    until: float
    items: tuple[Nomination, ...]

    @property
    def nodes(self) -> list[str]:
        """The nodes, sorted."""
        return sorted({item.node for item in self.items})

    @property
    def evicts(self) -> bool:
        """Whether somebody was evicted for it."""
        return any(not item.kept for item in self.items)

    @property
    def requests(self) -> ResourceList:
        """What its members ask for together."""
        total: dict[str, int] = {}
        for item in self.items:
            for name, value in item.pod.requests.items():
                total[name] = total.get(name, 0) + value
        return total


class _Account:
    """What gangs of a namespace had kept in vain: `level` seconds at the time `at`; it `rests` until then."""

    __slots__ = ("at", "level", "rests")

    def __init__(self, rests: float = 0.0) -> None:
        self.level = 0.0
        self.at = 0.0
        self.rests = rests


class Keeping:
    """Follows what is nominated for gangs. `limit` is in seconds.

    `changed` are gangs for which something else is kept than before, since somebody last looked.
    """

    def __init__(self, gangs: Mapping[str, Gang]) -> None:
        self.limit = DEFAULT_LIMIT_SECONDS
        self.kept: dict[str, Kept] = {}
        self.changed: set[str] = set()
        self._gangs = gangs
        self._accounts: dict[str, _Account] = {}
        self._ended: dict[str, float] = {}

    def observe(self, nominations: Nominations, placed: Collection[str], now: float) -> None:
        """Take in what is nominated now; `placed` are the pods (uids) that hold a node."""
        if not nominations.touched:
            return
        touched = sorted(nominations.touched)
        nominations.touched.clear()
        for group in touched:
            items = nominations.of_group(group)
            if items:
                self._has(group, items, nominations, now)
            elif group in self.kept:
                self._ends(group, placed, now)

    def forget(self, group: str) -> None:
        """The group is gone; what is kept for its pods is not yet."""
        self._ended.pop(group, None)

    def _has(self, group: str, items: tuple[Nomination, ...], nominations: Nominations, now: float) -> None:
        old = self.kept.get(group)
        namespace = items[0].pod.namespace
        if old is None:
            ours = any(nominations.was_ours(item.pod.uid) for item in items)
            since, until = self._term(namespace, now if ours else self._since_before(group, now), now)
        else:
            since, until = old.since, old.until
        found = Kept(namespace, since, until, items)
        if old is None or _told(old) != _told(found):
            self.changed.add(group)
        self.kept[group] = found
        self._ended.pop(group, None)

    def _term(self, namespace: str, since: float | None, now: float) -> tuple[float, float]:
        """Since when and until when; without `since` nobody knows that an earlier process still kept it."""
        if since is None and self.rests(namespace) > now:
            return now, now
        since = now if since is None else since
        return since, since + self.limit - self._in_vain(namespace, now)

    def _since_before(self, group: str, now: float) -> float | None:
        """Since when an earlier process had kept the nodes, if the PodGroup says so."""
        told = self._told(group)
        if told is None or told.status != "True" or told.last_transition_time is None:
            return None
        return min(now, told.last_transition_time.timestamp())

    def _told(self, group: str) -> ConditionWire | None:
        gang = self._gangs.get(group)
        return find(gang.status.conditions, NODES_KEPT_CONDITION) if gang is not None else None

    def _ends(self, group: str, placed: Collection[str], now: float) -> None:
        found = self.kept.pop(group)
        self.changed.add(group)
        account = self._account(found.namespace)
        in_vain = not all(item.pod.uid in placed for item in found.items)
        account.level = self._in_vain(found.namespace, now, besides=True) + in_vain * (now - found.since)
        account.at = now
        if account.level >= self.limit:
            account.level, account.rests = 0.0, now + self.limit

    def end(self, group: str, now: float) -> None:
        """The limit of a gang is reached."""
        found = self.kept.pop(group)
        account = self._account(found.namespace)
        account.level, account.at, account.rests = 0.0, now, now + self.limit
        self._ended[group] = account.rests
        self.changed.add(group)

    def overdue(self, now: float) -> list[str]:
        """Gangs for which nodes were kept for long enough."""
        return sorted(group for group, found in self.kept.items() if found.until <= now)

    def until(self, group: str, namespace: str, now: float) -> float:
        """Until when nodes are kept for a gang at most, or would be if that began now."""
        found = self.kept.get(group)
        if found is not None:
            return found.until
        return now if self.rests(namespace) > now else now + self.limit - self._in_vain(namespace, now)

    def rests(self, namespace: str) -> float:
        """Until when nothing is kept for gangs of a namespace; 0 if it never had to rest."""
        return self._account(namespace).rests

    def ended(self, group: str) -> float:
        """Until when a gang rests whose own limit was reached, 0 for none."""
        return self._ended.get(group, 0.0)

    def _in_vain(self, namespace: str, now: float, *, besides: bool = False) -> float:
        """Seconds that were kept in vain, less those since in which nothing was kept; below the limit.

        `besides`: something was kept until now.
        """
        account = self._account(namespace)
        busy = besides or any(found.namespace == namespace for found in self.kept.values())
        return account.level if busy else max(0.0, account.level - (now - account.at))

    def _account(self, namespace: str) -> _Account:
        account = self._accounts.get(namespace)
        if account is None:
            # The first question in this process: PodGroups may say when an earlier one reached the limit.
            ended = max(self._ends_told(namespace), default=-math.inf)
            account = self._accounts[namespace] = _Account(max(0.0, ended + self.limit))
        return account

    def _ends_told(self, namespace: str) -> Iterator[float]:
        for gang in self._of(namespace):
            told = find(gang.status.conditions, NODES_KEPT_CONDITION)
            reached = told is not None and told.status == "False" and told.reason == REASON_LIMIT_REACHED
            if told is not None and reached and told.last_transition_time is not None:
                yield told.last_transition_time.timestamp()

    def _of(self, namespace: str) -> Iterable[Gang]:
        return (gang for gang in self._gangs.values() if gang.ref.namespace == namespace)


def _told(found: Kept) -> tuple[object, ...]:
    """What is said of it."""
    return found.since, found.until, found.evicts, [(item.pod.uid, item.node) for item in found.items]
