"""The order in which quotas borrow: the lowest weighted share first (docs/fair-sharing.md#order).

Work without a quota and work within min go before all work that borrows. Work borrows if it takes its quota
above min in a resource that it requests and of which some quota names a min. A resource that is in no min is
lent by nobody, so nobody borrows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.fair_shares import ShareScale, scale_of
from scheduler_core.quota.ledger import QuotaLedger

_NOTHING: Final[ResourceList] = {}
# The place of work that borrows nothing: before the place of all work that borrows.
AT_ONCE: Final = (0,)

FairPlace = tuple[int, ...]
# The history of a namespace in whole steps, see `scheduler_core.quota.borrowing_history`.
PastOf = Callable[[str], int]


class FairOrder:
    """Places of work by the shares of its quotas; a lower place goes first.

    A place is `AT_ONCE`, or (1, history, 1 for weight 0, share with the work). `past_of` gives the history,
    None where it does not count.
    """

    def __init__(self, ledger: QuotaLedger, past_of: PastOf | None = None) -> None:
        self._ledger = ledger
        self._past_of = past_of
        self._quotas_version = -1
        self._scale: ShareScale | None = None

    def place(
        self, namespace: str, asked: Mapping[str, int], nominated: ResourceList = _NOTHING
    ) -> FairPlace:
        """The place of work of a namespace that will be charged `asked`.

        `nominated` is what nominated pods of the quota will use beside it. Leaving pods do not count.
        """
        ledger = self._ledger
        quota = ledger.quota_of(namespace)
        if quota is None:
            return AT_ONCE
        used, leaving, low = ledger.used(namespace), ledger.leaving(namespace), quota.min
        borrowed: dict[str, int] = {}
        borrows = False
        for name in ledger.total_min:
            more = asked.get(name, 0)
            over = used.get(name, 0) - leaving.get(name, 0) + nominated.get(name, 0) + more - low.get(name, 0)
            if over > 0:
                borrowed[name] = over
                borrows = borrows or more > 0
        if not borrows:
            return AT_ONCE
        past = self._past_of(namespace) if self._past_of is not None else 0
        share = self._current_scale().share(borrowed, quota.sharing.weight)
        return (1, past, int(share.weightless), share.value)

    def _current_scale(self) -> ShareScale:
        if self._scale is None or self._quotas_version != self._ledger.quotas_version:
            self._scale, self._quotas_version = scale_of(self._ledger), self._ledger.quotas_version
        return self._scale
