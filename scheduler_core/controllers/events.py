"""Events as writes: what controllers have to say of objects."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from scheduler_core.model.conditions import rfc3339_micro
from scheduler_core.model.kinds import EVENTS
from scheduler_core.model.names import EVENT_WARNING, MUSTER_SCHEDULER
from scheduler_core.model.writes import Create

# Where Events about objects without a namespace live.
_CLUSTER_EVENTS: Final = "default"


def warning(regarding: dict[str, str], reason: str, note: str, occurrence: str, now: float) -> Create:
    """A warning about an object (apiVersion, kind, namespace, name; uid if it is known).

    The Event's name follows from `occurrence`, so that another process does not say the same again.
    """
    digest = sha256(occurrence.encode()).hexdigest()[:16]
    namespace = regarding["namespace"] or _CLUSTER_EVENTS
    body = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": f"{regarding['name'][:230]}.{digest}", "namespace": namespace},
        "eventTime": rfc3339_micro(now),
        "type": EVENT_WARNING,
        "reason": reason,
        "action": "Scheduling",
        "note": note[:1024],
        "regarding": regarding,
        "reportingController": MUSTER_SCHEDULER,
        "reportingInstance": MUSTER_SCHEDULER,
    }
    return Create(EVENTS, namespace, body)
