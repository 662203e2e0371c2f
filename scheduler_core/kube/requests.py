"""The HTTP request of a write: method, path, body and content type. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler_core.kube.errors import ApiError, Invalid, as_conflict, names_other_uid
from scheduler_core.kube.paths import resource_path, with_query
from scheduler_core.model.kinds import PODS
from scheduler_core.model.writes import Bind, Create, Delete, Patch, Replace

FIELD_MANAGER = "muster"
JSON = "application/json"
_PATCH_CONTENT = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}

# Writes that need one request each; an eviction needs two.
SingleWrite = Bind | Create | Patch | Replace | Delete


class Request(msgspec.Struct, frozen=True):
    """One HTTP request, before authentication."""

    method: str
    path: str
    body: bytes
    content_type: str = JSON


def request_for(write: SingleWrite, *, dry_run: bool = False) -> Request:
    """The request of a write, with its preconditions."""
    match write:
        case Bind():
            return _bind(write, dry_run)
        case Create():
            path = _write_query(resource_path(write.resource, write.namespace), dry_run)
            return Request("POST", path, msgspec.json.encode(write.body))
        case Patch():
            return _patch(write, dry_run)
        case Replace():
            path = resource_path(write.resource, write.namespace, write.name, write.subresource)
            return Request("PUT", _write_query(path, dry_run), msgspec.json.encode(write.body))
        case Delete():
            return _delete(write, dry_run)


def with_precondition(write: SingleWrite, error: ApiError) -> ApiError:
    """The error of a write, where Invalid for a patch with another uid becomes Conflict."""
    if isinstance(write, Patch) and write.uid and isinstance(error, Invalid) and names_other_uid(error):
        return as_conflict(error)
    return error


def _bind(write: Bind, dry_run: bool) -> Request:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": write.name, "namespace": write.namespace, "uid": write.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": write.node},
    }
    path = _write_query(resource_path(PODS, write.namespace, write.name, "binding"), dry_run)
    return Request("POST", path, msgspec.json.encode(body))


def _patch(write: Patch, dry_run: bool) -> Request:
    query: dict[str, str | bool | None] = {
        "fieldManager": write.field_manager or FIELD_MANAGER,
        "force": write.patch_type == "apply",
        "dryRun": "All" if dry_run else None,
    }
    path = with_query(resource_path(write.resource, write.namespace, write.name, write.subresource), query)
    body = msgspec.json.encode(_with_preconditions(write))
    return Request("PATCH", path, body, _PATCH_CONTENT[write.patch_type])


def _delete(write: Delete, dry_run: bool) -> Request:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = _set_fields(uid=write.uid, resourceVersion=write.resource_version)
    if preconditions:
        options["preconditions"] = preconditions
    if write.grace_seconds is not None:
        options["gracePeriodSeconds"] = write.grace_seconds
    if dry_run:
        options["dryRun"] = ["All"]
    path = resource_path(write.resource, write.namespace, write.name)
    return Request("DELETE", path, msgspec.json.encode(options))


def _write_query(path: str, dry_run: bool) -> str:
    if not dry_run:
        return f"{path}?fieldManager={FIELD_MANAGER}"
    return with_query(path, {"fieldManager": FIELD_MANAGER, "dryRun": "All"})


def _set_fields(**fields: str) -> dict[str, str]:
    return {key: value for key, value in fields.items() if value}


def _with_preconditions(write: Patch) -> Mapping[str, Any] | list[Any]:
    """The patch with its preconditions: in its metadata, or as `test` operations of a JSON patch."""
    expected = _set_fields(uid=write.uid, resourceVersion=write.resource_version)
    if isinstance(write.body, list):
        tests = [{"op": "test", "path": f"/metadata/{key}", "value": text} for key, text in expected.items()]
        return [*tests, *write.body]
    if not expected:
        return write.body
    return {**write.body, "metadata": {**write.body.get("metadata", {}), **expected}}
