"""Builds Warning Events of controllers as writes."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from scheduler_core.model.kinds import EVENTS, Resource
from scheduler_core.model.names import EVENT_WARNING, MUSTER_SCHEDULER
from scheduler_core.model.timestamps import format_micro_time
from scheduler_core.model.writes import Create

# The namespace of Events about cluster-scoped objects.
_CLUSTER_EVENTS: Final = "default"
_NONE: Final[Mapping[str, str]] = {}


def reference(resource: Resource, namespace: str, name: str, uid: str) -> dict[str, str]:
    """The reference of an Event to the object that it is about."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "namespace": namespace,
        "name": name,
        "uid": uid,
    }


def warning(
    regarding: dict[str, str],
    reason: str,
    note: str,
    occurrence: str,
    now: float,
    annotations: Mapping[str, str] = _NONE,
) -> Create:
    """A Warning Event about an object (apiVersion, kind, namespace, name; uid if known).

    The Event's name is derived from `occurrence`, so that another process does not repeat it.
    """
    digest = sha256(occurrence.encode()).hexdigest()[:16]
    name = f"{regarding['name'][:230]}.{digest}"
    return named_warning(name, regarding, reason, "Scheduling", note[:1024], now, annotations)


def named_warning(
    name: str,
    regarding: dict[str, str],
    reason: str,
    action: str,
    note: str,
    now: float,
    annotations: Mapping[str, str] = _NONE,
) -> Create:
    """A Warning Event with a name of its own; the API server refuses a repeated write of one name."""
    namespace = regarding["namespace"] or _CLUSTER_EVENTS
    body = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            **({"annotations": dict(annotations)} if annotations else {}),
        },
        "eventTime": format_micro_time(now),
        "type": EVENT_WARNING,
        "reason": reason,
        "action": action,
        "note": note,
        "regarding": regarding,
        "reportingController": MUSTER_SCHEDULER,
        "reportingInstance": MUSTER_SCHEDULER,
    }
    return Create(EVENTS, namespace, body)
