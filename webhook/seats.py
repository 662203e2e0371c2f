"""Who may keep a thread waiting for a decision on a foreign pod, and where too many want to."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from webhook.sightings import Sightings

# Of the 128 threads that answer, so many may wait, in one namespace and in all.
SEATS_OF_A_NAMESPACE: Final = 16
SEATS: Final = 48
# Beyond those, each namespace may have one, up to so many: who crowds one namespace leaves room in others.
MOST_SEATS: Final = 80
# So many that found no seat within these seconds, where charges came to nothing, are a flood.
MANY_TURNED_AWAY: Final = 64
WINDOW_SECONDS: Final = 10.0


class Seats:
    """Seats by namespace. Thread-safe. Floods are noted in `sightings`."""

    def __init__(self, sightings: Sightings, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._sightings = sightings
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._seated: Counter[str] = Counter()
        self._turned_away: dict[str, tuple[float, int]] = {}
        self._lost: dict[str, float] = {}

    @contextmanager
    def seat(self, namespace: str) -> Iterator[str]:
        """A seat as long as it lasts: gives the empty string, or why there is none."""
        full = self._take(namespace)
        try:
            yield full
        finally:
            if not full:
                with self._lock:
                    self._seated[namespace] -= 1
                    if not self._seated[namespace]:
                        del self._seated[namespace]

    def lost(self, namespace: str) -> None:
        """A charge of the namespace came to nothing, and somebody needed the room."""
        with self._lock:
            since = self._monotonic() - WINDOW_SECONDS
            self._lost = {name: at for name, at in self._lost.items() if at > since}
            self._lost[namespace] = self._monotonic()

    def _take(self, namespace: str) -> str:
        with self._lock:
            here, total = self._seated[namespace], self._seated.total()
            if here < SEATS_OF_A_NAMESPACE and total < (SEATS if here else MOST_SEATS):
                self._seated[namespace] += 1
                return ""
            if not here:
                del self._seated[namespace]
            self._turn_away(namespace)
        return (
            f"too many pods past Muster's scheduler at once: {here} of namespace {namespace}, {total} in all "
            "are being judged"
        )

    def _turn_away(self, namespace: str) -> None:
        now = self._monotonic()
        since, number = self._turned_away.get(namespace, (now, 0))
        if now - since > WINDOW_SECONDS:
            self._turned_away = {
                name: one for name, one in self._turned_away.items() if now - one[0] <= WINDOW_SECONDS
            }
            since, number = now, 0
        self._turned_away[namespace] = (since, number + 1)
        if number >= MANY_TURNED_AWAY and now - self._lost.get(namespace, -WINDOW_SECONDS) < WINDOW_SECONDS:
            self._sightings.flood(namespace)
