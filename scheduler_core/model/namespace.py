"""Namespaces, typed: their labels decide on exemptions and on namespace selectors."""

from __future__ import annotations

from scheduler_core.model.meta import ApiObject, ClusterObject, Raw, decode


class Namespace(ClusterObject, frozen=True, eq=False):
    """A namespace as the core sees it."""

    uid: str
    resource_version: str
    labels: dict[str, str]
    annotations: dict[str, str]
    terminating: bool


def parse_namespace(raw: Raw) -> Namespace:
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
