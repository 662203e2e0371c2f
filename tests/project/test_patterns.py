"""Every regular expression takes linear time, whoever wrote the text: found by the tests, tried one by one.

A pattern is tried with texts made of what it is made of: each of its letters and each of its repeated parts,
again and again, with a tail that fails. Ten times the length may cost ten times as much; what counts is the
processor's time, the best of several, above a floor for noise. The longest text is left out where its cost
would stay below the floor, even if it grew with the square of the length.
"""

from __future__ import annotations

import ast
import importlib
import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any, Final, NamedTuple

import pytest

from tests.support.every import assert_no_faults
from tests.support.import_statements import import_statements

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("webhook", "scheduler_core", "kubectl_plugin")
METHODS: Final = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
OTHER_ENGINES: Final = {"regex", "re2", "fnmatch", "sre_compile", "sre_parse"}
SHORT: Final = 1_000
GROWTH: Final = 10
# Small steps where bad patterns get slow: the next longer text would take them seconds.
LADDER: Final = (15, 20, 22, 25, 100, SHORT, 3 * SHORT, GROWTH * SHORT)
FLOOR_SECONDS: Final = 0.005
# For a hundred characters, and for as many as there are.
TOO_SLOW_SECONDS: Final = (0.05, 0.25)
TRIES: Final = 5
PAIRS: Final = 24
TAILS: Final = ("", "\x00", "!", "\n")


class Pattern(NamedTuple):
    """A pattern in the code: where, its text, and the methods of it that are used."""

    place: str
    text: str | bytes
    flags: int
    methods: tuple[str, ...]


def modules(*packages: str) -> Iterator[tuple[str, str]]:
    """The modules of the packages, and their texts."""
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts), path.read_text()


def is_of_re(call: ast.Call) -> bool:
    """Whether this is `re.something(...)` with a pattern in front."""
    match call.func:
        case ast.Attribute(ast.Name("re"), attr):
            return attr in {"compile", *METHODS}
    return False


def given(call: ast.Call) -> list[ast.expr]:
    """The expressions of a call that are patterns."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == "pattern"]
    return named or (call.args[:1] if is_of_re(call) else [])


def target_of(tree: ast.Module, call: ast.Call) -> str:
    """The name of the module that a pattern is given, its line where it has none."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is call:
            name = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            return name.id if isinstance(name, ast.Name) else f"line {call.lineno}"
    return f"line {call.lineno}"


def uses(tree: ast.Module, call: ast.Call, name: str) -> tuple[str, ...]:
    """The methods by which a pattern is used; all that this module uses of any, where it has no name."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in METHODS and is_of_re(call):
        return (call.func.attr,)
    calls = [
        node.func
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS
    ]
    own = {at.attr for at in calls if isinstance(at.value, ast.Name) and at.value.id == name}
    return tuple(sorted(own or {at.attr for at in calls} & {"match", "fullmatch", "search"} or {"search"}))


def evaluated(module: str, expression: ast.expr) -> Any:
    """The value of an expression, by what its module knows. Raises where it is made at run time."""
    return eval(compile(ast.Expression(expression), module, "eval"), vars(importlib.import_module(module)))


def patterns(package: str) -> Iterator[Pattern]:
    """All patterns of a package, whose modules are imported."""
    for module, source in modules(package):
        if not re.search(r"\b(?:re|pattern)\b", source):
            continue
        tree = ast.parse(source)
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            for expression in given(call):
                name = target_of(tree, call)
                flags = evaluated(module, call.args[1]) if is_of_re(call) and _has_flags(call) else 0
                text = evaluated(module, expression)
                yield Pattern(f"{module}.{name}", text, int(flags), uses(tree, call, name))


def _has_flags(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "compile" and len(call.args) > 1


def letters(tree: Any) -> set[str]:
    """A letter for each thing that a pattern compares with."""
    found: set[str] = set()
    for code, value in tree:
        found |= {sample([(code, value)])[:1]} - {""}
        if code is _constants.IN:
            for inner, what in value:
                if inner is _constants.RANGE:
                    found |= {chr(what[0]), chr(what[1])}
                elif inner is _constants.LITERAL:
                    found.add(chr(what))
        for below in inside(code, value):
            found |= letters(below)
    return found


def inside(code: Any, value: Any) -> list[Any]:
    """The patterns in a part of a pattern."""
    if code in (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT):
        return [value[2]]
    if code is _constants.SUBPATTERN:
        return [value[3]]
    if code is _constants.BRANCH:
        return list(value[1])
    if code in (_constants.ASSERT, _constants.ASSERT_NOT):
        return [value[1]]
    return [value] if code is _constants.ATOMIC_GROUP else []


def sample(tree: Any) -> str:
    """A text that a pattern matches, about: groups that must be the same again are left out."""
    return "".join(_sample(code, value) for code, value in tree)


def _sample(code: Any, value: Any) -> str:
    if code is _constants.LITERAL:
        return chr(value)
    if code is _constants.IN:
        return _of_class(value)
    if code in (_constants.NOT_LITERAL, _constants.ANY):
        return "x"
    if code in (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT):
        return sample(value[2]) * max(1, value[0])
    if code is _constants.BRANCH:
        return max(map(sample, value[1]), key=len)
    return "".join(map(sample, inside(code, value))) if code not in (_constants.ASSERT_NOT,) else ""


CATEGORIES: Final = {
    _constants.CATEGORY_DIGIT: "9",
    _constants.CATEGORY_SPACE: " ",
    _constants.CATEGORY_WORD: "a",
    _constants.CATEGORY_NOT_SPACE: "x",
    _constants.CATEGORY_NOT_DIGIT: "x",
    _constants.CATEGORY_NOT_WORD: "-",
}


def _of_class(members: Any) -> str:
    if members[0][0] is _constants.NEGATE:
        return next(c for c in "x9 -.é" if not re.match(f"[{re.escape(c)}]", "") and not _has(members, c))
    code, value = members[0]
    if code is _constants.LITERAL:
        return chr(value)
    return chr(value[0]) if code is _constants.RANGE else CATEGORIES[value]


def _has(members: Any, char: str) -> bool:
    return any(
        (code is _constants.LITERAL and value == ord(char))
        or (code is _constants.RANGE and value[0] <= ord(char) <= value[1])
        for code, value in members[1:]
    )


def repeated(tree: Any) -> set[str]:
    """A text for the body of every repetition, at any depth."""
    found: set[str] = set()
    for code, value in tree:
        if code in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
            found.add(sample(value[2]))
        for below in inside(code, value):
            found |= repeated(below)
    return found - {""}


def families(pattern: Pattern) -> Iterator[tuple[str, str, str]]:
    """(head, piece, tail): the piece is what is repeated."""
    text = pattern.text if isinstance(pattern.text, str) else pattern.text.decode("latin-1")
    tree = _parser.parse(text, pattern.flags & ~re.DEBUG)
    alphabet = sorted(letters(tree))
    rng = random.Random(text)
    pairs = (
        {"".join(rng.choices(alphabet, k=rng.choice((2, 3)))) for _ in range(PAIRS)} if alphabet else set()
    )
    whole = sample(tree)
    for piece in sorted({*alphabet, *repeated(tree), *pairs, whole} - {""}):
        for head in {"", whole, whole[:1]}:
            for tail in (*TAILS, *alphabet[:2]):
                yield head, piece, tail


def seconds(action: Callable[[], object], little: float) -> float:
    """Processor time of this thread, the best of several; the first that is as little as that, or much."""
    best = float("inf")
    for _ in range(TRIES):
        began = time.thread_time()
        action()
        best = min(best, time.thread_time() - began)
        if best < little or best > max(TOO_SLOW_SECONDS):
            break
    return best


def slow(ask: Callable[[str], object], head: str, piece: str, tail: str) -> str:
    """Why asking costs too much, or empty."""
    costs: dict[int, float] = {}
    for length in LADDER:
        text = head + (piece * length)[:length] + tail
        little = FLOOR_SECONDS if length > SHORT else FLOOR_SECONDS / GROWTH
        costs[length] = seconds(lambda text=text: ask(text), little)  # type: ignore[misc]
        if costs[length] > TOO_SLOW_SECONDS[length > 100]:
            return f"{length} characters of {piece!r} before {tail!r}: {costs[length]:.2f} s"
        if length == SHORT and costs[length] * GROWTH**2 < FLOOR_SECONDS:
            return ""
    if costs[LADDER[-1]] <= GROWTH * costs[SHORT] + FLOOR_SECONDS:
        return ""
    ratio = costs[LADDER[-1]] / max(costs[SHORT], 1e-9)
    return f"ten times as much of {piece!r} before {tail!r} costs {ratio:.0f} times as much"


def verdict(pattern: Pattern) -> str:
    """Why a pattern costs too much, or empty."""
    compiled = re.compile(pattern.text, pattern.flags)
    for method in pattern.methods:
        ask = _asking(compiled, method)
        for family in families(pattern):
            found = slow(ask, *family)
            if found:
                return f"{pattern.place}: {pattern.text!r}.{method}: {found}"
    return ""


def _asking(compiled: re.Pattern[Any], method: str) -> Callable[[str], object]:
    convert: Callable[[str], Any] = str
    if isinstance(compiled.pattern, bytes):
        convert = lambda text: text.encode("latin-1", "replace")  # noqa: E731
    call = getattr(compiled, method)
    if method in ("sub", "subn"):
        return lambda text: call(convert(""), convert(text))
    if method == "finditer":
        return lambda text: sum(1 for _ in call(convert(text)))
    return lambda text: call(convert(text))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("package", PACKAGES)
def test_patterns_take_linear_time(package: str) -> None:
    tried = list(patterns(package))
    assert tried
    assert_no_faults(
        f"{pattern.place}: {found}; no two of its parts may share a text, or bound its repetitions"
        for pattern in tried
        if (found := verdict(pattern))
    )


KNOWN_BAD = [
    (r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s)", "findall", "quadratic: each digit may be the first of a number"),
    (r"(a+)+b", "match", "exponential: a repetition within a repetition"),
    (r"\s+$", "search", "quadratic: each space may be the first"),
    (r"(a|a)*c", "fullmatch", "exponential: two ways for each letter"),
    (r"a*a*b", "match", "quadratic: two repetitions share the text"),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "method"), [row[:2] for row in KNOWN_BAD], ids=[row[2] for row in KNOWN_BAD]
)
def test_bad_patterns_are_found(text: str, method: str) -> None:
    assert verdict(Pattern("here", text, 0, (method,)))


def test_every_pattern_is_found_whatever_its_form() -> None:
    code = """
import re
A = re.compile("a")
B: object = re.compile(rf"{A.pattern}b", re.S)
C = Annotated[str, Meta(pattern="^c$")]
def f(text): return re.sub(r"d", "", text), B.search(text)
"""
    tree = ast.parse(code)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert sorted(ast.unparse(e) for call in calls for e in given(call)) == sorted(
        ["'a'", "f'{A.pattern}b'", "'^c$'", "'d'"]
    )
    assert {uses(tree, call, target_of(tree, call)) for call in calls if given(call)} == {
        ("search",),
        ("sub",),
    }


def test_patterns_are_made_by_re_alone_and_not_at_run_time() -> None:
    """`patterns` would have raised for one that depends on anything but its module."""
    for module, source in modules(*PACKAGES):
        for node in import_statements(source):
            if isinstance(node, ast.ImportFrom):
                assert node.module not in {"re", *OTHER_ENGINES}, f"{module}: import the module re itself"
            else:
                names = {alias.name for alias in node.names}
                assert not names & OTHER_ENGINES, f"{module}: {names}"
                assert not any(alias.name == "re" and alias.asname for alias in node.names), module
