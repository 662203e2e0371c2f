"""Which scheduler a new pod goes to: `schedulerName` is set where the namespace is under Muster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from scheduler_core.model.names import DEFAULT_SCHEDULER, EXEMPT_LABEL, SCHEDULE_LABEL
from webhook.review import Malformed
from webhook.verdict import ALLOW, Verdict

SCHEDULER_PATH: Final = "/spec/schedulerName"
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"


class _MetaWire(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class _SpecWire(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_name: str | None = None
    node_name: str | None = None


class _PodWire(msgspec.Struct, frozen=True):
    metadata: _MetaWire = _MetaWire()
    spec: _SpecWire | None = None


_decoder = msgspec.json.Decoder(_PodWire)


def is_managed(name: str, labels: Mapping[str, str], has_quota: bool, exempt: frozenset[str]) -> bool:
    """Whether pods of a namespace are Muster's to schedule.

    They are where the namespace has an ElasticQuota or carries the schedule label, unless it is exempt by
    name or by label.
    """
    if name in exempt or labels.get(EXEMPT_LABEL) == "true":
        return False
    return has_quota or labels.get(SCHEDULE_LABEL) == "true"


def assign_scheduler(raw: msgspec.Raw, scheduler_name: str) -> Verdict:
    """Send a pod of a managed namespace to `scheduler_name`, unless somebody has chosen already.

    Untouched stay pods that name another scheduler, that have a node, and mirror pods. Pods of DaemonSets
    are treated like all others: they name their node by affinity and count in the quota. The second call
    finds nothing to do, so a reinvocation is harmless. Raises Malformed for what is no pod.
    """
    try:
        pod = _decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed(f"request.object is not a Pod: {error}") from None
    if pod.spec is None or pod.spec.node_name or MIRROR_ANNOTATION in (pod.metadata.annotations or {}):
        return ALLOW
    current = pod.spec.scheduler_name
    if current not in (None, "", DEFAULT_SCHEDULER) or current == scheduler_name:
        return ALLOW
    return Verdict(patch=_patch(current, scheduler_name), audit={"scheduler": scheduler_name})


def _patch(current: str | None, scheduler_name: str) -> tuple[Mapping[str, Any], ...]:
    """`test` guards a replacement: a value somebody else put there meanwhile is never overwritten."""
    if current is None:
        return ({"op": "add", "path": SCHEDULER_PATH, "value": scheduler_name},)
    return (
        {"op": "test", "path": SCHEDULER_PATH, "value": current},
        {"op": "replace", "path": SCHEDULER_PATH, "value": scheduler_name},
    )
