"""The base of the stores of reservations and charges: reads and writes of the ledgers of one name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler_core.kube.errors import Conflict, NotFound
from scheduler_core.model.pods.use import PodUse
from scheduler_core.model.quotas.reservation_ledger import ReservationLedger
from webhook.reservations.ledger_api import LedgerApi
from webhook.reservations.ledger_cache import LedgerCache
from webhook.reservations.pod_watches import PodWatches
from webhook.reservations.provisional_entries import WaitLimits
from webhook.reservations.server_pace import ServerPace

# Waits for a watch that is slightly behind that of another replica, before the pods are listed.
CATCH_UP_SECONDS: Final = (0.0, 0.005, 0.015)
RETRY_SECONDS: Final = 0.005
# Time between batches during a flood.
FLOOD_PACE_SECONDS: Final = 0.05


@dataclass(frozen=True)
class Times:
    """Times in seconds.

    `timeout`: after which an entry is released if its object never appeared; no request to an API server
    takes longer. `gather`: for which the first request of a batch waits for others. `barrier`: for which the
    first group of a namespace waits for pods that were admitted before its reservation was known.
    """

    timeout: float = 60.0
    gather: float = 0.002
    barrier: float = 0.25
    wait_limits: WaitLimits = field(default_factory=WaitLimits)


class LedgerWriter:
    """Reads the ledgers of one name and the pods of their namespaces, and writes the ledgers.

    Methods that ask the API server raise ApiError. `sleep` and `monotonic` are those of `time`.
    """

    def __init__(
        self,
        api: LedgerApi,
        ledgers: LedgerCache,
        watches: PodWatches,
        times: Times | None,
        sleep: Callable[[float], object],
        monotonic: Callable[[], float],
    ) -> None:
        self._api = api
        self._ledgers = ledgers
        self._watches = watches
        self._times = times or Times()
        self._sleep = sleep
        self._monotonic = monotonic
        self._pace = ServerPace(monotonic)

    def _rest(self, namespace: str) -> None:
        """Leave time between batches in a flood."""
        if self._ledgers.entry_ages.flooded(namespace):
            self._sleep(FLOOD_PACE_SECONDS)

    def _read(self, namespace: str) -> ReservationLedger:
        """The ledger as the API server has it now; remembered if it exists."""
        with self._pace.timed(namespace):
            ledger = self._api.ledger(namespace)
        if ledger.resource_version:
            self._ledgers.remember(ledger)
        return ledger

    def _write_decided(self, wanted: ReservationLedger, attempt: int) -> str:
        """Write a ledger. If its version is outdated, wait for the next attempt and return the problem."""
        try:
            with self._pace.timed(wanted.namespace):
                stored = self._api.put(wanted)
            self._ledgers.remember(stored)
        except (Conflict, NotFound) as lost:
            self._sleep(RETRY_SECONDS * attempt)
            return str(lost)
        return ""

    def _write_reconciled(self, wanted: ReservationLedger) -> None:
        try:
            self._ledgers.remember(self._api.put(wanted))
        except (Conflict, NotFound):
            # Another replica was faster; what is left is done next time.
            self._ledgers.remember(self._api.ledger(wanted.namespace))

    def _pods(self, namespace: str, version: str | None) -> Mapping[str, PodUse]:
        """The pods by uid: from the watch if it has seen `version`, else listed; listed if None."""
        for pause in CATCH_UP_SECONDS if version is not None else ():
            self._sleep(pause)
            pods = self._watches.follow(namespace).pods(version or "")
            if pods is not None:
                return pods
        return self._listed(namespace)

    def _listed(self, namespace: str) -> Mapping[str, PodUse]:
        """The pods by uid, listed now."""
        return {pod.uid: pod for pod in self._api.pods(namespace)[1]}
