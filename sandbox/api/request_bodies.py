"""Request bodies and options: decodes JSON, YAML and protobuf, and checks them before a write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import yaml
from aiohttp import web

from sandbox import errors
from sandbox.api import duplicate_fields
from sandbox.api.protobuf import MEDIA_TYPE, decode_protobuf
from sandbox.api.request_info import ResourcePath
from sandbox.kinds.api_kinds import ApiKind
from sandbox.objects import Obj, encode_json
from sandbox.store import patching
from sandbox.store.registry import RequestContext
from sandbox.yaml_loading import LOADER

BODY_LIMIT = 3 * 1024 * 1024
_ACCEPTED = ("application/json", "application/yaml", MEDIA_TYPE)
_decode = msgspec.json.Decoder().decode


def media_type(header: str) -> str:
    """`application/json` from `application/json; charset=utf-8`."""
    return header.partition(";")[0].strip().lower()


def decode_json(body: bytes) -> Any:
    """Any JSON value. Raises BadRequest."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.bad_request(f"couldn't get version/kind; json parse error: {error}") from error


def decode_yaml(body: bytes) -> Any:
    """A YAML document; JSON is tried first because its decoder is faster. Raises BadRequest."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        # A few nested aliases can expand to gigabytes.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(body, Loader=LOADER)):
            raise errors.bad_request("error converting YAML to JSON: aliases are not supported")
        # Dates, and numbers as keys, become strings as in JSON.
        return _decode(encode_json(yaml.load(body, Loader=LOADER)))
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        raise errors.bad_request(f"error converting YAML to JSON: {error}") from error


def decode_object(body: bytes, content_type: str) -> Obj:
    """An object from a JSON or YAML body. Raises UnsupportedMediaType or BadRequest."""
    media = media_type(content_type)
    if media in ("application/json", ""):
        value = decode_json(body)
    elif media == "application/yaml":
        value = decode_yaml(body)
    elif media == MEDIA_TYPE:
        value = decode_protobuf(body)
    else:
        raise errors.unsupported_media_type(_ACCEPTED)
    if not isinstance(value, dict):
        raise errors.bad_request("couldn't get version/kind; json parse error: the body is not an object")
    return value


def check_type(kind: ApiKind, obj: Obj, name: str = "") -> None:
    """Check apiVersion, kind and name against the URL and set missing ones. Raises BadRequest.

    A custom resource must contain its apiVersion and kind; only the name is taken from the URL.
    """
    if kind.custom and not obj.get("kind"):
        text = f"the object provided is unrecognized (must be of type {kind.kind}): Object 'Kind' is missing"
        raise errors.bad_request(text)
    found_kind = obj.setdefault("kind", kind.kind)
    found_version = obj.setdefault("apiVersion", kind.api_version)
    if found_kind != kind.kind or found_version != kind.api_version:
        raise errors.bad_request(
            f'{found_kind} in version "{str(found_version).rpartition("/")[2]}" cannot be handled as a '
            f"{kind.kind}: the API version in the data ({found_version}, kind {found_kind}) does not match "
            f"the expected API version ({kind.api_version}, kind {kind.kind})"
        )
    meta = obj.get("metadata")
    if name and isinstance(meta, dict) and meta.get("name", name) != name:
        raise errors.bad_request(
            f"the name of the object ({meta.get('name')}) does not match the name on the URL ({name})"
        )
    if name:
        obj["metadata"] = {**(meta if isinstance(meta, dict) else {}), "name": name}


def decode_options(body: bytes, content_type: str) -> Obj:
    """The DeleteOptions in a body; empty for an empty body. Raises BadRequest."""
    if not body.strip():
        return {}
    options = decode_object(body, content_type)
    grace = options.get("gracePeriodSeconds")
    if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int)):
        raise errors.bad_request("gracePeriodSeconds: expected an integer")
    return options


async def whole_object(request: web.BaseRequest, kind: ApiKind, context: RequestContext) -> Obj:
    """The object in a request body; its duplicate keys are stored in the request context.

    Raises BadRequest, and UnsupportedMediaType for a custom object in protobuf.
    """
    raw, content_type = await request.read(), request.headers.get("Content-Type", "")
    if kind.custom and media_type(content_type) == MEDIA_TYPE:
        raise errors.unsupported_media_type(("application/json", "application/yaml"))
    body = decode_object(raw, content_type)
    note_duplicates(raw, media_type(content_type), context)
    return body


def note_duplicates(raw: bytes, media: str, context: RequestContext) -> None:
    """Store the duplicate keys of a body or patch in the context. Raises BadRequest for a strict apply."""
    if context.field_validation == "Ignore" or media == MEDIA_TYPE:
        return
    if media == patching.APPLY:
        context.duplicates = duplicate_fields.in_yaml(raw)
        if context.duplicates.texts and context.field_validation == "Strict":
            text = f"error strict decoding YAML: error converting YAML to JSON: {context.duplicates.summary}"
            raise errors.bad_request(text)
    elif media == "application/yaml" and not raw.lstrip().startswith(b"{"):
        context.duplicates = duplicate_fields.in_yaml(raw)
    else:
        context.duplicates = duplicate_fields.in_json(raw, "json patch " if media == patching.JSON else "")


def check_options(query: Mapping[str, str], context: RequestContext) -> None:
    dry_run = query.getall("dryRun", []) if hasattr(query, "getall") else [query.get("dryRun", "")]
    if any(value not in ("All", "") for value in dry_run):
        raise errors.bad_request(f'dryRun: Unsupported value: {dry_run}: supported values: "All"')
    context.dry_run = "All" in dry_run
    if context.field_validation not in ("Strict", "Warn", "Ignore"):
        raise errors.bad_request(f'fieldValidation: Unsupported value: "{context.field_validation}"')


def check_apply(kind: ApiKind, target: ResourcePath, body: Any, context: RequestContext) -> None:
    if not isinstance(body, dict):
        raise errors.bad_request("error decoding YAML: the body is not an object")
    if not context.field_manager:
        raise errors.bad_request(
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply '
            "patch"
        )
    check_type(kind, body, target.name)
    if kind.namespaced:
        body.setdefault("metadata", {}).setdefault("namespace", target.namespace)


async def delete_options(request: web.BaseRequest, context: RequestContext) -> Obj:
    options = decode_options(await request.read(), request.headers.get("Content-Type", ""))
    query = request.query
    if "gracePeriodSeconds" in query:
        if not query["gracePeriodSeconds"].lstrip("-").isdigit():
            raise errors.bad_request("gracePeriodSeconds: expected an integer")
        options.setdefault("gracePeriodSeconds", int(query["gracePeriodSeconds"]))
    if "propagationPolicy" in query:
        options.setdefault("propagationPolicy", query["propagationPolicy"])
    if options.get("dryRun"):
        context.dry_run = True
    return options
