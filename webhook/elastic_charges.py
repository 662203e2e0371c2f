"""Admission against `max` for pods that no scheduler of ours will judge, right with any number of replicas.

One ledger object per namespace arbitrates, as it does for reservations (see `hold_store`): what was admitted
is written down on the version that was read, and counts until the pod shows it. Our own schedulers place pods
of the namespace in the same moment. So an admitted charge is confirmed: once everything that was decided
before it is visible, the pods are listed anew, and a charge that is over then is taken back. Nobody is
refused because of charges that no pod shows: see `elastic_judging`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from scheduler_core.kube.errors import Conflict, NotFound
from scheduler_core.model.names import MUSTER_SCHEDULER
from scheduler_core.model.pod_use import PodUse
from scheduler_core.model.reservation_ledger import Charge, ReservationLedger
from scheduler_core.quota.policy import Refusal
from scheduler_core.quota.provisional import key_of, without
from webhook.batches import DECIDE_SECONDS, Batches, Undecided, Waiter
from webhook.deadline import remaining
from webhook.doubt import TO_DECIDE_SECONDS, Doubts
from webhook.elastic_judging import Claim, View, judge
from webhook.elastic_use import Standing, settled
from webhook.hold_store import (
    CATCH_UP_SECONDS,
    FLOOD_ATTEMPTS,
    FLOOD_PACE_SECONDS,
    MANY_CHARGES,
    RETRY_SECONDS,
    Times,
)
from webhook.holdings import Holdings
from webhook.ledger_api import LedgerApi
from webhook.pod_watches import PodWatches
from webhook.seats import Seats

# No API server takes longer from admission to storage: its own quota gives up after that time.
CHARGE_SECONDS: Final = 10.0
# 5,000 pods take 0.1 s of processor time to read: lists of one namespace take a fifth of a processor at most.
REST_FACTOR: Final = 4.0
MOST_REST_SECONDS: Final = 0.5


class Quotas(NamedTuple):
    """Where a namespace stands: from memory, and with its own quotas read anew, which raises ApiError."""

    known: Callable[[str], Standing | None]
    fresh: Callable[[str], Standing | None]


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
        self._seats = Seats(ledgers.sightings, monotonic)
        self._grace = self._times.patience.grace + self._times.barrier
        patience = dataclasses.replace(self._times.patience, grace=self._grace)
        self._doubts = Doubts(ledgers, watches, patience, lambda seconds: self._sleep(seconds), monotonic)
        # When the pods of a namespace may be listed next.
        self._rests: dict[str, float] = {}
        self._claims = Batches(self._decide, lambda: self._sleep(self._times.gather), self._pace)

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
        with self._seats.seat(namespace) as full:
            if full:
                # To let in who fits beside what exists would be a way past `max`: tenants can crowd, too.
                raise Undecided(full)
            return self._ask(namespace, Claim(charge, dry_run, names=names))

    def _ask(self, namespace: str, claim: Claim) -> Refusal | None:
        """Decide, and look again: once others may have been placed, once it is known what was ahead.

        Once what was ahead had its time, doubt is in favour of who asks. Raises Undecided, also for want of
        that time.
        """
        self._claims.submit(namespace, claim)
        times, began = self._times, self._monotonic()
        left = min(times.patience.most, remaining() - TO_DECIDE_SECONDS - times.barrier)
        with self._doubts.waiting(namespace, key_of(claim.asked)):
            while claim.refusal is None and (claim.doubt or claim.entered):
                if claim.doubt:
                    took = self._doubts.wait(namespace, claim.ahead, left)
                    if took is None or left <= 0.0:
                        if self._monotonic() - began < self._grace:
                            raise Undecided(f"{len(claim.ahead)} pods of namespace {namespace} come first")
                        break
                    left -= took
                else:
                    self._sleep(times.barrier)
                claim = claim.once_more()
                self._claims.submit(namespace, claim)
        return claim.refusal

    def _pace(self, namespace: str) -> None:
        if self._ledgers.sightings.flooded(namespace):
            self._sleep(FLOOD_PACE_SECONDS)

    def reconcile(self, namespace: str) -> bool:
        """Strike out what is visible or never came; whether there was something to do. Raises ApiError."""
        with self._claims.alone(namespace):
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

    def _decide(self, namespace: str, batch: Sequence[Waiter]) -> str:
        """Judge the batch and store the outcome; the words of a failure. Raises ApiError.

        Who is looked at again is judged by what the server has now.
        """
        claims = [waiter for waiter in batch if isinstance(waiter, Claim)]
        again = any(claim.again for claim in claims)
        deadline = self._monotonic() + DECIDE_SECONDS
        problem = ""
        for attempt in range(FLOOD_ATTEMPTS):
            if self._monotonic() > deadline:
                break
            snapshot = self._snapshot(namespace, fresh=again, reread=attempt > 0)
            wanted = self._judge(namespace, snapshot, claims)
            if any(claim.refusal for claim in claims) and not snapshot.fresh:
                snapshot = self._snapshot(namespace, fresh=True)
                wanted = self._judge(namespace, snapshot, claims)
            idle = all(claim.dry_run or (claim.refusal and not claim.again) for claim in claims)
            if idle or wanted.charges == snapshot.ledger.charges:
                return ""
            try:
                self._ledgers.wrote(self._api.put(wanted))
                return ""
            except (Conflict, NotFound) as lost:
                problem = str(lost)
                self._sleep(RETRY_SECONDS * attempt)
        return f"the ledger of charges of namespace {namespace} was not written in time: {problem}"

    def _judge(self, namespace: str, snapshot: _Snapshot, claims: Sequence[Claim]) -> ReservationLedger:
        """The ledger with what is claimed, less what came to nothing where somebody needs the room."""
        base = self._settled(namespace, snapshot)
        view = View(base, snapshot.pods, snapshot.where, self._ours, snapshot.fresh)
        wanted = judge(view, claims)
        if not snapshot.fresh:
            return wanted
        if len(base.charges) > MANY_CHARGES or any(claim.refusal or claim.doubt for claim in claims):
            lost = self._doubts.releasable(namespace, frozenset(map(key_of, base.charges)))
            if lost:
                self._seats.lost(namespace)
                wanted = judge(view._replace(ledger=without(base, lost)), claims)
        return wanted

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
