"""Decides PodGroups of incubator.scheduling.k8s.io: limits, reservations and lifecycle policy.

The rules about one object are pure; the store of reservations arbitrates between replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from scheduler_core.decoding import decode
from scheduler_core.errors import ModelError
from scheduler_core.model.groups.pod_group import PodGroup, PolicyWire, parse_pod_group
from scheduler_core.model.kinds import POD_GROUPS
from scheduler_core.model.meta import identity_of
from scheduler_core.model.names import (
    LIFECYCLE_POLICIES,
    LIFECYCLE_POLICY_ANNOTATION,
    LIFECYCLE_RESTART,
    PODS,
    POLICY_IGNORE,
    POLICY_RESTART,
)
from scheduler_core.model.pods.use import PodUse
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.reservation_ledger import Hold
from scheduler_core.model.quotas.resource_quota import ResourceQuota
from scheduler_core.quota.reservations.limits import MOST_AMOUNTS_BYTES, ReservationRefusal, amounts_bytes
from scheduler_core.quota.reservations.reconcile import hold_of
from scheduler_core.quota.reservations.usage import counts_groups
from scheduler_core.quota.validation import Violation
from webhook.http.admission_review import Malformed, require_identity
from webhook.policy.preexisting_violations import spec_of
from webhook.policy.verdict import (
    ALLOW,
    Finding,
    Verdict,
    allow,
    deny,
    refuse_lacking,
    refuse_malformed,
)

# minMembers is an int32.
MOST_MEMBERS: Final = 2**31 - 1

# Asks the store for a reservation; returns what is lacking. Raises Undecided.
Reserve = Callable[[Hold], Sequence[ReservationRefusal]]
# Returns the existing pods of a group.
Members = Callable[[str], Sequence[PodUse]]


class _PolicySpec(msgspec.Struct, frozen=True):
    policy: PolicyWire | None = None


class _Policies(msgspec.Struct, frozen=True):
    spec: _PolicySpec = _PolicySpec()


def create_group(
    raw: msgspec.Raw,
    quota: ElasticQuota | None,
    natives: Sequence[ResourceQuota],
    reserve: Reserve,
    members: Members,
) -> Verdict:
    """The verdict on a new PodGroup, whose totalResources are reserved if it is allowed. Raises Undecided.

    `quota` is the ElasticQuota in effect in the namespace, `natives` its ResourceQuotas. `members` is called
    only if the quota limits a resource that totalResources does not name.
    """
    try:
        group = parse_pod_group(raw)
    except ModelError as error:
        return refuse_malformed(error)
    require_identity(group.uid, group.name)
    if group.min_members > MOST_MEMBERS:
        raise Malformed(f"request.object has spec.minMembers={group.min_members}, which is no int32")
    violations = check_group(group, quota)
    if quota is not None and unspecified_resources(group, quota):
        violations += check_members(group, quota, members(group.name))
    if violations:
        return deny([Finding("group", violation) for violation in violations], group=group.key)
    warnings = [_not_counted(group, native) for native in natives if not counts_groups(native)]
    if not group.total:
        return allow(group=group.key)
    short = reserve(hold_of(group))
    if short:
        return refuse_lacking(f"PodGroup {group.key}", "spec.totalResources", short)
    return allow(warnings, group=group.key)


def update_group(raw: msgspec.Raw, old_raw: msgspec.Raw) -> Verdict:
    """The verdict on an update of a PodGroup: its spec must not change. Raises Malformed."""
    if identity_of(raw).deletion_timestamp is not None:
        return ALLOW
    try:
        new, old = (spec_of(text) for text in (raw, old_raw))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed(f"request.object is not a PodGroup: {error}") from None
    if new == old or _same(raw, old_raw):
        return ALLOW
    meta = identity_of(raw)
    violation = Violation(
        f"PodGroup {meta.namespace}/{meta.name}",
        "spec",
        msgspec.json.encode(new).decode(),
        "differs from what it was created with; the spec cannot be changed, create a new group",
    )
    return deny([Finding("immutable", violation)])


def judge_lifecycle(raw: msgspec.Raw, old_raw: msgspec.Raw | None, api_group: str) -> Verdict:
    """The verdict on the lifecycle policy of a PodGroup of any API group that is new or was changed."""
    meta = identity_of(raw)
    before = identity_of(old_raw).annotations if old_raw is not None else None
    subject = f"PodGroup {meta.namespace}/{meta.name}"
    violation = check_lifecycle(subject, meta.annotations or {}, before or {}, _policy(raw, api_group))
    return deny([Finding("group", violation)]) if violation is not None else ALLOW


def _policy(raw: msgspec.Raw, api_group: str) -> PolicyWire | None:
    """`spec.policy` of a PodGroup of ours; None if it is absent, or invalid, which other rules report."""
    if api_group != POD_GROUPS.group:
        return None
    try:
        return decode(raw, _Policies).spec.policy
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _same(raw: msgspec.Raw, old_raw: msgspec.Raw) -> bool:
    """Whether two objects have equal specs: 1 and 1000m are equal, and an absent map and an empty one."""
    try:
        new, old = parse_pod_group(raw), parse_pod_group(old_raw)
    except ModelError:
        return False
    return (new.min_members, new.total, new.policy) == (old.min_members, old.total, old.policy)


def _not_counted(group: PodGroup, native: ResourceQuota) -> str:
    return (
        f"PodGroup {group.key}: ResourceQuota {native.name} has scopes and counts only some pods; "
        "nothing is reserved in it"
    )


def check_group(group: PodGroup, quota: ElasticQuota | None) -> list[Violation]:
    """The reasons why a group can never start, by itself or under the ElasticQuota of its namespace."""
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


def unspecified_resources(group: PodGroup, quota: ElasticQuota | None) -> frozenset[str]:
    """The resources that the quota limits by max and the group's totalResources does not name."""
    return frozenset(quota.max.keys() - group.total.keys() - {PODS}) if quota is not None else frozenset()


def check_members(group: PodGroup, quota: ElasticQuota, members: Sequence[PodUse]) -> list[Violation]:
    """The violations of a group whose existing pods show that minMembers of them exceed the quota's max.

    The need is that of the smallest minMembers pods; pods that do not exist yet count like the smallest one.
    """
    found: list[Violation] = []
    usages = [pod.usage for pod in members if not pod.finished]
    if not usages:
        return found
    for name in sorted(unspecified_resources(group, quota)):
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
    """The requests of the smallest `minimum` pods for a resource; missing pods count like the smallest."""
    amounts = sorted(usage.get(name, 0) for usage in usages)[:minimum]
    return sum(amounts) + (minimum - len(amounts)) * amounts[0]


def check_lifecycle(
    subject: str,
    annotations: Mapping[str, str],
    before: Mapping[str, str],
    decides: PolicyWire | None = None,
) -> Violation | None:
    """The violation of an unknown lifecycle policy, or of one that contradicts spec.policy (`decides`).

    Otherwise it would be ignored silently. A value that was there before the change is allowed.
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
