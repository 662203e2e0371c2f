"""What makes a PodGroup impossible, whatever is free: by itself, by its quota, by the members that exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.names import (
    LIFECYCLE_POLICIES,
    LIFECYCLE_POLICY_ANNOTATION,
    LIFECYCLE_RESTART,
    PODS,
    POLICY_IGNORE,
    POLICY_RESTART,
)
from scheduler_core.model.pod_group import PodGroup, PolicyWire
from scheduler_core.model.pod_use import PodUse
from scheduler_core.model.quantity import format_resource
from scheduler_core.quota.ledger_bounds import MOST_AMOUNTS_BYTES, MOST_NAME, MOST_UID, amounts_bytes
from scheduler_core.quota.rules import Violation


def check_group(group: PodGroup, quota: ElasticQuota | None) -> list[Violation]:
    """What makes a group impossible by itself, or under the quota that binds in its namespace."""
    found = []
    subject = f"PodGroup {group.key}"
    pods = group.total.get(PODS)
    if pods is not None and pods < group.min_members:
        rule = f"is less than spec.minMembers={group.min_members}, each of which is a pod"
        found.append(Violation(subject, f"spec.totalResources[{PODS}]", str(pods), rule))
    size = amounts_bytes(group.total)
    if size > MOST_AMOUNTS_BYTES:
        rule = (
            f"is more than the {MOST_AMOUNTS_BYTES:,} bytes that a reservation may take; name fewer resources"
        )
        given = f"{len(group.total)} resources in {size:,} bytes"
        found.append(Violation(subject, "spec.totalResources", given, rule))
    if quota is None:
        return found
    for name, value in sorted(group.total.items()):
        limit = quota.max.get(name)
        if limit is not None and value > limit:
            field = f"spec.totalResources[{name}]"
            rule = f"exceeds {_max(quota, name)}"
            found.append(Violation(subject, field, format_resource(name, value), rule))
    most = quota.max.get(PODS)
    if most is not None and group.min_members > most:
        rule = f"exceeds {_max(quota, PODS)}"
        found.append(Violation(subject, "spec.minMembers", str(group.min_members), rule))
    return found


def too_long(uid: str, *names: str) -> bool:
    """Whether a review names something as no API server does: the ledger could not be written with it."""
    return len(uid) > MOST_UID or any(len(name) > MOST_NAME for name in names)


def left_open(group: PodGroup, quota: ElasticQuota | None) -> frozenset[str]:
    """The resources of which the quota has a max and the group does not say how much it needs."""
    return frozenset(quota.max.keys() - group.total.keys() - {PODS}) if quota is not None else frozenset()


def check_members(group: PodGroup, quota: ElasticQuota, members: Sequence[PodUse]) -> list[Violation]:
    """Groups whose pods came first, and say by their requests that minMembers of them exceed the quota's max.

    The need is that of the smallest minMembers pods; those that do not exist yet are taken to be like the
    smallest one.
    """
    found: list[Violation] = []
    usages = [pod.usage for pod in members if not pod.finished]
    if not usages:
        return found
    for name in sorted(left_open(group, quota)):
        need, limit = least_need(usages, name, group.min_members), quota.max[name]
        if need > limit:
            rule = (
                f"pods like the {len(usages)} that exist ask for {name}={format_resource(name, need)}, "
                f"which exceeds {_max(quota, name)}"
            )
            subject = f"PodGroup {group.key}"
            found.append(Violation(subject, "spec.minMembers", str(group.min_members), rule))
    return found


def least_need(usages: Iterable[Mapping[str, int]], name: str, minimum: int) -> int:
    """What the smallest `minimum` pods ask for of a resource; missing ones are like the smallest."""
    amounts = sorted(usage.get(name, 0) for usage in usages)[:minimum]
    return sum(amounts) + (minimum - len(amounts)) * amounts[0]


def check_lifecycle(
    subject: str,
    annotations: Mapping[str, str],
    before: Mapping[str, str],
    decides: PolicyWire | None = None,
) -> Violation | None:
    """A policy that nobody knows would be ignored in silence; one that was there before may stay.

    So would one that says another thing than spec.policy, which `decides`.
    """
    policy = annotations.get(LIFECYCLE_POLICY_ANNOTATION)
    if policy is None or policy == before.get(LIFECYCLE_POLICY_ANNOTATION):
        return None
    field = f"metadata.annotations[{LIFECYCLE_POLICY_ANNOTATION}]"
    if policy in LIFECYCLE_POLICIES:
        if decides is None or decides.restarts == (policy == LIFECYCLE_RESTART):
            return None
        word = POLICY_RESTART if decides.restarts else POLICY_IGNORE
        return Violation(subject, field, policy, f"contradicts spec.policy, which means {word} and decides")
    allowed = ", ".join(LIFECYCLE_POLICIES)
    return Violation(subject, field, policy, f"is not known; allowed are {allowed}")


def _max(quota: ElasticQuota, name: str) -> str:
    return f"spec.max[{name}]={format_resource(name, quota.max[name])} of ElasticQuota {quota.key}"
