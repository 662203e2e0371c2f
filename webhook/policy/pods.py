"""Decides new pods of Muster: assigns schedulerName and group, and judges them beside reservations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from scheduler_core.decoding import decoder
from scheduler_core.errors import ModelError, TooLarge
from scheduler_core.model.names import (
    DEFAULT_SCHEDULER,
    EXEMPT_LABEL,
    GANG_LABEL,
    GANG_OF_POD,
    MIRROR_ANNOTATION,
    SCHEDULE_LABEL,
)
from scheduler_core.model.pods.requests import ResizeRule
from scheduler_core.model.pods.use import parse_proposed_use
from scheduler_core.model.quotas.reservation_ledger import Charge
from scheduler_core.quota.reservations.limits import ReservationRefusal
from webhook.http.admission_review import Malformed, require_identity
from webhook.policy.pod_group_membership import NewPod, PodSpec, annotation_patch
from webhook.policy.verdict import ALLOW, Verdict, refuse_lacking, refuse_malformed

SCHEDULER_PATH: Final = "/spec/schedulerName"
_MARK_PATH: Final = "/metadata/labels/" + GANG_LABEL.replace("/", "~1")

# Asks the store of reservations; returns what is lacking. Raises Undecided.
Admit = Callable[[Charge], Sequence[ReservationRefusal]]


_decoder = decoder(NewPod)


def read_pod(raw: msgspec.Raw) -> NewPod:
    """Parse the fields of a pod that admission reads. Raises Malformed."""
    try:
        return _decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Malformed(f"request.object is not a Pod: {error}") from None


def is_managed(name: str, labels: Mapping[str, str], has_quota: bool, exempt: frozenset[str]) -> bool:
    """Whether Muster schedules the pods of a namespace.

    It does if the namespace has an ElasticQuota or the schedule label, unless it is exempt by name or label.
    """
    if name in exempt or labels.get(EXEMPT_LABEL) == "true":
        return False
    return has_quota or labels.get(SCHEDULE_LABEL) == "true"


def is_for_other_scheduler(pod: NewPod, ours: frozenset[str]) -> bool:
    """Whether a pod has a node already, or a schedulerName that is not in `ours`."""
    spec = pod.spec
    if spec is None:
        return False
    return bool(spec.node_name) or (spec.scheduler_name or DEFAULT_SCHEDULER) not in ours


def named_scheduler(pod: NewPod, ours: frozenset[str]) -> str:
    """The schedulerName of a pod if it is in `ours`, else empty."""
    named = (pod.spec.scheduler_name if pod.spec is not None else None) or ""
    return named if named in ours else ""


def is_assignable(pod: NewPod, ours: frozenset[str]) -> bool:
    """Whether Muster can take a pod: it has no node, is no mirror pod, and names no other scheduler."""
    if pod.spec is None or pod.spec.node_name or MIRROR_ANNOTATION in pod.annotations:
        return False
    return pod.spec.scheduler_name in (None, "", DEFAULT_SCHEDULER) or bool(named_scheduler(pod, ours))


def assign(
    pod: NewPod, scheduler_name: str, group: str, priority_class: str = "", *, mark: bool = False
) -> Verdict:
    """Patch schedulerName, group and priority of an assignable pod. Idempotent, as reinvocation requires.

    `priority_class` is that of its gang; a pod that has a class keeps it. `mark`: label the pod as one whose
    own words name its group.

    Pods of DaemonSets are treated like all others: they name their node by affinity and count in the quota.
    """
    patch, audit = annotation_patch(pod, group), {}
    if patch:
        audit["group"] = group
    if mark:
        patch += _mark_patch(pod)
    current = pod.spec.scheduler_name if pod.spec is not None else None
    if current != scheduler_name:
        patch += _patch(current, scheduler_name)
        audit["scheduler"] = scheduler_name
    if priority_class and pod.spec is not None and not pod.spec.priority_class_name:
        patch += _priority_patch(pod.spec, priority_class)
        audit["priority-class"] = priority_class
    return Verdict(patch=patch, audit=audit)


def _patch(current: str | None, scheduler_name: str) -> tuple[Mapping[str, Any], ...]:
    """The patch of schedulerName. `test` guards the replacement of a value that was changed meanwhile."""
    if current is None:
        return ({"op": "add", "path": SCHEDULER_PATH, "value": scheduler_name},)
    return (
        {"op": "test", "path": SCHEDULER_PATH, "value": current},
        {"op": "replace", "path": SCHEDULER_PATH, "value": scheduler_name},
    )


def _mark_patch(pod: NewPod) -> tuple[Mapping[str, Any], ...]:
    labels = pod.metadata.labels
    if labels is None:
        return ({"op": "add", "path": "/metadata/labels", "value": {GANG_LABEL: GANG_OF_POD}},)
    if labels.get(GANG_LABEL) == GANG_OF_POD:
        return ()
    return ({"op": "add", "path": _MARK_PATH, "value": GANG_OF_POD},)


def _priority_patch(spec: PodSpec, priority_class: str) -> tuple[Mapping[str, Any], ...]:
    """The patch of priorityClassName. The API server has computed the priority of a pod without a class
    already, and computes it again from the class.
    """
    computed = (("priority", spec.priority), ("preemptionPolicy", spec.preemption_policy))
    gone = tuple({"op": "remove", "path": f"/spec/{field}"} for field, value in computed if value is not None)
    return (*gone, {"op": "add", "path": "/spec/priorityClassName", "value": priority_class})


def admit_beside_reservations(
    raw: msgspec.Raw, admit: Admit, rule: ResizeRule = ResizeRule.LARGEST_SUM
) -> Verdict:
    """The verdict on a new or resized pod of a namespace with reservations. Raises Undecided."""
    try:
        pod = parse_proposed_use(raw, rule)
    except TooLarge as error:
        return refuse_malformed(error)
    except ModelError:
        # The API server validates the pod after this, and its own quota counts it.
        return ALLOW
    if not pod.uid or pod.finished:
        return ALLOW
    require_identity(pod.uid, pod.name, pod.group)
    short = admit(Charge(pod.uid, pod.name, pod.group, pod.usage, pod.best_effort))
    return refuse_lacking(f"Pod {pod.namespace}/{pod.name}", "spec.containers", short) if short else ALLOW
