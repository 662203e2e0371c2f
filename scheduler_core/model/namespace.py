"""Namespaces, typed: their labels decide on exemptions and on namespace selectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler_core.model.meta import ApiObject, decode


class Namespace(msgspec.Struct, frozen=True, eq=False):
    """A namespace as the core sees it."""

    name: str
    uid: str
    resource_version: str
    labels: dict[str, str]
    annotations: dict[str, str]
    terminating: bool

    @property
    def key(self) -> str:
        """The namespace's name."""
        return self.name


def parse_namespace(raw: bytes | msgspec.Raw | Mapping[str, Any]) -> Namespace:
    """Read a namespace from JSON bytes or a dict. Raises ModelError naming the namespace and the field."""
    meta = decode(raw, ApiObject, "Namespace").metadata
    return Namespace(
        name=meta.name,
        uid=meta.uid or meta.name,
        resource_version=meta.resource_version,
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        terminating=meta.deletion_timestamp is not None,
    )
