"""Limits how many reviews of pods of other schedulers wait for a decision at the same time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from webhook.reservations.entry_ages import EntryAges

# Of the 128 worker threads: waiting reviews of one namespace, and of all namespaces.
MOST_OF_A_NAMESPACE: Final = 16
MOST_IN_ALL: Final = 48
# Beyond MOST_IN_ALL each namespace may have one, up to this number: one tenant cannot block the others.
MOST_WITH_ONE_EACH: Final = 80
# This many rejections within WINDOW_SECONDS, while charges are released unconfirmed, are a flood.
MANY_REJECTED: Final = 64
WINDOW_SECONDS: Final = 10.0


class ConcurrencyLimits:
    """Counts waiting reviews by namespace. Thread-safe. Reports floods to `entry_ages`."""

    def __init__(self, entry_ages: EntryAges, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._entry_ages = entry_ages
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._waiting: Counter[str] = Counter()
        self._rejected: dict[str, tuple[float, int]] = {}
        self._unconfirmed: dict[str, float] = {}

    @contextmanager
    def acquire(self, namespace: str) -> Iterator[str]:
        """Count a review within the `with` body: gives the empty string, or why the limit is exceeded."""
        full = self._take(namespace)
        try:
            yield full
        finally:
            if not full:
                with self._lock:
                    self._waiting[namespace] -= 1
                    if not self._waiting[namespace]:
                        del self._waiting[namespace]

    def released_unconfirmed(self, namespace: str) -> None:
        """Note that a charge of the namespace was released because no pod appeared for it."""
        with self._lock:
            since = self._monotonic() - WINDOW_SECONDS
            self._unconfirmed = {name: at for name, at in self._unconfirmed.items() if at > since}
            self._unconfirmed[namespace] = self._monotonic()

    def _take(self, namespace: str) -> str:
        with self._lock:
            here, total = self._waiting[namespace], self._waiting.total()
            if here < MOST_OF_A_NAMESPACE and total < (MOST_IN_ALL if here else MOST_WITH_ONE_EACH):
                self._waiting[namespace] += 1
                return ""
            self._reject(namespace)
        return (
            f"too many pods past Muster's scheduler at once: {here} of namespace {namespace}, {total} in all "
            "are being judged"
        )

    def _reject(self, namespace: str) -> None:
        now = self._monotonic()
        since, number = self._rejected.get(namespace, (now, 0))
        if now - since > WINDOW_SECONDS:
            self._rejected = {
                name: one for name, one in self._rejected.items() if now - one[0] <= WINDOW_SECONDS
            }
            since, number = now, 0
        self._rejected[namespace] = (since, number + 1)
        if (
            number >= MANY_REJECTED
            and now - self._unconfirmed.get(namespace, -WINDOW_SECONDS) < WINDOW_SECONDS
        ):
            self._entry_ages.flood(namespace)
