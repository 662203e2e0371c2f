"""Decides new Jobs: whether evictions count as failures of their pods (docs/webhook.md#jobs-that-lose-pods).

A pod that is evicted for another one carries the condition DisruptionTarget. The Job counts it as failed all
the same, and fails after `backoffLimit` such pods, unless its podFailurePolicy ignores that condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from scheduler_core.decoding import decoder
from scheduler_core.model.names import (
    DISRUPTION_TARGET,
    JOB_DISRUPTION_IGNORE,
    JOB_DISRUPTION_LABEL,
)
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from webhook.http.admission_review import Malformed, TooDeep
from webhook.policy.verdict import ALLOW, Verdict, allow

JOB: Final = ("batch", "Job")
# What the API server accepts beside a podFailurePolicy, and how many rules it accepts.
_NEVER: Final = "Never"
_REPLACEMENT: Final = "Failed"
_MOST_RULES: Final = 20
_DEFAULT_BACKOFF_LIMIT: Final = 6
_POLICY: Final = "/spec/podFailurePolicy"
_RULE: Final = {
    "action": "Ignore",
    "onPodConditions": [{"type": DISRUPTION_TARGET, "status": "True"}],
}
_ADVICE: Final = f"podFailurePolicy with action Ignore on the pod condition {DISRUPTION_TARGET}"


class _Pattern(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = "True"


class _Rule(msgspec.Struct, frozen=True, rename="camel"):
    action: str = ""
    on_pod_conditions: tuple[_Pattern, ...] | None = None


class _Policy(msgspec.Struct, frozen=True):
    rules: tuple[_Rule, ...] | None = None


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    restart_policy: str = ""


class _Template(msgspec.Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    template: _Template = _Template()
    pod_failure_policy: _Policy | None = None
    pod_replacement_policy: str | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None


class _Job(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


_decoder = decoder(_Job)


def admit_job(raw: msgspec.Raw, labels: Mapping[str, str], quota: ElasticQuota | None) -> Verdict:
    """The verdict on a new Job of a namespace with these labels and this quota: always allowed.

    The namespace label adds the rule. Without it, a Job under a quota that can borrow gets a warning. Raises
    Malformed.
    """
    wanted = labels.get(JOB_DISRUPTION_LABEL) == JOB_DISRUPTION_IGNORE
    if not wanted and (quota is None or not can_borrow(quota)):
        return ALLOW
    spec = _read(raw).spec
    rules = (spec.pod_failure_policy.rules if spec.pod_failure_policy is not None else None) or ()
    if any(_ignores_disruptions(rule) for rule in rules):
        return ALLOW
    if spec.template.spec.restart_policy != _NEVER:
        field = "spec.template.spec.restartPolicy"
        cause = f"{field}={spec.template.spec.restart_policy or 'Always'}"
        return allow([f"{cause}: {_survives(spec)}; {_ADVICE} needs restartPolicy {_NEVER}"])
    if not wanted:
        return allow([f"spec.podFailurePolicy: {_survives(spec)}; add a {_ADVICE}"])
    if len(rules) >= _MOST_RULES:
        full = f"spec.podFailurePolicy.rules has {len(rules)} rules and no room"
        return allow([f"{full} for a {_ADVICE}: {_survives(spec)}"])
    return Verdict(patch=_patch(spec, rules), audit={"job-disruption": JOB_DISRUPTION_IGNORE})


def can_borrow(quota: ElasticQuota) -> bool:
    """Whether pods may use more than the min of their quota, which its owners then reclaim."""
    named = {*quota.min, *quota.max}
    return not quota.max or any(
        name not in quota.max or quota.max[name] > quota.min.get(name, 0) for name in named
    )


def _read(raw: msgspec.Raw) -> _Job:
    try:
        return _decoder.decode(raw)
    except RecursionError:
        raise TooDeep("request.object is nested too deeply to be read") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Malformed(f"request.object is not a Job: {error}") from None


def _ignores_disruptions(rule: _Rule) -> bool:
    return rule.action == "Ignore" and any(
        pattern.type == DISRUPTION_TARGET and pattern.status == "True"
        for pattern in rule.on_pod_conditions or ()
    )


def _survives(spec: _Spec) -> str:
    """How many evictions the Job survives."""
    if spec.backoff_limit_per_index is not None:
        limit, field, each = spec.backoff_limit_per_index, "backoffLimitPerIndex", " of one index"
    else:
        limit = _DEFAULT_BACKOFF_LIMIT if spec.backoff_limit is None else spec.backoff_limit
        field, each = "backoffLimit", ""
    return f"evicted pods count as failed; the Job survives {limit} of them{each} ({field})"


def _patch(spec: _Spec, rules: tuple[_Rule, ...]) -> tuple[Mapping[str, Any], ...]:
    """The rule before all others: it must decide on evicted pods whatever their exit code is."""
    if rules:
        patch = [{"op": "add", "path": f"{_POLICY}/rules/0", "value": _RULE}]
    else:
        patch = [{"op": "add", "path": _POLICY, "value": {"rules": [_RULE]}}]
    # The API server has filled in what it allows only without a podFailurePolicy.
    if spec.pod_replacement_policy not in (None, _REPLACEMENT):
        patch.append({"op": "replace", "path": "/spec/podReplacementPolicy", "value": _REPLACEMENT})
    return tuple(patch)
