"""Random validation rules of CRDs: which compile, what they cost, and what they say of objects."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from sandbox.cel import rule_evaluation
from sandbox.cel.rule_compilation import rule_causes
from tests.beside.packages.difference import Difference
from tests.beside.rig.world import Raw

# The fields of an object; `z` and `p` may be missing.
_FIELDS: Final[Raw] = {
    "s": {"type": "string", "maxLength": 20},
    "t": {"type": "string", "maxLength": 20},
    "z": {"type": "string", "maxLength": 20},
    "i": {"type": "integer"},
    "j": {"type": "integer"},
    "d": {"type": "number"},
    "b": {"type": "boolean"},
    "l": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 9}},
    "n": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
    "m": {
        "type": "object",
        "maxProperties": 4,
        "additionalProperties": {"type": "string", "maxLength": 9},
    },
    "o": {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "string", "maxLength": 9}},
    },
}
_TEXTS: Final = ("", "a", "abc", "a,b", "10", "1.5Gi", "Ab ", "xyz", "äöü", "https://a.b:8/c?d=e", "-")
_AMOUNTS: Final = (
    "0",
    "1",
    "1.0",
    "-2",
    "1000m",
    "0.5",
    "1.5Gi",
    "0.5Gi",
    "2Gi",
    "2000000Gi",
    "3k",
    "1e3",
    "12E",
    "7E",
)
_NUMBERS: Final = (0, 1, 2, 3, -1, 10, 9223372036854775807)


def question(dice: random.Random) -> Raw:
    """A schema with one rule, and objects."""
    maker = _Maker(dice)
    rule = maker.truth(3)
    schema = {"type": "object", "properties": _FIELDS, "x-kubernetes-validations": [{"rule": rule}]}
    return {"schema": schema, "objects": [_object(dice) for _ in range(3)]}


def _object(dice: random.Random) -> Raw:
    def text() -> str:
        return dice.choice(_TEXTS)

    found: Raw = {
        "s": text(),
        "t": text(),
        "i": dice.choice(_NUMBERS),
        "j": dice.choice(_NUMBERS),
        "d": dice.choice((0.5, 1.0, 2.5, -3.25)),
        "b": dice.random() < 0.5,
        "l": [text()[:9] for _ in range(dice.randint(0, 3))],
        "n": [dice.choice(_NUMBERS) for _ in range(dice.randint(0, 3))],
        "m": {text()[:9] or "k": text()[:9] for _ in range(dice.randint(0, 2))},
        "o": {"x": dice.choice(_NUMBERS), "y": text()[:9]},
    }
    if dice.random() < 0.5:
        found["z"] = text()
    return found


class _Maker:
    """Makes expressions of a type, mostly well typed; `depth` is how deep they may still go."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._strings = ["self.s", "self.t", "self.o.y"]
        self._ints = ["self.i", "self.j", "self.o.x"]

    def _other(self, depth: int, wanted: Callable[[int], str]) -> str:
        """Now and then something of another type."""
        if self._dice.random() < 0.02:
            wanted = self._dice.choice(
                (self.truth, self.whole, self.text, self.texts, self.wholes, self.fraction)
            )
        return wanted(depth)

    def _of(self, depth: int, *forms: Callable[[int], str]) -> str:
        return self._dice.choice(forms)(depth - 1)

    def truth(self, depth: int) -> str:
        """An expression that is true or false."""
        dice = self._dice
        if depth <= 0:
            return dice.choice(("self.b", "true", "false", "has(self.z)", "has(self.o.x)", "self.i > 0"))
        kind = dice.randrange(14)
        inner = depth - 1
        if kind == 0:
            operator = dice.choice(("&&", "||"))
            return f"({self._other(inner, self.truth)} {operator} {self._other(inner, self.truth)})"
        if kind == 1:
            return f"!{self._other(inner, self.truth)}"
        if kind in (2, 3):
            of = dice.choice((self.whole, self.text, self.fraction))
            operator = dice.choice(("==", "!=", "<", "<=", ">", ">="))
            return f"{self._other(inner, of)} {operator} {self._other(inner, of)}"
        if kind == 4:
            method = dice.choice(("startsWith", "endsWith", "contains", "matches"))
            argument = repr(dice.choice(("^a", "b$", "[0-9]+", "a|b"))) if method == "matches" else None
            return f"{self.text(inner)}.{method}({argument or self.text(inner)})"
        if kind == 5:
            return f"{self.text(inner)} in {dice.choice((self.texts, self.mapping))(inner)}"
        if kind == 6:
            return f"{self.whole(inner)} in {self.wholes(inner)}"
        if kind in (11, 12):
            return self._of_amounts(inner)
        if kind in (7, 8):
            return self._macro(inner, dice.choice(("all", "exists", "exists_one")))
        if kind == 9:
            return f"({self.truth(inner)} ? {self.truth(inner)} : {self.truth(inner)})"
        if kind == 10:
            return f"{self.texts(inner)} == {self.texts(inner)}"
        return dice.choice(
            (
                f"isQuantity({self.text(inner)})",
                f"isURL({self.text(inner)})",
                f"isIP({self.text(inner)})",
                f"{self.wholes(inner)}.isSorted()",
                f"quantity({self.text(inner)}).isGreaterThan(quantity('1'))",
                f"type({self.whole(inner)}) == int",
            )
        )

    def _macro(self, depth: int, name: str, body: Callable[[int], str] | None = None) -> str:
        """A macro over a list; inside, the variable is one more value."""
        numbers = self._dice.random() < 0.5
        known = self._ints if numbers else self._strings
        of = self.wholes(depth - 1) if numbers else self.texts(depth - 1)
        known.append("v")
        made = (body or self.truth)(depth)
        known.remove("v")
        return f"{of}.{name}(v, {made})"

    def whole(self, depth: int) -> str:
        """A whole number."""
        dice = self._dice
        if depth <= 0 or dice.random() < 0.3:
            return dice.choice((*self._ints, str(dice.choice(_NUMBERS)), "self.n[0]"))
        inner = depth - 1
        return dice.choice(
            (
                f"({self.whole(inner)} {dice.choice('+-*/%')} {self.whole(inner)})",
                f"size({dice.choice((self.text, self.texts, self.wholes, self.mapping))(inner)})",
                f"{self.text(inner)}.indexOf({self.text(inner)})",
                f"{self.text(inner)}.size()",
                f"int({self.text(inner)})",
                f"int({self.fraction(inner)})",
                f"-{self.whole(inner)}",
                f"{self.wholes(inner)}.{dice.choice(('sum', 'min', 'max'))}()",
                f"({self.truth(inner)} ? {self.whole(inner)} : {self.whole(inner)})",
            )
        )

    def fraction(self, depth: int) -> str:
        """A number with a fraction."""
        dice = self._dice
        if depth <= 0 or dice.random() < 0.4:
            return dice.choice(("self.d", "0.5", "2.0", "-1.5"))
        inner = depth - 1
        return dice.choice(
            (
                f"({self.fraction(inner)} {dice.choice('+-*/')} {self.fraction(inner)})",
                f"double({self.whole(inner)})",
                f"double({self.text(inner)})",
            )
        )

    def _of_amounts(self, depth: int) -> str:
        """An expression about quantities."""
        one, other = self.amount(depth), self.amount(depth - 1)
        return self._dice.choice(
            (
                f"{one}.isInteger()",
                f"{one}.asInteger() > {self.whole(depth - 1)}",
                f"{one}.sign() == {other}.sign()",
                f"{one}.compareTo({other}) > 0",
                f"{one} == {other}",
                f"{one}.asApproximateFloat() > {self.fraction(depth - 1)}",
            )
        )

    def amount(self, depth: int) -> str:
        """A quantity."""
        dice = self._dice
        if depth <= 0 or dice.random() < 0.4:
            return f"quantity({dice.choice((*map(repr, _AMOUNTS), 'self.s'))})"
        more = dice.choice((self.amount, self.amount, self.whole))(depth - 1)
        return f"{self.amount(depth - 1)}.{dice.choice(('add', 'sub'))}({more})"

    def text(self, depth: int) -> str:
        """A text."""
        dice = self._dice
        if depth <= 0 or dice.random() < 0.35:
            return dice.choice(
                (*self._strings, *self._strings, repr(dice.choice(_TEXTS)), "self.z", "self.l[0]")
            )
        inner = depth - 1
        return dice.choice(
            (
                f"({self.text(inner)} + {self.text(inner)})",
                f"{self.text(inner)}.{dice.choice(('lowerAscii', 'upperAscii', 'trim'))}()",
                f"{self.text(inner)}.replace({self.text(inner)}, {self.text(inner)})",
                f"{self.text(inner)}.substring({self.whole(inner)})",
                f"{self.text(inner)}.charAt({self.whole(inner)})",
                f"{self.texts(inner)}.join({self.text(inner)})",
                f"string({dice.choice((self.whole, self.truth, self.fraction))(inner)})",
                f"self.m[{self.text(inner)}]",
                f"({self.truth(inner)} ? {self.text(inner)} : {self.text(inner)})",
                f"{self.text(inner)}.find('[a-z]+')",
            )
        )

    def texts(self, depth: int) -> str:
        """A list of texts."""
        dice = self._dice
        if depth <= 0 or dice.random() < 0.4:
            return dice.choice(("self.l", "self.l", "['a', 'b']", "[self.s, self.t]"))
        inner = depth - 1
        return dice.choice(
            (
                f"{self.text(inner)}.split({self.text(inner)})",
                f"self.l.filter(v, {self.truth(inner)})",
                f"self.l.map(v, {self.text(inner)})",
                f"({self.texts(inner)} + {self.texts(inner)})",
            )
        )

    def wholes(self, depth: int) -> str:
        """A list of whole numbers."""
        dice = self._dice
        if depth <= 0 or dice.random() < 0.5:
            return dice.choice(("self.n", "self.n", "[1, 2, 3]", "[self.i, self.j]"))
        inner = depth - 1
        return dice.choice(
            (
                f"self.n.filter(v, {self.truth(inner)})",
                f"self.n.map(v, {self.whole(inner)})",
                f"({self.wholes(inner)} + {self.wholes(inner)})",
            )
        )

    def mapping(self, depth: int) -> str:
        """A map of texts."""
        return self._dice.choice(("self.m", "{'a': 'b'}"))


def compare(asked: Raw, theirs: dict[str, Any]) -> list[Difference]:
    """What differs for one rule."""
    rule = asked["schema"]["x-kubernetes-validations"][0]["rule"]
    refused = [cause.message for cause in rule_causes(asked["schema"], "spec")]
    if "error" in theirs:
        return [] if refused else [Difference("a rule is refused", rule, theirs["error"], "compiles")]
    over = [text for text in refused if "exceeds budget" in text]
    if refused and not over:
        return [Difference("a rule compiles", rule, "compiles", refused[0])]
    if over:
        return []
    return [
        Difference("what a rule says", rule, verdict, f"{found} of {obj}")
        for obj, verdict in zip(asked["objects"], theirs["verdicts"], strict=True)
        if (found := _verdict(asked["schema"], obj)) != verdict.partition(":")[0]
    ]


def _verdict(schema: Raw, obj: Raw) -> str:
    causes = rule_evaluation.causes(schema, obj, None)
    if not causes:
        return "holds"
    return "error" if "rule evaluation error" in causes[0].message else "fails"
