"""The language of the table of owner kinds: numbers and texts found in an object.

    path     spec.parallelism    metadata.labels["example.com/key"]    spec.groups[].name
    number   path, 3, a | b (the first that is present), a * b, a + b, min(a, b), max(a, b),
             sum(path, number)

`sum` adds the number of each item of a list, or of each value of a map; inside it paths begin at the item.
`[]` means all items of a list. A number is an integer or a text of digits. What is absent, or no number, is
absent in the result; nothing is executed, and the cost is bounded by the sizes of object and expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from scheduler_core.errors import MusterError

MOST_CHARACTERS: Final = 1024
MOST_DEPTH: Final = 16
_TOKEN: Final = re.compile(r'\s*(?:([A-Za-z_][A-Za-z0-9_]*)|([0-9]{1,10})|\["([^"\]]+)"\]|(\[\]|[.,()*+|]))')
_DIGITS: Final = re.compile(r"[0-9]{1,10}")
_JOINS: Final[Mapping[str, Callable[[int, int], int]]] = {"min": min, "max": max}
_FUNCTIONS: Final = ("sum", *_JOINS)
# Marks the step of a path that means all items.
_ALL: Final = None

Number = Callable[[Any], int | None]
Texts = Callable[[Any], list[str]]
_Step = str | None


class ExpressionError(MusterError):
    """An expression that cannot be read; says where and why."""

    def __str__(self) -> str:
        return str(self.args[0])


def number(text: str) -> Number:
    """The function that finds the number in an object, or None. Raises ExpressionError."""
    return _Parser(text).whole_number()


def texts(text: str) -> Texts:
    """The function that finds the texts at the first of the paths `a | b` that has any. Raises
    ExpressionError.
    """
    paths = _Parser(text).whole_paths()

    def find(root: Any) -> list[str]:
        for steps in paths:
            found = [said for value in _values(root, steps) if (said := _text(value)) is not None]
            if found:
                return found
        return []

    return find


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (str, int)) else None


def _values(root: Any, steps: tuple[_Step, ...]) -> Iterator[Any]:
    """Everything at the path; nothing where it is absent or null."""
    found = [root]
    for step in steps:
        if step is _ALL:
            found = [item for value in found for item in _items(value) or ()]
        else:
            found = [value[step] for value in found if isinstance(value, Mapping) and step in value]
    return (value for value in found if value is not None)


def _items(value: Any) -> list[Any] | None:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else None


def _integer(value: Any) -> int | None:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


class _Parser:
    """Reads one expression by recursive descent."""

    def __init__(self, text: str) -> None:
        if len(text) > MOST_CHARACTERS:
            raise ExpressionError(f"has {len(text)} characters; {MOST_CHARACTERS} are allowed")
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0

    def whole_number(self) -> Number:
        found = self._number()
        self._require_end()
        return found

    def whole_paths(self) -> list[tuple[_Step, ...]]:
        found = [self._path()]
        while self._take("|"):
            found.append(self._path())
        self._require_end()
        return found

    def _require_end(self) -> None:
        if self._next < len(self._tokens):
            raise ExpressionError(f"{self._tokens[self._next][1]!r} is not expected there")

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._next] if self._next < len(self._tokens) else ("end", "the end")

    def _take(self, symbol: str) -> bool:
        if self._peek() != ("symbol", symbol):
            return False
        self._next += 1
        return True

    def _require(self, symbol: str) -> None:
        if not self._take(symbol):
            raise ExpressionError(f"{symbol!r} is expected where {self._peek()[1]} is")

    def _number(self) -> Number:
        """`a | b`: binds weakest."""
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise ExpressionError(f"is nested deeper than {MOST_DEPTH} levels")
        choices = [self._sum()]
        while self._take("|"):
            choices.append(self._sum())
        self._depth -= 1
        if len(choices) == 1:
            return choices[0]
        return lambda root: next((n for choice in choices if (n := choice(root)) is not None), None)

    def _sum(self) -> Number:
        found = self._product()
        while self._take("+"):
            found = _both(found, self._product(), lambda a, b: a + b)
        return found

    def _product(self) -> Number:
        found = self._factor()
        while self._take("*"):
            found = _both(found, self._factor(), lambda a, b: a * b)
        return found

    def _factor(self) -> Number:
        kind, text = self._peek()
        if kind == "digits":
            self._next += 1
            constant = int(text)
            return lambda root: constant
        if self._take("("):
            inner = self._number()
            self._require(")")
            return inner
        after = self._tokens[self._next + 1] if self._next + 1 < len(self._tokens) else ("", "")
        if kind == "name" and after == ("symbol", "("):
            return self._function()
        steps = self._path()
        return lambda root: next((_integer(value) for value in _values(root, steps)), None)

    def _function(self) -> Number:
        name = self._peek()[1]
        if name not in _FUNCTIONS:
            raise ExpressionError(f"{name!r} is no function; there are {', '.join(_FUNCTIONS)}")
        self._next += 1
        self._require("(")
        if name == "sum":
            steps = self._path()
            self._require(",")
            made = _total(steps, self._number())
        else:
            one = self._number()
            self._require(",")
            made = _both(one, self._number(), _JOINS[name])
        self._require(")")
        return made

    def _path(self) -> tuple[_Step, ...]:
        kind, text = self._peek()
        if kind != "name":
            raise ExpressionError(f"a field is expected where {text} is")
        steps: list[_Step] = [text]
        self._next += 1
        while True:
            kind, text = self._peek()
            if kind == "key":
                steps.append(text)
                self._next += 1
            elif self._take("[]"):
                steps.append(_ALL)
            elif self._take("."):
                kind, text = self._peek()
                if kind != "name":
                    raise ExpressionError(f"a field is expected where {text} is")
                steps.append(text)
                self._next += 1
            else:
                return tuple(steps)


def _both(one: Number, other: Number, join: Callable[[int, int], int]) -> Number:
    def joined(root: Any) -> int | None:
        a, b = one(root), other(root)
        return None if a is None or b is None else join(a, b)

    return joined


def _total(steps: tuple[_Step, ...], each: Number) -> Number:
    def total(root: Any) -> int | None:
        items = next((_items(value) for value in _values(root, steps)), None)
        if items is None:
            return None
        found = [each(item) for item in items]
        return None if None in found else sum(n for n in found if n is not None)

    return total


def _tokens(text: str) -> list[tuple[str, str]]:
    found = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise ExpressionError(f"cannot be read from {text[at : at + 20].strip()!r} on")
        kind = ("name", "digits", "key", "symbol")[(match.lastindex or 1) - 1]
        found.append((kind, match[match.lastindex or 1]))
        at = match.end()
    return found
