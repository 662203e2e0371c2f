"""Stores the reservations of PodGroups and judges pods beside them, with any number of replicas.

One ledger object for each namespace arbitrates: a decision counts once the API server has accepted the ledger
with it, on the version that was read. Within a replica, all waiting requests of a namespace are judged one
after the other on one copy and written together; native quota does the same on its status. After a conflict
the batch is judged again, at most three times; then its requests are refused and may be tried again. No
request is refused for lack of room before everything was read again from the server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler_core.kube.errors import ApiError, KubeconfigError
from scheduler_core.kube.rate import RateLimiter
from scheduler_core.model.groups.pod_group import PodGroup
from scheduler_core.model.pods.use import PodUse
from scheduler_core.model.quotas.reservation_ledger import (
    Charge,
    Hold,
    Key,
    ReservationLedger,
    key_of,
    without,
)
from scheduler_core.model.quotas.resource_quota import ResourceQuota
from scheduler_core.quota.reservations.limits import (
    ReservationRefusal,
    enterable,
    unconfirmed_beyond_limit,
    without_uncounted,
)
from scheduler_core.quota.reservations.reconcile import hold_of, idle_groups, reconcile, unconfirmed_entries
from scheduler_core.quota.reservations.usage import NamespaceUsage
from webhook.http.deadline import remaining
from webhook.reservations.batches import DECIDE_SECONDS, Batches, Undecided, Waiter
from webhook.reservations.ledger_api import LedgerApi
from webhook.reservations.ledger_cache import LedgerCache
from webhook.reservations.ledger_writer import LedgerWriter, Times
from webhook.reservations.pod_watches import PodWatches
from webhook.reservations.provisional_entries import TO_DECIDE_SECONDS, ProvisionalEntries
from webhook.reservations.reservation_decisions import ReservationView, judge

ATTEMPTS: Final = 4
# The reconciler removes charges of visible pods; beyond this number every write does.
MANY_CHARGES: Final = 32
# During a flood: attempts for a batch, requests that may wait for a batch, provisional entries that are kept,
# and the age up to which the last certain state may be used.
FLOOD_ATTEMPTS: Final = 12
FLOOD_QUEUE: Final = 12
FLOOD_ENTRIES: Final = 256
FLOOD_MEMORY_SECONDS: Final = 1.0
# Limits on lists of ResourceQuotas of namespaces that seem to have none.
QUESTIONS_A_SECOND: Final = 10.0
QUESTIONS_AT_ONCE: Final = 50


@dataclass(frozen=True)
class _Snapshot:
    """The data on which a batch is decided; `fresh` if all of it was just read from the server."""

    ledger: ReservationLedger
    pods: Mapping[str, PodUse]
    groups: dict[str, PodGroup]
    quotas: Sequence[ResourceQuota]
    fresh: bool


@dataclass(frozen=True)
class _CertainState:
    """The certain state of a namespace during a flood (without provisional entries), and when it was read."""

    book: NamespaceUsage
    quotas: Sequence[ResourceQuota]
    since: float


class ReservationStore(LedgerWriter):
    """Charges of pods and holds of groups in the ledgers, decided in `batches`. Thread-safe."""

    def __init__(
        self,
        api: LedgerApi,
        ledgers: LedgerCache,
        watches: PodWatches,
        quotas: Callable[[str], Sequence[ResourceQuota]],
        times: Times | None = None,
        sleep: Callable[[float], object] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(api, ledgers, watches, times, sleep, monotonic)
        self._quotas = quotas
        self.batches = Batches(self._write, lambda: self._sleep(self._times.gather), self._rest)
        self._provisional = ProvisionalEntries(
            ledgers,
            watches,
            self._times.wait_limits,
            self._pace.delay,
            lambda seconds: self._sleep(seconds),
            monotonic,
        )
        self._sure: dict[str, _CertainState] = {}
        self._questions = RateLimiter(QUESTIONS_A_SECOND, QUESTIONS_AT_ONCE, monotonic=monotonic)

    def charge(
        self, namespace: str, charge: Charge, *, dry_run: bool = False
    ) -> Sequence[ReservationRefusal]:
        """Charge a pod; returns the quota that it lacks, empty if it is admitted. Raises Undecided."""
        return self._ask(namespace, Waiter(without_uncounted(charge, self._quotas(namespace)), dry_run))

    def reserve(self, namespace: str, hold: Hold, *, dry_run: bool = False) -> Sequence[ReservationRefusal]:
        """Reserve for a group; returns the quota that it lacks, empty if it is reserved. Raises Undecided.

        While a namespace has no reservations, its pods are not charged in the ledger. So its first hold is
        entered, and confirmed once the pods that were admitted before are visible. Without a ResourceQuota
        there is nothing to decide, and the reconciler enters the group once it exists.
        """
        if not self._is_limited(namespace):
            return ()
        known = self._ledgers.ledger(namespace)
        first = known is None or not known.active
        return self._ask(namespace, Waiter(hold, dry_run), confirm=first and not dry_run)

    def _is_limited(self, namespace: str) -> bool:
        """Whether the namespace has a ResourceQuota; listed if the watch has not shown one (yet).

        The lists are rate-limited, because a forged review can name any namespace. Beyond the limit, a quota
        that was created a moment ago is missed.
        """
        if self._quotas(namespace):
            return True
        try:
            return self._questions.take() and bool(self._api.quotas(namespace))
        except (ApiError, KubeconfigError) as problem:
            raise Undecided(
                f"the ResourceQuotas of namespace {namespace} cannot be read: {problem}"
            ) from None

    def _ask(self, namespace: str, waiter: Waiter, *, confirm: bool = False) -> Sequence[ReservationRefusal]:
        """Decide a request, if necessary once the provisional entries ahead are settled.

        If those are not settled in time, the request is admitted. With `confirm` the decision is verified
        after the barrier.
        """
        sure = self._sure_in_flood(namespace)
        if sure is not None:
            if sure.book.shortages(waiter.asked, sure.quotas):
                raise Undecided(f"namespace {namespace} has too many requests whose objects do not appear")
            return ()
        short = self.batches.submit(namespace, waiter)
        if short or not (waiter.conditional or confirm):
            return short
        with self._provisional.waiting(namespace, key_of(waiter.asked)):
            if confirm:
                self._sleep(self._times.barrier)
            left = min(self._times.wait_limits.most, remaining() - TO_DECIDE_SECONDS)
            while True:
                if waiter.conditional:
                    took = self._provisional.wait(namespace, waiter.ahead, left)
                    if took is None or left <= 0.0:
                        return ()
                    left -= took
                waiter = Waiter(waiter.asked, waiter.dry_run, again=True, ahead=waiter.ahead)
                short = self.batches.submit(namespace, waiter)
                if short or not waiter.conditional:
                    return short

    def _sure_in_flood(self, namespace: str) -> _CertainState | None:
        """The certain state of a namespace, if a flood goes on and too many requests wait already."""
        if not self._ledgers.entry_ages.flooded(namespace):
            self._sure.pop(namespace, None)
            return None
        sure = self._sure.get(namespace)
        if sure is None or self.batches.waiting(namespace) < FLOOD_QUEUE:
            return None
        return sure if self._monotonic() - sure.since <= FLOOD_MEMORY_SECONDS else None

    def reconcile(self, namespace: str) -> bool:
        """Settle, release and repair the ledger of one namespace; whether there was anything to do.

        Raises ApiError.
        """
        with self.batches.alone(namespace):
            snapshot = self._snapshot(namespace, fresh=False)
            wanted = self._settled(namespace, snapshot)
            late = self._late(namespace, snapshot)
            if late or _incomplete(snapshot):
                snapshot = self._snapshot(namespace, fresh=True)
                wanted = self._settled(namespace, snapshot, late)
            if wanted == snapshot.ledger:
                return False
            self._write_reconciled(wanted)
            return True

    def _write(self, namespace: str, batch: Sequence[Waiter]) -> str:
        """Judge the batch and store the outcome; returns the message of a failure. Raises ApiError."""
        deadline = self._monotonic() + DECIDE_SECONDS
        again = any(waiter.again for waiter in batch)
        problem = ""
        flooded = self._ledgers.entry_ages.flooded(namespace)
        for attempt in range(FLOOD_ATTEMPTS if flooded else ATTEMPTS):
            if self._monotonic() > deadline:
                break
            snapshot = self._snapshot(namespace, fresh=again, reread=attempt > 0)
            wanted, crowded = self._judge(namespace, snapshot, batch)
            provisional = crowded or _incomplete(snapshot) or any(waiter.short for waiter in batch)
            if provisional and not snapshot.fresh:
                snapshot = self._snapshot(namespace, fresh=True)
                wanted, _ = self._judge(namespace, snapshot, batch)
            idle = all(waiter.dry_run or (waiter.short and not waiter.again) for waiter in batch)
            if idle or wanted == snapshot.ledger:
                return ""
            problem = self._write_decided(wanted, attempt)
            if not problem:
                return ""
        return f"the reservation ledger of namespace {namespace} was not written in time: {problem}"

    def _judge(
        self, namespace: str, snapshot: _Snapshot, batch: Sequence[Waiter]
    ) -> tuple[ReservationLedger, bool]:
        """The ledger with the requests of the batch, and whether it has too many provisional entries.

        From a fresh snapshot, provisional entries whose time is over are released.
        """
        base, entry_ages = snapshot.ledger, self._ledgers.entry_ages
        if snapshot.fresh or len(base.charges) > MANY_CHARGES:
            base = self._settled(namespace, snapshot)
        provisional = frozenset(unconfirmed_entries(base, snapshot.pods, snapshot.groups))
        entry_ages.observe_provisional(namespace, provisional)
        beyond = self._beyond(namespace, base, provisional)
        if snapshot.fresh:
            released = self._provisional.releasable(namespace, provisional) | beyond
            base, provisional = without(base, released), provisional - released
        view = ReservationView(base, snapshot.pods, snapshot.quotas, provisional, snapshot.fresh)
        if snapshot.fresh and entry_ages.flooded(namespace):
            self._sure[namespace] = _CertainState(
                view.book(base, provisional), snapshot.quotas, self._monotonic()
            )
        return judge(view, batch), bool(beyond)

    def _beyond(self, namespace: str, ledger: ReservationLedger, provisional: frozenset[Key]) -> set[Key]:
        """The oldest provisional entries that are too many for the ledger."""
        order = self._ledgers.entry_ages.oldest_first(namespace, provisional)
        found = unconfirmed_beyond_limit(ledger, provisional, order)
        if len(provisional) > FLOOD_ENTRIES and self._ledgers.entry_ages.flooded(namespace):
            found.update(order[: len(order) - FLOOD_ENTRIES // 2])
        return found

    # State

    def _snapshot(self, namespace: str, *, fresh: bool, reread: bool = False) -> _Snapshot:
        """The state of a namespace, from the cache unless `fresh`. Raises ApiError."""
        ledger = None if fresh or reread else self._ledgers.ledger(namespace)
        if ledger is None:
            ledger = self._read(namespace)
            # The ledger does not exist, or was deleted or emptied: it is made again from the objects.
            fresh = fresh or not ledger.holds
        pods = self._pods(namespace, None if fresh else ledger.pods_version)
        if not fresh:
            return _Snapshot(ledger, pods, self._ledgers.groups(namespace), self._quotas(namespace), False)
        groups = {group.uid: group for group in self._api.groups(namespace)}
        return _Snapshot(ledger, pods, groups, self._api.quotas(namespace), True)

    def _settled(
        self, namespace: str, snapshot: _Snapshot, late: frozenset[str] = frozenset()
    ) -> ReservationLedger:
        seen = self._watches.follow(namespace)
        settled = reconcile(
            snapshot.ledger,
            snapshot.pods,
            snapshot.groups,
            gone=[
                *(h.uid for h in snapshot.ledger.holds if h.uid in self._ledgers.deleted_groups),
                *(c.uid for c in snapshot.ledger.charges if c.uid in seen.deleted),
            ],
            overdue=late,
            idle=late & idle_groups(snapshot.ledger, snapshot.pods),
            complete=snapshot.fresh,
        )
        return NamespaceUsage(settled, snapshot.pods).ledger(settled)

    def _late(self, namespace: str, snapshot: _Snapshot) -> frozenset[str]:
        """The uids of entries that were unsettled for the whole time-out."""
        ledger, pods = snapshot.ledger, snapshot.pods
        unsettled = idle_groups(ledger, pods)
        unsettled |= {hold.uid for hold in ledger.holds if hold.uid not in snapshot.groups}
        unsettled |= {charge.uid for charge in ledger.charges}
        return frozenset(self._ledgers.overdue(namespace, unsettled, self._times.timeout))


def _incomplete(snapshot: _Snapshot) -> bool:
    """Whether a group lacks its hold: the ledger was lost or edited, or is behind."""
    known = {hold.uid for hold in snapshot.ledger.holds}
    missing = [g for g in snapshot.groups.values() if g.total and not g.succeeded and g.uid not in known]
    return bool(enterable(snapshot.ledger, map(hold_of, missing)))
