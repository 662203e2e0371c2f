"""Judges a batch of requests on one copy of a ledger of reservations. Pure.

Entries without a visible object are *provisional*: their request is in progress, failed, or was forged. They
take room, but no request is refused because of them. A request that would fit without them is announced:
entered in the ledger whether or not there is room, so that later ones cannot overtake it, and judged again
once the entries ahead of it are confirmed or released. Later entries count against it only once their objects
exist.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from scheduler_core.model.pods.use import PodUse
from scheduler_core.model.quotas.reservation_ledger import (
    Charge,
    Hold,
    Key,
    ReservationLedger,
    established,
    key_of,
    without,
)
from scheduler_core.model.quotas.resource_quota import ResourceQuota
from scheduler_core.quota.reservations.limits import LedgerSize, ReservationRefusal
from scheduler_core.quota.reservations.usage import NamespaceUsage
from webhook.reservations.batches import Waiter


class ReservationView(NamedTuple):
    """The data on which a batch is decided; `fresh` if all of it was just read from the server."""

    ledger: ReservationLedger
    pods: Mapping[str, PodUse]
    quotas: Sequence[ResourceQuota]
    provisional: frozenset[Key]
    fresh: bool

    def book(self, ledger: ReservationLedger, less: Collection[Key] = ()) -> NamespaceUsage:
        """The book of a ledger without the entries `less`."""
        return NamespaceUsage(without(ledger, less), self.pods)


def judge(view: ReservationView, batch: Sequence[Waiter]) -> ReservationLedger:
    """Set the outcome of each request; returns the ledger to be written.

    Requests that are judged again come first, then new ones, each of which sees those before it; dry runs see
    all.
    """
    ledger, new = view.ledger, []
    entered = {(True, hold.uid) for hold in ledger.holds} | {(False, one.uid) for one in ledger.charges}
    for waiter in batch:
        if waiter.again and (waiter.dry_run or key_of(waiter.asked) in entered):
            ledger = _judge_again(view, ledger, waiter)
        else:
            new.append(waiter)
    requests = _NewRequests(view, ledger, any(isinstance(waiter.asked, Hold) for waiter in new))
    for waiter in new:
        if not waiter.dry_run:
            requests.judge(waiter)
    wanted = requests.book.ledger(ledger)
    for waiter in new:
        if waiter.dry_run:
            requests.judge(waiter)
    return wanted


class _NewRequests:
    """Judges new requests one after the other on one book."""

    def __init__(self, view: ReservationView, ledger: ReservationLedger, holds: bool) -> None:
        self._view = view
        self.book = NamespaceUsage(ledger, view.pods)
        self._sure = view.book(ledger, view.provisional) if view.fresh else self.book
        self._room = LedgerSize(ledger, view.provisional) if holds else None
        self._ahead = set(view.provisional)

    def judge(self, waiter: Waiter) -> None:
        """Enter a request if there is room, or if there would be without the provisional entries ahead."""
        asked, view = waiter.asked, self._view
        waiter.ahead, waiter.conditional = frozenset(self._ahead), False
        waiter.short = self._full(asked) or self.book.shortages(asked, view.quotas)
        if waiter.short and view.fresh:
            waiter.short = self._full(asked) or self._sure.shortages(asked, view.quotas)
            waiter.conditional = not waiter.short
        if waiter.short or (waiter.dry_run and waiter.conditional):
            return
        if waiter.conditional:
            asked = msgspec.structs.replace(asked, announced=True)
        if isinstance(asked, Hold) and asked.uid not in self.book.holds and self._room is not None:
            self._room.add(asked)
        self.book.enter(asked)
        self._ahead.add(key_of(asked))

    def _full(self, asked: Charge | Hold) -> Sequence[ReservationRefusal]:
        """The lack of space in the ledger for one more hold, or nothing."""
        if self._room is None or not isinstance(asked, Hold) or asked.uid in self.book.holds:
            return ()
        full = self._room.full(asked)
        return (full,) if full is not None else ()


def _judge_again(view: ReservationView, ledger: ReservationLedger, waiter: Waiter) -> ReservationLedger:
    """Judge an announced request beside visible objects and the provisional entries ahead of it."""
    own = key_of(waiter.asked)
    waiter.short, waiter.conditional = (), False
    if own not in view.provisional and not waiter.dry_run:
        return ledger
    later = view.provisional - waiter.ahead | {own}
    ahead = waiter.ahead & view.provisional
    short = view.book(ledger, later).shortages(waiter.asked, view.quotas)
    if not short:
        return ledger if waiter.dry_run else established(ledger, {own})
    if ahead:
        short = view.book(ledger, later | ahead).shortages(waiter.asked, view.quotas)
        if not short:
            waiter.ahead, waiter.conditional = ahead, True
            return ledger
    waiter.short = short
    return ledger if waiter.dry_run else without(ledger, {own})
