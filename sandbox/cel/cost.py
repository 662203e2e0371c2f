"""Cost estimates of CEL calls for the largest values that a schema allows, as in kube-apiserver."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from sandbox.cel.types import DeclType, is_open

LIMIT: Final = 2**64 - 1
_TEXT: Final = 0.1
_PATTERN: Final = 0.25


class Size(NamedTuple):
    """Minimum and maximum number of characters or elements."""

    least: int
    most: int


UNKNOWN: Final = Size(0, LIMIT)
ONE: Final = Size(1, 1)


class Value(NamedTuple):
    """Type and cost of an expression, and its size if the type does not determine it.

    `known` is true for a value that the schema describes; `number` is the value of an integer literal.
    """

    type: DeclType
    cost: int
    size: Size | None = None
    known: bool = False
    number: int | None = None


_SCALARS: Final = frozenset({"bool", "int", "double", "duration", "timestamp", "uint"})


def size_of(value: Value) -> Size:
    """The possible sizes of the value."""
    if value.size is not None:
        return value.size
    if value.known:
        return Size(0, value.type.max_elements)
    return ONE if value.type.kind in _SCALARS else UNKNOWN


def capped(amount: float) -> int:
    """A cost limited to the largest 64-bit number."""
    return LIMIT if amount >= LIMIT else int(amount)


def added(one: Size, other: Size) -> Size:
    """The sum of two sizes."""
    return Size(capped(one.least + other.least), capped(one.most + other.most))


def scaled(amount: int, factor: float) -> int:
    """`amount` times `factor`, rounded up."""
    return LIMIT if amount >= LIMIT / max(factor, 1) else math.ceil(amount * factor)


def equality(left: Value, right: Value) -> int:
    """Cost of a comparison, which the shorter value determines."""
    if left.type.kind in ("quantity", "semver"):
        return 1
    return scaled(min(size_of(left).most, size_of(right).most), _TEXT)


def concatenation(left: Value, right: Value) -> tuple[int, Size | None]:
    """Cost of `+`, and the size of its result."""
    kinds = {left.type.kind, right.type.kind}
    total = added(size_of(left), size_of(right))
    if "list" in kinds:
        return 1, total
    if kinds & {"string", "bytes"} or all(map(is_open, (left.type, right.type))):
        return scaled(total.most, _TEXT), total
    return 1, None


def call_cost(name: str, target: Value | None, args: Sequence[Value]) -> tuple[int, Size | None]:
    """Cost of a call without its arguments, and the size of its result (None: unknown)."""
    sizes = [size_of(arg) for arg in args]
    if target is None:
        if name in ("quantity", "isQuantity", "url", "cidr", "isIP", "isCIDR", "ip", "semver", "isSemver"):
            return scaled(sizes[0].most, _TEXT), sizes[0] if name == "url" else None
        return _converted(name, args[0].type.kind, sizes[0]) if args else (1, None)
    own = size_of(target)
    if name in ("startsWith", "endsWith"):
        return scaled(sizes[0].most, _TEXT), None
    if name == "contains":
        return capped(scaled(own.most, _TEXT) * scaled(sizes[0].most, _TEXT)), None
    if name in ("matches", "find", "findAll"):
        text = scaled(capped(own.most + 1), _TEXT)
        result = None if name == "matches" else Size(0, own.most)
        return capped(text * scaled(sizes[0].most, _PATTERN)), result
    if name in ("lowerAscii", "upperAscii", "substring", "trim"):
        return scaled(own.most, _TEXT), own
    if name == "replace":
        return scaled(own.most, 2 * _TEXT), _replaced(own, sizes[0], sizes[1])
    if name == "split":
        limit = args[1].number if len(args) > 1 else None
        return scaled(own.most, 2 * _TEXT), Size(0, own.most if limit is None else max(0, limit))
    if name == "join":
        joined = _joined(target, own, sizes)
        return scaled(joined.most, _TEXT), joined
    if name in ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"):
        return _traversal(target, own), None
    return 1, None


def _converted(name: str, kind: str, size: Size) -> tuple[int, Size | None]:
    """Cost and size of string and bytes conversions; a character takes up to four bytes."""
    other = {"string": "bytes", "bytes": "string"}.get(name)
    if other is None or kind not in (other, "dyn"):
        return 1, None
    cost = scaled(size.most, _TEXT) if kind == other else max(1, scaled(size.most, _TEXT))
    return cost, Size(size.least // 4, size.most) if other == "bytes" else Size(
        size.least, capped(4 * size.most)
    )


def _element(target: Value) -> Size:
    """The size of an element of a list."""
    item = target.type.item
    return Size(0, item.max_elements) if item and target.known else UNKNOWN


def _traversal(target: Value, own: Size) -> int:
    if target.type.kind != "list":
        return scaled(own.most, _TEXT)
    item = target.type.item
    texts = item is not None and item.kind in ("string", "bytes")
    each = 1 + (scaled(_element(target).most, _TEXT) if texts else 0)
    return capped(own.most * each)


def _joined(target: Value, own: Size, sizes: Sequence[Size]) -> Size:
    element = _element(target)
    joined = Size(capped(own.least * element.least), capped(own.most * element.most))
    if sizes:
        gaps = Size(max(0, own.least - 1), max(0, own.most - 1))
        between = Size(capped(gaps.least * sizes[0].least), capped(gaps.most * sizes[0].most))
        joined = added(joined, between)
    return joined


def _replaced(own: Size, old: Size, new: Size) -> Size:
    """The size of a string after a replacement."""
    most_times, kept_most = capped(own.most + 1), own.most
    if old.least and new.most <= old.least:
        most_times = 0
    elif old.least:
        most_times, kept_most = scaled(own.most, 1 / old.least), 0
    least_times, kept_least = own.least + 1, own.least
    if old.most and old.most <= new.least:
        least_times, kept_least = 0, 0
    elif old.most:
        least_times, kept_least = scaled(own.least, 1 / old.most), 0
    return Size(capped(least_times * new.least + kept_least), capped(most_times * new.most + kept_most))
