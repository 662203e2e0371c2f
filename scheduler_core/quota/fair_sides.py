"""Who is compared in a fair move: two quotas, or the groups above them (docs/quota-trees.md#fair-sharing).

In a tree, the children of the lowest common ancestor are compared: the *taking* side is the quota of the work
or a group above it, the *giving* side that of the victim. Groups above both are *common*: they neither take
nor give. Without groups the sides are the quotas themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

import msgspec

from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.group_accounts import Ancestors
from scheduler_core.quota.group_limits import nominated_in
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.policy import lendable
from scheduler_core.quota.tree import GroupAccount


class Side(msgspec.Struct, frozen=True):
    """A taking side, with the work: `borrows` by resource without zeros, and its largest share.

    `name` is that of a QuotaGroup, empty for the quota itself.
    """

    borrows: dict[str, int]
    weight: Fraction
    largest: Fraction
    name: str = ""


class Meeting(NamedTuple):
    """Where the ways up of a quota that takes and of a quota that gives meet.

    `level` is the number of groups on the taking side, `giving` are those on the giving side and `common`
    those above both, each the nearest first.
    """

    level: int
    giving: Ancestors
    common: Ancestors


class GivingNode(NamedTuple):
    """A quota or a group that gives: what it uses and is guaranteed, by resource."""

    used: ResourceList
    min: ResourceList
    weight: Fraction


def meeting(ledger: QuotaLedger, taker: ElasticQuota, giver: ElasticQuota) -> Meeting:
    """Where two quotas meet: at the lowest group above both, or at the root."""
    takes, gives = ledger.groups_above(taker.namespace), ledger.groups_above(giver.namespace)
    for level, group in enumerate(takes):
        if group in gives:
            return Meeting(level, gives[: gives.index(group)], takes[level:])
    return Meeting(len(takes), gives, ())


def giving_nodes(
    ledger: QuotaLedger, giver: ElasticQuota, giving: Ancestors, spent: Mapping[str, ResourceList]
) -> list[GivingNode]:
    """The quota that gives and the groups on its side, the highest last.

    `spent` is what was taken from groups before, by name.
    """
    found = [GivingNode(lendable(ledger, giver), giver.min, giver.sharing.weight)]
    for group in giving:
        found.append(
            GivingNode(staying_in(ledger, group, spent.get(group.name, {})), group.min, group.group.weight)
        )
    return found


def staying_in(ledger: QuotaLedger, group: GroupAccount, taken: ResourceList) -> dict[str, int]:
    """What the quotas below a group use without pods on their way out and without `taken`."""
    return {
        name: group.sums.amount(name, after_leaving=True) - taken.get(name, 0)
        for name in {*group.sums.parts[0], *ledger.total_min}
    }


def sides_above(
    ledger: QuotaLedger,
    quota: ElasticQuota,
    asked: ResourceList,
    nominated: ResourceList,
    nominated_by: Mapping[str, ResourceList],
) -> Iterator[Side]:
    """The groups above a quota as taking sides, the nearest first.

    `nominated` will be used by nominated pods of the quota, `nominated_by` by those of other namespaces.
    """
    for group in ledger.groups_above(quota.namespace):
        coming = nominated_in(group, nominated_by, without=quota.namespace)
        borrows = {}
        for name in ledger.costs.names(ledger.total_min):
            used = group.sums.amount(name, after_leaving=True) + coming.get(name, 0) + nominated.get(name, 0)
            over = used + asked.get(name, 0) - group.min.get(name, 0)
            if over > 0:
                borrows[name] = over
        weight = group.group.weight
        yield Side(borrows, weight, max(shares(ledger, borrows, weight), default=Fraction(0)), group.name)


def shares(ledger: QuotaLedger, borrows: ResourceList, weight: Fraction) -> list[Fraction]:
    """The shares of a node in all resources, with zeros; not divided by a weight of 0."""
    by, costs = weight or Fraction(1), ledger.costs
    amounts = costs.weighed(borrows)
    totals = ledger.total_min.items()
    return [Fraction(amounts.get(name, 0), total * costs.scale) / by for name, total in totals if total > 0]
