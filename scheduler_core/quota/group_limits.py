"""The limits that groups set to work: max of every group above it, and what other groups do not lend.

The rules are in docs/quota-trees.md#rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.group_accounts import Ancestors
from scheduler_core.quota.ledger import QuotaLedger, plus, shift
from scheduler_core.quota.tree import GroupAccount

_NOTHING: Final[ResourceList] = {}
_NO_QUOTAS: Final[Mapping[str, ResourceList]] = {}


Rule = Literal["max", "group max", "sum(min)"]


class Compared(msgspec.Struct, frozen=True):
    """The amounts of one resource that together are compared with a limit."""

    resource: str
    used: int
    nominated: int
    asked: int
    limit: int
    held: int
    kept: int

    @property
    def before(self) -> int:
        """All that counts beside what is asked for."""
        return self.used + self.nominated + self.held + self.kept

    @property
    def beyond(self) -> int:
        """By how much the limit is exceeded; 0 or less where it is not."""
        return self.before + self.asked - self.limit


class RuleLine(msgspec.Struct, frozen=True):
    """One resource under one rule, refused or not; `group` is the QuotaGroup whose max it is, else empty."""

    rule: Rule
    group: str
    numbers: Compared


class Checked(NamedTuple):
    """What is compared with a limit beside the use: the demand, what nominated pods will use, what is held
    for waiting groups, and what groups keep back.
    """

    demand: ResourceList
    nominated: ResourceList
    held: ResourceList
    kept: ResourceList = _NOTHING

    def beyond(self, limits: ResourceList, used: ResourceList) -> Compared | None:
        """The first resource in order that exceeds its limit; only resources that are asked for count."""
        for name in sorted(self.demand):
            asked, limit = self.demand[name], limits.get(name)
            if asked > 0 and limit is not None:
                in_use, extra = used.get(name, 0), self.nominated.get(name, 0)
                held, kept = self.held.get(name, 0), self.kept.get(name, 0)
                if in_use + extra + held + kept + asked > limit:
                    return Compared(name, in_use, extra, asked, limit, held, kept)
        return None

    def lines(
        self, rule: Rule, limits: ResourceList, used: ResourceList, group: str = ""
    ) -> Iterator[RuleLine]:
        """What `beyond` compares, of all resources in order."""
        for name in sorted(self.demand):
            asked, limit = self.demand[name], limits.get(name)
            if asked > 0 and limit is not None:
                counts = (amounts.get(name, 0) for amounts in (self.held, self.kept))
                found = used.get(name, 0), self.nominated.get(name, 0), asked, limit, *counts
                yield RuleLine(rule, group, Compared(name, *found))


class KeptBack(NamedTuple):
    """What groups do not lend, by resource; `group` is the first of them by name."""

    amounts: ResourceList
    group: str = ""


def group_refusal(
    ledger: QuotaLedger,
    quota: ElasticQuota,
    own: Checked,
    nominated_by: Mapping[str, ResourceList],
    *,
    after_leaving: bool = False,
    told: list[RuleLine] | None = None,
) -> tuple[str, Compared] | None:
    """The lowest group above a quota whose max the demand exceeds, with the numbers; None if it fits all.

    `own` is the demand with what counts in its quota; `nominated_by` what nominated pods of other quotas will
    use, by namespace. `told` gets the lines of all groups.
    """
    first: tuple[str, Compared] | None = None
    for group in ledger.groups_above(quota.namespace):
        limits = group.group.max
        if not limits:
            continue
        used = {name: group.sums.amount(name, after_leaving=after_leaving) for name in own.demand}
        beside = nominated_in(group, nominated_by, without=quota.namespace)
        nominated = plus(own.nominated, beside) if beside else own.nominated
        compared = own._replace(nominated=nominated)
        found = compared.beyond(limits, used)
        if found is not None and first is None:
            first = group.name, found
        if told is not None:
            told += compared.lines("group max", limits, used, group.name)
        elif first is not None:
            return first
    return first


def beyond_group_max(
    ledger: QuotaLedger,
    quota: ElasticQuota,
    asked: ResourceList,
    own: ResourceList,
    nominated_by: Mapping[str, ResourceList],
) -> Iterator[tuple[str, str, int]]:
    """(group, resource, amount) by which a charge exceeds the max of groups above it, the nearest first.

    `own` is what nominated pods of the quota will use, `nominated_by` what those of other namespaces will.
    Pods on their way out do not count.
    """
    for group in ledger.groups_above(quota.namespace):
        limits = group.group.max
        coming = nominated_in(group, nominated_by, without=quota.namespace) if limits else _NOTHING
        for name, amount in asked.items():
            if amount > 0 and name in limits:
                stays = group.sums.amount(name, after_leaving=True) + coming.get(name, 0) + own.get(name, 0)
                short = stays + amount - limits[name]
                if short > 0:
                    yield group.name, name, short


class Reading(msgspec.Struct, frozen=True):
    """How the use of groups is read: the flags of `QuotaLedger.in_use`, and what nominated pods will use."""

    ledger: QuotaLedger
    nominated_by: Mapping[str, ResourceList] = _NO_QUOTAS
    after_leaving: bool = False
    guaranteed: bool = False
    guaranteeing: bool = False

    def used(self, group: GroupAccount, name: str) -> int:
        """What the quotas below a group use of a resource, with their nominated pods."""
        found = group.sums.amount(
            name,
            after_leaving=self.after_leaving,
            guaranteed=self.guaranteed,
            guaranteeing=self.guaranteeing,
        )
        for namespace, amounts in self.nominated_by.items():
            if namespace in group.namespaces:
                found += amounts.get(name, 0)
        return found

    def kept(self, group: GroupAccount, name: str) -> int:
        """What a group keeps back of quotas that are not below it.

        Its min without what it lends and what it uses, and at least what the groups below it keep back: what
        these do not lend to their siblings, they do not lend to others either.
        """
        if not group.holds_back:
            return 0
        inside = sum(self.kept(child, name) for child in group.children)
        own = group.keeps.get(name, 0)
        return max(inside, own - self.used(group, name)) if own else inside

    def kept_below(self, group: GroupAccount, above: Ancestors, name: str) -> int:
        """What groups below `group` keep back of a quota whose ancestors are `above`."""
        found = 0
        for at in above:
            found += sum(self.kept(child, name) for child in at.children if child not in above)
            if at is group:
                break
        return found


def kept_back(reading: Reading, quota: ElasticQuota, names: Iterable[str]) -> KeptBack:
    """What the highest groups that are not above a quota keep back of it, of some resources."""
    tree = reading.ledger.tree
    if not tree.keeping:
        return KeptBack(_NOTHING)
    above = reading.ledger.groups_above(quota.namespace)
    amounts: dict[str, int] = {}
    first = ""
    for children in (*(group.children for group in above), tree.roots):
        for group in children:
            for name in names if group.holds_back and group not in above else ():
                kept = reading.kept(group, name)
                if kept > 0:
                    amounts[name] = amounts.get(name, 0) + kept
                    first = first or group.name
    return KeptBack(amounts, first)


def nominated_in(
    group: GroupAccount, nominated_by: Mapping[str, ResourceList], *, without: str = ""
) -> dict[str, int]:
    """What nominated pods of the quotas below a group will use, but for those of the namespace `without`."""
    found: dict[str, int] = {}
    for namespace, amounts in nominated_by.items():
        if namespace != without and namespace in group.namespaces:
            shift(found, amounts)
    return found
