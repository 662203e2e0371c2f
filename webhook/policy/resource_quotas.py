"""Decides changes of ResourceQuotas: `hard` must not be below the `max` of an ElasticQuota. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.meta import identity_of
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.resource_quota import ResourceQuota, parse_resource_quota
from scheduler_core.quota import validation
from webhook.policy.preexisting_violations import judge_unreadable_update, preexisting_warnings
from webhook.policy.verdict import ALLOW, Finding, Verdict, allow, deny, refuse_malformed


def change_resource_quota(
    raw: msgspec.Raw, old_raw: msgspec.Raw | None, quotas: Iterable[ElasticQuota]
) -> tuple[Verdict, ResourceQuota | None]:
    """The verdict on a new (`old_raw` None) or changed ResourceQuota, and the quota if it can be parsed."""
    if identity_of(raw).deletion_timestamp is not None:
        return ALLOW, None
    try:
        native = parse_resource_quota(raw)
    except ModelError as error:
        if old_raw is not None:
            return judge_unreadable_update(error, raw, old_raw), None
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
    warnings = preexisting_warnings(finding.violation for finding in kept)
    return (deny(broken, warnings) if broken else allow(warnings)), native


def _native_findings(native: ResourceQuota, quotas: Iterable[ElasticQuota]) -> list[Finding]:
    """The findings without duplicates, because an ElasticQuota may be known in two versions."""
    return [Finding("hard", item) for item in dict.fromkeys(validation.check_resource_quota(native, quotas))]


def _hard(native: ResourceQuota, finding: Finding) -> int:
    return native.hard.get(finding.violation.field.partition("[")[2].rstrip("]"), 0)
