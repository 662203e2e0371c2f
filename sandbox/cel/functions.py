"""CEL operators, functions and methods as Python functions, for evaluation."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.cel.syntax import CelError
from scheduler_core.errors import ModelError
from scheduler_core.model.quantity import parse_quantity


class Optional:
    """The value of `a.?b`, present or absent."""

    __slots__ = ("present", "value")

    def __init__(self, present: bool, value: Any = None) -> None:
        self.present = present
        self.value = value


ABSENT = Optional(False)


def boolean(value: Any) -> bool:
    """The value itself; raises CelError if it is not a bool."""
    if not isinstance(value, bool):
        raise CelError(f"expected a bool, not {type(value).__name__}")
    return value


def number(value: Any) -> Any:
    """The value itself; raises CelError if it is not an int or double."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CelError(f"expected a number, not {type(value).__name__}")
    return value


def _equal(left: Any, right: Any) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _divide(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        return (abs(left) // abs(right)) * (1 if (left < 0) == (right < 0) else -1)
    return number(left) / number(right)


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, list) and isinstance(right, list):
        return [*left, *right]
    return number(left) + number(right)


def _in(item: Any, container: Any) -> bool:
    if isinstance(container, Mapping):
        return item in container
    return any(_equal(item, other) for other in container)


def _or_value(target: Any, default: Any) -> Any:
    if not isinstance(target, Optional):
        raise CelError("orValue() needs an optional value such as object.?spec")
    return target.value if target.present else default


def _has_value(target: Any) -> bool:
    return isinstance(target, Optional) and target.present


def _to_string(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quantity(text: Any) -> int:
    """A quantity in thousandths, rounded up."""
    try:
        return parse_quantity(text, scale=3)
    except ModelError as error:
        raise CelError(error.problem) from None


def _format(text: str, values: list[Any]) -> str:
    """The text with a value in the place of each `%s`; other verbs are not supported."""
    parts = text.split("%s")
    if "%" in "".join(parts) or len(parts) != len(values) + 1:
        raise CelError(f"format {text!r} does not suit {len(values)} values")
    return parts[0] + "".join(_to_string(value) + part for value, part in zip(values, parts[1:], strict=True))


def _is_quantity(text: Any) -> bool:
    try:
        parse_quantity(text)
    except ModelError:
        return False
    return isinstance(text, str)


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": _in,
    "+": _add,
    "-": lambda left, right: number(left) - number(right),
    "*": lambda left, right: number(left) * number(right),
    "/": _divide,
    "%": lambda left, right: left - right * _divide(left, right),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "size": len,
    "string": _to_string,
    "int": int,
    "double": float,
    "dyn": lambda value: value,
    "quantity": _quantity,
    "isQuantity": _is_quantity,
}
METHODS: dict[str, Callable[..., Any]] = {
    "size": len,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": lambda text, part: operator.contains(text, part),
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
    "lowerAscii": str.lower,
    "upperAscii": str.upper,
    "trim": str.strip,
    "split": str.split,
    "replace": str.replace,
    "join": lambda items, separator="": separator.join(items),
    "isGreaterThan": operator.gt,
    "isLessThan": operator.lt,
    "asApproximateFloat": lambda amount: amount / 1000,
    "format": _format,
    "compareTo": lambda left, right: (left > right) - (left < right),
    "orValue": _or_value,
    "hasValue": _has_value,
}
