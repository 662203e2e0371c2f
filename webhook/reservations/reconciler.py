"""Reconciles the ledgers with the cluster: releases entries whose objects ended or never appeared.

Admission is not storage: the object of an entry may be refused by a later webhook, or its client may die.
Every replica reconciles; the resourceVersion of the ledger lets one of them win, and the others find nothing
to do.
"""

from __future__ import annotations

import logging
import threading
from typing import Final, NamedTuple, Protocol

from scheduler_core.kube.errors import ApiError, KubeconfigError
from webhook.reservations.ledger_cache import LedgerCache
from webhook.reservations.pod_watches import PodWatches

INTERVAL_SECONDS: Final = 2.0

log = logging.getLogger("muster.webhook")


class LedgerStore(Protocol):
    """A store whose ledgers are reconciled."""

    def reconcile(self, namespace: str) -> bool:
        """Bring the ledger of one namespace up to date; whether there was anything to do. Raises ApiError."""


class LedgerRecord(NamedTuple):
    """The ledgers of one name: their store and their cache."""

    store: LedgerStore
    ledgers: LedgerCache


class Reconciler:
    """One thread that reconciles all ledgers in turn, and ends watches of pods that are not needed."""

    def __init__(self, watches: PodWatches, *kept: LedgerRecord, interval: float = INTERVAL_SECONDS) -> None:
        self._watches = watches
        self._kept = kept
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reservations", daemon=True)

    def start(self) -> None:
        """Start the thread; the watches must be synced."""
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
        """Reconcile every namespace once; a failure in one does not stop the others."""
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
