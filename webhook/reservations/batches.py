"""Batches the requests for quota of one namespace: one of the waiting threads decides all of them together.

The thread that gets the lock of the namespace decides for all; the others find their outcome when they get
the lock. kube-apiserver's own quota admission works in the same way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

from scheduler_core.kube.errors import ApiError, KubeconfigError
from scheduler_core.model.quotas.reservation_ledger import Charge, Hold, Key
from scheduler_core.quota.reservations.limits import ReservationRefusal
from webhook.http.deadline import remaining, within
from webhook.http.throttling import release_turn

DECIDE_SECONDS: Final = 3.0
# API servers wait 5 s for reviews that may take so long, of which `deadline` allows 3.
GRACE_SECONDS: Final = 1.5


class Undecided(Exception):
    """No decision was made in time, or the ledger could not be written: the client may try again."""


@dataclass(eq=False)
class Waiter:
    """One request for quota, and its outcome.

    `short`: the quota that it lacks; empty if it is admitted. `conditional`: it is admitted only if
    provisional entries `ahead` of it are released; then it is submitted `again`. `error`: why there is no
    decision.
    """

    asked: Charge | Hold
    dry_run: bool
    again: bool = False
    ahead: frozenset[Key] = frozenset()
    conditional: bool = False
    short: Sequence[ReservationRefusal] = ()
    error: str = ""
    done: bool = False


# Decides a batch by setting `short` of each request; returns the message of a failure. Raises ApiError.
Decide = Callable[[str, Sequence[Waiter]], str]


@dataclass
class Queue:
    """The waiting requests of one namespace; the thread that decides holds `worker`."""

    waiting: list[Waiter] = field(default_factory=list)
    worker: threading.Lock = field(default_factory=threading.Lock)


class Batches:
    """One queue for each namespace.

    Before a batch is taken, `pause` is called, so that further requests can join it, then `pace` with the
    namespace, which may delay batches that would follow each other too quickly.
    """

    def __init__(
        self, decide: Decide, pause: Callable[[], object], pace: Callable[[str], object] | None = None
    ) -> None:
        self._decide = decide
        self._pause = pause
        self._pace = pace
        self._lock = threading.Lock()
        # Only queues in use are kept, because a forged review can name any namespace.
        self._queues: WeakValueDictionary[str, Queue] = WeakValueDictionary()

    def __len__(self) -> int:
        """The number of queues in use."""
        return len(self._queues)

    def queue(self, namespace: str) -> Queue:
        """The queue of a namespace, which is dropped once it is not in use."""
        with self._lock:
            queue = self._queues.get(namespace)
            if queue is None:
                queue = self._queues[namespace] = Queue()
            return queue

    @contextmanager
    def alone(self, namespace: str) -> Iterator[None]:
        """Keep this process from deciding a batch of the namespace meanwhile."""
        queue = self.queue(namespace)
        with queue.worker:
            yield

    def waiting(self, namespace: str) -> int:
        """The number of requests that wait for the next batch of a namespace."""
        queue = self._queues.get(namespace)
        return len(queue.waiting) if queue is not None else 0

    def submit(self, namespace: str, waiter: Waiter) -> Sequence[ReservationRefusal]:
        """The quota that a request lacks, once its batch is decided. Raises Undecided."""
        release_turn()
        queue = self.queue(namespace)
        with self._lock:
            queue.waiting.append(waiter)
        timeout = max(0.0, min(DECIDE_SECONDS, remaining()))
        if not queue.worker.acquire(timeout=timeout):
            self._leave(queue, waiter)
            raise Undecided(f"reservations of namespace {namespace} were not decided in {timeout:.2g} s")
        try:
            if not waiter.done and remaining() <= 0:
                # The API server has given up, and failurePolicy `Ignore` has let the request pass.
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
        """Decide a batch. If that fails in any way, all its requests have an error, and none is admitted.

        The batch has a deadline of its own, because that of the deciding thread may be earlier than others.
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
