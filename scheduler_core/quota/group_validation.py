"""Validation rules of QuotaGroups, and of the quotas that join them (docs/quota-trees.md#what-is-legal).

lendable <= min <= max, a parent that exists, no cycle, at most MAX_DEPTH groups above a quota, and the min of
the children together within the min of their group. As in `validation`, every function returns findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduler_core.model.names import QUOTA_GROUP_LABEL
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.quota_group import MAX_DEPTH, QuotaGroup
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.flavor_validation import unseen_flavor
from scheduler_core.quota.group_accounts import GroupAccounts
from scheduler_core.quota.ledger import shift
from scheduler_core.quota.tree import cycle_of, parents_of, way_up
from scheduler_core.quota.violations import Violation, check_whole

Groups = Mapping[str, QuotaGroup]
LABEL_FIELD = f"metadata.labels[{QUOTA_GROUP_LABEL}]"


def _subject(group: QuotaGroup) -> str:
    return f"QuotaGroup {group.name}"


def check_group(group: QuotaGroup, others: Groups, quotas: Iterable[ElasticQuota]) -> list[Violation]:
    """Every rule that a group breaks; `others` are all groups by name, `quotas` one per namespace."""
    groups = {**others, group.name: group}
    return [
        *check_whole(_subject(group), group.fractional),
        *_check_amounts(group),
        *_check_place(group, groups),
        *_check_children(group, groups, list(quotas)),
    ]


def _check_amounts(group: QuotaGroup) -> list[Violation]:
    pairs = (("min", group.min, "max", group.max), ("lendable", group.lendable, "min", group.min))
    return [
        Violation(
            _subject(group),
            f"spec.{low}[{name}]",
            format_resource(name, value),
            f"exceeds spec.{high}[{name}]={format_resource(name, limits[name])}",
        )
        for low, amounts, high, limits in pairs
        for name, value in sorted(amounts.items())
        if name in limits and value > limits[name]
    ]


def _check_place(group: QuotaGroup, groups: Groups) -> list[Violation]:
    """The parent exists, there is no cycle, and neither this group nor one below it is too deep."""
    if not group.parent:
        return []

    def broken(rule: str) -> list[Violation]:
        return [Violation(_subject(group), "spec.parent", group.parent, rule)]

    if group.parent not in groups:
        return broken("names no QuotaGroup; create it first")
    cycle = cycle_of(group.name, groups)
    if cycle:
        return broken(f"makes a cycle: {' -> '.join(cycle)}")
    parents = parents_of(groups)
    deepest = max(
        (way for name in groups if group.name in (way := way_up(name, parents))),
        key=lambda way: (len(way), way),
    )
    if len(deepest) > MAX_DEPTH:
        path = " -> ".join(deepest)
        return broken(f"puts {len(deepest)} groups above each other ({path}); at most {MAX_DEPTH} may be")
    return []


def _check_children(group: QuotaGroup, groups: Groups, quotas: list[ElasticQuota]) -> list[Violation]:
    """The min of the children is within that of the group, and that of the group within its parent's."""
    found = []
    for name, total in sorted(children_min(group.name, groups, quotas).items()):
        low = group.min.get(name, 0)
        if total > low:
            text = format_resource(name, total)
            rule = f"is less than {text}, the sum of min of its children"
            found.append(Violation(_subject(group), f"spec.min[{name}]", format_resource(name, low), rule))
    parent = groups.get(group.parent)
    if parent is not None:
        totals = children_min(parent.name, groups, quotas)
        found += [
            Violation(_subject(group), f"spec.min[{name}]", format_resource(name, value), rule)
            for name, value in sorted(group.min.items())
            if (rule := _beyond(parent, name, value, totals))
        ]
    return found


def _beyond(group: QuotaGroup, name: str, value: int, totals: ResourceList) -> str:
    """The rule that a child with a min of `value` breaks if all children exceed the min of a group."""
    low, total = group.min.get(name, 0), totals.get(name, 0)
    if not value or total <= low:
        return ""
    return (
        f"makes the sum of min of the children of QuotaGroup {group.name} {format_resource(name, total)}, "
        f"more than its spec.min[{name}]={format_resource(name, low)}"
    )


def children_min(group: str, groups: Groups, quotas: Iterable[ElasticQuota]) -> dict[str, int]:
    """The sum of min of the groups and quotas directly below a group."""
    total: dict[str, int] = {}
    for child in groups.values():
        if child.parent == group:
            shift(total, child.min)
    for quota in quotas:
        if quota.group == group:
            shift(total, quota.min)
    return total


def check_membership(quota: ElasticQuota, groups: Groups, others: Iterable[ElasticQuota]) -> list[Violation]:
    """A quota's label names a group, whose children stay within its min; `others` are those elsewhere."""
    if not quota.group:
        return []
    subject, group = f"ElasticQuota {quota.key}", groups.get(quota.group)
    if group is None:
        rule = "names no QuotaGroup; create it first, or remove the label"
        return [Violation(subject, LABEL_FIELD, quota.group, rule)]
    beside = [other for other in others if other.namespace != quota.namespace]
    totals = children_min(group.name, groups, [*beside, quota])
    return [
        Violation(subject, f"spec.min[{name}]", format_resource(name, value), rule)
        for name, value in sorted(quota.min.items())
        if (rule := _beyond(group, name, value, totals))
    ]


def check_room(
    group: QuotaGroup, others: Groups, quotas: Iterable[ElasticQuota], allocatable: ResourceList
) -> list[Violation]:
    """The sum of min of the root's children is within the allocatable of all schedulable nodes.

    Not of flavors whose nodes are not known here, as in `validation.check_capacity`.
    """
    totals = sum_of_min(quotas, {**others, group.name: group})
    return [
        Violation(
            _subject(group),
            f"spec.min[{name}]",
            format_resource(name, value),
            f"makes the sum of min {format_resource(name, totals[name])}, more than the "
            f"{format_resource(name, allocatable.get(name, 0))} allocatable in the cluster",
        )
        for name, value in sorted(group.min.items())
        if value and totals.get(name, 0) > allocatable.get(name, 0) and not unseen_flavor(name, allocatable)
    ]


def check_deletion(
    group: QuotaGroup, others: Groups, quotas: Iterable[ElasticQuota], *, named: bool
) -> list[Violation]:
    """A group with children is not deleted; `named`: the quotas among them are named, else counted."""
    children = [f"QuotaGroup {name}" for name, other in sorted(others.items()) if other.parent == group.name]
    below = sorted(f"ElasticQuota {quota.key}" for quota in quotas if quota.group == group.name)
    if named or not below:
        children += below
    else:
        children.append(f"ElasticQuotas of {len(below)} namespaces" if len(below) > 1 else "1 ElasticQuota")
    if not children:
        return []
    listed = ", ".join(children[:5]) + (f" and {len(children) - 5} more" if len(children) > 5 else "")
    rule = "belongs to it; move the children first" if len(children) == 1 else "belong to it; move them first"
    return [Violation(_subject(group), "metadata.name", group.name, f"is a parent: {listed} {rule}")]


def sum_of_min(quotas: Iterable[ElasticQuota], groups: Groups) -> dict[str, int]:
    """The sum of min of the root's children, each group with at least what its children guarantee."""
    tree = GroupAccounts()
    tree.groups = dict(groups)
    tree.rebuild()
    return tree.guarantee(quotas)


def validate_groups(groups: Groups, quotas: Iterable[ElasticQuota]) -> list[tuple[QuotaGroup, Violation]]:
    """The rules that stored groups break, by name of the group; `quotas` are one per namespace."""
    known = list(quotas)
    return [
        (group, item) for _, group in sorted(groups.items()) for item in check_group(group, groups, known)
    ]
