"""Types and costs of CEL literals and operators, for the type checker."""

from __future__ import annotations

from typing import Any, Final

from sandbox.cel.cost import ONE, Size, Value, capped, concatenation, equality, size_of
from sandbox.cel.syntax import CelError
from sandbox.cel.types import ANY, BOOL, DOUBLE, DYN, INT, NULL, STRING, DeclType, fits, is_open

_NUMBERS: Final = frozenset({"int", "double", "uint"})
_ORDERED: Final = frozenset({"int", "double", "uint", "string", "bytes", "bool", "timestamp", "duration"})
LIST_COST: Final = 10


def no_overload(name: str, *operands: Value) -> CelError:
    """The error for operands of unsupported types."""
    return CelError(
        f"found no matching overload for '{name}' applied to '({', '.join(str(v.type) for v in operands)})'"
    )


def total(*costs: int) -> int:
    """The sum of costs, capped."""
    return capped(sum(costs))


def literal(value: Any) -> Value:
    """Value of a literal."""
    if isinstance(value, bool):
        return Value(BOOL, 0, ONE)
    if isinstance(value, int):
        return Value(INT, 0, ONE, number=value)
    if isinstance(value, str):
        return Value(STRING, 0, Size(len(value), len(value)))
    return Value(DOUBLE if isinstance(value, float) else NULL, 0, ONE)


def unary(op: str, of: Value) -> Value:
    """Value of `!x` or `-x`."""
    wanted = {"bool"} if op == "!" else _NUMBERS
    if not is_open(of.type) and of.type.kind not in wanted:
        raise no_overload(f"{op}_", of)
    return Value(BOOL if op == "!" else of.type, total(of.cost, 1))


def expect_bool(value: Value) -> None:
    """Raises CelError if the value cannot be a condition."""
    if not is_open(value.type) and value.type.kind != "bool":
        raise CelError(f"expected type 'bool' but found '{value.type}'")


def binary(op: str, left: Value, right: Value) -> Value:
    """Value of `left op right`."""
    costs = total(left.cost, right.cost)
    open_side = is_open(left.type) or is_open(right.type)
    if op in ("&&", "||"):
        expect_bool(left)
        expect_bool(right)
        return Value(BOOL, costs)
    if op in ("==", "!="):
        if not fits(left.type, right.type):
            raise no_overload(f"_{op}_", left, right)
        return Value(BOOL, total(costs, equality(left, right)))
    if op == "in":
        return _contained(left, right, costs)
    if op in ("<", "<=", ">", ">="):
        kinds = {left.type.kind, right.type.kind}
        if not open_side and not (kinds <= _NUMBERS or (len(kinds) == 1 and kinds <= _ORDERED)):
            raise no_overload(f"_{op}_", left, right)
        return Value(BOOL, total(costs, max(1, equality(left, right)) if kinds & {"string", "dyn"} else 1))
    return _arithmetic(op, left, right, costs)


def _contained(left: Value, right: Value, costs: int) -> Value:
    kind = right.type.kind
    inside = {"list": right.type.item, "map": right.type.key}.get(kind)
    if not is_open(right.type) and (inside is None or not fits(inside, left.type)):
        raise no_overload("@in", left, right)
    return Value(BOOL, total(costs, 1 if kind == "map" else size_of(right).most))


_TIMES: Final = {"timestamp", "duration"}


def _arithmetic(op: str, left: Value, right: Value, costs: int) -> Value:
    name = f"_{op}_"
    if is_open(left.type) or is_open(right.type):
        cost, size = concatenation(left, right) if op == "+" else (1, None)
        kind = right.type if is_open(left.type) else left.type
        return Value(kind if op == "+" else DYN, total(costs, cost), size)
    kinds = {left.type.kind, right.type.kind}
    if kinds <= _TIMES and op in ("+", "-"):
        return Value(ANY, total(costs, 1))
    allowed = _NUMBERS if op != "+" else _NUMBERS | {"string", "bytes", "list"}
    if op == "%":
        allowed = frozenset({"int", "uint"})
    if len(kinds) > 1 or not kinds <= allowed or not fits(left.type, right.type):
        raise no_overload(name, left, right)
    cost, size = concatenation(left, right) if op == "+" else (1, None)
    return Value(left.type, total(costs, cost), size)


def conditional(test: Value, then: Value, otherwise: Value) -> Value:
    """Value of `test ? then : otherwise`, whose results have one type."""
    if not is_open(test.type) and test.type.kind != "bool":
        raise no_overload("_?_:_", test, then, otherwise)
    if not fits(then.type, otherwise.type):
        raise no_overload("_?_:_", test, then, otherwise)
    one, other = size_of(then), size_of(otherwise)
    size = Size(min(one.least, other.least), max(one.most, other.most))
    kind = otherwise.type if is_open(then.type) else then.type
    return Value(kind, total(test.cost, max(then.cost, otherwise.cost)), size)


def list_of(items: list[Value]) -> Value:
    """Value of `[a, b]`: a list of the items' type, or of `any` for different types."""
    first = items[0].type if items else ANY
    item = first if all(fits(first, value.type) for value in items) else DYN
    cost = total(LIST_COST, *(value.cost for value in items))
    return Value(DeclType("list", item=item), cost, Size(len(items), len(items)))
