"""Provisional entries: entries of a ledger whose objects are not visible (yet).

A request waits until the provisional entries ahead of it are confirmed or released, see
docs/reservations.md#entries-that-nothing-confirms.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from scheduler_core.model.quotas.reservation_ledger import Key
from scheduler_core.quota.reservations.reconcile import unconfirmed_entries
from webhook.reservations.ledger_cache import LedgerCache
from webhook.reservations.pod_watches import PodWatches

STEP_SECONDS: Final = 0.05
# During a flood: the number of reviews that may wait, in one namespace and in all.
WAITING: Final = 16
WAITING_IN_ALL: Final = 48
# Time before the deadline that the last reads from the server need.
TO_DECIDE_SECONDS: Final = 0.9


@dataclass(frozen=True)
class WaitLimits:
    """Times in seconds.

    `grace`: time for an object to appear after its admission, before its entry may be released. `announced`:
    the same for an announced entry, whose review may still wait in another replica. `most`: time that a
    review waits at most.
    """

    grace: float = 1.0
    announced: float = 3.0
    most: float = 2.1


class ProvisionalEntries:
    """The provisional entries that this replica knows, and the reviews that wait for them. Thread-safe.

    `delay`: the seconds that objects of a namespace may appear later than usual.
    """

    def __init__(
        self,
        ledgers: LedgerCache,
        watches: PodWatches,
        wait_limits: WaitLimits,
        delay: Callable[[str], float],
        sleep: Callable[[float], object] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledgers = ledgers
        self._watches = watches
        self._wait_limits = wait_limits
        self._delay = delay
        self._sleep = sleep
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._waiting: dict[str, Counter[Key]] = {}
        self._found: dict[str, tuple[float, frozenset[Key]]] = {}

    def grace(self, namespace: str) -> float:
        """The seconds that an object of a namespace has to appear now."""
        return self._wait_limits.grace + self._delay(namespace)

    @contextmanager
    def waiting(self, namespace: str, key: Key) -> Iterator[None]:
        """Keep the entry `key` from being released while its own review waits."""
        with self._lock:
            self._waiting.setdefault(namespace, Counter())[key] += 1
        try:
            yield
        finally:
            with self._lock:
                left = self._waiting[namespace]
                left[key] -= 1
                if not left[key]:
                    del left[key]
                if not left:
                    del self._waiting[namespace]
                    self._found.pop(namespace, None)

    def releasable(self, namespace: str, provisional: frozenset[Key]) -> set[Key]:
        """The provisional entries whose time to appear is over."""
        grace, announced = self.grace(namespace), self._wait_limits.announced + self._delay(namespace)
        found = self._ledgers.entry_ages.older(namespace, provisional, grace, announced)
        with self._lock:
            return found - self._waiting.get(namespace, Counter()).keys()

    def wait(self, namespace: str, ahead: frozenset[Key], most: float) -> float | None:
        """Wait until the entries `ahead` are confirmed or releasable; returns the seconds, at most `most`.

        None if a flood goes on and too many reviews wait already.
        """
        took = 0.0
        while took < most:
            open_ = ahead & self._provisional(namespace)
            if not open_ - self.releasable(namespace, open_):
                return took
            if self._ledgers.entry_ages.flooded(namespace) and self._crowded(namespace):
                return None
            self._sleep(STEP_SECONDS)
            took += STEP_SECONDS
        return took

    def _crowded(self, namespace: str) -> bool:
        with self._lock:
            everywhere = sum(len(keys) for keys in self._waiting.values())
            return everywhere > WAITING_IN_ALL or len(self._waiting.get(namespace, ())) > WAITING

    def _provisional(self, namespace: str) -> frozenset[Key]:
        """The provisional entries in the cache; computed once for all reviews that wait."""
        now = self._monotonic()
        known = self._found.get(namespace)
        if known is not None and now - known[0] < STEP_SECONDS / 2:
            return known[1]
        ledger = self._ledgers.ledger(namespace)
        pods = self._watches.follow(namespace).pods("") or {}
        found = (
            unconfirmed_entries(ledger, pods, self._ledgers.groups(namespace)) if ledger is not None else []
        )
        provisional = frozenset(found)
        self._ledgers.entry_ages.observe_provisional(namespace, provisional)
        self._found[namespace] = (now, provisional)
        return provisional
