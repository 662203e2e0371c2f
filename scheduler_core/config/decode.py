"""Decodes plain values to typed structs, strictly: unknown fields and wrong types are errors with a path."""

from __future__ import annotations

import functools
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import inspect

from scheduler_core.config.problems import child, index
from scheduler_core.errors import ConfigError
from scheduler_core.model.duration import parse_duration

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Seconds = Annotated[float, msgspec.Meta(extra={"duration": True})]

T = TypeVar("T", bound=msgspec.Struct)


def decode(value: Any, kind: type[T], base: str, errors: list[ConfigError]) -> T:
    """`value` as a `kind`; errors are added to `errors`, and the field keeps its default.

    `base` is the path of `value` in the file. Every field of `kind` needs a default. A null is an absent
    field, as Kubernetes reads it.
    """
    reader = _StrictReader(base, errors)
    result: T | None = reader.read(value, _shape(kind), "")
    return result if result is not None else kind()


@functools.cache
def _shape(kind: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(kind)


class _StrictReader:
    """One value's walk. Each method returns the value, or None after noting an error."""

    def __init__(self, base: str, errors: list[ConfigError]) -> None:
        self._base = base
        self._errors = errors

    def read(self, value: Any, shape: inspect.Type, path: str) -> Any:
        match shape:
            case inspect.AnyType():
                return value
            case inspect.UnionType(types=types):
                inner = next(kind for kind in types if not isinstance(kind, inspect.NoneType))
                return self.read(value, inner, path)
            case inspect.StructType():
                return self._struct(value, shape, path)
            case inspect.VarTupleType(item_type=item_type):
                return self._sequence(value, item_type, path)
            case inspect.DictType(value_type=value_type):
                return self._mapping(value, value_type, path)
            case inspect.Metadata(type=inspect.FloatType()):
                return self._duration(value, path)
            case _:
                return self._scalar(value, shape, path)

    def _struct(self, value: Any, shape: inspect.StructType, path: str) -> Any:
        if not isinstance(value, dict):
            return self._mismatch(value, "object", path)
        fields = {field.encode_name: field for field in shape.fields}
        known: dict[str, Any] = {}
        for key, item in value.items():
            field = fields.get(key)
            if field is None:
                self._unknown(child(path, key), sorted(fields))
            elif item is not None:
                read = self.read(item, field.type, child(path, key))
                if read is not None:
                    known[field.name] = read
        return shape.cls(**known)

    def _sequence(self, value: Any, item_type: inspect.Type, path: str) -> Any:
        if not isinstance(value, list):
            return self._mismatch(value, "list", path)
        items = []
        for i, item in enumerate(value):
            read = self._absent(item_type) if item is None else self.read(item, item_type, index(path, i))
            if read is not None:
                items.append(read)
        return tuple(items)

    def _absent(self, shape: inspect.Type) -> Any:
        """The value of a null list item: the empty value of its type."""
        if isinstance(shape, inspect.StructType):
            return shape.cls()
        return "" if isinstance(shape, inspect.StrType) else None

    def _mapping(self, value: Any, value_type: inspect.Type, path: str) -> Any:
        if not isinstance(value, dict):
            return self._mismatch(value, "object", path)
        read = {key: self.read(item, value_type, child(path, key)) for key, item in value.items()}
        return {key: item for key, item in read.items() if item is not None}

    def _duration(self, value: Any, path: str) -> Any:
        seconds = parse_duration(value) if isinstance(value, str) else None
        if seconds is not None:
            return seconds
        if isinstance(value, str):
            return self._refuse(path, f'time: invalid duration "{value}" (allowed: like 15s, 1h30m, 250ms)')
        return self._mismatch(value, "duration", path)

    def _scalar(self, value: Any, shape: inspect.Type, path: str) -> Any:
        match shape:
            case inspect.StrType():
                return value if isinstance(value, str) else self._mismatch(value, "string", path)
            case inspect.BoolType():
                return value if isinstance(value, bool) else self._mismatch(value, "bool", path)
            case inspect.IntType(ge=low, le=high):
                return self._integer(value, low, high, path)
            case _:
                number = isinstance(value, int | float) and not isinstance(value, bool)
                return float(value) if number else self._mismatch(value, "number", path)

    def _integer(self, value: Any, low: int | None, high: int | None, path: str) -> Any:
        kind = "int32" if high == 2**31 - 1 else "int64"
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            return self._mismatch(value, kind, path)
        if (low is not None and value < low) or (high is not None and value > high):
            return self._refuse(
                path, f"cannot unmarshal number {value} into a value of type {kind} (allowed: {low}..{high})"
            )
        return value

    def _unknown(self, path: str, known: list[str]) -> None:
        allowed = ", ".join(known)
        self._refuse(path, f'strict decoding error: unknown field "{path}" (known fields: {allowed})')

    def _mismatch(self, value: Any, kind: str, path: str) -> None:
        is_word = kind == "string" and isinstance(value, bool)
        hint = " (put yes, no, on, off, true and false in quotes)" if is_word else ""
        self._refuse(path, f"cannot unmarshal {_type_name(value)} into a value of type {kind}{hint}")

    def _refuse(self, path: str, problem: str) -> None:
        if path.startswith("["):
            self._errors.append(ConfigError(self._base + path, problem))
        else:
            self._errors.append(ConfigError(child(self._base, path) if path else self._base, problem))


def _type_name(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return f"number {value}"
        case str():
            return f'string "{value}"'
        case list():
            return "list"
        case _:
            return "object"
