"""Which changes of quotas are legal: ElasticQuota create, update and delete, ResourceQuota create and update.

Pure: each function reads the request's raw objects and a QuotaView, what else there is. The rules themselves
are `quota.rules`. An update is refused only for what it breaks or makes worse: an object that is illegal
already (written before the webhook was there, or made illegal by a node that left) can still be relabelled,
lose a finalizer, or be repaired step by step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from scheduler_core.decoding import decode
from scheduler_core.errors import ModelError
from scheduler_core.model.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.meta import identity_of
from scheduler_core.model.names import FORCE_DELETE_ANNOTATION
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.resource_quota import ResourceQuota, parse_resource_quota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota import rules
from scheduler_core.quota.examination import Beside, Broken, broken_by, not_worsened
from scheduler_core.quota.rules import Violation
from webhook.verdict import ALLOW, Finding, Verdict, allow, deny, refuse_malformed

SumMode = Literal["deny", "warn", "off"]
SUM_MODES: Final = ("deny", "warn", "off")


class QuotaView(msgspec.Struct, frozen=True, eq=False):
    """What a quota is judged against.

    `siblings` are the quotas of its namespace, `others` one per other namespace, both with those admitted a
    moment ago; `native` the ResourceQuotas of its namespace; `allocatable` the sum over schedulable nodes.
    """

    siblings: tuple[ElasticQuota, ...] = ()
    others: tuple[ElasticQuota, ...] = ()
    native: tuple[ResourceQuota, ...] = ()
    allocatable: ResourceList = {}
    terminating: bool = False
    sum_of_min: SumMode = "deny"


class _SpecOnly(msgspec.Struct, frozen=True):
    spec: Any = None


def create_quota(raw: msgspec.Raw, view: QuotaView) -> tuple[Verdict, ElasticQuota | None]:
    """The verdict on a new ElasticQuota, and the quota where it can be read."""
    try:
        quota = parse_elastic_quota(raw)
    except ModelError as error:
        return refuse_malformed(error), None
    return _judge(quota, broken_by(quota, _beside(view)), view), quota


def update_quota(
    raw: msgspec.Raw, old_raw: msgspec.Raw, view: QuotaView
) -> tuple[Verdict, ElasticQuota | None]:
    """The verdict on a changed ElasticQuota, and the quota where it can be read."""
    if identity_of(raw).deletion_timestamp is not None:
        return ALLOW, None
    try:
        quota = parse_elastic_quota(raw)
    except ModelError as error:
        return _unreadable_update(error, raw, old_raw), None
    beside = _beside(view)
    broken = broken_by(quota, beside)
    try:
        old = parse_elastic_quota(old_raw)
    except ModelError:
        return _judge(quota, broken, view), quota
    kept = not_worsened(broken, quota, old, beside)
    broken = [item for item in broken if item not in kept]
    return _judge(quota, broken, view, _tolerated(item.violation for item in kept)), quota


def delete_quota(old_raw: msgspec.Raw, view: QuotaView) -> Verdict:
    """Refuse to delete the quota that binds while pods are charged to it.

    The evidence is `status.used`, which the scheduler writes from its ledger: watching every pod of the
    cluster only to guard a deletion would cost more than it protects. Allowed are: quotas without use, those
    that do not bind, those of a namespace that is going away, and the override annotation.
    """
    meta = identity_of(old_raw)
    try:
        quota = parse_elastic_quota(old_raw)
    except ModelError:
        return ALLOW
    charged = {name: value for name, value in sorted(quota.status_used.items()) if value > 0}
    if not charged or view.terminating or quota.deleted or not _binds(quota, view.siblings):
        return ALLOW
    used = ",".join(f"{name}={format_resource(name, value)}" for name, value in charged.items())
    if (meta.annotations or {}).get(FORCE_DELETE_ANNOTATION) == "true":
        return allow([f"ElasticQuota {quota.key} is deleted while {used} is charged to it"])
    rule = (
        "is charged to it by assigned pods; let them end first, "
        f"or annotate the quota with {FORCE_DELETE_ANNOTATION}=true"
    )
    return deny([Finding("in-use", Violation(f"ElasticQuota {quota.key}", "status.used", used, rule))])


def change_resource_quota(
    raw: msgspec.Raw, old_raw: msgspec.Raw | None, quotas: Iterable[ElasticQuota]
) -> tuple[Verdict, ResourceQuota | None]:
    """The verdict on a ResourceQuota created (`old_raw` None) or changed, and the quota if it can be read."""
    if identity_of(raw).deletion_timestamp is not None:
        return ALLOW, None
    try:
        native = parse_resource_quota(raw)
    except ModelError as error:
        if old_raw is not None:
            return _unreadable_update(error, raw, old_raw), None
        return refuse_malformed(error), None
    quotas = tuple(quotas)
    found = _native_findings(native, quotas)
    if old_raw is None or not found:
        return (deny(found) if found else ALLOW), native
    try:
        old = parse_resource_quota(old_raw)
    except ModelError:
        return deny(found), native
    before = {finding.violation.field for finding in _native_findings(old, quotas)}
    kept = [
        finding
        for finding in found
        if finding.violation.field in before and _hard(native, finding) >= _hard(old, finding)
    ]
    broken = [finding for finding in found if finding not in kept]
    warnings = _tolerated(finding.violation for finding in kept)
    return (deny(broken, warnings) if broken else allow(warnings)), native


def _beside(view: QuotaView) -> Beside:
    room = view.allocatable if view.sum_of_min != "off" else None
    return Beside(view.siblings, view.others, view.native, room)


def _native_findings(native: ResourceQuota, quotas: Iterable[ElasticQuota]) -> list[Finding]:
    """Findings without repetition: a quota known in two versions can break one rule twice."""
    return [Finding("hard", item) for item in dict.fromkeys(rules.check_resource_quota(native, quotas))]


def _judge(
    quota: ElasticQuota, broken: list[Broken], view: QuotaView, warnings: Iterable[str] = ()
) -> Verdict:
    soft = [item for item in broken if item.rule == "capacity" and view.sum_of_min == "warn"]
    words = [*warnings, *(str(item.violation) for item in soft), *rules.notes(quota, view.native)]
    findings = [Finding(item.rule, item.violation) for item in broken if item not in soft]
    return deny(findings, words, quota=quota.key) if findings else allow(words, quota=quota.key)


def _tolerated(violations: Iterable[Violation]) -> list[str]:
    return [f"allowed, as it was so before: {violation}" for violation in violations]


def _hard(native: ResourceQuota, finding: Finding) -> int:
    return native.hard.get(finding.violation.field.partition("[")[2].rstrip("]"), 0)


def _unreadable_update(error: ModelError, raw: msgspec.Raw, old_raw: msgspec.Raw) -> Verdict:
    """An object that was unreadable before and whose spec stays the same may change otherwise."""
    try:
        same = _spec(raw) == _spec(old_raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        same = False
    return allow([f"allowed, as it was so before: {error}"]) if same else refuse_malformed(error)


def _spec(raw: msgspec.Raw) -> Any:
    return decode(raw, _SpecOnly).spec


def _binds(quota: ElasticQuota, siblings: Iterable[ElasticQuota]) -> bool:
    """Whether no older quota of the namespace binds in its place."""
    return all(quota.age_order <= other.age_order for other in siblings if other.namespace == quota.namespace)
