"""Create and update strategies of all kinds: fields that clients may write, defaulting and validation."""

from __future__ import annotations

from sandbox import errors
from sandbox.errors import StatusCause
from sandbox.kinds import builtin_types, crd, pods
from sandbox.kinds.api_kinds import ApiKind
from sandbox.objects import Obj, at, copy_json
from sandbox.store import defaults, metadata, validation
from sandbox.store.structural_schema import apply_schema, schema_causes

_KEEPS_STATUS = frozenset({"namespaces", "persistentvolumeclaims", "nodes"})
"""Kinds that keep the status of a create request: a node registers itself with its status."""
_NEEDS_RESOURCE_VERSION = frozenset({"leases.coordination.k8s.io", "poddisruptionbudgets.policy"})


def apply_defaults(kind: ApiKind, obj: Obj) -> list[str]:
    """Prune and default the object in place. Returns the paths of unknown fields."""
    if kind.custom:
        return apply_schema(kind.custom.schema, obj)
    unknown = builtin_types.prune(kind, obj)
    _set_defaults(kind, obj)
    return unknown


def unknown_fields(kind: ApiKind, obj: Obj) -> list[str]:
    """The paths of fields that the kind does not have; the object is not changed."""
    if kind.custom:
        return apply_schema(kind.custom.schema, copy_json(obj))
    return builtin_types.prune(kind, copy_json(obj))


def _set_defaults(kind: ApiKind, obj: Obj) -> None:
    """Set the defaults of a built-in kind; defaults that depend on the uid need an object with a uid."""
    found = None if kind.custom else defaults.DEFAULTERS.get(kind.storage)
    if found:
        found(obj)


def prepare_create(kind: ApiKind, obj: Obj) -> None:
    """Reset fields that clients cannot set on a new object and set server-owned fields, in place."""
    metadata.stamp_new(kind, obj)
    if kind.storage == "pods":
        pods.prepare_create(obj)
    elif kind.storage == "customresourcedefinitions.apiextensions.k8s.io":
        crd.prepare(obj, None)
    elif kind.has_status and kind.storage not in _KEEPS_STATUS:
        obj.pop("status", None)
    _set_defaults(kind, obj)


def create_causes(kind: ApiKind, obj: Obj) -> list[StatusCause]:
    """Validation errors of a new object."""
    causes = metadata.metadata_causes(kind, obj)
    if kind.custom:
        return causes + schema_causes(kind.custom.schema, obj)
    if kind.storage == "pods":
        return causes + pods.create_causes(obj)
    return causes + validation.causes(kind, obj, None)


def prepare_update(kind: ApiKind, new: Obj, old: Obj, subresource: str) -> Obj:
    """The result of an update of `old` to `new`: fields that the request cannot change are restored."""
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


def update_causes(kind: ApiKind, new: Obj, old: Obj, subresource: str) -> list[StatusCause]:
    """Validation errors of a changed object."""
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
    """True if a PUT must set metadata.resourceVersion."""
    return kind.custom is not None or kind.storage in _NEEDS_RESOURCE_VERSION


def is_terminating(obj: Obj) -> bool:
    """True if deletion has begun."""
    return at(obj, "metadata", "deletionTimestamp") is not None
