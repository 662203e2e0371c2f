"""Requests of one namespace that wait at the same time are decided together, by one of the threads that wait.

Native quota works through its requests in the same way. Whoever gets the namespace's lock works for all; the
others find their answer when they get it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

from scheduler_core.kube.errors import ApiError, KubeconfigError
from scheduler_core.model.reservation_ledger import Charge, Hold
from scheduler_core.quota.ledger_bounds import Lack
from scheduler_core.quota.provisional import Key
from webhook.deadline import remaining, within
from webhook.lanes import leave

DECIDE_SECONDS: Final = 3.0
# API servers wait for 5 s for what may take so long, of which `deadline` gives away 3.
GRACE_SECONDS: Final = 1.5


class Undecided(Exception):
    """No decision could be made in time or in writing: refuse, and let the client try again."""


@dataclass(eq=False)
class Waiter:
    """One request: what it asks, and what became of it. `short` is empty for who may enter.

    `doubt`: it may enter if entries that were `ahead` of it turn out to be of nothing; it asks `again` then.
    """

    asked: Charge | Hold
    dry_run: bool
    again: bool = False
    ahead: frozenset[Key] = frozenset()
    doubt: bool = False
    short: Sequence[Lack] = ()
    error: str = ""
    done: bool = False


# Decides for all waiters of a namespace by setting `short`; returns the words of a failure. Raises ApiError.
Decide = Callable[[str, Sequence[Waiter]], str]


@dataclass
class Queue:
    """Who waits in one namespace; `worker` is held by the one that decides."""

    waiting: list[Waiter] = field(default_factory=list)
    worker: threading.Lock = field(default_factory=threading.Lock)


class Batches:
    """One queue per namespace. `pause` is called before a batch is taken, so that others can join it.

    So is `pace`, with the namespace: it may hold back where batches would follow each other too quickly.
    """

    def __init__(
        self, decide: Decide, pause: Callable[[], object], pace: Callable[[str], object] | None = None
    ) -> None:
        self._decide = decide
        self._pause = pause
        self._pace = pace
        self._lock = threading.Lock()
        # Who names a namespace in a review need not be right: only queues that are in use are kept.
        self._queues: WeakValueDictionary[str, Queue] = WeakValueDictionary()

    def queue(self, namespace: str) -> Queue:
        """The namespace's queue, which is forgotten once nobody holds it."""
        with self._lock:
            queue = self._queues.get(namespace)
            if queue is None:
                queue = self._queues[namespace] = Queue()
            return queue

    @contextmanager
    def alone(self, namespace: str) -> Iterator[None]:
        """No batch of the namespace is decided by this process meanwhile."""
        queue = self.queue(namespace)
        with queue.worker:
            yield

    def waiting(self, namespace: str) -> int:
        """How many wait for the next batch of a namespace."""
        queue = self._queues.get(namespace)
        return len(queue.waiting) if queue is not None else 0

    def submit(self, namespace: str, waiter: Waiter) -> Sequence[Lack]:
        """What is short for the waiter, once it was decided with all others. Raises Undecided."""
        leave()
        queue = self.queue(namespace)
        with self._lock:
            queue.waiting.append(waiter)
        patience = max(0.0, min(DECIDE_SECONDS, remaining()))
        if not queue.worker.acquire(timeout=patience):
            self._leave(queue, waiter)
            raise Undecided(f"reservations of namespace {namespace} were not decided in {patience:.2g} s")
        try:
            if not waiter.done and remaining() <= 0:
                # An answer that comes after the API server gave up is none, and failurePolicy lets it pass.
                self._leave(queue, waiter)
                raise Undecided(f"reservations of namespace {namespace} were not decided in time")
            if not waiter.done:
                self._pause()
                if self._pace is not None:
                    self._pace(namespace)
                with self._lock:
                    batch, queue.waiting = queue.waiting, []
                self._work(namespace, batch)
        finally:
            queue.worker.release()
        if waiter.error:
            raise Undecided(waiter.error)
        return waiter.short

    def _leave(self, queue: Queue, waiter: Waiter) -> None:
        with self._lock:
            if waiter in queue.waiting:
                queue.waiting.remove(waiter)

    def _work(self, namespace: str, batch: Sequence[Waiter]) -> None:
        """Nobody is admitted by an accident: without a decision the failure stays.

        The time is the batch's own: the one whose thread works may have less left than others.
        """
        error = f"reservations of namespace {namespace} were not decided"
        try:
            with within(min(DECIDE_SECONDS, remaining() + GRACE_SECONDS)):
                error = self._decide(namespace, batch)
        except (ApiError, KubeconfigError) as problem:
            error = f"the reservation ledger of namespace {namespace} cannot be written: {problem}"
        finally:
            for waiter in batch:
                waiter.done = True
                waiter.error = "" if waiter.short else error
