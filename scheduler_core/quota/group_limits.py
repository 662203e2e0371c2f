"""The limits that groups set to work: max of every group above it, and what other groups do not lend.

The rules are in docs/quota-trees.md#rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import QuotaLedger, plus, shift
from scheduler_core.quota.tree import GroupAccount

_NOTHING: Final[ResourceList] = {}


class Exceeded(NamedTuple):
    """The first resource that exceeds a limit, with the amounts that together exceed it."""

    resource: str
    used: int
    nominated: int
    asked: int
    limit: int
    held: int
    kept: int


class Checked(NamedTuple):
    """What is compared with a limit beside the use: the demand, what nominated pods will use, what is held
    for waiting groups, and what groups keep back.
    """

    demand: ResourceList
    nominated: ResourceList
    held: ResourceList
    kept: ResourceList = _NOTHING

    def beyond(self, limits: ResourceList, used: ResourceList) -> Exceeded | None:
        """The first resource in order that exceeds its limit; only resources that are asked for count."""
        for name in sorted(self.demand):
            asked, limit = self.demand[name], limits.get(name)
            if asked > 0 and limit is not None:
                in_use, extra = used.get(name, 0), self.nominated.get(name, 0)
                held, kept = self.held.get(name, 0), self.kept.get(name, 0)
                if in_use + extra + held + kept + asked > limit:
                    return Exceeded(name, in_use, extra, asked, limit, held, kept)
        return None


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
) -> tuple[str, Exceeded] | None:
    """The lowest group above a quota whose max the demand exceeds, with the numbers; None if it fits all.

    `own` is the demand with what counts in its quota; `nominated_by` what nominated pods of other quotas will
    use, by namespace.
    """
    for group in ledger.groups_above(quota.namespace):
        limits = group.group.max
        if not limits:
            continue
        used = {name: group.sums.amount(name, after_leaving=after_leaving) for name in own.demand}
        beside = nominated_in(ledger, group, nominated_by, without=quota.namespace)
        nominated = plus(own.nominated, beside) if beside else own.nominated
        found = own._replace(nominated=nominated).beyond(limits, used)
        if found is not None:
            return group.name, found
    return None


def kept_back(
    ledger: QuotaLedger,
    quota: ElasticQuota,
    nominated_by: Mapping[str, ResourceList],
    *,
    after_leaving: bool = False,
    guaranteed: bool = False,
    guaranteeing: bool = False,
) -> KeptBack:
    """What the highest groups that are not above a quota keep back of it: their min, without what they lend
    and without what they use. The flags read the use as `QuotaLedger.in_use` does.
    """
    if not ledger.tree.keeping:
        return KeptBack(_NOTHING)
    above = ledger.groups_above(quota.namespace)
    amounts: dict[str, int] = {}
    first = ""
    for group in ledger.tree.keeping:
        if group in above or not (group.parent is None or group.parent in above):
            continue
        coming = nominated_in(ledger, group, nominated_by) if nominated_by else _NOTHING
        for name, keeps in group.keeps.items():
            used = group.sums.amount(
                name, after_leaving=after_leaving, guaranteed=guaranteed, guaranteeing=guaranteeing
            )
            left = keeps - used - coming.get(name, 0)
            if left > 0:
                amounts[name] = amounts.get(name, 0) + left
                first = first or group.name
    return KeptBack(amounts, first)


def nominated_in(
    ledger: QuotaLedger, group: GroupAccount, nominated_by: Mapping[str, ResourceList], *, without: str = ""
) -> dict[str, int]:
    """What nominated pods of the quotas below a group will use, but for those of the namespace `without`."""
    found: dict[str, int] = {}
    for namespace, amounts in nominated_by.items():
        if namespace != without and group in ledger.groups_above(namespace):
            shift(found, amounts)
    return found
