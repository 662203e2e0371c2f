"""The rule book over everything that is stored: what would be refused if it were written now.

Objects come to break a rule without being written: they were there before the webhook, or passed while it was
away, or a node left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.resource_quota import ResourceQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota import rules
from scheduler_core.quota.ledger import QuotaLedger


class Broken(msgspec.Struct, frozen=True):
    """A rule that a stored object breaks. `rule` is its name; `quota` None where it concerns all of them."""

    rule: str
    violation: rules.Violation
    quota: ElasticQuota | None = None


def examine(quotas: Sequence[ElasticQuota], natives: Iterable[ResourceQuota]) -> list[Broken]:
    """Every rule of single quotas: `bounds`, `hard` and `single`."""
    ledger = QuotaLedger()
    for quota in quotas:
        ledger.put_quota(quota)
    beside: dict[str, list[ResourceQuota]] = {}
    for native in natives:
        beside.setdefault(native.namespace, []).append(native)
    found: list[Broken] = []
    for quota in quotas:
        binding = ledger.quota_of(quota.namespace)
        found += [Broken("bounds", violation, quota) for violation in rules.check_bounds(quota)]
        siblings = beside.get(quota.namespace, ())
        found += [Broken("hard", violation, quota) for violation in rules.check_hard(quota, siblings)]
        if binding is not None:
            # The oldest quota binds and is in order; it is the younger ones that are too many.
            found += [
                Broken("single", violation, quota) for violation in rules.check_single(quota, [binding])
            ]
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
