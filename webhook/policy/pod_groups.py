"""Decides PodGroups of incubator.scheduling.k8s.io: limits, reservations and lifecycle policy.

The rules about one object are pure; the store of reservations arbitrates between replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final

import msgspec

from scheduler_core.decoding import decode
from scheduler_core.errors import ModelError
from scheduler_core.model.groups.gang import Gang, GroupRef, hold_seconds
from scheduler_core.model.groups.pod_group import PodGroup, PolicyWire, parse_pod_group
from scheduler_core.model.kinds import POD_GROUPS
from scheduler_core.model.meta import identity_of
from scheduler_core.model.names import (
    HOLD_QUOTA_ANNOTATION,
    LIFECYCLE_POLICIES,
    LIFECYCLE_POLICY_ANNOTATION,
    LIFECYCLE_RESTART,
    PODS,
    POLICY_IGNORE,
    POLICY_RESTART,
)
from scheduler_core.model.quotas.reservation_ledger import Hold
from scheduler_core.model.quotas.resource_quota import ResourceQuota
from scheduler_core.quota.reservations.limits import MOST_AMOUNTS_BYTES, ReservationRefusal, amounts_bytes
from scheduler_core.quota.reservations.reconcile import hold_of
from scheduler_core.quota.reservations.usage import counts_groups
from scheduler_core.quota.violations import Violation, check_whole
from webhook.http.admission_review import Malformed, require_identity
from webhook.policy.group_quota import (
    NO_LIMITS,
    GroupLimits,
    PodExamples,
    check_need,
    no_examples,
    warnings_of,
)
from webhook.policy.preexisting_violations import spec_of
from webhook.policy.topology_constraints import CONFIG_MAP
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
# Returns what the pods of a group look like.
Members = Callable[[Gang], PodExamples]


class _PolicySpec(msgspec.Struct, frozen=True):
    policy: PolicyWire | None = None


class _Policies(msgspec.Struct, frozen=True):
    spec: _PolicySpec = _PolicySpec()


def create_group(
    raw: msgspec.Raw,
    limits: GroupLimits,
    natives: Sequence[ResourceQuota],
    reserve: Reserve,
    members: Members,
) -> Verdict:
    """The verdict on a new PodGroup, whose totalResources are reserved if it is allowed. Raises Undecided.

    `natives` are the ResourceQuotas of the namespace. `members` is called only if a limit concerns a resource
    that totalResources does not name.
    """
    try:
        group = parse_pod_group(raw)
    except ModelError as error:
        return refuse_malformed(error)
    require_identity(group.uid, group.name)
    if group.min_members > MOST_MEMBERS:
        raise Malformed(f"request.object has spec.minMembers={group.min_members}, which is no int32")
    gang = _gang_of(group)
    examples = cache(lambda: members(gang))
    violations = check_group(group) + check_need(gang, limits.firm, examples)
    if violations:
        return deny([Finding("group", violation) for violation in violations], group=group.key)
    warnings = warnings_of(gang, limits, examples)
    if not group.total:
        return allow(warnings, group=group.key)
    warnings += [_not_counted(group, native) for native in natives if not counts_groups(native)]
    short = reserve(hold_of(group))
    if short:
        return refuse_lacking(f"PodGroup {group.key}", "spec.totalResources", short)
    return allow(warnings, group=group.key)


def _gang_of(group: PodGroup) -> Gang:
    ref = GroupRef("PodGroup", group.namespace, group.name)
    return Gang(ref, group.uid, group.resource_version, group.created, group.min_members, total=group.total)


def update_group(
    raw: msgspec.Raw, old_raw: msgspec.Raw, limits: GroupLimits = NO_LIMITS, members: Members = no_examples
) -> Verdict:
    """The verdict on an update of a PodGroup: its spec must not change. Raises Malformed.

    The minimum of a group that follows its owner may change, within the `limits` of its namespace.
    """
    if identity_of(raw).deletion_timestamp is not None:
        return ALLOW
    try:
        new, old = (spec_of(text) for text in (raw, old_raw))
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Malformed(f"request.object is not a PodGroup: {error}") from None
    if new == old or _same(raw, old_raw):
        return ALLOW
    followed = _follows(raw, old_raw)
    if followed is not None:
        gang = _gang_of(followed)
        found = check_group(followed) + check_need(gang, limits.firm, cache(lambda: members(gang)))
        return deny([Finding("group", one) for one in found], group=followed.key) if found else ALLOW
    meta = identity_of(raw)
    violation = Violation(
        f"PodGroup {meta.namespace}/{meta.name}",
        "spec",
        msgspec.json.encode(new).decode(),
        "differs from what it was created with; the spec cannot be changed, create a new group",
    )
    return deny([Finding("immutable", violation)])


def judge_annotations(raw: msgspec.Raw, old_raw: msgspec.Raw | None, kind: tuple[str, str]) -> Verdict:
    """The verdict on the annotations of a group of any dialect that is new or was changed."""
    meta = identity_of(raw)
    annotations = meta.annotations or {}
    before = (identity_of(old_raw).annotations if old_raw is not None else None) or {}
    subject = f"{kind[1]} {meta.namespace}/{meta.name}"
    found = [check_hold(subject, annotations, before)]
    if kind != CONFIG_MAP:
        found.append(check_lifecycle(subject, annotations, before, _policy(raw, kind[0])))
    findings = [Finding("group", violation) for violation in found if violation is not None]
    return deny(findings) if findings else ALLOW


def _policy(raw: msgspec.Raw, api_group: str) -> PolicyWire | None:
    """`spec.policy` of a PodGroup of ours; None if it is absent, or invalid, which other rules report."""
    if api_group != POD_GROUPS.group:
        return None
    try:
        return decode(raw, _Policies).spec.policy
    except (msgspec.MsgspecError, UnicodeError):
        return None


def _same(raw: msgspec.Raw, old_raw: msgspec.Raw) -> bool:
    """Whether two objects have equal specs: 1 and 1000m are equal, and an absent map and an empty one."""
    try:
        new, old = parse_pod_group(raw), parse_pod_group(old_raw)
    except ModelError:
        return False
    return new.min_members == old.min_members and _rest(new) == _rest(old)


def _rest(group: PodGroup) -> tuple[object, ...]:
    """The spec without minMembers."""
    return group.total, group.policy, group.follows_owner


def _follows(raw: msgspec.Raw, old_raw: msgspec.Raw) -> PodGroup | None:
    """The group as it shall be, if its minimum follows an owner and all else stays."""
    try:
        new, old = parse_pod_group(raw), parse_pod_group(old_raw)
    except ModelError:
        return None
    return new if old.follows_owner and _rest(new) == _rest(old) else None


def _not_counted(group: PodGroup, native: ResourceQuota) -> str:
    return (
        f"PodGroup {group.key}: ResourceQuota {native.name} has scopes and counts only some pods; "
        "nothing is reserved in it"
    )


def check_group(group: PodGroup) -> list[Violation]:
    """The reasons why a group can never start, whatever the quotas are."""
    subject = f"PodGroup {group.key}"
    found = check_whole(subject, group.fractional)
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
    return found


def check_hold(subject: str, annotations: Mapping[str, str], before: Mapping[str, str]) -> Violation | None:
    """The violation of a time for which no quota can be held. A value that was there before is allowed."""
    value = annotations.get(HOLD_QUOTA_ANNOTATION)
    if value == before.get(HOLD_QUOTA_ANNOTATION) or hold_seconds(annotations) is not None:
        return None
    field = f"metadata.annotations[{HOLD_QUOTA_ANNOTATION}]"
    rule = "is no positive duration; write how long quota is held for the waiting group, such as 10m"
    return Violation(subject, field, value or '""', rule)


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
