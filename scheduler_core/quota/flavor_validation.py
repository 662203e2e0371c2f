"""Validation rules of QuotaFlavors, and of what names them (docs/flavors.md#what-is-legal).

Two flavors of one resource must differ in the value of a label, so that no node is of both. What `min`, `max`
and `lendable` name as `flavor.muster.dev/NAME` must exist. As in `validation`, functions return findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scheduler_core.model.names import FLAVOR_PREFIX
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.quota_flavor import QuotaFlavor
from scheduler_core.model.quotas.quota_group import QuotaGroup
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.flavors import in_order, overlap
from scheduler_core.quota.violations import Violation

Flavors = Mapping[str, QuotaFlavor]


def check_flavor(flavor: QuotaFlavor, others: Flavors) -> list[Violation]:
    """The flavors of the same resource that a node can be of as well; `others` are all by name."""
    found = []
    for other in in_order(others.values()):
        if other.name != flavor.name and overlap(flavor, other):
            rule = (
                f"overlaps QuotaFlavor {other.name} ({_labels(other)}): a node can have the labels of both; "
                "give them different values of one label"
            )
            found.append(Violation(f"QuotaFlavor {flavor.name}", "spec.nodeSelector", _labels(flavor), rule))
    return found


def validate_flavors(flavors: Flavors) -> list[tuple[QuotaFlavor, Violation]]:
    """The rules that stored flavors break; of two that overlap, the younger one is named."""
    found: list[tuple[QuotaFlavor, Violation]] = []
    older: dict[str, QuotaFlavor] = {}
    for flavor in in_order(flavors.values()):
        found += [(flavor, item) for item in check_flavor(flavor, older)]
        older[flavor.name] = flavor
    return found


def check_named(subject: str, parts: Iterable[tuple[str, ResourceList]], flavors: Flavors) -> list[Violation]:
    """The flavors that amounts name and that do not exist; `parts` are fields with their amounts."""
    known = ", ".join(sorted(flavors)) or "none"
    return [
        Violation(
            subject,
            f"{field}[{name}]",
            format_resource(name, value),
            f"names no QuotaFlavor; create it first (there are: {known})",
        )
        for field, amounts in parts
        for name, value in sorted(amounts.items())
        if name.startswith(FLAVOR_PREFIX) and name.removeprefix(FLAVOR_PREFIX) not in flavors
    ]


def check_quota_flavors(quota: ElasticQuota, flavors: Flavors) -> list[Violation]:
    """`check_named` of a quota."""
    return check_named(
        f"ElasticQuota {quota.key}", (("spec.min", quota.min), ("spec.max", quota.max)), flavors
    )


def check_group_flavors(group: QuotaGroup, flavors: Flavors) -> list[Violation]:
    """`check_named` of a group."""
    parts = (("spec.min", group.min), ("spec.max", group.max), ("spec.lendable", group.lendable))
    return check_named(f"QuotaGroup {group.name}", parts, flavors)


def check_flavor_deletion(
    flavor: QuotaFlavor, quotas: Iterable[ElasticQuota], groups: Iterable[QuotaGroup]
) -> list[Violation]:
    """A flavor that a quota or group names is not deleted."""
    users = [f"QuotaGroup {group.name}" for group in groups if _names(flavor, group.min, group.max)]
    users += sorted(f"ElasticQuota {quota.key}" for quota in quotas if _names(flavor, quota.min, quota.max))
    if not users:
        return []
    named = ", ".join(users[:5]) + (f" and {len(users) - 5} more" if len(users) > 5 else "")
    rule = f"is named by {named}; remove {flavor.virtual} there first"
    return [Violation(f"QuotaFlavor {flavor.name}", "metadata.name", flavor.name, rule)]


def _names(flavor: QuotaFlavor, *amounts: ResourceList) -> bool:
    return any(flavor.virtual in part for part in amounts)


def _labels(flavor: QuotaFlavor) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(flavor.selector.items()))


def unseen_flavor(name: str, allocatable: ResourceList) -> bool:
    """Whether a resource is that of a flavor, of which the nodes are not known here."""
    return name.startswith(FLAVOR_PREFIX) and name not in allocatable


def by_name(flavors: Sequence[QuotaFlavor]) -> dict[str, QuotaFlavor]:
    """The flavors by name."""
    return {flavor.name: flavor for flavor in flavors}
