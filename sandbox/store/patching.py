"""Patch requests: JSON patch, merge patch, strategic merge patch and server-side apply by media type."""

from __future__ import annotations

from typing import Any

import msgspec

from sandbox import errors
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin_types import type_of
from sandbox.objects import Obj
from sandbox.store import json_patch
from sandbox.store.server_side_apply import applied, first_applied
from sandbox.store.strategic_merge import strategic_merge

__all__ = ["APPLY", "JSON", "MERGE", "STRATEGIC", "applied", "check", "first_applied", "patched"]

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
ACCEPTED = (JSON, MERGE, STRATEGIC, APPLY)


def check(kind: ApiKind, body: Any, content_type: str) -> None:
    """Refuse a patch type that the kind does not support, or a body of the wrong type. Raises StatusError."""
    if content_type not in ACCEPTED or (content_type == STRATEGIC and kind.custom):
        accepted = [name for name in ACCEPTED if not (kind.custom and name == STRATEGIC)]
        raise errors.unsupported_media_type(accepted)
    if not isinstance(body, list if content_type == JSON else dict):
        wanted = "a list of operations" if content_type == JSON else "an object"
        raise errors.bad_request(f"error decoding patch: the body must be {wanted}")


def patched(kind: ApiKind, old: Obj, body: Any, content_type: str) -> Obj:
    """A new object: `old` with the patch applied. `old` is not changed; the result may share parts with it.

    Raises StatusError (Invalid or BadRequest) if the patch cannot be applied.
    """
    if content_type == JSON:
        new = _json_patched(old, body)
    elif content_type == MERGE:
        new = merge(old, body)
    else:
        new = strategic_merge(old, body, type_of(kind.api_version, kind.kind))
    if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
        raise errors.bad_request(f"the patch does not leave a {kind.kind}")
    for key in ("apiVersion", "kind"):
        if new.get(key) != old[key]:
            raise errors.bad_request(f"the {key} in the data ({new.get(key)}) does not match ({old[key]})")
    return new


def shown(new: Obj, body: Any, content_type: str) -> str:
    """Text of a patch in error messages: its result as JSON, or a strategic merge patch as Go prints it."""
    return _as_go(body) if content_type == STRATEGIC else msgspec.json.encode(new).decode()


def _as_go(value: Any) -> str:
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_as_go(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_as_go, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "<nil>" if value is None else str(value)


def _json_patched(old: Obj, operations: list[Any]) -> Any:
    if not all(isinstance(operation, dict) for operation in operations):
        raise errors.bad_request("error decoding patch: each operation must be an object")
    if len(operations) > json_patch.MOST_OPERATIONS:
        most = f"The allowed maximum operations in a JSON patch is {json_patch.MOST_OPERATIONS}"
        raise errors.StatusError(413, "RequestEntityTooLarge", f"{most}, got {len(operations)}")
    try:
        return json_patch.apply(old, operations)
    except json_patch.PatchFailed as error:
        message = "the server rejected our request due to an error in our request"
        raise errors.StatusError(
            422, "Invalid", message, None, [errors.StatusCause("", str(error))]
        ) from error


def merge(old: Any, patch: Any) -> Any:
    """RFC 7386: objects merge, null removes, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result
