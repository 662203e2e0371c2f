"""Selectors as rows find what each selector says by itself, whatever they are made of."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from scheduler_core.model.selectors import (
    EVERYTHING,
    EXISTS,
    IN,
    NOT_EXISTS,
    NOT_IN,
    NOTHING,
    Requirement,
    Selector,
)
from scheduler_core.state.neighbours.selector_rows import SelectorRows
from tests.support.kept import entries

A_X, A_Y = Requirement("a", IN, ("x",)), Requirement("a", IN, ("y", "x"))
CASES: list[tuple[str, tuple[Requirement, ...], dict[str, str], bool]] = [
    ("one pair", (A_X,), {"a": "x"}, True),
    ("another value", (A_X,), {"a": "y"}, False),
    ("one value twice", (Requirement("a", IN, ("x", "x")),), {"a": "x"}, True),
    ("two lists of one key, in both", (A_X, A_Y), {"a": "x"}, True),
    ("two lists of one key, in one", (A_X, A_Y), {"a": "y"}, False),
    ("two lists without a common value", (A_X, Requirement("a", IN, ("z",))), {"a": "x"}, False),
    ("a value that is banned, too", (A_Y, Requirement("a", NOT_IN, ("x",))), {"a": "x"}, False),
    ("the other value of it", (A_Y, Requirement("a", NOT_IN, ("x",))), {"a": "y"}, True),
    ("no value but banned ones", (A_X, Requirement("a", NOT_IN, ("x",))), {"a": "x"}, False),
    ("a key", (Requirement("a", EXISTS),), {"a": ""}, True),
    ("a key that is missing", (Requirement("a", EXISTS),), {"b": ""}, False),
    (
        "a key with a banned value",
        (Requirement("a", EXISTS), Requirement("a", NOT_IN, ("x",))),
        {"a": "x"},
        False,
    ),
    (
        "a key with another value",
        (Requirement("a", EXISTS), Requirement("a", NOT_IN, ("x",))),
        {"a": "y"},
        True,
    ),
    ("a key with neither", (Requirement("a", EXISTS), Requirement("a", NOT_IN, ("x",))), {}, False),
    ("no key", (Requirement("a", NOT_EXISTS),), {}, True),
    ("no key where it is", (Requirement("a", NOT_EXISTS),), {"a": "x"}, False),
    ("a key that must be and must not", (Requirement("a", NOT_EXISTS), A_X), {}, False),
    ("a banned value where the key is missing", (Requirement("a", NOT_IN, ("x", "y")),), {}, True),
    ("one requirement of two", (A_X, Requirement("b", EXISTS)), {"a": "x"}, False),
    ("two requirements", (A_X, Requirement("b", EXISTS)), {"a": "x", "b": ""}, True),
    ("the same requirement twice", (A_X, A_X), {"a": "x"}, True),
]


@pytest.mark.parametrize(
    ("said", "labels", "found"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_what_matches(said: tuple[Requirement, ...], labels: dict[str, str], found: bool) -> None:
    selector = Selector(said)
    assert selector.matches(labels) is found
    rows = SelectorRows()
    rows.add(7, NOTHING)
    rows.add(3, selector)
    assert rows.matching(labels).tolist() == ([3] if found else [])


def selectors(rng: random.Random) -> Iterator[Selector]:
    """Selectors of up to four requirements on three keys with three values."""
    yield from (EVERYTHING, NOTHING)
    while True:
        count = rng.randrange(5)
        yield Selector(
            tuple(
                Requirement(rng.choice("abc"), operator, tuple(rng.choices("xyz", k=rng.randrange(1, 4))))
                if (operator := rng.choice((IN, NOT_IN, EXISTS, NOT_EXISTS))) in (IN, NOT_IN)
                else Requirement(rng.choice("abc"), operator)
                for _ in range(count)
            )
        )


def test_random_selectors_that_come_and_go() -> None:
    rng = random.Random(4)
    rows, held, made = SelectorRows(), dict[int, Selector](), selectors(rng)
    for number in range(3000):
        if held and rng.random() < 0.45:
            gone = rng.choice(sorted(held))
            rows.remove(gone, held.pop(gone))
        else:
            held[number] = next(made)
            rows.add(number, held[number])
        labels = {key: rng.choice("xyz") for key in "abc" if rng.random() < 0.7}
        expected = sorted(item for item, selector in held.items() if selector.matches(labels))
        assert sorted(rows.matching(labels).tolist()) == expected
        assert len(rows) == len(held)


def test_nothing_is_left_of_those_that_went() -> None:
    rows, empty = SelectorRows(), SelectorRows()
    for number in range(50):
        said = Selector((Requirement("a", IN, ("x", f"{number}")), Requirement(f"b{number}", NOT_IN, ("y",))))
        rows.add(number, said)
        rows.matching({"a": "x"})
        rows.remove(number, said)
    assert entries(rows) <= entries(empty) + 2
    assert rows.matching({"a": "x"}).tolist() == []
