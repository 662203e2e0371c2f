"""What a request's query and body ask for, read into its call before the registry is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from sandbox import duplicates, errors, patching
from sandbox.bodies import check_type, decode_object, decode_options, media_type
from sandbox.kinds import ApiKind
from sandbox.objects import Obj
from sandbox.protobuf import MEDIA_TYPE
from sandbox.registry import Call
from sandbox.targets import Target


async def whole_object(request: web.BaseRequest, kind: ApiKind, call: Call) -> Obj:
    """The object in a body; keys that it names twice are noted in the call.

    Raises BadRequest, and UnsupportedMediaType for a custom object in protobuf.
    """
    raw, content_type = await request.read(), request.headers.get("Content-Type", "")
    if kind.custom and media_type(content_type) == MEDIA_TYPE:
        raise errors.unsupported_media_type(("application/json", "application/yaml"))
    body = decode_object(raw, content_type)
    note_duplicates(raw, media_type(content_type), call)
    return body


def note_duplicates(raw: bytes, media: str, call: Call) -> None:
    """Note the keys that a body or patch names twice. Raises BadRequest for a strict apply."""
    if call.field_validation == "Ignore" or media == MEDIA_TYPE:
        return
    if media == patching.APPLY:
        call.duplicates = duplicates.in_yaml(raw)
        if call.duplicates.texts and call.field_validation == "Strict":
            text = f"error strict decoding YAML: error converting YAML to JSON: {call.duplicates.summary}"
            raise errors.bad_request(text)
    elif media == "application/yaml" and not raw.lstrip().startswith(b"{"):
        call.duplicates = duplicates.in_yaml(raw)
    else:
        call.duplicates = duplicates.in_json(raw, "json patch " if media == patching.JSON else "")


def check_options(query: Mapping[str, str], call: Call) -> None:
    dry_run = query.getall("dryRun", []) if hasattr(query, "getall") else [query.get("dryRun", "")]
    if any(value not in ("All", "") for value in dry_run):
        raise errors.bad_request(f'dryRun: Unsupported value: {dry_run}: supported values: "All"')
    call.dry_run = "All" in dry_run
    if call.field_validation not in ("Strict", "Warn", "Ignore"):
        raise errors.bad_request(f'fieldValidation: Unsupported value: "{call.field_validation}"')


def check_apply(kind: ApiKind, target: Target, body: Any, call: Call) -> None:
    if not isinstance(body, dict):
        raise errors.bad_request("error decoding YAML: the body is not an object")
    if not call.field_manager:
        raise errors.bad_request(
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply '
            "patch"
        )
    check_type(kind, body, target.name)
    if kind.namespaced:
        body.setdefault("metadata", {}).setdefault("namespace", target.namespace)


async def delete_options(request: web.BaseRequest, call: Call) -> Obj:
    options = decode_options(await request.read(), request.headers.get("Content-Type", ""))
    query = request.query
    if "gracePeriodSeconds" in query:
        if not query["gracePeriodSeconds"].lstrip("-").isdigit():
            raise errors.bad_request("gracePeriodSeconds: expected an integer")
        options.setdefault("gracePeriodSeconds", int(query["gracePeriodSeconds"]))
    if "propagationPolicy" in query:
        options.setdefault("propagationPolicy", query["propagationPolicy"])
    if options.get("dryRun"):
        call.dry_run = True
    return options
