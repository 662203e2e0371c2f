"""One object under several API versions: how it is stored, and how each served version shows it."""

from __future__ import annotations

from sandbox.kinds import ApiKind
from sandbox.objects import Obj

_EVENT_FIELDS = (
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
)
"""(events.k8s.io/v1, core/v1) names of the same field."""
_DEPRECATED = (
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)


def kind_view(kind: ApiKind, obj: Obj) -> Obj:
    """The stored object as `kind` shows it; the same object where nothing differs."""
    if obj.get("apiVersion") == kind.api_version:
        return obj
    if kind.storage == "events":
        return _renamed(obj, {old: new for new, old in (*_EVENT_FIELDS, *_DEPRECATED)}, kind.api_version)
    return {**obj, "apiVersion": kind.api_version}


def stored_form(kind: ApiKind, obj: Obj) -> Obj:
    """The object as it is stored: events as core/v1, custom objects in their storage version."""
    if kind.storage == "events" and kind.group:
        return _renamed(obj, dict((*_EVENT_FIELDS, *_DEPRECATED)), "v1")
    if kind.custom and obj.get("apiVersion") != kind.custom.storage_version:
        return {**obj, "apiVersion": kind.custom.storage_version}
    return obj


def _renamed(obj: Obj, names: dict[str, str], api_version: str) -> Obj:
    return {names.get(key, key): value for key, value in obj.items()} | {"apiVersion": api_version}
