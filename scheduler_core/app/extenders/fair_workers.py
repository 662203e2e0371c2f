"""Threads that namespaces share: whose calls take long leaves threads, and turns, to others."""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable

log = logging.getLogger(__name__)

Act = Callable[[], None]


class FairWorkers:
    """At most `count` daemon threads, started on demand, and at most `most` of them for one owner.

    Owners with tasks take turns, each with its oldest task. The process may end while a thread waits.
    """

    def __init__(self, count: int, most: int, name: str) -> None:
        self._count = count
        self._most = most
        self._name = name
        self._waiting: OrderedDict[str, deque[Act]] = OrderedDict()
        self._running: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._threads = self._idle = self._queued = 0

    def submit(self, owner: str, act: Act) -> None:
        """Queue `act` for an owner; an exception of it is logged."""
        with self._changed:
            self._waiting.setdefault(owner, deque()).append(act)
            self._queued += 1
            # A thread that was woken for an earlier task is still idle.
            if self._queued > self._idle and self._threads < self._count:
                self._threads += 1
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
            self._changed.notify()

    def _next(self) -> tuple[str, Act] | None:
        """A task of the owner that had its turn longest ago, of those that may have one more thread."""
        for owner, tasks in self._waiting.items():
            if self._running[owner] < self._most:
                act = tasks.popleft()
                if tasks:
                    self._waiting.move_to_end(owner)
                else:
                    del self._waiting[owner]
                self._running[owner] += 1
                self._queued -= 1
                return owner, act
        return None

    def _taken(self) -> tuple[str, Act]:
        with self._changed:
            while (found := self._next()) is None:
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            return found

    def _run(self) -> None:
        while True:
            owner, act = self._taken()
            try:
                act()
            except Exception:
                log.exception("on thread %s", self._name)
            with self._changed:
                self._running[owner] -= 1
                if not self._running[owner]:
                    del self._running[owner]
                self._changed.notify()
