"""Preconditions of writes: resourceVersion and UID in create, update and delete requests."""

from __future__ import annotations

from sandbox import errors
from sandbox.kinds.api_kinds import ApiKind
from sandbox.objects import Obj
from sandbox.store import strategy
from sandbox.store.object_store import Version

_PRECONDITIONS = (
    ("uid", "UID", "deleted and then recreated"),
    ("resourceVersion", "ResourceVersion", "modified"),
)


def check_new(meta: Obj) -> None:
    """Refuse a new object with a resourceVersion. Raises StatusError."""
    text = meta.get("resourceVersion") or ""
    if text.isdecimal() and int(text):
        raise errors.StatusError(500, "", "resourceVersion should not be set on objects to be created")


def check_update(kind: ApiKind, meta: Obj, version: Version) -> None:
    """Raises Conflict if resourceVersion or UID in `meta` differ from those of the stored object."""
    rv, uid = resource_version(meta), meta.get("uid")
    current = version.obj["metadata"]["uid"]
    if uid and uid != current:
        text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current}"
        raise errors.conflict(kind, version.name, text)
    if rv and rv != version.rv:
        raise errors.conflict(kind, version.name)
    if not rv and strategy.needs_resource_version(kind):
        raise errors.needs_resource_version(kind, version.name)


def resource_version(meta: Obj) -> int:
    """`metadata.resourceVersion` as a number; 0 or no value means any version. Raises StatusError."""
    text = meta.get("resourceVersion") or "0"
    if not text.isdecimal():
        raise errors.StatusError(500, "", f'strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)


def check_delete(kind: ApiKind, version: Version, wanted: Obj) -> None:
    """Raises Conflict if UID or resourceVersion in DeleteOptions differ from those of the stored object."""
    meta = version.obj["metadata"]
    for key, label, guess in _PRECONDITIONS:
        if wanted.get(key) and wanted[key] != meta[key]:
            text = (
                f"the {label} in the precondition ({wanted[key]}) does not match the {label} in record "
                f"({meta[key]}). The object might have been {guess}"
            )
            raise errors.conflict(kind, version.name, text)
