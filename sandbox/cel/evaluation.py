"""Evaluation of CEL expressions: match conditions of webhooks, and validation rules of CRDs.

Supported: literals, field selection and indexing (also optional: `a.?b`, `orValue`), arithmetic, comparison,
`in`, `&&`, `||`, `?:`, `has`, the macros `all`, `exists`, `exists_one`, `filter` and `map`, and the functions
of `sandbox.cel.functions`. Other functions, and `authorizer`, are a `CelError` at compile time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from sandbox.cel.functions import (
    ABSENT,
    FUNCTIONS,
    LAZY,
    LIBRARY_FUNCTIONS,
    METHODS,
    OPERATORS,
    CelType,
    Optional,
    boolean,
    negated,
    otherwise,
)
from sandbox.cel.names import unescaped
from sandbox.cel.signatures import LIBRARIES, TYPE_NAMES
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

__all__ = ["CelError", "Expression", "compile_expression"]

Environment = Mapping[str, Any]
_MACROS = frozenset(("all", "exists", "exists_one", "existsOne", "filter", "map"))
# What the evaluation of a part may raise: an error of that part alone.
_ERRORS = (CelError, TypeError, ValueError, ZeroDivisionError, AttributeError, OverflowError, re.error)


class Expression:
    """A compiled expression; its variables are those given to `compile_expression`."""

    def __init__(self, text: str, tree: Node) -> None:
        self.text = text
        self._tree = tree

    def evaluate(self, variables: Environment) -> Any:
        """The value; raises CelError for a missing field or key, or operands of a wrong type."""
        try:
            return _run(self._tree, variables)
        except _ERRORS as error:
            if isinstance(error, CelError):
                raise
            raise CelError(str(error)) from error

    def holds(self, variables: Environment) -> bool:
        """True if the expression is true; raises CelError if its value is not a boolean."""
        value = self.evaluate(variables)
        if not isinstance(value, bool):
            raise CelError(f"must evaluate to bool, not {type(value).__name__}")
        return value


def compile_expression(text: str, variables: frozenset[str]) -> Expression:
    """Parse and check an expression; raises CelError for syntax errors and unknown variables or functions."""
    tree = parse(text)
    _check(tree, variables)
    return Expression(text, tree)


def _check(node: Node, known: frozenset[str]) -> None:
    match node:
        case Name(name):
            if name not in known and name not in TYPE_NAMES:
                raise CelError(f"undeclared reference to {name!r}")
        case Select(of, _, _):
            _check(of, known)
        case Index(of, key, _):
            _check(of, known)
            _check(key, known)
        case Unary(_, of):
            _check(of, known)
        case Binary(_, left, right):
            _check(left, known)
            _check(right, known)
        case Conditional(test, then, otherwise):
            for part in (test, then, otherwise):
                _check(part, known)
        case ListOf(items):
            for item in items:
                _check(item, known)
        case MapOf(pairs):
            for key, value in pairs:
                _check(key, known)
                _check(value, known)
        case FunctionCall():
            _check_call(node, known)


def _check_call(node: FunctionCall, known: frozenset[str]) -> None:
    if name := _library_function(node.of, node.name, known):
        if name not in LIBRARY_FUNCTIONS:
            raise CelError(f"function {name!r} is not supported here")
    elif node.of is not None:
        _check(node.of, known)
        if node.name in _MACROS:
            most = 3 if node.name == "map" else 2
            if not 2 <= len(node.args) <= most or not isinstance(node.args[0], Name):
                raise CelError(f"{node.name}() takes a variable name and an expression")
            for arg in node.args[1:]:
                _check(arg, known | {node.args[0].name})
            return
        if node.name not in METHODS and node.name not in LAZY:
            raise CelError(f"function {node.name!r} is not supported here")
    elif node.name == "has":
        if len(node.args) != 1 or not isinstance(node.args[0], Select):
            raise CelError("has() takes a field selection such as object.spec")
    elif node.name not in FUNCTIONS:
        raise CelError(f"function {node.name!r} is not supported here")
    for arg in node.args:
        _check(arg, known)


def _library_function(of: Node | None, name: str, known: Collection[str]) -> str:
    """The whole name of a function of a namespace, such as `sets.contains`; empty for other calls."""
    is_one = isinstance(of, Name) and of.name in LIBRARIES and of.name not in known
    return f"{of.name}.{name}" if is_one and of is not None else ""


def _run(node: Node, env: Environment) -> Any:
    match node:
        case Literal(value):
            return value
        case Name(name):
            return env[name] if name in env else CelType(name)
        case Select(of, field, optional):
            return _lookup(_run(of, env), unescaped(field), optional)
        case Index(of, key, optional):
            return _lookup(_run(of, env), _run(key, env), optional)
        case Unary(op, of):
            return not boolean(_run(of, env)) if op == "!" else negated(_run(of, env))
        case Binary("&&", left, right):
            return _logic(left, right, env, decided_by=False)
        case Binary("||", left, right):
            return _logic(left, right, env, decided_by=True)
        case Binary(op, left, right):
            return OPERATORS[op](_run(left, env), _run(right, env))
        case Conditional(test, then, otherwise):
            return _run(then if boolean(_run(test, env)) else otherwise, env)
        case ListOf(items):
            return [_run(item, env) for item in items]
        case MapOf(pairs):
            return {_run(key, env): _run(value, env) for key, value in pairs}
        case FunctionCall(of, name, args):
            return _call(of, name, args, env)
    raise CelError(f"unknown node {node!r}")


def _lookup(of: Any, key: Any, optional: bool) -> Any:
    if isinstance(of, Optional):
        return _lookup(of.value, key, True) if of.present else of
    if isinstance(of, Mapping):
        present = key in of
        value = of.get(key)
    elif isinstance(of, list) and isinstance(key, int) and not isinstance(key, bool):
        present = 0 <= key < len(of)
        value = of[key] if present else None
    elif optional and of is None:
        return ABSENT
    else:
        raise CelError(f"no such key: {key}")
    if optional:
        return Optional(True, value) if present else ABSENT
    if not present:
        raise CelError(f"no such key: {key}")
    return value


def _logic(left: Node, right: Node, env: Environment, *, decided_by: bool) -> bool:
    # CEL's `&&` and `||` are commutative: a side that decides the result hides an error on the other side.
    try:
        if boolean(_run(left, env)) is decided_by:
            return decided_by
    except _ERRORS:
        if boolean(_run(right, env)) is decided_by:
            return decided_by
        raise
    return boolean(_run(right, env))


def _call(of: Node | None, name: str, args: tuple[Node, ...], env: Environment) -> Any:
    if of is None:
        if name == "has":
            return _has(args[0], env)
        return FUNCTIONS[name](*[_run(arg, env) for arg in args])
    if whole := _library_function(of, name, env):
        return LIBRARY_FUNCTIONS[whole](*[_run(arg, env) for arg in args])
    target = _run(of, env)
    if name in _MACROS:
        if len(args) == 3:
            target, args = _macro("filter", target, args[0].name, args[1], env), (args[0], args[2])
        return _macro(name, target, args[0].name, args[1], env)
    if name in LAZY:
        return otherwise(name, target, lambda: _run(args[0], env))
    return METHODS[name](target, *[_run(arg, env) for arg in args])


def _has(selection: Select, env: Environment) -> bool:
    of = _run(selection.of, env)
    if isinstance(of, Optional):
        of = of.value if of.present else {}
    if not isinstance(of, Mapping):
        raise CelError(f"has() on a value without fields: {selection.field}")
    return of.get(unescaped(selection.field)) is not None


def _macro(name: str, target: Any, variable: str, body: Node, env: Environment) -> Any:
    items = list(target)

    def each(item: Any) -> Any:
        return _run(body, {**env, variable: item})

    if name == "map":
        return [each(item) for item in items]
    if name in ("all", "exists"):
        return _decided(items, each, by=name == "exists")
    verdicts = [boolean(each(item)) for item in items]
    if name == "filter":
        return [item for item, keep in zip(items, verdicts, strict=True) if keep]
    return sum(verdicts) == 1


def _decided(items: list[Any], each: Callable[[Any], Any], *, by: bool) -> bool:
    """`exists` is decided by one that is true, `all` by one that is false: it hides errors of the others."""
    failure: Exception | None = None
    for item in items:
        try:
            if boolean(each(item)) is by:
                return by
        except _ERRORS as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return not by
