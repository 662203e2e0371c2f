"""One batch of requests judged on one copy of a ledger. Pure.

Entries that no object confirms are *doubtful*: of requests that are being carried out, that failed, or
that never were any. They take room, but nobody is refused because of them: who would fit without them is
announced, entered in the ledger whether or not there is room, so that nobody gets past, and judged again
once those that were there before are confirmed or released. What comes later counts against it only once
it exists.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from scheduler_core.model.pod_use import PodUse
from scheduler_core.model.reservation_ledger import Charge, Hold, ReservationLedger
from scheduler_core.model.resource_quota import ResourceQuota
from scheduler_core.quota.holds import Book
from scheduler_core.quota.ledger_bounds import Lack, Room
from scheduler_core.quota.provisional import Key, established, key_of, without
from webhook.batches import Waiter


class View(NamedTuple):
    """What a batch is judged on; `fresh` if all of it was read from the server just now."""

    ledger: ReservationLedger
    pods: Mapping[str, PodUse]
    quotas: Sequence[ResourceQuota]
    doubtful: frozenset[Key]
    fresh: bool

    def book(self, ledger: ReservationLedger, less: Collection[Key] = ()) -> Book:
        """The book of a ledger, less some entries."""
        return Book(without(ledger, less), self.pods)


def judge(view: View, batch: Sequence[Waiter]) -> ReservationLedger:
    """Set what became of each waiter; the ledger as it should be.

    Those who waited for certainty come first. Then requests that are for real, each sees those before it; dry
    runs see all of them.
    """
    ledger, new = view.ledger, []
    entered = {(True, hold.uid) for hold in ledger.holds} | {(False, one.uid) for one in ledger.charges}
    for waiter in batch:
        if waiter.again and (waiter.dry_run or key_of(waiter.asked) in entered):
            ledger = _judge_again(view, ledger, waiter)
        else:
            new.append(waiter)
    newcomers = _Newcomers(view, ledger, any(isinstance(waiter.asked, Hold) for waiter in new))
    for waiter in new:
        if not waiter.dry_run:
            newcomers.judge(waiter)
    wanted = newcomers.book.ledger(ledger)
    for waiter in new:
        if waiter.dry_run:
            newcomers.judge(waiter)
    return wanted


class _Newcomers:
    """Those who ask for the first time, one after the other on one book; `ahead` are the doubtful entries."""

    def __init__(self, view: View, ledger: ReservationLedger, holds: bool) -> None:
        self._view = view
        self.book = Book(ledger, view.pods)
        self._sure = view.book(ledger, view.doubtful) if view.fresh else self.book
        self._room = Room(ledger, view.doubtful) if holds else None
        self._ahead = set(view.doubtful)

    def judge(self, waiter: Waiter) -> None:
        """Enter one if there is room, or if there would be without the doubtful entries ahead of it."""
        asked, view = waiter.asked, self._view
        waiter.ahead, waiter.doubt = frozenset(self._ahead), False
        waiter.short = self._full(asked) or self.book.lacks(asked, view.quotas)
        if waiter.short and view.fresh:
            waiter.short = self._full(asked) or self._sure.lacks(asked, view.quotas)
            waiter.doubt = not waiter.short
        if waiter.short or (waiter.dry_run and waiter.doubt):
            return
        if waiter.doubt:
            asked = msgspec.structs.replace(asked, announced=True)
        if isinstance(asked, Hold) and asked.uid not in self.book.holds and self._room is not None:
            self._room.add(asked)
        self.book.enter(asked)
        self._ahead.add(key_of(asked))

    def _full(self, asked: Charge | Hold) -> Sequence[Lack]:
        """Whether what is sure and what came just now leave no place for one more hold."""
        if self._room is None or not isinstance(asked, Hold) or asked.uid in self.book.holds:
            return ()
        full = self._room.full(asked)
        return (full,) if full is not None else ()


def _judge_again(view: View, ledger: ReservationLedger, waiter: Waiter) -> ReservationLedger:
    """Whether one that was announced fits beside what exists and what is still doubtful ahead of it."""
    own = key_of(waiter.asked)
    waiter.short, waiter.doubt = (), False
    if own not in view.doubtful and not waiter.dry_run:
        return ledger
    later = view.doubtful - waiter.ahead | {own}
    ahead = waiter.ahead & view.doubtful
    short = view.book(ledger, later).lacks(waiter.asked, view.quotas)
    if not short:
        return ledger if waiter.dry_run else established(ledger, {own})
    if ahead:
        short = view.book(ledger, later | ahead).lacks(waiter.asked, view.quotas)
        if not short:
            waiter.ahead, waiter.doubt = ahead, True
            return ledger
    waiter.short = short
    return ledger if waiter.dry_run else without(ledger, {own})
