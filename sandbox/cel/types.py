"""CEL types of structural schemas, with the maximum sizes of their values.

Sizes follow Kubernetes' declarations for structural schemas: without a limit in the schema, the maximum
request size bounds a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sandbox.cel.names import escaped

Schema = dict[str, Any]
REQUEST_BYTES: Final = 3 * 1024 * 1024
_TEXT_MAX: Final = REQUEST_BYTES - 2


@dataclass(frozen=True, eq=False)
class DeclType:
    """One type. `max_elements` limits the length of a string, list or map; `min_size` is in bytes of JSON.

    `kind` is a CEL type (`int`, `string`, `list`, ...), `object` for a type with fields, `dyn` for a type
    that is known only at evaluation, or `any` for a type that the checker does not know and always accepts.
    """

    kind: str
    fields: Mapping[str, DeclType] = field(default_factory=dict)
    key: DeclType | None = None
    item: DeclType | None = None
    max_elements: int = 0
    min_size: int = 0

    def __str__(self) -> str:
        if self.kind == "list":
            return f"list({self.item})"
        if self.kind == "map":
            return f"map({self.key}, {self.item})"
        if self.kind == "optional":
            return f"optional_type({self.item})"
        return _NAMES.get(self.kind, self.kind)


_NAMES: Final = {
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "quantity": "kubernetes.Quantity",
}
BOOL, INT, DOUBLE = DeclType("bool", min_size=4), DeclType("int", min_size=1), DeclType("double", min_size=1)
STRING, NULL, TYPE = (
    DeclType("string", min_size=2),
    DeclType("null"),
    DeclType("type"),
)
DYN, ANY = DeclType("dyn"), DeclType("any")
_OPEN: Final = frozenset({"dyn", "any"})


def is_open(decl: DeclType) -> bool:
    """True if the checker does not know the type before evaluation."""
    return decl.kind in _OPEN


def fits(one: DeclType, other: DeclType) -> bool:
    """True if the two types are compatible; objects of different schemas are not."""
    if is_open(one) or is_open(other):
        return True
    if one.kind == "object" or other.kind == "object":
        return one is other
    if one.kind != other.kind:
        return False
    parts = ((one.key, other.key), (one.item, other.item))
    return all(a is None or b is None or fits(a, b) for a, b in parts)


def limit_of(schema: Schema, key: str) -> int | None:
    """A limit such as `maxItems`; None if the schema does not set it."""
    found = schema.get(key)
    return max(0, found) if isinstance(found, int) else None


def declared(schema: Schema, root: bool = False) -> DeclType | None:
    """The type of a schema; None if the schema does not determine it. `root` is true for a whole object."""
    if schema.get("x-kubernetes-int-or-string"):
        limit = limit_of(schema, "maxLength")
        return DeclType("dyn", max_elements=_TEXT_MAX if limit is None else 4 * limit, min_size=1)
    if root:
        named = {
            "type": "object",
            "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
        }
        own = {"kind": {"type": "string"}, "apiVersion": {"type": "string"}, "metadata": named}
        schema = {**schema, "properties": {**(schema.get("properties") or {}), **own}}
    kind = schema.get("type")
    if kind == "array":
        return _list(schema)
    if kind == "object":
        return _object(schema)
    if kind == "string":
        return _text(schema)
    return {"boolean": BOOL, "number": DOUBLE, "integer": INT}.get(str(kind))


def _inner(schema: Any) -> DeclType | None:
    if not isinstance(schema, dict):
        return None
    return declared(schema, bool(schema.get("x-kubernetes-embedded-resource")))


def _list(schema: Schema) -> DeclType | None:
    item = _inner(schema.get("items"))
    if item is None:
        return None
    limit = limit_of(schema, "maxItems")
    most = (REQUEST_BYTES - 2) // (item.min_size + 1) if limit is None else limit
    return DeclType("list", item=item, max_elements=most, min_size=2)


def _object(schema: Schema) -> DeclType | None:
    if isinstance(schema.get("additionalProperties"), dict):
        item = _inner(schema["additionalProperties"])
        if item is None:
            return None
        limit = limit_of(schema, "maxProperties")
        most = (REQUEST_BYTES - 2) // (item.min_size + 6) if limit is None else limit
        return DeclType("map", key=STRING, item=item, max_elements=most, min_size=2)
    fields, size = {}, 2
    for name, inner in (schema.get("properties") or {}).items():
        found = _inner(inner)
        if found is None:
            continue
        if escaped(name):
            fields[escaped(name)] = found
        if name in (schema.get("required") or ()) and "default" not in inner:
            size += len(name) + found.min_size + 4
    return DeclType("object", fields=fields, min_size=size)


_FORMATS: Final = {
    "duration": ("duration", 32, 3),
    "date": ("timestamp", 12, 12),
    "date-time": ("timestamp", 32, 21),
}
"""Type, and maximum and minimum size in bytes of JSON, by format."""


def _text(schema: Schema) -> DeclType:
    found = _FORMATS.get(schema.get("format", ""))
    if found:
        kind, most, least = found
        return DeclType(kind, max_elements=most, min_size=least)
    limit = limit_of(schema, "maxLength")
    if schema.get("format") == "byte":
        return DeclType("bytes", max_elements=_TEXT_MAX if limit is None else limit, min_size=2)
    if limit is not None:
        return DeclType("string", max_elements=4 * limit, min_size=2)
    choices = [len(choice) for choice in schema.get("enum") or () if isinstance(choice, str)]
    return DeclType("string", max_elements=max(choices) if choices else _TEXT_MAX, min_size=2)
