"""Time limits of nodes kept for gangs, and of the rest period of a namespace after a limit was reached.

Nodes that are nominated for a gang as a whole are kept for it no longer than the limit. Time for which gangs
of the same namespace had kept nodes without using them is subtracted. Then the namespace rests for as long as
the limit; no deleted member, new gang or new name makes the time longer. Nodes on which the gang then starts
were used, so their time is not subtracted. What is nominated while a namespace rests is for a gang within its
min (engine.gang.capacity.must_rest), with the same limit. See docs/gangs.md#how-long-nodes-are-kept.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from scheduler_core.model.conditions import ObjectCondition, find
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.names import NODES_KEPT_CONDITION, REASON_EVICTIONS, REASON_LIMIT_REACHED
from scheduler_core.model.resources import ResourceList
from scheduler_core.state.nomination import Nomination
from scheduler_core.state.nominations import Nominations

# Default if no plugin sets a limit.
DEFAULT_LIMIT_SECONDS: Final = 3600.0


class KeptForGang(NamedTuple):
    """The nodes kept for a gang: `since` and `until` in seconds, and the nominations."""

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
        """Whether pods were evicted for it."""
        return any(not item.kept for item in self.items)

    @property
    def requests(self) -> ResourceList:
        """Sum of the requests of its members."""
        total: dict[str, int] = {}
        for item in self.items:
            for name, value in item.pod.requests.items():
                total[name] = total.get(name, 0) + value
        return total


@dataclass(slots=True)
class _Account:
    """Time of unused kept nodes of a namespace: `level` seconds at time `at`; it `rests` until that time."""

    rests: float
    level: float = 0.0
    at: float = 0.0


class KeptNodes:
    """Tracks the nominations of gangs. `limit` is in seconds.

    `changed` are gangs whose kept nodes changed since the set was last cleared.
    """

    def __init__(self, gangs: Mapping[str, Gang]) -> None:
        self.limit = DEFAULT_LIMIT_SECONDS
        self.kept: dict[str, KeptForGang] = {}
        self.changed: set[str] = set()
        self._gangs = gangs
        self._accounts: dict[str, _Account] = {}
        self._ended: dict[str, float] = {}

    def observe(self, nominations: Nominations, placed: Collection[str], now: float) -> None:
        """Process changed nominations; `placed` are the pods (uids) that hold a node."""
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
        """The group is gone; nodes may still be kept for its pods."""
        self._ended.pop(group, None)

    def _has(self, group: str, items: tuple[Nomination, ...], nominations: Nominations, now: float) -> None:
        old = self.kept.get(group)
        namespace = items[0].pod.namespace
        if old is None:
            ours = any(nominations.was_ours(item.pod.uid) for item in items)
            since, until = self._term(namespace, now if ours else self._since_before(group, now), now)
        else:
            since, until = old.since, old.until
        found = KeptForGang(namespace, since, until, items)
        if old is None or _told(old) != _told(found):
            self.changed.add(group)
        self.kept[group] = found
        self._ended.pop(group, None)

    def _term(self, namespace: str, since: float | None, now: float) -> tuple[float, float]:
        """(since, until); `since` is None if no earlier process is known to have kept the nodes."""
        if since is None and self.rests(namespace) > now:
            return now, now
        since = now if since is None else since
        return since, since + self.limit - self._in_vain(namespace, now)

    def _since_before(self, group: str, now: float) -> float | None:
        """When an earlier process began to keep the nodes, by the condition of the PodGroup."""
        told = self._told(group)
        if told is None or told.status != "True" or told.last_transition_time is None:
            return None
        return min(now, told.last_transition_time.timestamp())

    def evicted_before(self, group: str) -> bool:
        """Whether an earlier process evicted for the kept nodes, by the condition of the PodGroup."""
        told = self._told(group)
        return told is not None and told.status == "True" and told.reason == REASON_EVICTIONS

    def _told(self, group: str) -> ObjectCondition | None:
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
        """Gangs whose limit is reached."""
        return sorted(group for group, found in self.kept.items() if found.until <= now)

    def until(self, group: str, namespace: str, now: float) -> float:
        """The latest time until which nodes are, or would be, kept for a gang."""
        found = self.kept.get(group)
        if found is not None:
            return found.until
        return now if self.rests(namespace) > now else now + self.limit - self._in_vain(namespace, now)

    def rests(self, namespace: str) -> float:
        """Until when no nodes are kept for gangs of a namespace; 0 if it never rested."""
        return self._account(namespace).rests

    def ended(self, group: str) -> float:
        """Until when a gang rests after its own limit was reached; 0 for none."""
        return self._ended.get(group, 0.0)

    def _in_vain(self, namespace: str, now: float, *, besides: bool = False) -> float:
        """Seconds of unused kept nodes, minus the time without kept nodes since; below the limit.

        `besides`: nodes were kept until now.
        """
        account = self._account(namespace)
        busy = besides or any(found.namespace == namespace for found in self.kept.values())
        return account.level if busy else max(0.0, account.level - (now - account.at))

    def _account(self, namespace: str) -> _Account:
        account = self._accounts.get(namespace)
        if account is None:
            # First use in this process: conditions of PodGroups may say when an earlier process reached the
            # limit.
            ended = max(self._ends_told(namespace), default=-math.inf)
            account = self._accounts[namespace] = _Account(max(0.0, ended + self.limit))
        return account

    def _ends_told(self, namespace: str) -> Iterator[float]:
        for group in [key for key, gang in self._gangs.items() if gang.ref.namespace == namespace]:
            told = self._told(group)
            reached = told is not None and told.status == "False" and told.reason == REASON_LIMIT_REACHED
            if told is not None and reached and told.last_transition_time is not None:
                yield told.last_transition_time.timestamp()


def _told(found: KeptForGang) -> tuple[object, ...]:
    """The values that the condition of the PodGroup reports."""
    return found.since, found.until, found.evicts, [(item.pod.uid, item.node) for item in found.items]
