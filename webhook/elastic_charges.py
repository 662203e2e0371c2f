"""Admission against `max` for pods that no scheduler of ours will judge, right with any number of replicas.

One ledger object per namespace arbitrates, as it does for reservations (see `hold_store`): what was admitted
is written down on the version that was read, and counts until the pod shows it. Our own schedulers place pods
of the namespace in the same moment. So an admitted charge is confirmed: once everything that was decided
before it is visible, the pods are listed anew, and a charge that is over then is taken back.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from scheduler_core.kube.errors import Conflict, NotFound
from scheduler_core.model.names import MUSTER_SCHEDULER
from scheduler_core.model.pod_use import PodUse
from scheduler_core.model.reservation_ledger import Charge, ReservationLedger
from scheduler_core.quota.policy import Refusal
from webhook.batches import DECIDE_SECONDS, Batches, Undecided, Waiter
from webhook.elastic_use import Standing, Tally, settled
from webhook.hold_store import ATTEMPTS, CATCH_UP_SECONDS, RETRY_SECONDS, Times
from webhook.holdings import Holdings
from webhook.ledger_api import LedgerApi
from webhook.pod_watches import PodWatches

# No API server takes longer from admission to storage: its own quota gives up after that time.
CHARGE_SECONDS: Final = 10.0
# Of the 128 threads that answer, so many may wait for their barrier, in one namespace and in all.
SEATS_OF_A_NAMESPACE: Final = 16
SEATS: Final = 48
# 5,000 pods take 0.1 s of processor time to read: lists of one namespace take a fifth of a processor at most.
REST_FACTOR: Final = 4.0
MOST_REST_SECONDS: Final = 0.5


class Quotas(NamedTuple):
    """Where a namespace stands: from memory, and with its own quotas read anew, which raises ApiError."""

    known: Callable[[str], Standing | None]
    fresh: Callable[[str], Standing | None]


@dataclass(eq=False)
class _Claim(Waiter):
    """One pod or resize: judged in the resources `names`; why it was refused, once it was."""

    names: frozenset[str] = frozenset()
    refusal: Refusal | None = None

    @property
    def charge(self) -> Charge:
        assert isinstance(self.asked, Charge)
        return self.asked


@dataclass(frozen=True)
class _Snapshot:
    """What a batch is judged on; `fresh` if all of it was read from the server just now."""

    ledger: ReservationLedger
    pods: Mapping[str, PodUse]
    where: Standing | None
    fresh: bool


class ElasticCharges:
    """Charges of foreign pods and of resizes. Thread-safe.

    `ledgers` is what this replica knows of the ledgers (a Holdings of that name), `ours` the names of the
    schedulers that judge pods themselves.
    """

    def __init__(
        self,
        api: LedgerApi,
        ledgers: Holdings,
        watches: PodWatches,
        quotas: Quotas,
        ours: frozenset[str] = frozenset({MUSTER_SCHEDULER}),
        times: Times | None = None,
        sleep: Callable[[float], object] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._ledgers = ledgers
        self._watches = watches
        self._quotas = quotas
        self._ours = ours
        self._times = times or Times()
        self._sleep = sleep
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._seated: Counter[str] = Counter()
        # When the pods of a namespace may be listed next.
        self._rests: dict[str, float] = {}
        self._claims = Batches(self._write, lambda: self._sleep(self._times.gather))
        # Those that wait for the barrier are looked at together: one list for all.
        self._answers = Batches(self._confirm, lambda: None)

    def charge(
        self, namespace: str, charge: Charge, names: frozenset[str], *, dry_run: bool = False
    ) -> Refusal | None:
        """Admit a pod or what it grows to, judged in the resources `names`: None, or why not.

        Only what quotas govern is judged and written. Raises Undecided.
        """
        where = self._quotas.known(namespace)
        governed = where.governed if where is not None else frozenset()
        names &= governed
        if not names:
            return None
        usage = {name: value for name, value in charge.usage.items() if name in governed}
        charge = msgspec.structs.replace(charge, usage=usage)
        with self._seat(namespace):
            claim = _Claim(charge, dry_run, names=names)
            self._claims.submit(namespace, claim)
            if claim.refusal is not None or dry_run:
                return claim.refusal
            self._sleep(self._times.barrier)
            again = _Claim(charge, dry_run, names=names)
            self._answers.submit(namespace, again)
            return again.refusal

    @contextmanager
    def _seat(self, namespace: str) -> Iterator[None]:
        """Who waits here keeps a thread from others, so only so many may. Raises Undecided."""
        with self._lock:
            if self._seated[namespace] >= SEATS_OF_A_NAMESPACE or self._seated.total() >= SEATS:
                raise Undecided(
                    f"too many pods past Muster's scheduler at once: {self._seated[namespace]} of namespace "
                    f"{namespace}, {self._seated.total()} in all are being judged"
                )
            self._seated[namespace] += 1
        try:
            yield
        finally:
            with self._lock:
                self._seated[namespace] -= 1
                if not self._seated[namespace]:
                    del self._seated[namespace]

    def reconcile(self, namespace: str) -> bool:
        """Strike out what is visible or never came; whether there was something to do. Raises ApiError."""
        queue = self._claims.queue(namespace)
        with queue.worker:
            snapshot = self._snapshot(namespace, fresh=False)
            wanted = self._settled(namespace, snapshot)
            if wanted.charges == snapshot.ledger.charges:
                return False
            try:
                self._ledgers.wrote(self._api.put(wanted))
            except (Conflict, NotFound):
                # Another replica was quicker; what it left to do is done the next time.
                self._ledgers.wrote(self._api.ledger(namespace))
            return True

    def _write(self, namespace: str, batch: Sequence[Waiter]) -> str:
        """Judge the batch and store the outcome; the words of a failure. Raises ApiError."""
        claims = [waiter for waiter in batch if isinstance(waiter, _Claim)]
        deadline = self._monotonic() + DECIDE_SECONDS
        problem = ""
        for attempt in range(ATTEMPTS):
            if self._monotonic() > deadline:
                break
            snapshot = self._snapshot(namespace, fresh=False, reread=attempt > 0)
            wanted = self._judge(namespace, snapshot, claims)
            if any(claim.refusal for claim in claims) and not snapshot.fresh:
                snapshot = self._snapshot(namespace, fresh=True)
                wanted = self._judge(namespace, snapshot, claims)
            if all(claim.dry_run or claim.refusal for claim in claims):
                return ""
            try:
                self._ledgers.wrote(self._api.put(wanted))
                return ""
            except (Conflict, NotFound) as lost:
                problem = str(lost)
                self._sleep(RETRY_SECONDS * attempt)
        return f"the ledger of charges of namespace {namespace} was not written in time: {problem}"

    def _confirm(self, namespace: str, batch: Sequence[Waiter]) -> str:
        """Look again, at what the server has now; what is over is taken back, the last admitted first."""
        claims = [waiter for waiter in batch if isinstance(waiter, _Claim)]
        queue = self._claims.queue(namespace)
        with queue.worker:
            for _ in range(ATTEMPTS):
                snapshot = self._snapshot(namespace, fresh=True)
                kept = self._still_admitted(snapshot, claims)
                if kept == snapshot.ledger.charges:
                    return ""
                wanted = msgspec.structs.replace(snapshot.ledger, charges=kept)
                try:
                    self._ledgers.wrote(self._api.put(wanted))
                    return ""
                except (Conflict, NotFound):
                    continue
        return f"the charges of namespace {namespace} are not confirmed: too many others write"

    def _still_admitted(self, snapshot: _Snapshot, claims: Sequence[_Claim]) -> tuple[Charge, ...]:
        """The charges without those that are over now."""
        tally = Tally(snapshot.where, snapshot.pods, snapshot.ledger.charges, self._ours)
        for claim in reversed(claims):
            tally.leave(claim.charge.uid)
            _enter(tally, claim)
        return _sorted(tally)

    def _judge(self, namespace: str, snapshot: _Snapshot, claims: Sequence[_Claim]) -> ReservationLedger:
        """Judge all that wait on one copy: requests that are for real first, each sees those before it."""
        base = self._settled(namespace, snapshot)
        tally = Tally(snapshot.where, snapshot.pods, base.charges, self._ours)
        for claim in claims:
            if not claim.dry_run:
                _enter(tally, claim)
        charges = _sorted(tally)
        for claim in claims:
            if claim.dry_run:
                _enter(tally, claim)
        return msgspec.structs.replace(base, charges=charges)

    # What is known

    def _snapshot(self, namespace: str, *, fresh: bool, reread: bool = False) -> _Snapshot:
        """What is known of a namespace, from memory where that is enough. Raises ApiError."""
        ledger = None if fresh or reread else self._ledgers.ledger(namespace)
        if ledger is None:
            ledger = self._api.ledger(namespace)
            if ledger.resource_version:
                self._ledgers.wrote(ledger)
        where = (self._quotas.fresh if fresh else self._quotas.known)(namespace)
        return _Snapshot(ledger, self._pods(namespace, None if fresh else ledger.pods_version), where, fresh)

    def _pods(self, namespace: str, version: str | None) -> Mapping[str, PodUse]:
        """The pods by uid, from memory where it has all up to `version` (None: it is not asked)."""
        for pause in CATCH_UP_SECONDS if version is not None else ():
            self._sleep(pause)
            pods = self._watches.follow(namespace).pods(version or "")
            if pods is not None:
                return pods
        return self._listed(namespace)

    def _listed(self, namespace: str) -> Mapping[str, PodUse]:
        """The pods as the server has them; who has many and asks often waits for the others' share."""
        rest = self._rests.get(namespace, 0.0) - self._monotonic()
        if rest > 0:
            self._sleep(min(rest, MOST_REST_SECONDS))
        begun = time.thread_time()
        pods = {pod.uid: pod for pod in self._api.pods(namespace)[1]}
        spent = time.thread_time() - begun
        self._rests[namespace] = self._monotonic() + REST_FACTOR * spent
        return pods

    def _settled(self, namespace: str, snapshot: _Snapshot) -> ReservationLedger:
        uids = [charge.uid for charge in snapshot.ledger.charges]
        seen = self._watches.follow(namespace)
        return settled(
            snapshot.ledger,
            snapshot.pods,
            gone=[uid for uid in uids if uid in seen.gone],
            overdue=self._ledgers.overdue(namespace, uids, min(CHARGE_SECONDS, self._times.timeout)),
        )


def _enter(tally: Tally, claim: _Claim) -> None:
    claim.refusal = tally.judge(claim.charge, claim.names)
    if claim.refusal is None:
        tally.enter(claim.charge)


def _sorted(tally: Tally) -> tuple[Charge, ...]:
    return tuple(tally.charges[uid] for uid in sorted(tally.charges))
