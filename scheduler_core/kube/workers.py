"""Thread pool for work that waits: delayed retries, reads after a lost response, writes of several steps."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

Act = Callable[[], None]


class WorkerPool:
    """At most `count` daemon threads, started on demand; the process may end while a thread waits."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._queue: queue.SimpleQueue[Act | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._pending = 0

    @property
    def pending(self) -> int:
        """Tasks that wait or run."""
        return self._pending

    def submit(self, act: Act) -> None:
        """Queue `act`; an exception of it is logged."""
        with self._lock:
            self._pending += 1
            if self._threads < min(self._count, self._pending):
                self._threads += 1
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
        self._queue.put(act)

    def stop(self) -> None:
        """End the threads after their current tasks."""
        for _ in range(self._count):
            self._queue.put(None)

    def _run(self) -> None:
        while (act := self._queue.get()) is not None:
            try:
                act()
            except Exception:
                log.exception("on thread %s", self._name)
            finally:
                with self._lock:
                    self._pending -= 1
