"""Conversion between the served versions of a kind and its stored version."""

from __future__ import annotations

from sandbox.kinds import native_groups
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.autoscalers import shown_as_v1, stored_from_v1
from sandbox.objects import Obj, copy_json
from sandbox.store.structural_schema import apply_schema, lacks_defaults

_EVENT_FIELDS = (
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
)
"""(events.k8s.io/v1, core/v1) names of the same field."""
_AUTOSCALERS = "horizontalpodautoscalers.autoscaling"
_DEPRECATED = (
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)


def kind_view(kind: ApiKind, obj: Obj) -> Obj:
    """The stored object in the version of `kind`; the same object if nothing differs."""
    if kind.custom and kind.custom.defaults and lacks_defaults(kind.custom.schema, obj):
        obj = copy_json(obj)
        apply_schema(kind.custom.schema, obj)
    if obj.get("apiVersion") == kind.api_version:
        return obj
    if kind.storage == _AUTOSCALERS:
        return shown_as_v1(obj)
    if kind.storage in native_groups.CONVERTED:
        return native_groups.shown(obj, kind.api_version)
    if kind.storage == "events":
        return _renamed(obj, {old: new for new, old in (*_EVENT_FIELDS, *_DEPRECATED)}, kind.api_version)
    return {**obj, "apiVersion": kind.api_version}


def stored_form(kind: ApiKind, obj: Obj) -> Obj:
    """The object in its stored version: events as core/v1, custom objects in the CRD's storage version."""
    if kind.storage == "events" and kind.group:
        return _renamed(obj, dict((*_EVENT_FIELDS, *_DEPRECATED)), "v1")
    if kind.storage == _AUTOSCALERS and obj.get("apiVersion") == "autoscaling/v1":
        return stored_from_v1(obj)
    if kind.storage in native_groups.CONVERTED:
        return native_groups.stored(obj)
    if kind.custom and obj.get("apiVersion") != kind.custom.storage_version:
        return {**obj, "apiVersion": kind.custom.storage_version}
    return obj


def _renamed(obj: Obj, names: dict[str, str], api_version: str) -> Obj:
    return {names.get(key, key): value for key, value in obj.items()} | {"apiVersion": api_version}
