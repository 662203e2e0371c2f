"""Objects of built-in kinds as Kubernetes' protobuf, by the sandbox's own table of field numbers.

A real kube-apiserver reads what this writes, so a test that runs on both servers holds table and reader.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from sandbox.api.protobuf import Fields, messages
from sandbox.kinds.builtin_types import type_of

_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


def encoded(obj: dict[str, Any]) -> bytes:
    """The object in its envelope."""
    api_version, kind = obj["apiVersion"], obj["kind"]
    header = _bytes(1, api_version.encode()) + _bytes(2, kind.encode())
    return b"k8s\x00" + _bytes(1, header) + _bytes(2, _message(type_of(api_version, kind), obj))


def _message(name: str, obj: dict[str, Any]) -> bytes:
    out = b""
    fields: Fields = messages()[name]
    for number, (key, flags, kind) in sorted(fields.items()):
        if "^" in flags and not key:
            out += _bytes(number, _message(kind, obj))
        elif key in obj:
            out += _field(number, flags, kind, obj[key])
    return out


def _field(number: int, flags: str, kind: str, value: Any) -> bytes:
    if "{" in flags:
        entries = [_bytes(1, key.encode()) + _one(2, kind, item) for key, item in value.items()]
        return b"".join(_bytes(number, entry) for entry in entries)
    if "[" in flags:
        return b"".join(_one(number, kind, item) for item in value)
    return _one(number, kind, value)


def _one(number: int, kind: str, value: Any) -> bytes:
    if kind in ("i", "t"):
        return _varint(number << 3) + _varint(int(value) & (1 << 64) - 1)
    if kind == "d":
        return _varint(number << 3 | 1) + struct.pack("<d", value)
    if kind == "s":
        return _bytes(number, str(value).encode())
    return _bytes(number, _special(kind, value))


def _special(kind: str, value: Any) -> bytes:
    if kind == "Quantity":
        return _bytes(1, str(value).encode())
    if kind == "JSON":
        return _bytes(1, json.dumps(value).encode())
    if kind == "SchemaOrBool":
        return _one(1, "t", value) if isinstance(value, bool) else _bytes(2, _message(_SCHEMA, value))
    if kind in ("SchemaOrSchemas", "SchemaOrNames"):
        return _bytes(1, _message(_SCHEMA, value))
    return _message(kind, value)


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])
