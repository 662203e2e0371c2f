"""What each kind does on create and update: which parts the client may write, and which rules hold."""

from __future__ import annotations

from sandbox import builtin_types, crd, defaults, errors, metadata, pods, validation
from sandbox.errors import Cause
from sandbox.kinds import ApiKind
from sandbox.objects import Obj, at, copy_json
from sandbox.schema_validation import apply_schema, schema_causes

_KEEPS_STATUS = frozenset({"namespaces", "persistentvolumeclaims", "nodes"})
"""Kinds whose status survives creation: a node registers itself with it."""
_NEEDS_RESOURCE_VERSION = frozenset({"leases.coordination.k8s.io", "poddisruptionbudgets.policy"})


def apply_defaults(kind: ApiKind, obj: Obj) -> list[str]:
    """Default (and for custom kinds prune) the object in place. Returns the paths of unknown fields."""
    if kind.custom:
        return apply_schema(kind.custom.schema, obj)
    unknown = builtin_types.prune(kind, obj)
    _set_defaults(kind, obj)
    return unknown


def unknown_fields(kind: ApiKind, obj: Obj) -> list[str]:
    """The paths of the fields that the kind does not have; the object is left alone."""
    if kind.custom:
        return apply_schema(kind.custom.schema, copy_json(obj))
    return builtin_types.prune(kind, copy_json(obj))


def _set_defaults(kind: ApiKind, obj: Obj) -> None:
    """Built-in defaults alone; those that follow from the uid come when there is one."""
    found = None if kind.custom else defaults.DEFAULTERS.get(kind.storage)
    if found:
        found(obj)


def prepare_create(kind: ApiKind, obj: Obj) -> None:
    """Drop what a client cannot set on a new object and set what the server owns (in place)."""
    metadata.stamp_new(kind, obj)
    if kind.storage == "pods":
        pods.prepare_create(obj)
    elif kind.storage == "customresourcedefinitions.apiextensions.k8s.io":
        crd.prepare(obj, None)
    elif kind.has_status and kind.storage not in _KEEPS_STATUS:
        obj.pop("status", None)
    _set_defaults(kind, obj)


def create_causes(kind: ApiKind, obj: Obj) -> list[Cause]:
    """Broken rules of a new object."""
    causes = metadata.metadata_causes(kind, obj)
    if kind.custom:
        return causes + schema_causes(kind.custom.schema, obj)
    if kind.storage == "pods":
        return causes + pods.create_causes(obj)
    return causes + validation.causes(kind, obj, None)


def prepare_update(kind: ApiKind, new: Obj, old: Obj, subresource: str) -> Obj:
    """The object that results when `new` is written over `old`: what is not its own restored."""
    metadata.carry_over(new, old)
    if subresource in ("status", "approval"):
        return _status_update(kind, new, old)
    if subresource == "resize":
        new = pods.resized(old, new)
    elif subresource == "ephemeralcontainers":
        new = pods.with_ephemeral_containers(old, new)
    if kind.has_status:
        if "status" in old:
            new["status"] = old["status"]
        else:
            new.pop("status", None)
    if kind.storage == "pods":
        pods.prepare_update(new, old)
    elif kind.storage == "customresourcedefinitions.apiextensions.k8s.io":
        crd.prepare(new, old)
    if kind.generation and _content(kind, new) != _content(kind, old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return new


def _status_update(kind: ApiKind, new: Obj, old: Obj) -> Obj:
    meta = old["metadata"] if kind.custom else new["metadata"]
    result = {**old, "metadata": meta}
    if "status" in new:
        result["status"] = new["status"]
    else:
        result.pop("status", None)
    return result


def _content(kind: ApiKind, obj: Obj) -> Obj:
    if "spec" in obj and not kind.custom:
        return {"spec": obj["spec"]}
    skipped = {"metadata", "status"} if kind.has_status else {"metadata"}
    return {key: value for key, value in obj.items() if key not in skipped}


def update_causes(kind: ApiKind, new: Obj, old: Obj, subresource: str) -> list[Cause]:
    """Broken rules of a changed object."""
    if new["metadata"].get("name") != old["metadata"]["name"]:
        name = new["metadata"].get("name")
        return [errors.invalid_value("metadata.name", name, "field is immutable")]
    causes = metadata.metadata_causes(kind, new) if new["metadata"] != old["metadata"] else []
    if kind.custom:
        return causes + schema_causes(kind.custom.schema, new, old)
    if kind.storage == "pods":
        if subresource == "ephemeralcontainers":
            return causes + pods.ephemeral_causes(new, old)
        return causes + (pods.update_causes(new, old) if not subresource else [])
    return causes + validation.causes(kind, new, old)


def needs_resource_version(kind: ApiKind) -> bool:
    """Whether a PUT without metadata.resourceVersion is refused."""
    return kind.custom is not None or kind.storage in _NEEDS_RESOURCE_VERSION


def is_terminating(obj: Obj) -> bool:
    """Whether deletion has begun."""
    return at(obj, "metadata", "deletionTimestamp") is not None
