"""Which version of an object a write may be based on."""

from __future__ import annotations

from sandbox import errors, strategy
from sandbox.kinds import ApiKind
from sandbox.objects import Obj
from sandbox.store import Version


def check_new(meta: Obj) -> None:
    """Refuse an object to be created that says it has a version already. Raises StatusError."""
    text = meta.get("resourceVersion") or ""
    if text.isdecimal() and int(text):
        raise errors.StatusError(500, "", "resourceVersion should not be set on objects to be created")


def check_update(kind: ApiKind, meta: Obj, version: Version) -> None:
    """Raises Conflict if the metadata of a write names another version or uid than the stored one."""
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
    """`metadata.resourceVersion` as a number; 0 leaves the version open, as none does. Raises StatusError."""
    text = meta.get("resourceVersion") or "0"
    if not text.isdecimal():
        raise errors.StatusError(500, "", f'strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)
