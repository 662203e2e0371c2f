"""Pods that no scheduler of ours judges, and pods that grow in place: their quota is charged at admission.

Foreign is a pod that is created with a node, or for a scheduler that is not one of ours. Who asks decides who
is exempt, never what an object says: tenants write labels, annotations, owners, and the templates from which
controllers make pods, those of DaemonSets too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.names import CHARGED_ANNOTATION
from scheduler_core.model.pod_use import PodUse, parse_pod_use, parse_proposed_use
from scheduler_core.model.reservation_ledger import Charge
from scheduler_core.quota.policy import Refusal
from scheduler_core.quota.rules import Violation
from webhook.elastic_use import risen
from webhook.membership import NewPod, check_move
from webhook.pods import read_pod
from webhook.review import Malformed, Request, UserInfo
from webhook.verdict import ALLOW, FORBIDDEN, Cause, Finding, Verdict, allow, deny, refuse_malformed

ForeignPods = Literal["Enforce", "Warn", "Allow"]
# Kubelets: mirror pods are told to the API server, not asked for; NodeRestriction lets them make no others.
NODES_GROUP: Final = "system:nodes"
CHARGED: Final = "true"
MOST_UID: Final = 128
MOST_NAME: Final = 253
_HELP_FOREIGN: Final = (
    "Muster's scheduler does not judge this pod, so its quota is charged now; "
    "leave out spec.nodeName and spec.schedulerName, and it waits for room"
)
_HELP_GROWTH: Final = (
    "a resize is charged at once; make room first, or create a larger pod, which waits for room"
)
_ANNOTATIONS: Final = "/metadata/annotations"
_PATH: Final = f"{_ANNOTATIONS}/" + CHARGED_ANNOTATION.replace("~", "~0").replace("/", "~1")

# Ask the store, in the resources named; it says what is over. Raises Undecided.
Admit = Callable[[Charge, frozenset[str]], Refusal | None]


def is_exempt(user: UserInfo, users: frozenset[str]) -> bool:
    """Whether foreign pods of this user pass unjudged: a node's, or of one of the exempt `users`."""
    return NODES_GROUP in (user.groups or ()) or user.username in users


def charge_patch(pod: NewPod) -> tuple[Mapping[str, Any], ...]:
    """JSON patch that says that the pod counts from now on; empty where it says so."""
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


def check_claim(pod: NewPod, namespace: str) -> Violation | None:
    """A pod that comes to our schedulers must not say that it counts: it counts once it has a node."""
    said = pod.annotations.get(CHARGED_ANNOTATION)
    if said is None:
        return None
    rule = "is only for pods of other schedulers, and is written by the webhook; leave it out"
    return Violation(_subject(pod, namespace), f"metadata.annotations[{CHARGED_ANNOTATION}]", said, rule)


def judge_change(raw: msgspec.Raw, old_raw: msgspec.Raw, namespace: str) -> Verdict:
    """The verdict on an update of a pod: its group, and that it counts, stay as they are."""
    pod, before = read_pod(raw), read_pod(old_raw)
    moved, changed = check_move(pod, before, namespace), check_kept(pod, before, namespace)
    broken = [Finding("group", moved)] if moved is not None else []
    broken += [Finding("max", changed)] if changed is not None else []
    return deny(broken) if broken else ALLOW


def check_kept(pod: NewPod, before: NewPod, namespace: str) -> Violation | None:
    """What says that a pod counts stays as it was when the pod was created."""
    said, old = (one.annotations.get(CHARGED_ANNOTATION) for one in (pod, before))
    if said == old:
        return None
    rule = f"was {old or 'not there'} when the pod was created, and cannot be changed"
    field = f"metadata.annotations[{CHARGED_ANNOTATION}]"
    return Violation(_subject(pod, namespace), field, said or '""', rule)


def admit_foreign(request: Request, admit: Admit, mode: ForeignPods) -> Verdict:
    """The verdict on a new pod that no scheduler of ours will judge. Raises Undecided and Malformed."""
    try:
        pod = parse_proposed_use(request.object)
    except ModelError as error:
        return refuse_malformed(error)
    return _answer(pod, request.uid, frozenset(pod.usage), admit, mode, _HELP_FOREIGN)


def admit_growth(request: Request, admit: Admit, mode: ForeignPods) -> Verdict:
    """The verdict on a resize: what rises is judged, what falls passes. Raises Undecided.

    Before, a pod takes what it counts with: of a resize that its node calls infeasible nothing.
    """
    try:
        pod, before = parse_proposed_use(request.object), parse_pod_use(request.old_object)
    except ModelError as error:
        return refuse_malformed(error)
    return _answer(pod, request.uid, risen(pod, before), admit, mode, _HELP_GROWTH)


def _answer(
    pod: PodUse, review: str, names: frozenset[str], admit: Admit, mode: ForeignPods, help: str
) -> Verdict:
    if pod.finished or not names:
        return ALLOW
    if len(pod.uid) > MOST_UID or len(pod.name) > MOST_NAME:
        raise Malformed("request.object has a uid or a name that no API server gives")
    # Only a server that names pods later than ours does leaves the uid open.
    charge = Charge(pod.uid or review, pod.name, "", pod.usage, pod.best_effort)
    refusal = admit(charge, names)
    if refusal is None:
        return ALLOW
    subject = f"Pod {pod.namespace}/{pod.name}" if pod.name else f"Pod in {pod.namespace}"
    message = f"{subject}: {refusal}"
    if mode == "Warn":
        return allow([message], quota=refusal.quota)
    return Verdict(
        allowed=False,
        code=FORBIDDEN,
        message=f"{message}; {help}",
        causes=(Cause("FieldValueForbidden", str(refusal), "spec.containers"),),
        rules=("max",),
        audit={"quota": refusal.quota},
    )


def _subject(pod: NewPod, namespace: str) -> str:
    return f"Pod {namespace}/{pod.metadata.name}"
