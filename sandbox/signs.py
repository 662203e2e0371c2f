"""Signs that webhook and scheduler are at work: the first object that each of them writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin import LEASES, MUTATING_WEBHOOKS
from sandbox.objects import Obj
from sandbox.store.object_store import EventType, ObjectStore

SIGNS: Final = {MUTATING_WEBHOOKS: "The webhook is registered.", LEASES: "The scheduler is at work."}
_IDENTITY: Final = "apiserver.kubernetes.io/identity"
"""Label of the Lease that a kube-apiserver writes for itself."""


def on_first(store: ObjectStore, kind: ApiKind, call: Callable[[], None]) -> Callable[[], None]:
    """Call once an object of a kind is written that is not the server's own; returns what unsubscribes."""

    def seen(event: EventType, obj: Obj, old: Obj | None) -> None:
        if _IDENTITY not in (obj["metadata"].get("labels") or {}):
            unsubscribe()
            call()

    unsubscribe = store.subscribe(kind, seen)
    return unsubscribe
