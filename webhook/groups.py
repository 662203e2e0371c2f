"""Which PodGroups are legal, and what their creation reserves; pods judged against what others reserved.

Only PodGroups of the coscheduling seed (incubator.scheduling.k8s.io). The rules of one object are pure; what
must agree between replicas is the store's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from scheduler_core.decoding import decode
from scheduler_core.errors import ModelError, TooLarge
from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.kinds import POD_GROUPS
from scheduler_core.model.meta import identity_of
from scheduler_core.model.pod_group import PodGroup, PolicyWire, parse_pod_group
from scheduler_core.model.pod_use import PodUse, parse_proposed_use
from scheduler_core.model.reservation_ledger import Charge, Hold
from scheduler_core.model.resource_quota import ResourceQuota
from scheduler_core.quota.holds import counts_groups
from scheduler_core.quota.ledger_bounds import Lack
from scheduler_core.quota.rules import Violation
from scheduler_core.quota.settling import hold_of
from webhook.group_limits import check_group, check_lifecycle, check_members, left_open, too_long
from webhook.review import Malformed
from webhook.verdict import (
    ALLOW,
    FORBIDDEN,
    Cause,
    Finding,
    Verdict,
    allow,
    deny,
    refuse_malformed,
)

# minMembers is an int32.
MOST_MEMBERS: Final = 2**31 - 1

# Ask the store; it says what is short. Raises Undecided.
Reserve = Callable[[Hold], Sequence[Lack]]
Admit = Callable[[Charge], Sequence[Lack]]
# The pods that name a group already.
Members = Callable[[str], Sequence[PodUse]]


class _PolicySpec(msgspec.Struct, frozen=True):
    policy: PolicyWire | None = None


class _Policies(msgspec.Struct, frozen=True):
    spec: _PolicySpec = _PolicySpec()


class _SpecOnly(msgspec.Struct, frozen=True):
    spec: Any = None


def create_group(
    raw: msgspec.Raw,
    quota: ElasticQuota | None,
    natives: Sequence[ResourceQuota],
    reserve: Reserve,
    members: Members,
) -> Verdict:
    """The verdict on a new PodGroup, whose totalResources are reserved if it is allowed. Raises Undecided.

    `quota` is the ElasticQuota that binds in the namespace, `natives` its ResourceQuotas. `members` is asked
    only where the quota limits what the group's totals leave open.
    """
    try:
        group = parse_pod_group(raw)
    except ModelError as error:
        return refuse_malformed(error)
    if too_long(group.uid, group.name) or group.min_members > MOST_MEMBERS:
        raise Malformed("request.object has a uid or a name that no API server gives")
    violations = check_group(group, quota)
    if quota is not None and left_open(group, quota):
        violations += check_members(group, quota, members(group.name))
    if violations:
        return deny([Finding("group", violation) for violation in violations], group=group.key)
    warnings = [_not_counted(group, native) for native in natives if not counts_groups(native)]
    if not group.total:
        return allow(group=group.key)
    short = reserve(hold_of(group))
    if short:
        return _refuse(f"PodGroup {group.key}", "spec.totalResources", short)
    return allow(warnings, group=group.key)


def update_group(raw: msgspec.Raw, old_raw: msgspec.Raw) -> Verdict:
    """The spec of a PodGroup stays as it was created; all else may change. Raises Malformed."""
    if identity_of(raw).deletion_timestamp is not None:
        return ALLOW
    try:
        new, old = (decode(text, _SpecOnly).spec for text in (raw, old_raw))
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
    """The verdict on the lifecycle policy of a PodGroup of any dialect, that is new or was changed."""
    meta = identity_of(raw)
    before = identity_of(old_raw).annotations if old_raw is not None else None
    subject = f"PodGroup {meta.namespace}/{meta.name}"
    violation = check_lifecycle(subject, meta.annotations or {}, before or {}, _policy(raw, api_group))
    return deny([Finding("group", violation)]) if violation is not None else ALLOW


def _policy(raw: msgspec.Raw, api_group: str) -> PolicyWire | None:
    """`spec.policy` of our dialect, None without and where it cannot be read: other rules say so."""
    if api_group != POD_GROUPS.group:
        return None
    try:
        return decode(raw, _Policies).spec.policy
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def admit_pod(raw: msgspec.Raw, admit: Admit) -> Verdict:
    """The verdict on a new or resized pod of a namespace in which groups hold quota. Raises Undecided."""
    try:
        pod = parse_proposed_use(raw)
    except TooLarge as error:
        return refuse_malformed(error)
    except ModelError:
        # The API server reads more than we do and has the last word; its own quota still counts the pod.
        return ALLOW
    if not pod.uid or pod.finished:
        return ALLOW
    if too_long(pod.uid, pod.name, pod.group):
        raise Malformed("request.object has a uid or a name that no API server gives")
    short = admit(Charge(pod.uid, pod.name, pod.group, pod.usage, pod.best_effort))
    return _refuse(f"Pod {pod.namespace}/{pod.name}", "spec.containers", short) if short else ALLOW


def _same(raw: msgspec.Raw, old_raw: msgspec.Raw) -> bool:
    """Whether two texts say the same: 1 and 1000m, an absent map and an empty one."""
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


def _refuse(subject: str, field: str, short: Sequence[Lack]) -> Verdict:
    message = "; ".join(str(shortage) for shortage in short)
    return Verdict(
        allowed=False,
        code=FORBIDDEN,
        message=f"{subject}: {message}",
        causes=tuple(Cause("FieldValueForbidden", str(shortage), field) for shortage in short),
        rules=("reserved",),
    )
