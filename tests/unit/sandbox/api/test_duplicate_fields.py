"""Duplicate keys of bodies are found with their paths or lines."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sandbox.api.duplicate_fields import in_json, in_yaml

JSON = [
    ("none", '{"a": {"b": 1}, "b": 1}', []),
    ("at the top", '{"a": 1, "a": 2}', ["a"]),
    ("three times", '{"a": 1, "a": 2, "a": 3}', ["a"]),
    ("below", '{"a": {"b": 1, "c": 1, "b": 2}}', ["a.b"]),
    ("in lists", '{"a": [{"b": 1}, {"b": 1, "b": 2}]}', ["a[1].b"]),
    ("before and within", '{"a": {"b": 1, "b": 1}, "a": 1}', ["a.b", "a"]),
    ("lists of lists", '[[{"a": 1, "a": 1}]]', ["[0][0].a"]),
    ("no JSON", '{"a": 1, "a": ', []),
    ("too deep", '{"a": 1, "a": 1, "b": ' + "[" * 100_000, []),
]


@pytest.mark.smoke
@pytest.mark.parametrize(("sentence", "text", "paths"), JSON, ids=[case[0] for case in JSON])
def test_json(sentence: str, text: str, paths: list[str]) -> None:
    found = in_json(text.encode())
    assert list(found.texts) == [f'duplicate field "{path}"' for path in paths], sentence
    assert found.summary == ", ".join(found.texts)


def test_patches_say_that_they_are_patches() -> None:
    assert in_json(b'[{"a": 1, "a": 2}]', "json patch ").texts == ('json patch duplicate field "[0].a"',)


OUTSIDE = [(["a"], ["ab", "c.d"]), (["c"], ["a", "a.b", "ab"]), ([], ["a", "a.b", "ab", "c.d"])]


@pytest.mark.parametrize(("unknown", "left"), OUTSIDE)
def test_unknown_fields_are_named_once(unknown: list[str], left: list[str]) -> None:
    text = '{"a":{"b":1,"b":1},"a":[],"ab":1,"ab":1,"c":{"d":1,"d":1}}'
    found = in_json(text.encode()).outside(unknown)
    assert sorted(found.texts) == sorted(f'duplicate field "{path}"' for path in left)


ORDERS = [
    ('{"a":1,"b":1,"b":2,"c":{"d":1,"d":2}}', ["a", "c.d"], ["unknown a", "duplicate b", "unknown c.d"]),
    ('{"b":1,"b":2,"a":1,"b":3}', ["a"], ["duplicate b", "unknown a"]),
    ('{"a":{"b":1},"a":{"b":1},"l":[{"x":1,"x":2}]}', ["l[0].x"], ["duplicate a", "unknown l[0].x"]),
    ('{"a":1,"a":2}', ["default.field"], ["duplicate a", "unknown default.field"]),
]


@pytest.mark.parametrize(("text", "unknown", "found"), ORDERS)
def test_a_body_that_is_read_once_tells_in_its_own_order(
    text: str, unknown: list[str], found: list[str]
) -> None:
    texts = in_json(text.encode()).outside(unknown).among(unknown)
    assert [text.replace(' field "', " ").rstrip('"') for text in texts] == found


YAML = [
    ("none", "a: 1\nb: {a: 1}", []),
    ("a mapping", "a: 1\nb: 1\na: 2", [(3, "a")]),
    ("in a line", "{a: 1, a: 2}", [(1, "a")]),
    ("in a list", "l:\n- a: 1\n  b: 1\n  a: 2\n", [(4, "a")]),
    ("two places", "m:\n  x: 1\n  x: 1\nm: 2\n", [(3, "x"), (4, "m")]),
    ("no YAML", "a: [", []),
    ("nothing", "", []),
]


@pytest.mark.smoke
@pytest.mark.parametrize(("sentence", "text", "found"), YAML, ids=[case[0] for case in YAML])
def test_yaml(sentence: str, text: str, found: list[tuple[int, str]]) -> None:
    texts = in_yaml(text.encode()).texts
    assert sorted(texts) == sorted(f'line {line}: key "{key}" already set in map' for line, key in found)


KEYS = st.text("abc", min_size=1, max_size=2)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text("ab", max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=12,
)


@given(VALUES)
def test_bodies_written_by_programs_have_no_duplicates(value: Any) -> None:
    assert in_json(json.dumps(value).encode()).texts == ()
    assert in_yaml(yaml.safe_dump(value).encode()).texts == ()


@given(VALUES)
def test_a_key_that_comes_again_is_found(value: Any) -> None:
    body = f'{{"x": {json.dumps(value)}, "l": [{{"k": {json.dumps(value)}, "k": 1}}]}}'
    assert in_json(body.encode()).texts == ('duplicate field "l[0].k"',)
