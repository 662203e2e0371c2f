"""Type checker of CEL rules: computes the type and the maximum cost of an expression over a schema.

Types and costs are those of kube-apiserver's compiler. Methods without a known type and cost
(`signatures.UNFOLLOWED`) have the type `any` and the cost 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from sandbox.cel.cost import (
    ONE,
    Size,
    Value,
    call_cost,
    capped,
    size_of,
)
from sandbox.cel.functions import FUNCTIONS as FUNCTIONS_BY_NAME
from sandbox.cel.kubernetes_values import duration, timestamp
from sandbox.cel.operators import (
    LIST_COST,
    binary,
    conditional,
    expect_bool,
    list_of,
    literal,
    no_overload,
    total,
    unary,
)
from sandbox.cel.signatures import FUNCTIONS, LIBRARIES, METHODS, TYPE_NAMES, UNFOLLOWED
from sandbox.cel.syntax import (
    Binary,
    CelError,
    Conditional,
    FunctionCall,
    Index,
    ListOf,
    Literal,
    MapOf,
    Name,
    Node,
    Select,
    Unary,
    parse,
)
from sandbox.cel.types import ANY, BOOL, DOUBLE, DYN, INT, STRING, TYPE, DeclType, fits, is_open

_MACROS: Final = frozenset({"all", "exists", "exists_one", "existsOne", "filter", "map"})
_MAP_COST: Final = 30


def check(text: str, root: DeclType, wanted: str, optional_old: bool = False) -> int:
    """The maximum cost of a rule; `root` is the type of `self`.

    Raises CelError if the rule does not compile, WrongResult if its type is not `wanted` (`bool`, `string`).
    """
    old = DeclType("optional", item=root) if optional_old else root
    variables = {"self": Value(root, 1, known=True), "oldSelf": Value(old, 1, known=not optional_old)}
    found = Checker(root).value(_parsed(text), variables)
    if found.type.kind not in (wanted, "any"):
        raise WrongResult(f"must evaluate to a {wanted}")
    return found.cost


class WrongResult(CelError):
    """The rule compiles, but its result has a wrong type."""


def _parsed(text: str) -> Node:
    try:
        return parse(text)
    except CelError as error:
        raise CelError(f"Syntax error: {error}") from None


def undeclared(name: str) -> CelError:
    """The error for an unknown variable or function."""
    return CelError(f"undeclared reference to '{name}' (in container '')")


Scope = Mapping[str, Value]


class Checker:
    """Walks a syntax tree; each method returns the Value of a node or raises CelError."""

    def __init__(self, root: DeclType) -> None:
        self._root = root

    def value(self, node: Node, scope: Scope) -> Value:
        """Type, cost and size of an expression."""
        match node:
            case Literal(constant):
                return literal(constant)
            case Name(name):
                return self._name(name, scope)
            case Select(of, name, optional):
                return self._select(of, name, optional, scope)
            case Index(of, key, optional):
                return self._index(self.value(of, scope), self.value(key, scope), optional)
            case Unary(op, of):
                return unary(op, self.value(of, scope))
            case Binary(op, left, right):
                return binary(op, self.value(left, scope), self.value(right, scope))
            case Conditional(test, then, otherwise):
                parts = (self.value(part, scope) for part in (test, then, otherwise))
                return conditional(*parts)
            case ListOf(items):
                return list_of([self.value(item, scope) for item in items])
            case MapOf(pairs):
                values = [(self.value(key, scope), self.value(value, scope)) for key, value in pairs]
                cost = total(_MAP_COST, *(part.cost for pair in values for part in pair))
                kind = DeclType("map", key=ANY, item=ANY)
                return Value(kind, cost, Size(len(values), len(values)))
            case FunctionCall(of, name, args):
                return self._call(of, name, args, scope)
        raise CelError(f"unknown node {node!r}")

    def _name(self, name: str, scope: Scope) -> Value:
        if name in scope:
            return scope[name]
        if name in TYPE_NAMES:
            return Value(TYPE, 1, Size(0, self._root.max_elements))
        raise undeclared(name)

    def _select(self, of: Node, name: str, optional: bool, scope: Scope) -> Value:
        value = self.value(of, scope)
        found = _field(value, name)
        if not optional:
            return found
        inner = found.type.item if found.type.kind == "optional" else found.type
        return Value(DeclType("optional", item=inner), total(value.cost, 1))

    def _index(self, of: Value, key: Value, optional: bool) -> Value:
        cost = total(of.cost, key.cost, 1)
        kind = of.type.kind
        if is_open(of.type) or kind == "optional":
            return Value(ANY if kind in ("any", "optional") else DYN, cost)
        accepted = INT if kind == "list" else of.type.key
        if kind not in ("list", "map") or accepted is None or not fits(accepted, key.type):
            raise no_overload("_[_]", of, key)
        item = of.type.item or ANY
        return Value(DeclType("optional", item=item), cost) if optional else Value(item, cost, known=of.known)

    def _call(self, of: Node | None, name: str, args: tuple[Node, ...], scope: Scope) -> Value:
        if of is None:
            if name == "has":
                return self._has(args, scope)
            if name not in FUNCTIONS:
                raise undeclared(name)
            _check_constant(name, args)
            return _applied(name, FUNCTIONS[name], None, [self.value(arg, scope) for arg in args])
        if isinstance(of, Name) and of.name in LIBRARIES and of.name not in scope:
            return Value(ANY, total(1, *(self.value(arg, scope).cost for arg in args)))
        if name in _MACROS and len(args) in (2, 3):
            return self._macro(self.value(of, scope), name, args, scope)
        target = self.value(of, scope)
        if name in UNFOLLOWED:
            return Value(ANY, total(1, target.cost))
        if name not in METHODS:
            raise undeclared(name)
        _check_constant(name, args)
        return _applied(name, METHODS[name], target, [self.value(arg, scope) for arg in args])

    def _has(self, args: tuple[Node, ...], scope: Scope) -> Value:
        if len(args) != 1 or not isinstance(args[0], Select):
            raise CelError("invalid argument to has() macro")
        of = self.value(args[0].of, scope)
        _field(of, args[0].field)
        return Value(BOOL, of.cost, ONE)

    def _macro(self, target: Value, name: str, args: tuple[Node, ...], scope: Scope) -> Value:
        variable = args[0]
        if not isinstance(variable, Name):
            raise CelError("argument must be a simple name")
        if len(args) == 3 and name != "map":
            return Value(ANY, target.cost)
        inner = {**scope, variable.name: self._element(target)}
        values = [self.value(arg, inner) for arg in args[1:]]
        tests = values if name != "map" else values[:-1]
        for test in tests:
            expect_bool(test)
        costs = [value.cost for value in values]
        count = size_of(target)
        # Cost of the loop behind a macro: its start, each iteration, and its result.
        if name in ("all", "exists"):
            turn, rest = total(costs[0], 1, 2 if name == "all" else 3), 1
            return Value(BOOL, _looped(target, count, turn, rest), ONE)
        if name in ("exists_one", "existsOne"):
            return Value(BOOL, _looped(target, count, total(costs[0], 2), 2), ONE)
        if name == "filter":
            kind, turn = DeclType("list", item=inner[variable.name].type), total(costs[0], 13)
        else:
            kind, turn = DeclType("list", item=values[-1].type), total(12, *costs)
        return Value(kind, _looped(target, count, turn, LIST_COST + 1), count)

    def _element(self, target: Value) -> Value:
        """The value of a macro's variable: an item of a list or a key of a map."""
        kind = target.type.kind
        if kind == "list":
            item = target.type.item or ANY
        elif kind == "map":
            item = target.type.key or ANY
        elif is_open(target.type):
            item = target.type
        else:
            raise CelError(
                f"expression of type '{target.type}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)"
            )
        # The compiler uses the size of the whole object for values that the schema does not describe.
        return Value(item, 1, None if target.known else Size(0, self._root.max_elements), target.known)


_CONVERSIONS: Final = {name: FUNCTIONS_BY_NAME[name] for name in ("bool", "double", "int", "string")}
_CONSTANTS: Final[Mapping[str, Callable[[Any], object]]] = {
    "duration": duration,
    "timestamp": timestamp,
    "matches": re.compile,
    **_CONVERSIONS,
}


def _check_constant(name: str, args: tuple[Node, ...]) -> None:
    """Constants that are converted, and patterns, are read when a rule is made. Raises CelError."""
    if name in _CONSTANTS and len(args) == 1:
        try:
            if (known := _constant(args[0])) is not None:
                _CONSTANTS[name](known.value)
        except (CelError, re.error, OverflowError, TypeError, ValueError):
            raise CelError(f"invalid {name} argument") from None


def _constant(node: Node) -> Literal | None:
    """A literal, or one that others are converted to."""
    match node:
        case Literal():
            return node
        case Unary("-", Literal(value)) if isinstance(value, int | float):
            return Literal(-value)
        case FunctionCall(None, name, (inner,)) if name in _CONVERSIONS:
            known = _constant(inner)
            return Literal(_CONVERSIONS[name](known.value)) if known is not None else None
    return None


def _looped(target: Value, count: Size, turn: int, rest: int) -> int:
    return total(target.cost, capped(count.most * turn), rest)


def _field(of: Value, name: str) -> Value:
    kind = of.type.kind
    if kind == "object":
        # Words that CEL reserves are names of fields behind a dot, too.
        declared = of.type.fields.get(name) or of.type.fields.get(f"__{name}__")
        if declared is None:
            raise CelError(f"undefined field '{name}'")
        return Value(declared, total(of.cost, 1), known=of.known)
    if kind == "map":
        return Value(of.type.item or ANY, total(of.cost, 1))
    if kind == "optional" and of.type.item is not None:
        inner = _field(Value(of.type.item, of.cost), name)
        return Value(DeclType("optional", item=inner.type), inner.cost)
    if is_open(of.type) or kind == "optional":
        return Value(of.type, of.cost)
    raise CelError(f"type '{of.type}' does not support field selection")


def _applied(name: str, forms: str, target: Value | None, args: list[Value]) -> Value:
    """The value of a call of a function or method; `forms` are its signatures."""
    cost, size = call_cost(name, target, args) if args or target else (1, None)
    costs = total(cost, *(value.cost for value in args), target.cost if target else 0)
    for form in forms.split():
        head, _, result = form.partition(":")
        on, _, given = head.rpartition(".")
        wanted = [word for word in given.split(",") if word]
        if target is not None and not _accepts(on, target.type):
            continue
        if len(wanted) == len(args) and all(map(_accepts, wanted, (arg.type for arg in args))):
            return Value(_result(result, target), costs, size)
    shown = f"({', '.join(str(arg.type) for arg in args)})"
    what = f"{target.type}.{shown}" if target else shown
    raise CelError(f"found no matching overload for '{name}' applied to '{what}'")


def _accepts(word: str, decl: DeclType) -> bool:
    return word in ("*", decl.kind) or is_open(decl)


_RESULTS: Final = {"bool": BOOL, "int": INT, "double": DOUBLE, "string": STRING, "any": ANY, "dyn": DYN}


def _result(word: str, target: Value | None) -> DeclType:
    if word == "same":
        return target.type if target else ANY
    if word == "item":
        return (target.type.item if target else None) or ANY
    if word == "strings":
        return DeclType("list", item=STRING)
    return _RESULTS.get(word) or DeclType(word)
