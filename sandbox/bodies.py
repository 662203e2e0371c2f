"""Request bodies to objects and objects to response bytes."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from sandbox import errors
from sandbox.kinds import ApiKind
from sandbox.objects import Obj
from sandbox.protobuf import MEDIA_TYPE, decode_protobuf

BODY_LIMIT = 3 * 1024 * 1024
_ACCEPTED = ("application/json", "application/yaml", MEDIA_TYPE)
_YAML: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_decode = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode


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
    """A YAML document; JSON is YAML too, and faster read as such. Raises BadRequest."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        # A few aliases of aliases can stand for gigabytes.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(body, Loader=_YAML)):
            raise errors.bad_request("error converting YAML to JSON: aliases are not supported")
        # Dates and numbers as keys become texts, as in JSON.
        return _decode(encode(yaml.load(body, Loader=_YAML)))
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
    """Check and complete apiVersion, kind and name against the URL. Raises BadRequest.

    Of a custom resource the URL completes nothing but the name: its body must say what it is.
    """
    if kind.custom and not obj.get("kind"):
        text = f"the object provided is unrecognized (must be of type {kind.kind}): Object 'Kind' is missing"
        raise errors.bad_request(text)
    found_kind, found_version = (
        obj.setdefault("kind", kind.kind),
        obj.setdefault("apiVersion", kind.api_version),
    )
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
    if name and not isinstance(meta, dict):
        obj["metadata"] = {"name": name}
    elif name and isinstance(meta, dict):
        meta["name"] = name


def decode_options(body: bytes, content_type: str) -> Obj:
    """A DeleteOptions body, empty if there is none."""
    if not body.strip():
        return {}
    options = decode_object(body, content_type)
    grace = options.get("gracePeriodSeconds")
    if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int)):
        raise errors.bad_request("gracePeriodSeconds: expected an integer")
    return options
