"""Waiting until it is known whether entries of a ledger are of anything, as long as it is worth it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from scheduler_core.quota.provisional import Key, unconfirmed
from webhook.holdings import Holdings
from webhook.pod_watches import PodWatches

STEP_SECONDS: Final = 0.05
# While reviews of nothing come in masses, so many may keep a thread waiting, in one namespace and in all.
WAITING: Final = 16
WAITING_IN_ALL: Final = 48
# The last reads from the server must be over in time as well.
TO_DECIDE_SECONDS: Final = 0.9


@dataclass(frozen=True)
class Patience:
    """Seconds. `grace`: within which an object appears after its admission, before its entry is released for
    somebody who needs the room. `announced`: the same for an entry whose review may still wait elsewhere.
    `most`: for which a review waits."""

    grace: float = 1.0
    announced: float = 3.0
    most: float = 2.1


class Doubts:
    """What is doubtful by this replica's memory, and who waits for it. Thread-safe."""

    def __init__(
        self,
        holdings: Holdings,
        watches: PodWatches,
        patience: Patience,
        sleep: Callable[[float], object] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._holdings = holdings
        self._watches = watches
        self._patience = patience
        self._sleep = sleep
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._waiting: dict[str, Counter[Key]] = {}
        self._found: dict[str, tuple[float, frozenset[Key]]] = {}

    @contextmanager
    def waiting(self, namespace: str, key: Key) -> Iterator[None]:
        """While somebody waits, its own entry is not released for others."""
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

    def releasable(self, namespace: str, doubtful: frozenset[Key]) -> set[Key]:
        """Those of the entries that nothing confirms which have had their time."""
        patience, sightings = self._patience, self._holdings.sightings
        found = sightings.older(namespace, doubtful, patience.grace, patience.announced)
        with self._lock:
            return found - self._waiting.get(namespace, Counter()).keys()

    def wait(self, namespace: str, ahead: frozenset[Key], most: float) -> float | None:
        """Wait until nothing of `ahead` can change any more, or for `most`; the seconds that it took.

        None if it is not worth it: reviews of nothing come in masses, and too many wait already.
        """
        took = 0.0
        while took < most:
            open_ = ahead & self._doubtful(namespace)
            if not open_ - self.releasable(namespace, open_):
                return took
            if self._holdings.sightings.flooded(namespace) and self._crowded(namespace):
                return None
            self._sleep(STEP_SECONDS)
            took += STEP_SECONDS
        return took

    def _crowded(self, namespace: str) -> bool:
        with self._lock:
            everywhere = sum(len(keys) for keys in self._waiting.values())
            return everywhere > WAITING_IN_ALL or len(self._waiting.get(namespace, ())) > WAITING

    def _doubtful(self, namespace: str) -> frozenset[Key]:
        """The entries that nothing confirms, by memory; found out once for all who wait."""
        now = self._monotonic()
        known = self._found.get(namespace)
        if known is not None and now - known[0] < STEP_SECONDS / 2:
            return known[1]
        ledger = self._holdings.ledger(namespace)
        pods = self._watches.follow(namespace).pods("") or {}
        found = unconfirmed(ledger, pods, self._holdings.groups(namespace)) if ledger is not None else []
        doubtful = frozenset(found)
        self._holdings.sightings.note(namespace, doubtful)
        self._found[namespace] = (now, doubtful)
        return doubtful
