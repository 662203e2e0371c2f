"""Keeps the reservation ledgers true: what never appeared is given back, what ended is released.

Admission is not storage: whatever was written down for an object that a later webhook refused, or whose
client died, has to be taken back by somebody. Every replica does it; the ledger's resourceVersion lets one
of them win, and the others find nothing left to do.
"""

from __future__ import annotations

import logging
import threading
from typing import Final, NamedTuple, Protocol

from scheduler_core.kube.errors import ApiError, KubeconfigError
from webhook.holdings import Holdings
from webhook.pod_watches import PodWatches

INTERVAL_SECONDS: Final = 2.0

log = logging.getLogger("muster.webhook")


class Store(Protocol):
    """A kind of ledgers that wants to be looked after."""

    def reconcile(self, namespace: str) -> bool:
        """Bring one namespace's ledger up to date. Raises ApiError."""


class Kept(NamedTuple):
    """Ledgers of one name: who brings them up to date, and what is known of them."""

    store: Store
    ledgers: Holdings


class Reconciler:
    """One thread that looks after all ledgers in turn, and lets go of pods that none of them needs."""

    def __init__(self, watches: PodWatches, *kept: Kept, interval: float = INTERVAL_SECONDS) -> None:
        self._watches = watches
        self._kept = kept
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reservations", daemon=True)

    def start(self) -> None:
        """Begin; the watches must have been synced."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and all watches of pods."""
        self._stop.set()
        self._watches.keep(())

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread, if it was started."""
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self.tick()

    def tick(self) -> None:
        """Look at every namespace with something to do once; trouble with one does not stop the others."""
        wanted = [(kept, kept.ledgers.namespaces()) for kept in self._kept]
        self._watches.keep(frozenset[str]().union(*(namespaces for _, namespaces in wanted)))
        for kept, namespaces in wanted:
            for namespace in sorted(namespaces):
                if self._stop.is_set():
                    return
                try:
                    kept.store.reconcile(namespace)
                except (ApiError, KubeconfigError) as error:
                    log.warning("reservations of namespace %s: %s", namespace, error)
