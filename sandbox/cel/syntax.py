"""Parser of the Common Expression Language: text to a tree of frozen nodes.

The grammar is that of cel-spec (doc/langdef.md) without message construction, byte strings and unsigned
literals. An expression with unsupported syntax raises `CelError` when it is parsed, so it is never true.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from typing import Any

Node = Any  # one of the dataclasses below

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
  | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
  | (?P<int>0x[0-9a-fA-F]+|\d+)
  | (?P<string>[rR]?(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<op>&&|\|\||==|!=|<=|>=|\.\?|\[\?|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_BINARY = [["||"], ["&&"], ["==", "!=", "<", "<=", ">", ">=", "in"], ["+", "-"], ["*", "/", "%"]]
_CONSTANTS = {"true": True, "false": False, "null": None}
_MAX_DEPTH = 60


class CelError(Exception):
    """An expression that cannot be parsed or evaluated; the message contains the reason and place."""


@dataclass(frozen=True)
class Literal:
    """A constant."""

    value: Any


@dataclass(frozen=True)
class Name:
    """A variable, resolved at evaluation."""

    name: str


@dataclass(frozen=True)
class Select:
    """`of.field`, or `of.?field` when `optional`."""

    of: Node
    field: str
    optional: bool = False


@dataclass(frozen=True)
class Index:
    """`of[key]`, or `of[?key]` when `optional`."""

    of: Node
    key: Node
    optional: bool = False


@dataclass(frozen=True)
class FunctionCall:
    """`name(args)`, or `of.name(args)` when `of` is set."""

    of: Node | None
    name: str
    args: tuple[Node, ...]


@dataclass(frozen=True)
class Unary:
    """`!x` or `-x`."""

    op: str
    of: Node


@dataclass(frozen=True)
class Binary:
    """`left op right`."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Conditional:
    """`test ? then : otherwise`."""

    test: Node
    then: Node
    otherwise: Node


@dataclass(frozen=True)
class ListOf:
    """`[a, b]`."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class MapOf:
    """`{key: value}`."""

    items: tuple[tuple[Node, Node], ...]


def parse(text: str) -> Node:
    """The syntax tree of an expression; raises CelError for unsupported syntax."""
    reader = _Reader(_tokens(text))
    tree = reader.expression()
    if reader.peek() != ("end", ""):
        raise CelError(f"unexpected {reader.peek()[1]!r}")
    return tree


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise CelError(f"unexpected character {text[at]!r} at position {at}")
        if match.lastgroup != "space":
            found.append((str(match.lastgroup), match.group()))
        at = match.end()
    return [*found, ("end", "")]


class _Reader:
    """Recursive descent over the tokens."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def peek(self) -> tuple[str, str]:
        return self._tokens[self._at]

    def _take(self) -> tuple[str, str]:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _accept(self, text: str) -> bool:
        kind, found = self.peek()
        if found == text and kind in ("op", "name"):
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise CelError(f"expected {text!r}, found {self.peek()[1] or 'the end'!r}")

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise CelError(f"nested deeper than {_MAX_DEPTH} levels")
        tree = self._binary(0)
        if self._accept("?"):
            then = self.expression()
            self._expect(":")
            tree = Conditional(tree, then, self.expression())
        self._depth -= 1
        return tree

    def _binary(self, level: int) -> Node:
        if level == len(_BINARY):
            return self._unary()
        tree = self._binary(level + 1)
        while self.peek()[1] in _BINARY[level] and self.peek()[0] in ("op", "name"):
            op = self._take()[1]
            tree = Binary(op, tree, self._binary(level + 1))
        return tree

    def _unary(self) -> Node:
        signs = []
        while self.peek()[0] == "op" and self.peek()[1] in ("!", "-"):
            signs.append(self._take()[1])
        tree = self._member()
        # Two equal signs in a row are none, whatever stands behind them.
        for sign, run in groupby(reversed(signs)):
            if len(list(run)) % 2:
                tree = Unary(sign, tree)
        return tree

    def _member(self) -> Node:
        tree = self._primary()
        while True:
            if self._accept("."):
                name = self._identifier()
                tree = (
                    FunctionCall(tree, name, self._arguments()) if self._accept("(") else Select(tree, name)
                )
            elif self._accept(".?"):
                tree = Select(tree, self._identifier(), optional=True)
            elif self._accept("["):
                tree = Index(tree, self.expression())
                self._expect("]")
            elif self._accept("[?"):
                tree = Index(tree, self.expression(), optional=True)
                self._expect("]")
            else:
                return tree

    def _identifier(self) -> str:
        kind, text = self._take()
        if kind != "name":
            raise CelError(f"expected a field name, found {text or 'the end'!r}")
        return text

    def _arguments(self) -> tuple[Node, ...]:
        return tuple(self._sequence(")"))

    def _sequence(self, close: str) -> list[Node]:
        items: list[Node] = []
        while not self._accept(close):
            if items:
                self._expect(",")
                if self._accept(close):
                    break
            items.append(self.expression())
        return items

    def _primary(self) -> Node:
        kind, text = self._take()
        if kind == "int":
            return Literal(int(text, 0))
        if kind == "float":
            return Literal(float(text))
        if kind == "string":
            return Literal(_unquote(text))
        if kind == "name":
            if text in _CONSTANTS:
                return Literal(_CONSTANTS[text])
            return FunctionCall(None, text, self._arguments()) if self._accept("(") else Name(text)
        if text == "(":
            tree = self.expression()
            self._expect(")")
            return tree
        if text == "[":
            return ListOf(tuple(self._sequence("]")))
        if text == "{":
            return self._mapping()
        raise CelError(f"unexpected {text or 'end of the expression'!r}")

    def _mapping(self) -> Node:
        items: list[tuple[Node, Node]] = []
        while not self._accept("}"):
            if items:
                self._expect(",")
            key = self.expression()
            self._expect(":")
            items.append((key, self.expression()))
        return MapOf(tuple(items))


def _unquote(text: str) -> str:
    if text[0] in "rR":
        return text[2:-1]

    def escape(match: re.Match[str]) -> str:
        code = match.group(1)
        if code[0] in "uxX" and len(code) > 1:
            return chr(int(code[1:], 16))
        return _ESCAPES.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|[xX][0-9a-fA-F]{2}|.)", escape, text[1:-1])
