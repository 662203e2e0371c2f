"""Bounds what is done at the same time, in total and by namespace: none can take the turns of all others."""

from __future__ import annotations

import threading
from collections import Counter


class Turns:
    """At most `most` turns at the same time, of which one namespace gets at most `share`. Thread-safe."""

    def __init__(self, most: int, share: int) -> None:
        self._most = most
        self._share = share
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def take(self, namespace: str) -> bool:
        """Whether the namespace gets a turn, which it must give back."""
        with self._lock:
            free = self._taken.total() < self._most and self._taken.get(namespace, 0) < self._share
            if free:
                self._taken[namespace] += 1
            return free

    def give_back(self, namespace: str) -> None:
        """End a turn of the namespace."""
        with self._lock:
            self._taken[namespace] -= 1
            if not self._taken[namespace]:
                del self._taken[namespace]
