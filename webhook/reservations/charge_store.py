"""Charges ElasticQuotas for pods of other schedulers and for resizes, with any number of replicas.

One ledger object for each namespace arbitrates, as for reservations (`reservation_store`): a charge is
written on the version that was read, and counts until its pod is visible. Meanwhile Muster's schedulers place
pods of the namespace. So each admitted charge is verified: once everything that was decided before it is
visible, the pods are listed again, and a charge that exceeds `max` then is taken back. No request is refused
because of charges without a visible pod: see `charge_decisions`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler_core.model.names import MUSTER_SCHEDULER
from scheduler_core.model.pods.use import PodUse
from scheduler_core.model.quotas.reservation_ledger import Charge, ReservationLedger, key_of, without
from scheduler_core.quota.policy import Refusal
from webhook.http.deadline import remaining
from webhook.reservations.batches import DECIDE_SECONDS, Batches, Undecided, Waiter
from webhook.reservations.charge_decisions import ChargeView, Claim, judge
from webhook.reservations.concurrency_limits import ConcurrencyLimits
from webhook.reservations.ledger_api import LedgerApi
from webhook.reservations.ledger_cache import LedgerCache
from webhook.reservations.ledger_writer import LedgerWriter, Times
from webhook.reservations.pod_watches import PodWatches
from webhook.reservations.provisional_entries import TO_DECIDE_SECONDS, ProvisionalEntries
from webhook.reservations.quota_standing import QuotaStanding
from webhook.reservations.quota_usage import settled
from webhook.reservations.reservation_store import (
    FLOOD_ATTEMPTS,
    MANY_CHARGES,
)

# No API server takes longer from admission to storage: its quota admission gives up after that time.
CHARGE_SECONDS: Final = 10.0
# 5,000 pods take 0.1 s of processor time to parse. Lists of one namespace take at most a fifth of a core.
REST_FACTOR: Final = 4.0
MOST_REST_SECONDS: Final = 0.5


class QuotaStandings(NamedTuple):
    """The QuotaStanding of a namespace: from the cache, and with its own quotas listed (raises ApiError)."""

    known: Callable[[str], QuotaStanding | None]
    fresh: Callable[[str], QuotaStanding | None]


class ChargeStore(LedgerWriter):
    """Charges of pods of other schedulers and of resizes. Thread-safe.

    `ledgers` caches the ledgers of charges; `ours` are the names of Muster's schedulers, which check quota
    themselves.
    """

    def __init__(
        self,
        api: LedgerApi,
        ledgers: LedgerCache,
        watches: PodWatches,
        quotas: QuotaStandings,
        ours: frozenset[str] = frozenset({MUSTER_SCHEDULER}),
        times: Times | None = None,
        sleep: Callable[[float], object] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(api, ledgers, watches, times, sleep, monotonic)
        self._quotas = quotas
        self._ours = ours
        self.limits = ConcurrencyLimits(ledgers.entry_ages, monotonic)
        grace = self._times.wait_limits.grace + self._times.barrier
        self._provisional = ProvisionalEntries(
            ledgers,
            watches,
            dataclasses.replace(self._times.wait_limits, grace=grace),
            self._pace.delay,
            lambda seconds: self._sleep(seconds),
            monotonic,
        )
        # When the pods of a namespace may be listed again.
        self._pause_ends: dict[str, float] = {}
        self._claims = Batches(self._decide, lambda: self._sleep(self._times.gather), self._rest)

    def charge(
        self, namespace: str, charge: Charge, names: frozenset[str], *, dry_run: bool = False
    ) -> Refusal | None:
        """Charge a pod or a resize, judged in the resources `names`: None, or the refusal.

        Only resources that quotas govern are judged and written. Raises Undecided.
        """
        where = self._quotas.known(namespace)
        governed = where.governed if where is not None else frozenset()
        names &= governed
        if not names:
            return None
        usage = {name: value for name, value in charge.usage.items() if name in governed}
        charge = msgspec.structs.replace(charge, usage=usage)
        with self.limits.acquire(namespace) as full:
            if full:
                # Admitting what fits beside existing pods would let tenants exceed `max` by crowding.
                raise Undecided(full)
            return self.ask(namespace, Claim(charge, dry_run, names=names))

    def ask(self, namespace: str, claim: Claim) -> Refusal | None:
        """Decide a claim, then verify it: after the barrier, and once provisional charges ahead are settled.

        If those are not settled in time, the claim is admitted. Raises Undecided, also if there is no time to
        wait for them.
        """
        self._claims.submit(namespace, claim)
        times, began = self._times, self._monotonic()
        left = min(times.wait_limits.most, remaining() - TO_DECIDE_SECONDS - times.barrier)
        with self._provisional.waiting(namespace, key_of(claim.asked)):
            while claim.refusal is None and (claim.conditional or claim.entered):
                if claim.conditional:
                    took = self._provisional.wait(namespace, claim.ahead, left)
                    if took is None or left <= 0.0:
                        if self._monotonic() - began < self._provisional.grace(namespace):
                            raise Undecided(f"{len(claim.ahead)} pods of namespace {namespace} come first")
                        break
                    left -= took
                else:
                    self._sleep(times.barrier)
                claim = claim.once_more()
                self._claims.submit(namespace, claim)
        return claim.refusal

    def reconcile(self, namespace: str) -> bool:
        """Remove charges that are visible or never appeared; whether there were any. Raises ApiError."""
        with self._claims.alone(namespace):
            snapshot = self._snapshot(namespace, fresh=False)
            wanted = self._settled(namespace, snapshot)
            if wanted.charges == snapshot.ledger.charges:
                return False
            self._write_reconciled(wanted)
            return True

    def _decide(self, namespace: str, batch: Sequence[Waiter]) -> str:
        """Judge the batch and store the outcome; returns the message of a failure. Raises ApiError.

        Claims that are verified are judged by fresh reads.
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
            problem = self._write_decided(wanted, attempt)
            if not problem:
                return ""
        return f"the ledger of charges of namespace {namespace} was not written in time: {problem}"

    def _judge(self, namespace: str, snapshot: ChargeView, claims: Sequence[Claim]) -> ReservationLedger:
        """The ledger with the claims, without unconfirmed charges where their room is needed."""
        base = self._settled(namespace, snapshot)
        view = snapshot._replace(ledger=base)
        wanted = judge(view, claims)
        if not snapshot.fresh:
            return wanted
        if len(base.charges) > MANY_CHARGES or any(claim.refusal or claim.conditional for claim in claims):
            lost = self._provisional.releasable(namespace, frozenset(map(key_of, base.charges)))
            if lost:
                self.limits.released_unconfirmed(namespace)
                wanted = judge(view._replace(ledger=without(base, lost)), claims)
        return wanted

    # State

    def _snapshot(self, namespace: str, *, fresh: bool, reread: bool = False) -> ChargeView:
        """The state of a namespace, from the cache unless `fresh`. Raises ApiError."""
        ledger = None if fresh or reread else self._ledgers.ledger(namespace)
        if ledger is None:
            ledger = self._read(namespace)
        where = (self._quotas.fresh if fresh else self._quotas.known)(namespace)
        pods = self._pods(namespace, None if fresh else ledger.pods_version)
        return ChargeView(ledger, pods, where, self._ours, fresh)

    def _listed(self, namespace: str) -> Mapping[str, PodUse]:
        """The pods as listed. Namespaces with many pods wait between lists, to leave time for others."""
        rest = self._pause_ends.get(namespace, 0.0) - self._monotonic()
        if rest > 0:
            self._sleep(min(rest, MOST_REST_SECONDS))
        begun = time.thread_time()
        pods = super()._listed(namespace)
        spent = time.thread_time() - begun
        self._pause_ends[namespace] = self._monotonic() + REST_FACTOR * spent
        return pods

    def _settled(self, namespace: str, snapshot: ChargeView) -> ReservationLedger:
        uids = [charge.uid for charge in snapshot.ledger.charges]
        seen = self._watches.follow(namespace)
        return settled(
            snapshot.ledger,
            snapshot.pods,
            gone=[uid for uid in uids if uid in seen.deleted],
            overdue=self._ledgers.overdue(namespace, uids, min(CHARGE_SECONDS, self._times.timeout)),
        )
