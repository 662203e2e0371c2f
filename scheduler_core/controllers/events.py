"""Builds Warning Events of controllers as writes."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from scheduler_core.model.kinds import EVENTS
from scheduler_core.model.names import EVENT_WARNING, MUSTER_SCHEDULER
from scheduler_core.model.timestamps import format_micro_time
from scheduler_core.model.writes import Create

# The namespace of Events about cluster-scoped objects.
_CLUSTER_EVENTS: Final = "default"


def warning(regarding: dict[str, str], reason: str, note: str, occurrence: str, now: float) -> Create:
    """A Warning Event about an object (apiVersion, kind, namespace, name; uid if known).

    The Event's name is derived from `occurrence`, so that another process does not repeat it.
    """
    digest = sha256(occurrence.encode()).hexdigest()[:16]
    namespace = regarding["namespace"] or _CLUSTER_EVENTS
    body = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": f"{regarding['name'][:230]}.{digest}", "namespace": namespace},
        "eventTime": format_micro_time(now),
        "type": EVENT_WARNING,
        "reason": reason,
        "action": "Scheduling",
        "note": note[:1024],
        "regarding": regarding,
        "reportingController": MUSTER_SCHEDULER,
        "reportingInstance": MUSTER_SCHEDULER,
    }
    return Create(EVENTS, namespace, body)
