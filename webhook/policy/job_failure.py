"""Decides new Jobs: whether evictions count as failures of their pods (docs/webhook.md#jobs-that-lose-pods).

A pod that is evicted for another one carries the condition DisruptionTarget. The Job counts it as failed all
the same, and fails after `backoffLimit` such pods, unless its podFailurePolicy ignores that condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from scheduler_core.decoding import decoder
from scheduler_core.model.names import (
    DISRUPTION_TARGET,
    JOB_DISRUPTION_IGNORE,
    JOB_DISRUPTION_LABEL,
)
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from webhook.http.admission_review import Malformed
from webhook.policy.verdict import ALLOW, Verdict, allow

JOB: Final = ("batch", "Job")
# What the API server accepts beside a podFailurePolicy, and how many rules it accepts.
_NEVER: Final = "Never"
_REPLACEMENT: Final = "Failed"
_MOST_RULES: Final = 20
_DEFAULT_BACKOFF_LIMIT: Final = 6
_POLICY: Final = "/spec/podFailurePolicy"
_IGNORE: Final = "Ignore"
_RULE: Final = {
    "action": _IGNORE,
    "onPodConditions": [{"type": DISRUPTION_TARGET, "status": "True"}],
}
# How a process ends that gets SIGTERM, and then SIGKILL.
_EVICTED: Final = (143, 137)
_ADVICE: Final = f"podFailurePolicy with action Ignore on the pod condition {DISRUPTION_TARGET}"


class _Pattern(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = "True"


class _ExitCodes(msgspec.Struct, frozen=True, rename="camel"):
    operator: str = ""
    values: tuple[int, ...] | None = None


class _Rule(msgspec.Struct, frozen=True, rename="camel"):
    action: str = ""
    on_pod_conditions: tuple[_Pattern, ...] | None = None
    on_exit_codes: _ExitCodes | None = None


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

    @property
    def rules(self) -> tuple[_Rule, ...]:
        """The rules of its podFailurePolicy."""
        policy = self.pod_failure_policy
        return (policy.rules if policy is not None else None) or ()


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
    decides = _decider(spec.rules)
    if decides is not None and spec.rules[decides].action == _IGNORE:
        return ALLOW
    if spec.template.spec.restart_policy != _NEVER:
        field = "spec.template.spec.restartPolicy"
        cause = f"{field}={spec.template.spec.restart_policy or 'Always'}"
        return allow([f"{cause}: {_survives(spec, None)}; {_ADVICE} needs restartPolicy {_NEVER}"])
    if not wanted:
        return allow([f"{_place(decides)}: {_survives(spec, decides)}; {_add(decides)}"])
    if len(spec.rules) >= _MOST_RULES:
        full = f"spec.podFailurePolicy.rules has {len(spec.rules)} rules and no room"
        return allow([f"{full} for a {_ADVICE}: {_survives(spec, decides)}"])
    return Verdict(patch=_patch(spec), audit={"job-disruption": JOB_DISRUPTION_IGNORE})


def can_borrow(quota: ElasticQuota) -> bool:
    """Whether pods may use more than the min of their quota, which its owners then reclaim."""
    named = {*quota.min, *quota.max}
    return not quota.max or any(
        name not in quota.max or quota.max[name] > quota.min.get(name, 0) for name in named
    )


def _read(raw: msgspec.Raw) -> _Job:
    try:
        return _decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Malformed(f"request.object is not a Job: {error}") from None


def _decider(rules: Sequence[_Rule]) -> int | None:
    """The position of the first rule that matches evicted pods, which the Job controller follows."""
    return next((position for position, rule in enumerate(rules) if _matches_evicted(rule)), None)


def _matches_evicted(rule: _Rule) -> bool:
    """Whether a rule matches evicted pods. One that ignores exit codes does not match all of them: pods whose
    containers never ran have none.
    """
    codes = rule.on_exit_codes
    if codes is None:
        patterns = rule.on_pod_conditions or ()
        return any((one.type, one.status) == (DISRUPTION_TARGET, "True") for one in patterns)
    listed = [code in (codes.values or ()) for code in _EVICTED]
    return rule.action != _IGNORE and (any(listed) if codes.operator == "In" else not all(listed))


def _place(decides: int | None) -> str:
    return "spec.podFailurePolicy" if decides is None else f"spec.podFailurePolicy.rules[{decides}]"


def _survives(spec: _Spec, decides: int | None) -> str:
    """How many evictions the Job survives; `decides`: the position of the rule about evicted pods."""
    action = "" if decides is None else spec.rules[decides].action
    if action in ("FailJob", "FailIndex"):
        fails = "Job" if action == "FailJob" else "index"
        return f"action {action} matches evicted pods, too, so the {fails} fails with the first of them"
    if spec.backoff_limit_per_index is not None:
        limit, field, each = spec.backoff_limit_per_index, "backoffLimitPerIndex", " of one index"
    else:
        limit = _DEFAULT_BACKOFF_LIMIT if spec.backoff_limit is None else spec.backoff_limit
        field, each = "backoffLimit", ""
    return f"evicted pods count as failed; the Job survives {limit} of them{each} ({field})"


def _add(decides: int | None) -> str:
    return f"add a {_ADVICE}" if decides is None else f"add a {_ADVICE} before this rule"


def _patch(spec: _Spec) -> tuple[Mapping[str, Any], ...]:
    """The rule before all others: it must decide on evicted pods whatever their exit code is."""
    if spec.rules:
        patch = [{"op": "add", "path": f"{_POLICY}/rules/0", "value": _RULE}]
    else:
        patch = [{"op": "add", "path": _POLICY, "value": {"rules": [_RULE]}}]
    # The API server has filled in what it allows only without a podFailurePolicy.
    if spec.pod_replacement_policy not in (None, _REPLACEMENT):
        patch.append({"op": "replace", "path": "/spec/podReplacementPolicy", "value": _REPLACEMENT})
    return tuple(patch)
