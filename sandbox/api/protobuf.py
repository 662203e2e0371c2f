"""Decoder for request bodies in Kubernetes' protobuf encoding, which newer kubectl sends for built-in kinds.

Field numbers come from `builtin_wire.json`, written by `tests/tools/builtin_wire.py`. A body is a protocol
buffers message in an envelope that starts with `k8s` and a zero byte. Responses are always JSON, which every
client that sends protobuf accepts.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from sandbox import errors
from sandbox.kinds.builtin_types import type_of
from sandbox.objects import Obj
from scheduler_core.decoding import decode
from scheduler_core.model.timestamps import format_micro_time, format_time

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_DEPTH_LIMIT = 64
Fields = dict[int, tuple[str, str, str]]


class _Broken(Exception):
    """Bytes that cannot be decoded as the expected message; the text is the reason."""


@lru_cache(maxsize=1)
def messages() -> dict[str, Fields]:
    """Fields of each message by its name: `{number: (JSON name, flags, type)}`."""
    raw = Path(__file__).with_name("builtin_wire.json").read_bytes()
    return decode(raw, dict[str, dict[int, tuple[str, str, str]]])


def decode_protobuf(body: bytes) -> Obj:
    """The object in an envelope. Raises BadRequest for invalid bytes, UnsupportedMediaType by kind."""
    try:
        if not body.startswith(_MAGIC):
            raise _Broken("does not appear to be a protobuf message")
        envelope = dict(_parts(memoryview(body)[4:]))
        header = {number: bytes(value).decode() for number, value in _parts(envelope.get(1, b""))}
        api_version, kind = header.get(1, ""), header.get(2, "")
        name = f"{_META}{kind}" if kind == "DeleteOptions" else type_of(api_version, kind)
        if name not in messages():
            raise errors.unsupported_media_type(("application/json", "application/yaml"))
        obj = _message(name, envelope.get(2, b""), 0)
    except (_Broken, IndexError, ValueError, struct.error, TypeError) as error:
        raise errors.bad_request(f"couldn't decode the protobuf body: {error}") from error
    return {"apiVersion": api_version, "kind": kind, **obj}


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
        if shift > 63:
            raise _Broken("a number is too long")


def _parts(data: Any) -> Iterator[tuple[int, Any]]:
    """(field number, value): an int for varints, a float for 64 bit, otherwise the bytes."""
    data = memoryview(data)
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, position = _varint(data, position)
            yield number, value
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            yield number, struct.unpack("<d" if wire == 1 else "<f", data[position : position + size])[0]
            position += size
        elif wire == 2:
            length, position = _varint(data, position)
            if position + length > len(data):
                raise _Broken("a field is longer than its message")
            yield number, data[position : position + length]
            position += length
        else:
            raise _Broken(f"wire type {wire} is unknown")


def _message(name: str, data: Any, depth: int) -> Obj:
    if depth > _DEPTH_LIMIT:
        raise _Broken("messages are nested too deep")
    fields = messages()[name]
    result: Obj = {}
    for number, raw in _parts(data):
        if number not in fields:
            continue
        key, flags, kind = fields[number]
        if "{" in flags:
            item_key, item = _entry(raw, kind, depth)
            result.setdefault(key, {})[item_key] = item
            continue
        value = _value(kind, raw, depth)
        if "^" in flags and isinstance(value, dict) and not key:
            result |= value
        elif "[" in flags:
            result.setdefault(key, []).append(value)
        elif value is not None and ("*" in flags or "!" in flags or value not in ("", 0, False, {})):
            result[key] = value
    return result


def _entry(data: Any, kind: str, depth: int) -> tuple[str, Any]:
    parts = dict(_parts(data))
    key = bytes(parts.get(1, b"")).decode()
    default: Any = b"" if kind in ("s", "b") or len(kind) > 1 else 0
    return key, _value(kind, parts.get(2, default), depth)


def _value(kind: str, raw: Any, depth: int) -> Any:
    if kind == "s" or (kind == "i" and not isinstance(raw, int)):
        return bytes(raw).decode()
    if kind == "i":
        return raw - (1 << 64) if raw >= 1 << 63 else raw
    if kind == "t":
        return bool(raw)
    if kind == "b":
        return base64.b64encode(raw).decode()
    if kind == "d":
        return int(raw) if raw == raw // 1 else raw
    if kind in _SCHEMA_OR:
        return _schema_or(kind, raw, depth)
    special = _SPECIAL.get(kind)
    return special(raw) if special else _message(kind, raw, depth + 1)


_SCHEMA_OR = {"SchemaOrSchemas": 1, "SchemaOrNames": 1, "SchemaOrBool": 2}
"""Messages that hold a JSON schema or another value; field number of the schema."""


def _schema_or(kind: str, raw: Any, depth: int) -> Any:
    others = []
    for number, value in _parts(raw):
        if number == _SCHEMA_OR[kind]:
            return _message(_SCHEMA, value, depth + 1)
        others.append(value)
    if kind == "SchemaOrBool":
        return any(others)
    if kind == "SchemaOrNames":
        return [bytes(value).decode() for value in others]
    return [_message(_SCHEMA, value, depth + 1) for value in others]


def _quantity(raw: Any) -> str:
    return next((bytes(value).decode() for number, value in _parts(raw) if number == 1), "0")


def _int_or_string(raw: Any) -> int | str:
    parts = dict(_parts(raw))
    if parts.get(1):
        return bytes(parts.get(3, b"")).decode()
    return int(_value("i", parts.get(2, 0), 0))


def _time(raw: Any) -> str | None:
    """RFC 3339 time; None for the zero time, which means unset."""
    parts = dict(_parts(raw))
    if 1 not in parts:
        return None
    return format_time(_value("i", parts[1], 0))


def _micro_time(raw: Any) -> str | None:
    parts = dict(_parts(raw))
    if 1 not in parts:
        return None
    return format_micro_time(_value("i", parts[1], 0) + int(parts.get(2, 0)) // 1000 / 1e6)


def _json(raw: Any) -> Any:
    """A JSON value; null for an empty message, because a missing default is no default."""
    return msgspec.json.decode(dict(_parts(raw)).get(1, b"null"))


def _raw_extension(raw: Any) -> Any:
    inner = dict(_parts(raw)).get(1)
    return msgspec.json.decode(inner) if inner else None


_SPECIAL = {
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Time": _time,
    "MicroTime": _micro_time,
    "RawExtension": _raw_extension,
    "JSON": _json,
}
