"""Decides changes of ElasticQuotas: create, update and delete. Pure.

Each function judges the raw objects of a request against a QuotaView. The rules are in
`scheduler_core.quota.validation`; for rules that were broken before the change see `preexisting_violations`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.meta import identity_of
from scheduler_core.model.names import FORCE_DELETE_ANNOTATION
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.quotas.quota_flavor import QuotaFlavor
from scheduler_core.model.quotas.quota_group import QuotaGroup
from scheduler_core.model.quotas.resource_quota import ResourceQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota import validation
from scheduler_core.quota.validation import BrokenRule, ValidationContext, broken_rules, ratcheted
from scheduler_core.quota.violations import Violation
from webhook.policy.preexisting_violations import judge_unreadable_update, preexisting_warnings
from webhook.policy.verdict import ALLOW, Finding, Verdict, allow, deny, refuse_malformed

SumMode = Literal["deny", "warn", "off"]


class QuotaView(msgspec.Struct, frozen=True, eq=False):
    """The other objects that a quota is judged against.

    `siblings` are the quotas of its namespace, `others` one per other namespace, both with those admitted a
    moment ago; `native` the ResourceQuotas of its namespace; `allocatable` the sum over schedulable nodes;
    `groups` all QuotaGroups, `flavors` all QuotaFlavors by name.
    """

    siblings: tuple[ElasticQuota, ...] = ()
    others: tuple[ElasticQuota, ...] = ()
    native: tuple[ResourceQuota, ...] = ()
    allocatable: ResourceList = {}
    groups: Mapping[str, QuotaGroup] = {}
    flavors: Mapping[str, QuotaFlavor] = {}
    terminating: bool = False
    sum_of_min: SumMode = "deny"


def create_quota(raw: msgspec.Raw, view: QuotaView) -> tuple[Verdict, ElasticQuota | None]:
    """The verdict on a new ElasticQuota, and the quota where it can be read."""
    try:
        quota = parse_elastic_quota(raw)
    except ModelError as error:
        return refuse_malformed(error), None
    return _judge(quota, broken_rules(quota, _beside(view)), view), quota


def update_quota(
    raw: msgspec.Raw, old_raw: msgspec.Raw, view: QuotaView
) -> tuple[Verdict, ElasticQuota | None]:
    """The verdict on a changed ElasticQuota, and the quota where it can be read."""
    if identity_of(raw).deletion_timestamp is not None:
        return ALLOW, None
    try:
        quota = parse_elastic_quota(raw)
    except ModelError as error:
        return judge_unreadable_update(error, raw, old_raw), None
    beside = _beside(view)
    broken = broken_rules(quota, beside)
    try:
        old = parse_elastic_quota(old_raw)
    except ModelError:
        return _judge(quota, broken, view), quota
    kept = ratcheted(broken, quota, old, beside)
    broken = [item for item in broken if item not in kept]
    return _judge(quota, broken, view, preexisting_warnings(item.violation for item in kept)), quota


def delete_quota(old_raw: msgspec.Raw, view: QuotaView) -> Verdict:
    """The verdict on a deletion: refused while pods are charged to the quota in effect.

    Pods are charged if `status.used` says so, which the scheduler writes from its ledger; a watch of all pods
    would cost more than it protects. Quotas without use, quotas not in effect, quotas of a terminating
    namespace, and quotas with the override annotation may be deleted.
    """
    meta = identity_of(old_raw)
    try:
        quota = parse_elastic_quota(old_raw)
    except ModelError:
        return ALLOW
    charged = {name: value for name, value in sorted(quota.status_used.items()) if value > 0}
    if not charged or view.terminating or quota.deleted or not is_in_effect(quota, view.siblings):
        return ALLOW
    used = ",".join(f"{name}={format_resource(name, value)}" for name, value in charged.items())
    if (meta.annotations or {}).get(FORCE_DELETE_ANNOTATION) == "true":
        return allow([f"ElasticQuota {quota.key} is deleted while {used} is charged to it"])
    rule = (
        "is charged to it by assigned pods; let them end first, "
        f"or annotate the quota with {FORCE_DELETE_ANNOTATION}=true"
    )
    return deny([Finding("in-use", Violation(f"ElasticQuota {quota.key}", "status.used", used, rule))])


def _beside(view: QuotaView) -> ValidationContext:
    room = view.allocatable if view.sum_of_min != "off" else None
    return ValidationContext(view.siblings, view.others, view.native, room, view.groups, view.flavors)


def _judge(
    quota: ElasticQuota, broken: list[BrokenRule], view: QuotaView, warnings: Iterable[str] = ()
) -> Verdict:
    soft = [item for item in broken if item.rule == "capacity" and view.sum_of_min == "warn"]
    words = [*warnings, *(str(item.violation) for item in soft), *validation.notes(quota, view.native)]
    findings = [Finding(item.rule, item.violation) for item in broken if item not in soft]
    return deny(findings, words, quota=quota.key) if findings else allow(words, quota=quota.key)


def is_in_effect(quota: ElasticQuota, siblings: Iterable[ElasticQuota]) -> bool:
    """Whether the quota is in effect: no quota of the namespace is older."""
    return all(quota.age_order <= other.age_order for other in siblings if other.namespace == quota.namespace)
