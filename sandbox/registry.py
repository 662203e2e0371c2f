"""The write path of the server, shared by HTTP handlers and in-process controllers.

Every write runs: defaulting, mutating admission, schema validation, validating admission, store. Between reading
the old object and storing the new one other requests may run (webhooks are awaited), so the store is asked again
at the end, and a write that lost the race starts over or ends as a Conflict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sandbox.admit import AdmissionChain, AdmissionRequest, OpenAdmission
from sandbox.kinds import ApiKind, KindTable
from sandbox.store import Obj, Store

__all__ = ["AdmissionChain", "AdmissionRequest", "Call", "OpenAdmission", "Registry"]


@dataclass(slots=True)
class Call:
    """Who writes and how. `warnings` collects texts for the client; `field_validation` is Strict, Warn or Ignore."""

    user: str = "system:sandbox"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")
    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    force: bool = False
    warnings: list[str] = field(default_factory=list)


class Registry:
    """Request-level verbs. `admission` may be replaced after construction."""

    def __init__(self, store: Store, kinds: KindTable, admission: AdmissionChain | None = None) -> None:
        self.store = store
        self.kinds = kinds
        self.admission: AdmissionChain = admission or OpenAdmission()

    def get(self, kind: ApiKind, namespace: str, name: str) -> Obj:
        """The stored object (do not change it). Raises NotFound."""
        raise NotImplementedError

    async def create(
        self,
        kind: ApiKind,
        obj: Obj,
        *,
        namespace: str = "",
        subresource: str = "",
        name: str = "",
        call: Call | None = None,
    ) -> Obj:
        """Create an object (or POST to a subresource of `name`). Returns what was stored."""
        raise NotImplementedError

    async def update(
        self, kind: ApiKind, obj: Obj, *, subresource: str = "", call: Call | None = None
    ) -> Obj:
        """Replace an object, or its part behind `subresource`. `metadata.resourceVersion`, if set, must match."""
        raise NotImplementedError

    async def modify(
        self,
        kind: ApiKind,
        namespace: str,
        name: str,
        change: Callable[[Obj], Obj | None],
        *,
        subresource: str = "",
        call: Call | None = None,
    ) -> Obj:
        """Read, change and write until no other writer came between.

        `change` gets the stored object, must not touch it, and returns a new one (parts may be shared), or None
        to leave it.
        """
        raise NotImplementedError

    async def patch(
        self,
        kind: ApiKind,
        namespace: str,
        name: str,
        body: Any,
        *,
        content_type: str,
        subresource: str = "",
        call: Call | None = None,
    ) -> Obj:
        """Apply a patch of one of the four patch media types."""
        raise NotImplementedError

    async def delete(
        self,
        kind: ApiKind,
        namespace: str,
        name: str,
        *,
        options: Obj | None = None,
        call: Call | None = None,
    ) -> Obj:
        """Delete or begin to delete. `options` is a DeleteOptions object. Returns the object's last state."""
        raise NotImplementedError

    async def delete_collection(
        self,
        kind: ApiKind,
        namespace: str | None,
        matches: Callable[[Obj], bool],
        *,
        options: Obj | None = None,
        call: Call | None = None,
    ) -> list[Obj]:
        """Delete every object that `matches`."""
        raise NotImplementedError
