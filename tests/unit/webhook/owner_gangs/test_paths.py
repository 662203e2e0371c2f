"""The language of the table: what an expression finds, and which texts are none."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.owner_gangs.paths import ExpressionError, number, texts

JOBS = {
    "spec": {
        "parallelism": 4,
        "text": "7",
        "flag": True,
        "none": None,
        "list": [{"n": 2, "name": "a"}, {"n": 3, "name": "b"}, {"name": "c"}],
        "map": {"Master": {"replicas": 1}, "Worker": {"replicas": 5}},
    },
    "metadata": {"labels": {"example.com/size": "12"}},
}

NUMBERS: list[tuple[str, int | None]] = [
    ("spec.parallelism", 4),
    ("spec.text", 7),
    ("spec.flag", None),
    ("spec.none", None),
    ("spec.absent", None),
    ("spec.parallelism.deeper", None),
    ("spec.absent | 3", 3),
    ("spec.none | spec.parallelism | 3", 4),
    ("2 * spec.parallelism + 1", 9),
    ("2 * (spec.parallelism + 1)", 10),
    ("spec.absent + 1", None),
    ("min(spec.parallelism, 3)", 3),
    ("min(spec.parallelism, spec.absent) | 5", 5),
    ("max(spec.parallelism, 3)", 4),
    ("max(spec.absent, 3) | 5", 5),
    ("sum(spec.list, n)", None),
    ("sum(spec.list, n | 1)", 6),
    ("sum(spec.list, (n | 0) * 2)", 10),
    ("sum(spec.map, replicas)", 6),
    ("sum(spec.absent, n)", None),
    ("1 + (sum(spec.absent, n) | 0)", 1),
    ('metadata.labels["example.com/size"]', 12),
    ("spec.list[].n", 2),
]


@pytest.mark.parametrize(("text", "expected"), NUMBERS)
def test_number_is_what_the_expression_says(text: str, expected: int | None) -> None:
    assert number(text)(JOBS) == expected


@pytest.mark.parametrize("root", [None, 3, "x", [], {}, {"spec": []}, {"spec": {"parallelism": [1]}}])
def test_objects_of_any_shape_have_no_number(root: Any) -> None:
    assert number("spec.parallelism")(root) is None
    assert texts("spec.parallelism[].x")(root) == []


TEXTS = [
    ("spec.list[].name", ["a", "b", "c"]),
    ("spec.flag", ["true"]),
    ("spec.absent | spec.text", ["7"]),
    ("spec.list", []),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_texts_are_those_of_the_first_path_that_has_any(text: str, expected: list[str]) -> None:
    assert texts(text)(JOBS) == expected


BROKEN = [
    ("spec.", "a field is expected where the end is"),
    ("sum(spec.list)", "',' is expected where ) is"),
    ("product(spec.list, n)", "'product' is no function; there are sum, min, max"),
    ("(spec.a", "')' is expected where the end is"),
    ("spec.a spec.b", "'spec' is not expected there"),
    ("spec.a; import os", "cannot be read from '; import os' on"),
    ("__import__('os')", "cannot be read from \"'os')\" on"),
    ("(" * 40 + "1" + ")" * 40, "is nested deeper than 16 levels"),
    ("a" * 2000, "has 2000 characters; 1024 are allowed"),
    ("", "a field is expected where the end is"),
]


@pytest.mark.parametrize(("text", "words"), BROKEN)
def test_text_that_is_no_expression_is_refused_with_the_place(text: str, words: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        number(text)
    assert str(refused.value) == words
