"""Is this quota legal? min <= max <= hard, one per namespace, sum of min within the cluster.

Capacity-scheduling seed, "Relationship with ResourceQuota" and "Proposal"; reference items 6 and 17.
Every function returns findings, never raises: the webhook refuses with them, the command line lints.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.resource_quota import ResourceQuota
from scheduler_core.model.resources import ResourceList


class Violation(msgspec.Struct, frozen=True):
    """One broken rule: the object, its field and value, and the rule in words."""

    subject: str
    field: str
    value: str
    rule: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.field}={self.value} {self.rule}"


def _subject(quota: ElasticQuota) -> str:
    return f"ElasticQuota {quota.key}"


def check_bounds(quota: ElasticQuota) -> list[Violation]:
    """min <= max for every resource that both name."""
    return [
        Violation(
            _subject(quota),
            f"spec.min[{name}]",
            format_resource(name, low),
            f"exceeds spec.max[{name}]={format_resource(name, quota.max[name])}",
        )
        for name, low in sorted(quota.min.items())
        if name in quota.max and low > quota.max[name]
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
                found.append(
                    Violation(
                        _subject(quota),
                        f"spec.{field}[{name}]",
                        format_resource(name, value),
                        f"exceeds hard[{key}]={format_resource(name, hard)} of ResourceQuota {native.key}",
                    )
                )
    return found


def check_resource_quota(native: ResourceQuota, quotas: Iterable[ElasticQuota]) -> list[Violation]:
    """The same bound seen from the ResourceQuota: lowering `hard` below a quota's max is refused there."""
    found: list[Violation] = []
    limits = native.hard_of_requests()
    for quota in quotas:
        for violation in check_hard(quota, [native]):
            name = violation.field.partition("[")[2].rstrip("]")
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
    quota: ElasticQuota, others: Iterable[ElasticQuota], allocatable: ResourceList
) -> list[Violation]:
    """Sum of min over all quotas <= allocatable of all schedulable nodes, for the resources `quota` names.

    `others` are the binding quotas of all other namespaces. A resource that no node has counts as 0.
    """
    rest: dict[str, int] = {}
    for other in others:
        if other.namespace != quota.namespace:
            for name, value in other.min.items():
                rest[name] = rest.get(name, 0) + value
    found: list[Violation] = []
    for name, value in sorted(quota.min.items()):
        total, room = rest.get(name, 0) + value, allocatable.get(name, 0)
        if value and total > room:
            found.append(
                Violation(
                    _subject(quota),
                    f"spec.min[{name}]",
                    format_resource(name, value),
                    f"makes the sum of min {format_resource(name, total)}, "
                    f"more than the {format_resource(name, room)} allocatable in the cluster",
                )
            )
    return found


def overcommitted(ledger_min: ResourceList, allocatable: ResourceList) -> dict[str, tuple[int, int]]:
    """Resources whose sum of min exceeds the cluster: name -> (sum of min, allocatable)."""
    return {
        name: (total, allocatable.get(name, 0))
        for name, total in sorted(ledger_min.items())
        if total > allocatable.get(name, 0)
    }


def notes(quota: ElasticQuota, resource_quotas: Iterable[ResourceQuota]) -> list[str]:
    """What is legal but may surprise: open maxima, minima of zero, native quotas with scopes."""
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
