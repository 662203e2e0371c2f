"""The rule book over everything that is stored: what would be refused if it were written now.

Objects come to break a rule without being written: they were there before the webhook, or passed while it was
away, or a node left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.resource_quota import ResourceQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota import rules
from scheduler_core.quota.ledger import QuotaLedger

Rule = Literal["bounds", "hard", "single", "capacity", "max"]


class Broken(msgspec.Struct, frozen=True):
    """A rule that an object breaks. `quota` is None where it concerns all of them."""

    rule: Rule
    violation: rules.Violation
    quota: ElasticQuota | None = None


class Beside(msgspec.Struct, frozen=True, eq=False):
    """What a quota is judged against.

    `siblings` are the quotas of its namespace, `others` one per other namespace, `natives` ResourceQuotas.
    `room` is what the schedulable nodes have together; None: the sum of min is not looked at.
    """

    siblings: Sequence[ElasticQuota] = ()
    others: Sequence[ElasticQuota] = ()
    natives: Sequence[ResourceQuota] = ()
    room: ResourceList | None = None


def broken_by(quota: ElasticQuota, beside: Beside) -> list[Broken]:
    """Every rule that a quota breaks, each once: one that is known in two versions can break it twice."""
    found = [Broken("bounds", item, quota) for item in rules.check_bounds(quota)]
    found += [Broken("hard", item, quota) for item in rules.check_hard(quota, beside.natives)]
    found += [Broken("single", item, quota) for item in rules.check_single(quota, beside.siblings)]
    if beside.room is not None:
        capacity = rules.check_capacity(quota, beside.others, beside.room)
        found += [Broken("capacity", item, quota) for item in capacity]
    return list(dict.fromkeys(found))


def not_worsened(
    broken: Iterable[Broken], new: ElasticQuota, old: ElasticQuota, beside: Beside
) -> list[Broken]:
    """Rules that `old` broke too, where the change neither raises what is too high nor lowers its bound.

    So an object that is illegal already can still be changed otherwise, or repaired step by step.
    """
    before = {(item.rule, item.violation.field) for item in broken_by(old, beside)}
    return [
        item
        for item in broken
        if (item.rule, item.violation.field) in before and not _worsened(item, new, old)
    ]


def _worsened(broken: Broken, new: ElasticQuota, old: ElasticQuota) -> bool:
    if broken.rule == "single":
        return False
    field, _, rest = broken.violation.field.partition("[")
    name = rest.rstrip("]")
    if field == "spec.max":
        return new.max[name] > old.max[name]
    raised = new.min[name] > old.min[name]
    return raised or (broken.rule == "bounds" and new.max[name] < old.max[name])


def examine(quotas: Sequence[ElasticQuota], natives: Iterable[ResourceQuota]) -> list[Broken]:
    """Every rule of single quotas that stored ones break: `bounds`, `hard`, `single` and `max`.

    What a namespace uses counts against the quota that binds.
    """
    ledger = QuotaLedger()
    for quota in quotas:
        ledger.put_quota(quota)
    there: dict[str, list[ResourceQuota]] = {}
    for native in natives:
        there.setdefault(native.namespace, []).append(native)
    found: list[Broken] = []
    for quota in quotas:
        # The oldest quota binds and is in order; it is the younger ones that are too many.
        binding = ledger.quota_of(quota.namespace)
        siblings = () if binding is None else (binding,)
        found += broken_by(quota, Beside(siblings, natives=there.get(quota.namespace, ())))
        if quota is binding:
            found += [Broken("max", item, quota) for item in rules.check_use(quota)]
    return found


def examine_capacity(total_min: ResourceList, room: ResourceList) -> list[Broken]:
    """`capacity`: the sum of min over the cluster within what its schedulable nodes have, by resource."""
    found = []
    for name, (guaranteed, has) in rules.overcommitted(total_min, room).items():
        problem = f"is more than the {format_resource(name, has)} allocatable in the cluster"
        value = format_resource(name, guaranteed)
        violation = rules.Violation("all ElasticQuotas", f"sum of spec.min[{name}]", value, problem)
        found.append(Broken("capacity", violation))
    return found
