"""The types that expressions have over a schema: what they consist of, and how large their values may be.

Sizes follow Kubernetes' declarations for structural schemas: what no limit bounds is bounded by the largest
request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Schema = dict[str, Any]
REQUEST_BYTES: Final = 3 * 1024 * 1024
_TEXT_MAX: Final = REQUEST_BYTES - 2
_RESERVED: Final = frozenset(
    {
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    }
)
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


@dataclass(frozen=True, eq=False)
class Decl:
    """One type. `max_elements` bounds the length of a text, list or map; `min_size` is in bytes of JSON.

    `kind` is that of CEL (`int`, `string`, `list`, ...), `object` for one with fields, `dyn` for what is only
    known when the rule runs, `any` for what is not followed here: it fits everywhere.
    """

    kind: str
    fields: Mapping[str, Decl] = field(default_factory=dict)
    key: Decl | None = None
    item: Decl | None = None
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
BOOL, INT, DOUBLE = Decl("bool", min_size=4), Decl("int", min_size=1), Decl("double", min_size=1)
STRING, BYTES, NULL, TYPE = Decl("string", min_size=2), Decl("bytes"), Decl("null"), Decl("type")
DYN, ANY = Decl("dyn"), Decl("any")
_OPEN: Final = frozenset({"dyn", "any"})


def is_open(decl: Decl) -> bool:
    """Whether the type is only known when the rule runs."""
    return decl.kind in _OPEN


def fits(one: Decl, other: Decl) -> bool:
    """Whether values of the two may stand for each other; objects of different schemas may not."""
    if is_open(one) or is_open(other):
        return True
    if one.kind == "object" or other.kind == "object":
        return one is other
    if one.kind != other.kind:
        return False
    parts = ((one.key, other.key), (one.item, other.item))
    return all(a is None or b is None or fits(a, b) for a, b in parts)


def escaped(name: str) -> str:
    """A property as an identifier of CEL, "" if it cannot be one."""
    if name in _RESERVED:
        return f"__{name}__"
    if not re.fullmatch(r"[A-Za-z_./-][A-Za-z0-9_./-]*", name):
        return ""
    return re.sub(r"__|[./-]", lambda match: _ESCAPES[match.group()], name)


def limit_of(schema: Schema, key: str) -> int | None:
    """A limit such as `maxItems`, None where there is none."""
    found = schema.get(key)
    return max(0, found) if isinstance(found, int) else None


def declared(schema: Schema, root: bool = False) -> Decl | None:
    """The type of values of a schema; None where it says too little. `root`: of a whole object."""
    if schema.get("x-kubernetes-int-or-string"):
        limit = limit_of(schema, "maxLength")
        return Decl("dyn", max_elements=_TEXT_MAX if limit is None else 4 * limit, min_size=1)
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


def _inner(schema: Any) -> Decl | None:
    if not isinstance(schema, dict):
        return None
    return declared(schema, bool(schema.get("x-kubernetes-embedded-resource")))


def _list(schema: Schema) -> Decl | None:
    item = _inner(schema.get("items"))
    if item is None:
        return None
    limit = limit_of(schema, "maxItems")
    most = (REQUEST_BYTES - 2) // (item.min_size + 1) if limit is None else limit
    return Decl("list", item=item, max_elements=most, min_size=2)


def _object(schema: Schema) -> Decl | None:
    if isinstance(schema.get("additionalProperties"), dict):
        item = _inner(schema["additionalProperties"])
        if item is None:
            return None
        limit = limit_of(schema, "maxProperties")
        most = (REQUEST_BYTES - 2) // (item.min_size + 6) if limit is None else limit
        return Decl("map", key=STRING, item=item, max_elements=most, min_size=2)
    fields, size = {}, 2
    for name, inner in (schema.get("properties") or {}).items():
        found = _inner(inner)
        if found is None:
            continue
        if escaped(name):
            fields[escaped(name)] = found
        if name in (schema.get("required") or ()) and "default" not in inner:
            size += len(name) + found.min_size + 4
    return Decl("object", fields=fields, min_size=size)


_FORMATS: Final = {
    "duration": ("duration", 32, 3),
    "date": ("timestamp", 12, 12),
    "date-time": ("timestamp", 32, 21),
}
"""By format: the type, and the most and fewest bytes of its JSON."""


def _text(schema: Schema) -> Decl:
    found = _FORMATS.get(schema.get("format", ""))
    if found:
        kind, most, least = found
        return Decl(kind, max_elements=most, min_size=least)
    limit = limit_of(schema, "maxLength")
    if schema.get("format") == "byte":
        return Decl("bytes", max_elements=_TEXT_MAX if limit is None else limit, min_size=2)
    if limit is not None:
        return Decl("string", max_elements=4 * limit, min_size=2)
    choices = [len(choice) for choice in schema.get("enum") or () if isinstance(choice, str)]
    return Decl("string", max_elements=max(choices) if choices else _TEXT_MAX, min_size=2)
