"""Threads that namespaces share: whose calls take long leaves threads, and turns, to others."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable

log = logging.getLogger(__name__)

Act = Callable[[], None]


class FairWorkers:
    """At most `count` daemon threads, started on demand, and at most `most` of them for one owner.

    Owners with tasks take turns, each with its oldest task. The last quarter of the threads goes to owners
    that have none, and owners whose last task took `long` seconds or more have a quarter together, so others
    find a thread. The process may end while a thread waits.
    """

    def __init__(
        self,
        count: int,
        most: int,
        name: str,
        long: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._count = count
        self._most = most
        self._name = name
        self._long = long
        self._monotonic = monotonic
        self._part = max(1, count // 4) if count > 1 else 0
        self._waiting: OrderedDict[str, deque[Act]] = OrderedDict()
        self._running: Counter[str] = Counter()
        # Owners whose last task took long; who comes again and is quick is none of them.
        self._slow: set[str] = set()
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

    def _may_begin(self, owner: str) -> bool:
        """Whether an owner may have one more thread."""
        own = self._running[owner]
        if own >= self._most:
            return False
        if owner in self._slow and self._part:
            slow = (number for each, number in self._running.items() if each in self._slow)
            return sum(slow) < self._part
        return not own or self._count - self._running.total() > self._part

    def _next(self) -> tuple[str, Act] | None:
        """A task of the owner that had its turn longest ago, of those that may have one more thread."""
        for owner, tasks in self._waiting.items():
            if self._may_begin(owner):
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
            began = self._monotonic()
            try:
                act()
            except Exception:
                log.exception("on thread %s", self._name)
            self._ended(owner, self._monotonic() - began)

    def _ended(self, owner: str, seconds: float) -> None:
        with self._changed:
            self._running[owner] -= 1
            if not self._running[owner]:
                del self._running[owner]
            if seconds >= self._long:
                self._slow.add(owner)
            else:
                self._slow.discard(owner)
            # More than one task may begin now.
            self._changed.notify_all()
