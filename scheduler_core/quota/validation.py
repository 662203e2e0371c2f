"""Validation rules of ElasticQuotas (docs/quota.md#what-is-legal).

The rules are min <= max <= hard, whole numbers of what is counted, one quota per namespace, annotations of
fair sharing that can be read, and a sum of min within the cluster. Every function
returns findings and never raises: the webhook refuses with them, the command line reports them. Stored
objects can break rules too: they existed before the webhook, or were written while it was away, or a node
left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from scheduler_core.model.node import Node
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.resource_quota import ResourceQuota
from scheduler_core.model.resources import ResourceList, add
from scheduler_core.quota.flavor_validation import Flavors, check_quota_flavors, unseen_flavor
from scheduler_core.quota.group_validation import LABEL_FIELD, Groups, check_membership, sum_of_min
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.violations import Violation, check_whole, resource_of

_NO_GROUPS: Final[Groups] = {}


def _subject(quota: ElasticQuota) -> str:
    return f"ElasticQuota {quota.key}"


def _breaks(quota: ElasticQuota, field: str, name: str, value: int, rule: str) -> Violation:
    """A violation by the amount of one resource in a field."""
    return Violation(_subject(quota), f"{field}[{name}]", format_resource(name, value), rule)


def check_bounds(quota: ElasticQuota) -> list[Violation]:
    """min <= max for every resource that both name."""
    return [
        _breaks(
            quota, "spec.min", name, low, f"exceeds spec.max[{name}]={format_resource(name, quota.max[name])}"
        )
        for name, low in sorted(quota.min.items())
        if name in quota.max and low > quota.max[name]
    ]


def check_use(quota: ElasticQuota) -> list[Violation]:
    """used <= max for every resource that max names, by `status.used`, which the scheduler writes."""
    return [
        _breaks(
            quota,
            "status.used",
            name,
            quota.status_used[name],
            f"exceeds spec.max[{name}]={format_resource(name, limit)}; pods were placed past Muster's "
            "scheduler, or max was lowered; nothing more of it starts until pods end",
        )
        for name, limit in sorted(quota.max.items())
        if quota.status_used.get(name, 0) > limit
    ]


def check_hard(quota: ElasticQuota, resource_quotas: Iterable[ResourceQuota]) -> list[Violation]:
    """max <= hard of every ResourceQuota that counts all pods; min <= hard where max is open.

    A quota with scopes counts only some pods, so it bounds neither; see `notes`.
    """
    found: list[Violation] = []
    for native in resource_quotas:
        if native.scoped or native.namespace != quota.namespace:
            continue
        for name, (key, hard) in sorted(native.hard_of_requests().items()):
            field = "max" if name in quota.max else "min"
            value = quota.max.get(name, quota.min.get(name, 0))
            if value > hard:
                rule = f"exceeds hard[{key}]={format_resource(name, hard)} of ResourceQuota {native.key}"
                found.append(_breaks(quota, f"spec.{field}", name, value, rule))
    return found


def check_resource_quota(native: ResourceQuota, quotas: Iterable[ElasticQuota]) -> list[Violation]:
    """As `check_hard`, for a change of the ResourceQuota: `hard` must not fall below the max of a quota."""
    found: list[Violation] = []
    limits = native.hard_of_requests()
    for quota in quotas:
        for violation in check_hard(quota, [native]):
            name = resource_of(violation.field)
            key, hard = limits[name]
            found.append(
                Violation(
                    f"ResourceQuota {native.key}",
                    f"spec.hard[{key}]",
                    format_resource(name, hard),
                    f"is below {violation.field}={violation.value} of ElasticQuota {quota.key}",
                )
            )
    return found


def check_sharing(quota: ElasticQuota) -> list[Violation]:
    """Annotations of fair sharing that can be read: the weight and the durations."""
    return [
        Violation(_subject(quota), problem.path, repr(problem.value), problem.rule)
        for problem in quota.sharing_problems
    ]


def check_single(quota: ElasticQuota, others: Iterable[ElasticQuota]) -> list[Violation]:
    """One quota per namespace."""
    return [
        Violation(
            _subject(quota),
            "metadata.namespace",
            quota.namespace,
            f"has ElasticQuota {other.name} already; only one per namespace is allowed",
        )
        for other in others
        if other.namespace == quota.namespace and other.name != quota.name
    ]


def check_capacity(
    quota: ElasticQuota,
    others: Iterable[ElasticQuota],
    allocatable: ResourceList,
    groups: Groups = _NO_GROUPS,
) -> list[Violation]:
    """Sum of min over all quotas <= allocatable of all schedulable nodes, for the resources `quota` names.

    `others` are the binding quotas of all other namespaces, `groups` the QuotaGroups above them by name. A
    resource that no node has counts as 0.
    """
    beside = (other for other in others if other.namespace != quota.namespace)
    totals = sum_of_min([*beside, quota], groups)
    found: list[Violation] = []
    for name, value in sorted(quota.min.items()):
        total, room = totals[name], allocatable.get(name, 0)
        if value and total > room and not unseen_flavor(name, allocatable):
            rule = (
                f"makes the sum of min {format_resource(name, total)}, "
                f"more than the {format_resource(name, room)} allocatable in the cluster"
            )
            found.append(_breaks(quota, "spec.min", name, value, rule))
    return found


def allocatable(nodes: Iterable[Node]) -> dict[str, int]:
    """Sum of allocatable over the schedulable nodes, per resource."""
    total: dict[str, int] = {}
    for node in nodes:
        if not node.unschedulable:
            total = add(total, node.allocatable)
    return total


def overcommitted(ledger_min: ResourceList, allocatable: ResourceList) -> dict[str, tuple[int, int]]:
    """Resources whose sum of min exceeds the cluster: name -> (sum of min, allocatable)."""
    return {
        name: (total, allocatable.get(name, 0))
        for name, total in sorted(ledger_min.items())
        if total > allocatable.get(name, 0)
    }


def notes(quota: ElasticQuota, resource_quotas: Iterable[ResourceQuota]) -> list[str]:
    """Notes on what is valid but may surprise: open maxima, minima of zero, ResourceQuotas with scopes."""
    found: list[str] = []
    open_max = sorted(set(quota.min) - set(quota.max))
    if open_max:
        found.append(f"{_subject(quota)}: {', '.join(open_max)} is not in spec.max and so unlimited")
    no_min = sorted(set(quota.max) - set(quota.min))
    if no_min:
        found.append(f"{_subject(quota)}: {', '.join(no_min)} is not in spec.min; nothing is guaranteed")
    for native in resource_quotas:
        if native.namespace != quota.namespace:
            continue
        if native.scoped:
            found.append(
                f"{_subject(quota)}: ResourceQuota {native.name} has scopes and does not bound spec.max"
            )
            continue
        unbounded = sorted(set(native.hard_of_requests()) - set(quota.max) - {"pods"})
        if unbounded:
            found.append(
                f"{_subject(quota)}: {', '.join(unbounded)} is not in spec.max; "
                f"ResourceQuota {native.name} bounds it at creation only"
            )
    return found


Rule = Literal["whole", "bounds", "hard", "single", "sharing", "capacity", "max", "tree", "flavor"]


class BrokenRule(msgspec.Struct, frozen=True):
    """A rule that an object breaks. `quota` is None if the rule concerns all quotas."""

    rule: Rule
    violation: Violation
    quota: ElasticQuota | None = None


class ValidationContext(msgspec.Struct, frozen=True, eq=False):
    """The objects that a quota is validated against.

    `siblings` are the quotas of its namespace, `others` one quota of each other namespace, `natives` the
    ResourceQuotas, `groups` the QuotaGroups by name; None: membership is not checked. `room` is the
    allocatable of all schedulable nodes; None: the sum of min is not checked. `flavors` are the QuotaFlavors
    by name; None: whether those that a quota names exist is not checked.
    """

    siblings: Sequence[ElasticQuota] = ()
    others: Sequence[ElasticQuota] = ()
    natives: Sequence[ResourceQuota] = ()
    room: ResourceList | None = None
    groups: Groups | None = None
    flavors: Flavors | None = None


def broken_rules(quota: ElasticQuota, beside: ValidationContext) -> list[BrokenRule]:
    """Every rule that a quota breaks, without repeats."""
    found = [BrokenRule("whole", item, quota) for item in check_whole(_subject(quota), quota.fractional)]
    found += [BrokenRule("bounds", item, quota) for item in check_bounds(quota)]
    found += [BrokenRule("hard", item, quota) for item in check_hard(quota, beside.natives)]
    found += [BrokenRule("single", item, quota) for item in check_single(quota, beside.siblings)]
    found += [BrokenRule("sharing", item, quota) for item in check_sharing(quota)]
    if beside.groups is not None:
        joined = check_membership(quota, beside.groups, beside.others)
        found += [BrokenRule("tree", item, quota) for item in joined]
    if beside.flavors is not None:
        unknown = check_quota_flavors(quota, beside.flavors)
        found += [BrokenRule("flavor", item, quota) for item in unknown]
    if beside.room is not None:
        capacity = check_capacity(quota, beside.others, beside.room, beside.groups or {})
        found += [BrokenRule("capacity", item, quota) for item in capacity]
    return list(dict.fromkeys(found))


def ratcheted(
    broken: Iterable[BrokenRule], new: ElasticQuota, old: ElasticQuota, beside: ValidationContext
) -> list[BrokenRule]:
    """The broken rules that `old` broke too and that the change does not worsen (ratcheting validation).

    So an invalid object can still be changed in other fields, or be repaired step by step.
    """
    before = {(item.rule, item.violation.field) for item in broken_rules(old, beside)}
    return [
        item
        for item in broken
        if (item.rule, item.violation.field) in before and not _worsened(item, new, old)
    ]


def _worsened(broken: BrokenRule, new: ElasticQuota, old: ElasticQuota) -> bool:
    if broken.rule == "single":
        return False
    if broken.rule == "sharing":
        return broken.violation not in check_sharing(old)
    if broken.rule == "tree" and (new.group != old.group or broken.violation.field == LABEL_FIELD):
        return new.group != old.group
    if broken.rule == "flavor":
        return broken.violation not in check_quota_flavors(old, {})
    if broken.rule == "whole":
        return (broken.violation.field, broken.violation.value) not in old.fractional
    field, name = broken.violation.field.partition("[")[0], resource_of(broken.violation.field)
    if field == "spec.max":
        return new.max[name] > old.max[name]
    raised = new.min[name] > old.min[name]
    return raised or (broken.rule == "bounds" and new.max[name] < old.max[name])


def validate_stored(
    quotas: Sequence[ElasticQuota],
    natives: Iterable[ResourceQuota],
    groups: Groups | None = None,
    flavors: Flavors | None = None,
) -> list[BrokenRule]:
    """The rules that stored quotas break: `whole`, `bounds`, `hard`, `single`, `sharing` and `max`.

    With `groups`, `tree` as well, and with `flavors`, `flavor`.

    The use of a namespace counts against the quota that binds it.
    """
    ledger = QuotaLedger()
    for quota in quotas:
        ledger.put_quota(quota)
    there: dict[str, list[ResourceQuota]] = {}
    for native in natives:
        there.setdefault(native.namespace, []).append(native)
    found: list[BrokenRule] = []
    for quota in quotas:
        # The oldest quota binds and is valid; each younger one breaks the rule `single`.
        binding = ledger.quota_of(quota.namespace)
        siblings = () if binding is None else (binding,)
        beside = ValidationContext(
            siblings,
            others=tuple(ledger.quotas()),
            natives=there.get(quota.namespace, ()),
            groups=groups,
            flavors=flavors,
        )
        found += broken_rules(quota, beside)
        if quota is binding:
            found += [BrokenRule("max", item, quota) for item in check_use(quota)]
    return found


def validate_capacity(total_min: ResourceList, room: ResourceList) -> list[BrokenRule]:
    """The rule `capacity`, by resource: the sum of min of all quotas is at most `room`."""
    found = []
    short = overcommitted(total_min, room).items()
    for name, (guaranteed, has) in ((name, pair) for name, pair in short if not unseen_flavor(name, room)):
        problem = f"is more than the {format_resource(name, has)} allocatable in the cluster"
        value = format_resource(name, guaranteed)
        violation = Violation("all ElasticQuotas", f"sum of spec.min[{name}]", value, problem)
        found.append(BrokenRule("capacity", violation))
    return found
