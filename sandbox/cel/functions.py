"""CEL operators, functions and methods as Python functions, for evaluation."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import reduce
from typing import Any

from sandbox.cel.formatting import formatted, shown
from sandbox.cel.kubernetes_values import VALUE_FUNCTIONS, VALUE_METHODS, Quantity
from sandbox.cel.syntax import CelError
from sandbox.cel.texts import TEXT_METHODS


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


def _whole(value: Any) -> Any:
    """A number; raises CelError for an integer of more than 64 bits."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise CelError("integer overflow")
    return value


def negated(value: Any) -> Any:
    """`-value`."""
    return -value if isinstance(value, timedelta) else _whole(-number(value))


def _subtract(left: Any, right: Any) -> Any:
    if isinstance(left, datetime | timedelta):
        return left - right
    return _whole(number(left) - number(right))


def _remainder(left: int, right: int) -> int:
    return left - right * _divide(left, right)


class CelType:
    """A type as a value: `type(self.x) == string`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CelType) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


_TYPES: Mapping[type, str] = {
    bool: "bool",
    int: "int",
    float: "double",
    str: "string",
    list: "list",
    dict: "map",
    type(None): "null_type",
    CelType: "type",
}


def _type(value: Any) -> CelType:
    return CelType(_TYPES.get(type(value), type(value).__name__))


def _integer(value: Any) -> int:
    if isinstance(value, datetime):
        return int(value.timestamp())
    if isinstance(value, str) and not re.fullmatch(r"[+-]?\d+", value):
        raise CelError(f"{value!r} is no integer")
    found: int = _whole(int(value))
    return found


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if value in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise CelError(f"{value!r} is neither true nor false")


def _equal(left: Any, right: Any) -> bool:
    if isinstance(right, Quantity) and right.computed:
        # Kubernetes' Equal asks for a value, and sums are pointers to one.
        raise CelError("no such overload")
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _divide(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        if right == 0:
            raise CelError("division by zero")
        return _whole((abs(left) // abs(right)) * (1 if (left < 0) == (right < 0) else -1))
    return _quotient(number(left), number(right))


def _quotient(above: float, below: float) -> float:
    """As IEEE 754 divides: by zero, too."""
    if below:
        return above / below
    return (
        math.nan
        if not above or math.isnan(above)
        else math.copysign(math.inf, above) * math.copysign(1, below)
    )


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def of(left: Any, right: Any) -> bool:
        if any(isinstance(value, float) and math.isnan(value) for value in (left, right)):
            raise CelError("NaN values cannot be ordered")
        return compare(left, right)

    return of


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, list) and isinstance(right, list):
        return [*left, *right]
    if isinstance(left, datetime | timedelta):
        return left + right
    if isinstance(right, datetime):
        return right + left
    return _whole(number(left) + number(right))


def _in(item: Any, container: Any) -> bool:
    if isinstance(container, Mapping):
        return item in container
    return any(_equal(item, other) for other in container)


def otherwise(name: str, target: Any, default: Callable[[], Any]) -> Any:
    """`target.orValue(default)` or `target.or(default)`: the default is evaluated only where it is needed."""
    if not isinstance(target, Optional):
        raise CelError(f"{name}() needs an optional value such as object.?spec")
    if not target.present:
        return default()
    return target.value if name == "orValue" else target


def _value(target: Any) -> Any:
    if not isinstance(target, Optional) or not target.present:
        raise CelError("optional.none() dereference")
    return target.value


def _has_value(target: Any) -> bool:
    return isinstance(target, Optional) and target.present


def _to_string(value: Any) -> str:
    if isinstance(value, list | dict | Quantity) or value is None:
        raise CelError(f"string() takes no {type(value).__name__}")
    return shown(value)


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "in": _in,
    "+": _add,
    "-": _subtract,
    "*": lambda left, right: _whole(number(left) * number(right)),
    "/": _divide,
    "%": _remainder,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "size": len,
    "string": _to_string,
    "int": _integer,
    "double": float,
    "bool": _bool,
    "dyn": lambda value: value,
    "type": _type,
    **VALUE_FUNCTIONS,
}
METHODS: dict[str, Callable[..., Any]] = {
    "size": len,
    **TEXT_METHODS,
    "sum": lambda items: reduce(_add, items) if items else 0,
    **VALUE_METHODS,
    "format": formatted,
    "hasValue": _has_value,
    "value": _value,
}
# Evaluated by `otherwise`, because their argument may not be.
LAZY = frozenset({"orValue", "or"})


def _has_all(items: list[Any], wanted: list[Any]) -> bool:
    return all(_in(item, items) for item in wanted)


LIBRARY_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sets.contains": _has_all,
    "sets.intersects": lambda one, other: any(_in(item, one) for item in other),
    "sets.equivalent": lambda one, other: _has_all(one, other) and _has_all(other, one),
    "optional.of": lambda value: Optional(True, value),
    "optional.none": lambda: ABSENT,
    "optional.ofNonZeroValue": lambda value: Optional(True, value) if value else ABSENT,
    "strings.quote": json.dumps,
    "ip.isCanonical": lambda text: str(VALUE_FUNCTIONS["ip"](text)) == text,
}
"""Functions of namespaces, by their whole names."""
