"""Decides pods of other schedulers, and resizes: their ElasticQuota is charged at admission.

A pod is of another scheduler (`--foreign-pods`) if it is created with a node, or with a schedulerName that is
not Muster's. Exemptions depend on the user alone, never on the object: tenants write labels, annotations,
owners, and the templates from which controllers create pods, including those of DaemonSets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.names import CHARGED_ANNOTATION
from scheduler_core.model.pods.requests import ResizeRule
from scheduler_core.model.pods.use import PodUse, parse_pod_use, parse_proposed_use
from scheduler_core.model.quotas.reservation_ledger import Charge
from scheduler_core.quota.policy import Refusal
from scheduler_core.quota.violations import Violation
from webhook.http.admission_review import ReviewRequest, UserInfo, require_identity
from webhook.policy.pod_group_membership import NewPod, check_move
from webhook.policy.pods import read_pod
from webhook.policy.verdict import ALLOW, Finding, Verdict, allow, deny, refuse, refuse_malformed
from webhook.reservations.quota_usage import risen

ForeignPods = Literal["Enforce", "Warn", "Allow"]
# Kubelets create mirror pods of pods that run already; NodeRestriction keeps them from creating others.
NODES_GROUP: Final = "system:nodes"
CHARGED: Final = "true"
_HELP_OTHER_SCHEDULER: Final = (
    "Muster's scheduler does not judge this pod, so its quota is charged now; "
    "leave out spec.nodeName and spec.schedulerName, and it waits for room"
)
_HELP_RESIZE: Final = (
    "a resize is charged at once; make room first, or create a larger pod, which waits for room"
)
_ANNOTATIONS: Final = "/metadata/annotations"
_PATH: Final = f"{_ANNOTATIONS}/" + CHARGED_ANNOTATION.replace("~", "~0").replace("/", "~1")

# Charges the quota in the resources named; returns the refusal, if any. Raises Undecided.
Admit = Callable[[Charge, frozenset[str]], Refusal | None]


def is_exempt(user: UserInfo, users: frozenset[str]) -> bool:
    """Whether pods of other schedulers by this user are not judged: by a node, or one of `users`."""
    return NODES_GROUP in (user.groups or ()) or user.username in users


def charge_patch(pod: NewPod) -> tuple[Mapping[str, Any], ...]:
    """The JSON patch that marks a pod as charged to its quota; empty if it is marked."""
    said = pod.annotations.get(CHARGED_ANNOTATION)
    if said == CHARGED:
        return ()
    if said is not None:
        return (
            {"op": "test", "path": _PATH, "value": said},
            {"op": "replace", "path": _PATH, "value": CHARGED},
        )
    if pod.metadata.annotations is None:
        return ({"op": "add", "path": _ANNOTATIONS, "value": {CHARGED_ANNOTATION: CHARGED}},)
    return ({"op": "add", "path": _PATH, "value": CHARGED},)


def check_charged_annotation(pod: NewPod, namespace: str) -> Violation | None:
    """The violation of a pod of Muster's that is marked as charged: it is charged once it has a node."""
    said = pod.annotations.get(CHARGED_ANNOTATION)
    if said is None:
        return None
    rule = "is only for pods of other schedulers, and is written by the webhook; leave it out"
    return Violation(_subject(pod, namespace), f"metadata.annotations[{CHARGED_ANNOTATION}]", said, rule)


def judge_pod_update(raw: msgspec.Raw, old_raw: msgspec.Raw, namespace: str) -> Verdict:
    """The verdict on an update of a pod: its group and its charged mark must not change."""
    pod, before = read_pod(raw), read_pod(old_raw)
    moved, changed = check_move(pod, before, namespace), check_charged_unchanged(pod, before, namespace)
    broken = [Finding("group", moved)] if moved is not None else []
    broken += [Finding("max", changed)] if changed is not None else []
    return deny(broken) if broken else ALLOW


def check_charged_unchanged(pod: NewPod, before: NewPod, namespace: str) -> Violation | None:
    """The violation of an update that changes the charged mark of a pod."""
    said, old = (one.annotations.get(CHARGED_ANNOTATION) for one in (pod, before))
    if said == old:
        return None
    rule = f"was {old or 'not there'} when the pod was created, and cannot be changed"
    field = f"metadata.annotations[{CHARGED_ANNOTATION}]"
    return Violation(_subject(pod, namespace), field, said or '""', rule)


def admit_other_scheduler_pod(request: ReviewRequest, admit: Admit, mode: ForeignPods) -> Verdict:
    """The verdict on a new pod of another scheduler. Raises Undecided and Malformed."""
    try:
        pod = parse_proposed_use(request.object)
    except ModelError as error:
        return refuse_malformed(error)
    return _answer(pod, request.uid, frozenset(pod.usage), admit, mode, _HELP_OTHER_SCHEDULER)


def admit_resize(
    request: ReviewRequest,
    admit: Admit,
    mode: ForeignPods,
    rule: ResizeRule = ResizeRule.LARGEST_SUM,
) -> Verdict:
    """The verdict on a resize: resources that rise are judged, others are allowed. Raises Undecided.

    The use before is what the quota counts: nothing of an earlier resize that the node reports as infeasible.
    """
    try:
        pod = parse_proposed_use(request.object, rule)
        before = parse_pod_use(request.old_object, rule)
    except ModelError as error:
        return refuse_malformed(error)
    return _answer(pod, request.uid, risen(pod, before), admit, mode, _HELP_RESIZE)


def _answer(
    pod: PodUse, review: str, names: frozenset[str], admit: Admit, mode: ForeignPods, help: str
) -> Verdict:
    if pod.finished or not names:
        return ALLOW
    require_identity(pod.uid, pod.name)
    # Only a server that assigns uids after admission leaves the uid empty.
    charge = Charge(pod.uid or review, pod.name, "", pod.usage, pod.best_effort)
    refusal = admit(charge, names)
    if refusal is None:
        return ALLOW
    subject = f"Pod {pod.namespace}/{pod.name}" if pod.name else f"Pod in {pod.namespace}"
    message = f"{subject}: {refusal}"
    if mode == "Warn":
        return allow([message], quota=refusal.quota)
    return refuse(f"{message}; {help}", "spec.containers", [refusal], "max", quota=refusal.quota)


def _subject(pod: NewPod, namespace: str) -> str:
    return f"Pod {namespace}/{pod.metadata.name}"
