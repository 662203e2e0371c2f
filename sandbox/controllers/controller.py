"""Base class of the controllers: a work queue of keys, filled by store events, and one reconciling task."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic

from sandbox.errors import StatusError
from sandbox.store.registry import Registry
from sandbox.workqueue import DelayQueue, Key, WorkQueue
from scheduler_core.errors import ModelError

_LOG = logging.getLogger(__name__)
_FIRST_RETRY = 0.05
_LONGEST_RETRY = 10.0


class SandboxController(Generic[Key]):
    """Subclasses enqueue keys in store callbacks and reconcile one key at a time.

    A key that is enqueued during its reconciliation is reconciled again; failures are retried with backoff.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.store = registry.store
        self._queue: WorkQueue[Key] = WorkQueue(self._reconcile, type(self).__name__)
        self._failures: dict[Key, int] = {}
        self._later: DelayQueue[Key] = DelayQueue(self.enqueue)
        self._subscriptions: list[Callable[[], None]] = []

    def subscribe(self) -> list[Callable[[], None]]:
        """Subscribe to the store and enqueue existing objects; returns functions that unsubscribe."""
        raise NotImplementedError

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one key; returns the delay in seconds to the next reconciliation, or None.

        After a StatusError the key is retried.
        """
        raise NotImplementedError

    def start(self) -> None:
        """Start on the running event loop."""
        self._subscriptions = self.subscribe()
        self._queue.start()

    async def stop(self) -> None:
        """Stop; an unfinished reconciliation is cancelled."""
        for unsubscribe in self._subscriptions:
            unsubscribe()
        self._later.cancel()
        await self._queue.stop()

    def enqueue(self, key: Key) -> None:
        """Queue a key; a queued key is not queued again."""
        self._queue.put(key)

    def enqueue_later(self, seconds: float, key: Key) -> None:
        """Queue a key after a delay in seconds."""
        self._later.push(seconds, key)

    async def _reconcile(self, key: Key) -> None:
        try:
            again = await self.reconcile(key)
        except (StatusError, ModelError) as error:
            tries = self._failures[key] = self._failures.get(key, 0) + 1
            self._later.push(min(_LONGEST_RETRY, _FIRST_RETRY * 2.0**tries), key)
            _LOG.debug("%s: %s: %s", type(self).__name__, key, error)
        except Exception:
            # An object that causes an exception must not stop the controller for other objects.
            _LOG.exception("%s: %s", type(self).__name__, key)
        else:
            self._failures.pop(key, None)
            if again is not None:
                self._later.push(again, key)
