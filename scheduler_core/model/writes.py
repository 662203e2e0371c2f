"""Writes to the API server as values, each with the precondition that makes it safe.

Only `kube` carries them out. Every write names the uid or resourceVersion that the decision was based on, so
that a stale decision fails instead of changing another object of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from scheduler_core.model.conditions import condition
from scheduler_core.model.kinds import PODS, Resource
from scheduler_core.model.names import DISRUPTION_TARGET, PREEMPTED_FOR

PatchType = Literal["merge", "json", "strategic", "apply"]


class Create(msgspec.Struct, frozen=True):
    """POST of a whole object. Creating what exists already is answered as a conflict, not as success."""

    resource: Resource
    namespace: str
    body: Mapping[str, Any]


class Patch(msgspec.Struct, frozen=True):
    """PATCH of an object or a subresource; `uid` and `resource_version` travel in the patch's metadata."""

    resource: Resource
    namespace: str
    name: str
    body: Mapping[str, Any] | list[Mapping[str, Any]]
    patch_type: PatchType = "merge"
    subresource: str = ""
    uid: str = ""
    resource_version: str = ""
    field_manager: str = ""


class Replace(msgspec.Struct, frozen=True):
    """PUT of a whole object or subresource; the body's resourceVersion is the precondition."""

    resource: Resource
    namespace: str
    name: str
    body: Mapping[str, Any]
    subresource: str = ""


class Delete(msgspec.Struct, frozen=True):
    """DELETE with preconditions."""

    resource: Resource
    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    grace_seconds: int | None = None


class Bind(msgspec.Struct, frozen=True):
    """POST of a Binding: the pod of that uid to that node. Accepted at most once by the API server.

    `by` is the URL of the HTTP extender that does it; empty: we do.
    """

    namespace: str
    name: str
    uid: str
    node: str
    by: str = ""


class Evict(msgspec.Struct, frozen=True):
    """Remove a victim: the DisruptionTarget condition first, then a delete with the uid as precondition.

    `grace_seconds`: what it has to end; None: its own grace period. A pod that ends already only gets less.
    `preemptors`: for whom, which the condition PreemptedFor says in the same write; empty for nobody.
    """

    namespace: str
    name: str
    uid: str
    reason: str
    message: str
    grace_seconds: int | None = None
    preemptors: tuple[str, ...] = ()

    def conditions(self, now: float) -> list[dict[str, Any]]:
        """The conditions that the pod gets before it is deleted, at a time in seconds since the epoch."""
        found = [condition(DISRUPTION_TARGET, True, self.reason, self.message, now)]
        if self.preemptors:
            found.append(condition(PREEMPTED_FOR, True, self.reason, ",".join(self.preemptors), now))
        return found


def pod_status_patch(namespace: str, name: str, uid: str, status: Mapping[str, Any]) -> Patch:
    """The patch that merges fields and conditions into the status of the pod of that uid."""
    body = {"status": status}
    return Patch(PODS, namespace, name, body, patch_type="strategic", subresource="status", uid=uid)


Write = Create | Patch | Replace | Delete | Bind | Evict


def target(write: Write) -> str:
    """What a write is sent to, as in rules of RBAC: `podgroups`, `pods/status`, `pods/binding`."""
    match write:
        case Bind():
            return "pods/binding"
        case Evict():
            return PODS.plural
        case Patch() | Replace():
            return "/".join(filter(None, (write.resource.plural, write.subresource)))
        case _:
            return write.resource.plural
