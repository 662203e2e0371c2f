"""What every controller is made of: a queue of keys fed by store events, and one task that works it off."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic

from sandbox.deadlines import Deadlines
from sandbox.errors import StatusError
from sandbox.key_queue import Key, KeyQueue
from sandbox.registry import Registry
from scheduler_core.errors import ModelError

_LOG = logging.getLogger(__name__)
_FIRST_RETRY = 0.05
_LONGEST_RETRY = 10.0


class Controller(Generic[Key]):
    """Subclasses enqueue keys from their store callbacks and bring one key's world in order in `reconcile`.

    A key is reconciled again whenever it was enqueued meanwhile; a failed one is retried with growing delays.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.store = registry.store
        self._queue: KeyQueue[Key] = KeyQueue(self._reconcile, type(self).__name__)
        self._failures: dict[Key, int] = {}
        self._later: Deadlines[Key] = Deadlines(self.enqueue)
        self._subscriptions: list[Callable[[], None]] = []

    def subscribe(self) -> list[Callable[[], None]]:
        """Subscribe to the store and enqueue what exists; returns what ends the subscriptions."""
        raise NotImplementedError

    async def reconcile(self, key: Key) -> float | None:
        """Do what is needed for one key; seconds after which to look again, None if events suffice.

        StatusError means: try again later.
        """
        raise NotImplementedError

    def start(self) -> None:
        """Begin, on the running event loop."""
        self._subscriptions = self.subscribe()
        self._queue.start()

    async def stop(self) -> None:
        """End; what is half done stays."""
        for unsubscribe in self._subscriptions:
            unsubscribe()
        self._later.cancel()
        await self._queue.stop()

    def enqueue(self, key: Key) -> None:
        """Reconcile this key soon; once, however often it is asked before that."""
        self._queue.put(key)

    def enqueue_later(self, seconds: float, key: Key) -> None:
        """Reconcile this key after so many seconds, whatever happens before."""
        self._later.push(seconds, key)

    async def _reconcile(self, key: Key) -> None:
        try:
            again = await self.reconcile(key)
        except (StatusError, ModelError) as error:
            tries = self._failures[key] = self._failures.get(key, 0) + 1
            self._later.push(min(_LONGEST_RETRY, _FIRST_RETRY * 2.0**tries), key)
            _LOG.debug("%s: %s: %s", type(self).__name__, key, error)
        except Exception:
            # One object that breaks a controller must not end it for all others.
            _LOG.exception("%s: %s", type(self).__name__, key)
        else:
            self._failures.pop(key, None)
            if again is not None:
                self._later.push(again, key)
