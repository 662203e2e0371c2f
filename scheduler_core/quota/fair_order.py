"""The order in which quotas borrow: the lowest weighted share first (docs/fair-sharing.md#order).

Work without a quota and work within min go before all work that borrows. Work borrows if it takes its quota
above min in a resource that it requests and of which some quota names a min. A resource that is in no min is
lent by nobody, so nobody borrows it.

In a tree of quotas the share of each group above the quota counts first, from the top down, without the work.
So the work of quotas of one group is ordered among itself by their own shares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.fair_shares import borrows, scale_of
from scheduler_core.quota.group_limits import nominated_in
from scheduler_core.quota.ledger import QuotaLedger, plus
from scheduler_core.quota.tree import GroupAccount

_NOTHING: Final[ResourceList] = {}
_NO_QUOTAS: Final[Mapping[str, ResourceList]] = {}
# The place of work that borrows nothing: before the place of all work that borrows.
AT_ONCE: Final = (0,)

FairPlace = tuple[int, ...]
# The history of a namespace in whole steps, see `scheduler_core.quota.borrowing_history`.
PastOf = Callable[[str], int]


class _Line(NamedTuple):
    """What decides about the work of one quota: its use, and min and unit of the share by resource.

    `groups` are those above it from the top down.
    """

    used: ResourceList
    leaving: ResourceList
    weightless: int
    terms: tuple[tuple[str, int, int], ...]
    groups: tuple[GroupAccount, ...]


class FairOrder:
    """Places of work by the shares of its quotas; a lower place goes first.

    A place is `AT_ONCE`, or (1, history, 1 for weight 0, share with the work). `past_of` gives the history,
    None where it does not count. In a tree, (0, 1 for weight 0, share) of each group goes before it.
    """

    def __init__(self, ledger: QuotaLedger, past_of: PastOf | None = None) -> None:
        self._ledger = ledger
        self._past_of = past_of
        self._quotas_version = -1
        self._lines: dict[str, _Line] = {}
        self._scale = scale_of(ledger)

    def place(
        self,
        namespace: str,
        asked: ResourceList,
        others: ResourceList = _NOTHING,
        nominated_by: Mapping[str, ResourceList] = _NO_QUOTAS,
    ) -> FairPlace:
        """The place of work of a namespace that will be charged `asked`.

        `others` is what nominated pods of the quota will use beside it, `nominated_by` what all nominated
        pods will use, by namespace. Leaving pods do not count.
        """
        line = self._line(namespace)
        if line is None:
            return AT_ONCE
        used, leaving, weightless, terms, groups = line
        if self._ledger.costs:
            return self._with_costs(namespace, asked, others, nominated_by)
        takes_a_loan, share = False, 0
        for name, low, unit in terms:
            more = asked.get(name, 0)
            over = used.get(name, 0) + more - low
            if leaving:
                over -= leaving.get(name, 0)
            if others:
                over += others.get(name, 0)
            if over > 0:
                if more > 0:
                    takes_a_loan = True
                if over * unit > share:
                    share = over * unit
        if not takes_a_loan:
            return AT_ONCE
        return self._borrower(namespace, groups, nominated_by, weightless, share)

    def _borrower(
        self,
        namespace: str,
        groups: tuple[GroupAccount, ...],
        nominated_by: Mapping[str, ResourceList],
        weightless: int,
        share: int,
    ) -> FairPlace:
        past = self._past_of(namespace) if self._past_of is not None else 0
        above = [level for group in groups for level in self._level(group, nominated_by)]
        return (1, *above, past, weightless, share)

    def _with_costs(
        self,
        namespace: str,
        asked: ResourceList,
        others: ResourceList,
        nominated_by: Mapping[str, ResourceList],
    ) -> FairPlace:
        """`place` where flavors have costs."""
        ledger, line = self._ledger, self._line(namespace)
        quota = ledger.quota_of(namespace)
        if line is None or quota is None:
            return AT_ONCE
        over = borrows(ledger, quota, plus(asked, others))
        if not any(asked.get(name, 0) > 0 and name in ledger.total_min for name in over):
            return AT_ONCE
        weight = quota.sharing.weight
        share = self._scale.share(over, weight).value
        return self._borrower(namespace, line.groups, nominated_by, int(not weight), share)

    def _level(self, group: GroupAccount, nominated_by: Mapping[str, ResourceList]) -> FairPlace:
        """What decides between a group and its siblings."""
        coming = nominated_in(group, nominated_by) if nominated_by else _NOTHING
        over = {}
        for name in self._ledger.total_min:
            used = group.sums.amount(name, after_leaving=True) + coming.get(name, 0)
            over[name] = used - group.min.get(name, 0)
        weight = group.group.weight
        return (0, int(not weight), self._scale.share(over, weight).value)

    def _line(self, namespace: str) -> _Line | None:
        ledger = self._ledger
        if self._quotas_version != ledger.quotas_version:
            self._quotas_version = ledger.quotas_version
            self._lines.clear()
            self._scale = scale_of(ledger)
        found = self._lines.get(namespace)
        if found is None:
            quota = ledger.quota_of(namespace)
            if quota is None:
                return None
            weight = quota.sharing.weight
            terms = tuple(
                (name, quota.min.get(name, 0), self._scale.share({name: 1}, weight).value)
                for name in ledger.total_min
            )
            # The ledger changes its amounts in place.
            used, leaving = ledger.used(namespace), ledger.leaving(namespace)
            groups = tuple(reversed(ledger.groups_above(namespace)))
            found = self._lines[namespace] = _Line(used, leaving, int(not weight), terms, groups)
        return found
