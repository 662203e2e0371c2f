"""Admission against reservations, right with any number of replicas.

One ledger object per namespace arbitrates: what was decided holds once the API server has accepted the ledger
with it, on the version that was read. Within a replica all requests of a namespace that wait at the same
time are judged one after the other on one copy and written together; native quota does the same on its
status. A lost race is judged again, at most three times; who is undecided then is refused and may try again.
Nobody is refused for lack of room before everything was read anew from the server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from scheduler_core.kube.errors import ApiError, Conflict, KubeconfigError, NotFound
from scheduler_core.kube.rate import RateLimiter
from scheduler_core.model.pod_group import PodGroup
from scheduler_core.model.pod_use import PodUse
from scheduler_core.model.reservation_ledger import Charge, Hold, ReservationLedger
from scheduler_core.model.resource_quota import ResourceQuota
from scheduler_core.quota.holds import Book
from scheduler_core.quota.ledger_bounds import Lack, doubtful_beyond, enterable, slim
from scheduler_core.quota.provisional import Key, key_of, unconfirmed, without
from scheduler_core.quota.settling import hold_of, idle_groups, settle
from webhook.batches import DECIDE_SECONDS, Batches, Undecided, Waiter
from webhook.deadline import remaining
from webhook.doubt import TO_DECIDE_SECONDS, Doubts, Patience
from webhook.holdings import Holdings
from webhook.judging import View, judge
from webhook.ledger_api import LedgerApi
from webhook.pod_watches import PodWatches

ATTEMPTS: Final = 4
# Visible pods are struck out by the reconciler; beyond this number on the way, as every write carries them.
MANY_CHARGES: Final = 32
RETRY_SECONDS: Final = 0.005
# A watch that is a moment behind another replica's is waited for before the pods are listed.
CATCH_UP_SECONDS: Final = (0.0, 0.005, 0.015)
# While reviews of nothing come in masses: how often a batch is tried, the seconds between batches, how many
# may wait for one, how many entries that nothing confirms are kept, and how old what is sure may be.
FLOOD_ATTEMPTS: Final = 12
FLOOD_PACE_SECONDS: Final = 0.05
FLOOD_QUEUE: Final = 12
FLOOD_ENTRIES: Final = 256
FLOOD_MEMORY_SECONDS: Final = 1.0
# About ResourceQuotas of namespaces that seem to have none.
QUESTIONS_A_SECOND: Final = 10.0
QUESTIONS_AT_ONCE: Final = 50


@dataclass(frozen=True)
class Times:
    """Seconds. `timeout`: after which what never appeared is given back; no request to an API server lives
    longer. `gather`: for which the first of many requests waits for the others. `barrier`: for which the
    first group of a namespace waits for pods that were admitted before anybody knew of it."""

    timeout: float = 60.0
    gather: float = 0.002
    barrier: float = 0.25
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True)
class _Snapshot:
    """What a batch is judged on; `fresh` if all of it was read from the server just now."""

    ledger: ReservationLedger
    pods: dict[str, PodUse]
    groups: dict[str, PodGroup]
    quotas: Sequence[ResourceQuota]
    fresh: bool


@dataclass(frozen=True)
class _Sure:
    """What is sure of a namespace in a flood, and since when that was known."""

    book: Book
    quotas: Sequence[ResourceQuota]
    since: float


class HoldStore:
    """Charges of pods and holds of groups, in the ledgers. Thread-safe."""

    def __init__(
        self,
        api: LedgerApi,
        holdings: Holdings,
        watches: PodWatches,
        quotas: Callable[[str], Sequence[ResourceQuota]],
        times: Times | None = None,
        sleep: Callable[[float], object] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._holdings = holdings
        self._watches = watches
        self._quotas = quotas
        self._times = times or Times()
        self._sleep = sleep
        self._monotonic = monotonic
        self._batches = Batches(self._write, lambda: self._sleep(self._times.gather), self._pace)
        self._doubts = Doubts(
            holdings, watches, self._times.patience, lambda seconds: self._sleep(seconds), monotonic
        )
        self._sure: dict[str, _Sure] = {}
        self._questions = RateLimiter(QUESTIONS_A_SECOND, QUESTIONS_AT_ONCE, monotonic=monotonic)

    def charge(self, namespace: str, charge: Charge, *, dry_run: bool = False) -> Sequence[Lack]:
        """Admit a pod: what is short, empty if it may enter. Raises Undecided."""
        return self._ask(namespace, Waiter(slim(charge, self._quotas(namespace)), dry_run))

    def reserve(self, namespace: str, hold: Hold, *, dry_run: bool = False) -> Sequence[Lack]:
        """Reserve for a group: what is short, empty if it is reserved. Raises Undecided.

        While a namespace has no reservation its pods are not written down. So its first hold is entered, and
        confirmed once the pods that were on their way then are visible. Where no ResourceQuota is there is
        nothing to decide, and the reconciler enters the group once it exists.
        """
        if not self._is_limited(namespace):
            return ()
        known = self._holdings.ledger(namespace)
        first = known is None or not known.active
        return self._ask(namespace, Waiter(hold, dry_run), confirm=first and not dry_run)

    def _is_limited(self, namespace: str) -> bool:
        """Whether the namespace has a ResourceQuota, to be asked where the watch has not shown one (yet).

        Anybody can name any namespace, so it is asked only so often: what is missed then is a quota that was
        created a moment ago.
        """
        if self._quotas(namespace):
            return True
        try:
            return self._questions.take() and bool(self._api.quotas(namespace))
        except (ApiError, KubeconfigError) as problem:
            raise Undecided(
                f"the ResourceQuotas of namespace {namespace} cannot be read: {problem}"
            ) from None

    def _ask(self, namespace: str, waiter: Waiter, *, confirm: bool = False) -> Sequence[Lack]:
        """Decide at once, or once it is known what is ahead; after that time doubt is in favour of who asks.

        With `confirm` what was decided is looked at again after the barrier.
        """
        sure = self._sure_in_flood(namespace)
        if sure is not None:
            if sure.book.lacks(waiter.asked, sure.quotas):
                raise Undecided(f"namespace {namespace} is crowded by requests for what does not appear")
            return ()
        short = self._batches.submit(namespace, waiter)
        if short or not (waiter.doubt or confirm):
            return short
        with self._doubts.waiting(namespace, key_of(waiter.asked)):
            if confirm:
                self._sleep(self._times.barrier)
            left = min(self._times.patience.most, remaining() - TO_DECIDE_SECONDS)
            while True:
                if waiter.doubt:
                    took = self._doubts.wait(namespace, waiter.ahead, left)
                    if took is None or left <= 0.0:
                        return ()
                    left -= took
                waiter = Waiter(waiter.asked, waiter.dry_run, again=True, ahead=waiter.ahead)
                short = self._batches.submit(namespace, waiter)
                if short or not waiter.doubt:
                    return short

    def _sure_in_flood(self, namespace: str) -> _Sure | None:
        """Where too many wait already because reviews of nothing come in masses: what is sure."""
        if not self._holdings.sightings.flooded(namespace):
            self._sure.pop(namespace, None)
            return None
        sure = self._sure.get(namespace)
        if sure is None or self._batches.waiting(namespace) < FLOOD_QUEUE:
            return None
        return sure if self._monotonic() - sure.since <= FLOOD_MEMORY_SECONDS else None

    def _pace(self, namespace: str) -> None:
        if self._holdings.sightings.flooded(namespace):
            self._sleep(FLOOD_PACE_SECONDS)

    def reconcile(self, namespace: str) -> bool:
        """Settle, release and repair one namespace's ledger; whether there was something to do.

        Raises ApiError.
        """
        with self._batches.alone(namespace):
            snapshot = self._snapshot(namespace, fresh=False)
            wanted = self._settled(namespace, snapshot)
            late = self._late(namespace, snapshot)
            if late or _incomplete(snapshot):
                snapshot = self._snapshot(namespace, fresh=True)
                wanted = self._settled(namespace, snapshot, late)
            if wanted == snapshot.ledger:
                return False
            try:
                self._holdings.wrote(self._api.put(wanted))
            except (Conflict, NotFound):
                # Another replica was quicker; what it left to do is done the next time.
                self._holdings.wrote(self._api.ledger(namespace))
            return True

    def _write(self, namespace: str, batch: Sequence[Waiter]) -> str:
        """Judge the batch and store the outcome; the words of a failure. Raises ApiError."""
        deadline = self._monotonic() + DECIDE_SECONDS
        again = any(waiter.again for waiter in batch)
        problem = ""
        flooded = self._holdings.sightings.flooded(namespace)
        for attempt in range(FLOOD_ATTEMPTS if flooded else ATTEMPTS):
            if self._monotonic() > deadline:
                break
            snapshot = self._snapshot(namespace, fresh=again, reread=attempt > 0)
            wanted, crowded = self._judge(namespace, snapshot, batch)
            doubtful = crowded or _incomplete(snapshot) or any(waiter.short for waiter in batch)
            if doubtful and not snapshot.fresh:
                snapshot = self._snapshot(namespace, fresh=True)
                wanted, _ = self._judge(namespace, snapshot, batch)
            idle = all(waiter.dry_run or (waiter.short and not waiter.again) for waiter in batch)
            if idle or wanted == snapshot.ledger:
                return ""
            try:
                self._holdings.wrote(self._api.put(wanted))
                return ""
            except (Conflict, NotFound) as lost:
                problem = str(lost)
                self._sleep(RETRY_SECONDS * attempt)
        return f"the reservation ledger of namespace {namespace} was not written in time: {problem}"

    def _judge(
        self, namespace: str, snapshot: _Snapshot, batch: Sequence[Waiter]
    ) -> tuple[ReservationLedger, bool]:
        """The ledger with what the batch asked for, and whether too much is in it that nothing confirms.

        What was read from the server just now shows what is of nothing: that is released.
        """
        base, sightings = snapshot.ledger, self._holdings.sightings
        if snapshot.fresh or len(base.charges) > MANY_CHARGES:
            base = self._settled(namespace, snapshot)
        doubtful = frozenset(unconfirmed(base, snapshot.pods, snapshot.groups))
        sightings.note(namespace, doubtful)
        beyond = self._beyond(namespace, base, doubtful)
        if snapshot.fresh:
            released = self._doubts.releasable(namespace, doubtful) | beyond
            base, doubtful = without(base, released), doubtful - released
        view = View(base, snapshot.pods, snapshot.quotas, doubtful, snapshot.fresh)
        if snapshot.fresh and sightings.flooded(namespace):
            self._sure[namespace] = _Sure(view.book(base, doubtful), snapshot.quotas, self._monotonic())
        return judge(view, batch), bool(beyond)

    def _beyond(self, namespace: str, ledger: ReservationLedger, doubtful: frozenset[Key]) -> set[Key]:
        """The oldest of what nothing confirms, where it is more than a ledger can carry."""
        order = self._holdings.sightings.oldest_first(namespace, doubtful)
        found = doubtful_beyond(ledger, doubtful, order)
        if len(doubtful) > FLOOD_ENTRIES and self._holdings.sightings.flooded(namespace):
            found.update(order[: len(order) - FLOOD_ENTRIES // 2])
        return found

    # What is known

    def _snapshot(self, namespace: str, *, fresh: bool, reread: bool = False) -> _Snapshot:
        """What is known of a namespace, from memory where that is enough. Raises ApiError."""
        ledger = None if fresh or reread else self._holdings.ledger(namespace)
        if ledger is None:
            ledger = self._api.ledger(namespace)
            if ledger.resource_version:
                self._holdings.wrote(ledger)
            # There is none, or none any more, or it was emptied: it is made from what there is.
            fresh = fresh or not ledger.holds
        pods = self._pods(namespace, None if fresh else ledger.pods_version)
        if not fresh:
            return _Snapshot(ledger, pods, self._holdings.groups(namespace), self._quotas(namespace), False)
        groups = {group.uid: group for group in self._api.groups(namespace)}
        return _Snapshot(ledger, pods, groups, self._api.quotas(namespace), True)

    def _pods(self, namespace: str, version: str | None) -> dict[str, PodUse]:
        """The pods by uid, from memory where it has all up to `version` (None: it is not asked)."""
        for pause in CATCH_UP_SECONDS if version is not None else ():
            self._sleep(pause)
            pods = self._watches.follow(namespace).pods(version or "")
            if pods is not None:
                return pods
        return {pod.uid: pod for pod in self._api.pods(namespace)[1]}

    def _settled(
        self, namespace: str, snapshot: _Snapshot, late: frozenset[str] = frozenset()
    ) -> ReservationLedger:
        seen = self._watches.follow(namespace)
        settled = settle(
            snapshot.ledger,
            snapshot.pods,
            snapshot.groups,
            gone=[
                *(h.uid for h in snapshot.ledger.holds if h.uid in self._holdings.gone_groups),
                *(c.uid for c in snapshot.ledger.charges if c.uid in seen.gone),
            ],
            overdue=late,
            idle=late & idle_groups(snapshot.ledger, snapshot.pods),
            complete=snapshot.fresh,
        )
        return Book(settled, snapshot.pods).ledger(settled)

    def _late(self, namespace: str, snapshot: _Snapshot) -> frozenset[str]:
        """uids that were unsettled in the ledger for the whole time-out."""
        ledger, pods = snapshot.ledger, snapshot.pods
        unsettled = idle_groups(ledger, pods)
        unsettled |= {hold.uid for hold in ledger.holds if hold.uid not in snapshot.groups}
        unsettled |= {charge.uid for charge in ledger.charges}
        return frozenset(self._holdings.overdue(namespace, unsettled, self._times.timeout))


def _incomplete(snapshot: _Snapshot) -> bool:
    """Whether a group should have a hold and has none: the ledger was lost or edited, or is behind."""
    known = {hold.uid for hold in snapshot.ledger.holds}
    missing = [g for g in snapshot.groups.values() if g.total and not g.succeeded and g.uid not in known]
    return bool(enterable(snapshot.ledger, map(hold_of, missing)))
