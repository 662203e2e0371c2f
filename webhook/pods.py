"""Where a new pod goes: `schedulerName` and the group annotation, where the pod is Muster's to schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from scheduler_core.decoding import decoder
from scheduler_core.model.names import DEFAULT_SCHEDULER, EXEMPT_LABEL, MIRROR_ANNOTATION, SCHEDULE_LABEL
from webhook.membership import NewPod, annotation_patch
from webhook.review import Malformed, TooDeep
from webhook.verdict import Verdict

SCHEDULER_PATH: Final = "/spec/schedulerName"


_decoder = decoder(NewPod)


def read_pod(raw: msgspec.Raw) -> NewPod:
    """What admission reads of a new pod. Raises Malformed for what is no pod."""
    try:
        return _decoder.decode(raw)
    except RecursionError:
        raise TooDeep("request.object is nested too deeply to be read") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Malformed(f"request.object is not a Pod: {error}") from None


def is_managed(name: str, labels: Mapping[str, str], has_quota: bool, exempt: frozenset[str]) -> bool:
    """Whether pods of a namespace are Muster's to schedule.

    They are where the namespace has an ElasticQuota or carries the schedule label, unless it is exempt by
    name or by label.
    """
    if name in exempt or labels.get(EXEMPT_LABEL) == "true":
        return False
    return has_quota or labels.get(SCHEDULE_LABEL) == "true"


def is_foreign(pod: NewPod, ours: frozenset[str]) -> bool:
    """Whether no scheduler named in `ours` judges the pod: it has a node, or names another scheduler."""
    spec = pod.spec
    if spec is None:
        return False
    return bool(spec.node_name) or (spec.scheduler_name or DEFAULT_SCHEDULER) not in ours


def chosen(pod: NewPod, ours: frozenset[str]) -> str:
    """The scheduler of ours that the pod names itself, or empty."""
    named = (pod.spec.scheduler_name if pod.spec is not None else None) or ""
    return named if named in ours else ""


def is_open(pod: NewPod, ours: frozenset[str]) -> bool:
    """Whether a pod can be Muster's: it has no node, is no mirror pod, and names no other scheduler."""
    if pod.spec is None or pod.spec.node_name or MIRROR_ANNOTATION in pod.annotations:
        return False
    return pod.spec.scheduler_name in (None, "", DEFAULT_SCHEDULER) or bool(chosen(pod, ours))


def assign(pod: NewPod, scheduler_name: str, group: str) -> Verdict:
    """Send an open pod to `scheduler_name` and write its group down, unless it says so already.

    Pods of DaemonSets are treated like all others: they name their node by affinity and count in the quota.
    The second call finds nothing to do, so a reinvocation is harmless.
    """
    patch, audit = annotation_patch(pod, group), {}
    if patch:
        audit["group"] = group
    current = pod.spec.scheduler_name if pod.spec is not None else None
    if current != scheduler_name:
        patch += _patch(current, scheduler_name)
        audit["scheduler"] = scheduler_name
    return Verdict(patch=patch, audit=audit)


def _patch(current: str | None, scheduler_name: str) -> tuple[Mapping[str, Any], ...]:
    """`test` guards a replacement: a value somebody else put there meanwhile is never overwritten."""
    if current is None:
        return ({"op": "add", "path": SCHEDULER_PATH, "value": scheduler_name},)
    return (
        {"op": "test", "path": SCHEDULER_PATH, "value": current},
        {"op": "replace", "path": SCHEDULER_PATH, "value": scheduler_name},
    )
