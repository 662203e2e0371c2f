"""Field names, types and merge keys of the built-in kinds, from `builtin_types.json`.

Users are strict decoding (unknown fields, wrong JSON types), strategic merge patches and OpenAPI documents.
The table is written by `tests/tools/builtin_types.py` from a real kube-apiserver.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from sandbox import errors
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.stored_quantities import RULE, as_stored
from sandbox.objects import Obj
from scheduler_core.decoding import decode
from scheduler_core.errors import ModelError

# The Kubernetes release of the types, which server and nodes give as theirs.
RELEASE: Final = "1.37.2"
GIT_VERSION: Final = f"v{RELEASE}-muster-sandbox"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class BuiltinField(msgspec.Struct, frozen=True):
    """One field: its item type, its container (none, list or map), and the merge key of a list.

    `merge_key` is None for an atomic list, "" for a set of plain values.
    """

    type: str
    is_list: bool = False
    is_map: bool = False
    merge_key: str | None = None


class _Type(msgspec.Struct):
    fields: dict[str, str]
    required: list[str]


class _Document(msgspec.Struct):
    kinds: dict[str, str]
    types: dict[str, _Type]


class _Table(msgspec.Struct):
    kinds: dict[str, str]
    fields: dict[str, dict[str, BuiltinField]]
    required: dict[str, list[str]]


def _field(text: str) -> BuiltinField:
    text, has_key, key = text.partition("@")
    if text.startswith("[]"):
        return BuiltinField(text[2:], is_list=True, merge_key=key if has_key else None)
    if text.startswith("{}"):
        return BuiltinField(text[2:], is_map=True)
    return BuiltinField(text)


@lru_cache(maxsize=1)
def _table() -> _Table:
    raw = Path(__file__).with_name("builtin_types.json").read_bytes()
    document = decode(raw, _Document)
    fields = {
        name: {key: _field(text) for key, text in entry.fields.items()}
        for name, entry in document.types.items()
    }
    required = {name: entry.required for name, entry in document.types.items()}
    return _Table(document.kinds, fields, required)


def type_of(api_version: str, kind: str) -> str:
    """The type name of a built-in kind; "" for other kinds."""
    return _table().kinds.get(f"{api_version} {kind}", "")


def fields_of(type_name: str) -> dict[str, BuiltinField]:
    """The fields of a type by name; empty for plain and unknown types."""
    return _table().fields.get(type_name, {})


def required_of(type_name: str) -> list[str]:
    """The required fields of a type."""
    return _table().required.get(type_name, [])


class WrongType(errors.StatusError):
    """400 for a field with a value of a wrong JSON type; `problem` is what Go's decoder says."""

    def __init__(self, kind: ApiKind, problem: str) -> None:
        what = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        super().__init__(400, "BadRequest", f"{what}: {problem}")
        self.problem = problem


def prune(kind: ApiKind, obj: Obj) -> list[str]:
    """Remove nulls and unknown fields from an object in place; returns the paths of unknown fields.

    A null in a map becomes the zero value of its type, as in Go: `{"sakkara.group":}` is an empty label.
    Quantities get the text that is stored: `0.5` is `500m`.

    Raises WrongType.
    """
    unknown: list[str] = []
    root = type_of(kind.api_version, kind.kind)
    if root:
        try:
            _prune_object(root, obj, "", unknown)
        except _Mismatch as error:
            raise WrongType(kind, str(error)) from None
    return unknown


def prune_metadata(meta: Obj, path: str, unknown: list[str]) -> None:
    """Like `prune` for the metadata of a custom or embedded object at `path`; extends `unknown`."""
    try:
        _prune_object(OBJECT_META, meta, f"{path}.", unknown)
    except _Mismatch as error:
        raise errors.bad_request(f"{path}: {error}") from None


class _Mismatch(Exception):
    """A value of a wrong JSON type; the text is Go's decoding error."""


def _prune_object(type_name: str, obj: Any, path: str, unknown: list[str]) -> None:
    fields = _table().fields[type_name]
    for key in list(obj):
        field = fields.get(key)
        value = obj[key]
        if field is None:
            unknown.append(f"{path}{key}")
            del obj[key]
        elif value is None:
            del obj[key]
        elif field.is_list:
            if not isinstance(value, list):
                raise _mismatch(type_name, f"{path}{key}", value, f"[]{field.type.rpartition('.')[2]}")
            if field.type not in _PLAIN_OK:
                for index, item in enumerate(value):
                    _prune_value(type_name, field.type, item, f"{path}{key}[{index}]", unknown)
        elif field.is_map:
            if not isinstance(value, dict):
                raise _mismatch(
                    type_name, f"{path}{key}", value, f"map[string]{field.type.rpartition('.')[2]}"
                )
            for name, item in value.items():
                if item is None and field.type in _ZERO:
                    value[name] = _ZERO[field.type]
                    continue
                _prune_value(type_name, field.type, item, f"{path}{key}.{name}", unknown)
                if field.type == "quantity":
                    value[name] = _stored(item, of_resource=True)
            if not value:
                # Go writes no empty map.
                del obj[key]
        else:
            _prune_value(type_name, field.type, value, f"{path}{key}", unknown)
            if field.type == "quantity":
                obj[key] = _stored(value)


def _stored(value: str | float, *, of_resource: bool = False) -> str:
    try:
        return as_stored(value, of_resource=of_resource)
    except ModelError:
        raise _Mismatch(RULE) from None


_PLAIN_OK = frozenset({"any"})
_ZERO = {"string": "", "quantity": "0"}
_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "quantity": (str, int, float),
    "int-or-string": (int, str),
    "time": (str,),
}


def _prune_value(owner: str, wanted: str, value: Any, path: str, unknown: list[str]) -> None:
    accepted = _JSON_TYPES.get(wanted)
    if accepted is None:
        if wanted == "any":
            return
        if not isinstance(value, dict):
            raise _mismatch(owner, path, value, wanted.rpartition(".")[2])
        if wanted in _table().fields:
            _prune_object(wanted, value, f"{path}.", unknown)
        return
    if not isinstance(value, accepted) or (isinstance(value, bool) and wanted != "boolean"):
        raise _mismatch(owner, path, value, _GO_TYPES.get(wanted, wanted))


_GO_TYPES = {"integer": "int32", "boolean": "bool", "number": "float64", "quantity": "resource.Quantity"}


def _mismatch(owner: str, path: str, value: Any, wanted: str) -> _Mismatch:
    names = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    plain = ".".join(part.partition("[")[0] for part in path.split("."))
    found = names.get(type(value), "null")
    place = f"{owner.rpartition('.')[2]}.{plain}"
    return _Mismatch(f"json: cannot unmarshal {found} into Go struct field {place} of type {wanted}")
