"""YAML and JSON documents: scalars, duplicate keys, and text that is not a document."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.config.documents import MAX_DEPTH, parse_document
from scheduler_core.config.problems import ConfigErrors

SCALARS: list[tuple[str, Any]] = [
    ("1:30", "1:30"),
    ("12:30:45", "12:30:45"),
    ("2026-01-01", "2026-01-01"),
    ("0777", 511),
    ("0o17", 15),
    ("0x1F", 31),
    ("-0b101", -5),
    ("1_000", 1000),
    ("09", 9.0),
    ("1.5", 1.5),
    ("1e3", 1000.0),
    ("1e400", "1e400"),
    (".inf", ".inf"),
    ("yes", True),
    ("Off", False),
    ("TRUE", True),
    ("y", "y"),
    ("yEs", "yEs"),
    ("~", None),
    ("", None),
    ("'yes'", "yes"),
    ('"1"', "1"),
    ("'~'", "~"),
    ("v1", "v1"),
]


@pytest.mark.parametrize(("text", "value"), SCALARS)
def test_scalars_resolve_as_the_kubernetes_tools_resolve_them(text: str, value: Any) -> None:
    read = parse_document(f"key: {text}")["key"]
    assert read == value
    assert type(read) is type(value)


BROKEN = {
    "not YAML": ("a: [", "", "line 1"),
    "two documents": ("a: 1\n---\nb: 2", "", "single document"),
    "a control character": ("a: \x00", "", "unacceptable character"),
    "a mapping as key": ("? {a: 1}\n: b", "", "a key must be text"),
    "a merge of text": ("a:\n  <<: word", "a", "must name a mapping"),
    "half a surrogate pair": ('a: "\\ud800"', "a", "surrogate"),
    "a value inside itself": ("a: &x [*x]", "a[0][0]", "too deeply nested"),
    "brackets without end": ("[" * 1_500, "", "nested too deeply"),
}


@pytest.mark.parametrize(("text", "path", "problem"), BROKEN.values(), ids=BROKEN.keys())
def test_text_that_cannot_be_read_is_one_error_with_its_place(text: str, path: str, problem: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        parse_document(text)
    (error,) = caught.value.errors
    assert error.path.startswith(path)
    assert problem in error.problem


def test_all_duplicate_keys_are_reported_with_path_and_line() -> None:
    with pytest.raises(ConfigErrors) as caught:
        parse_document("a: 1\nb:\n- {c: 1, c: 2}\na: 3\n")
    assert [(e.path, e.problem.split(":")[0]) for e in caught.value.errors] == [
        ("b[0].c", "line 3"),
        ("a", "line 4"),
    ]


def test_aliases_that_multiply_are_cut_off() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(ConfigErrors, match="too large"):
        parse_document("\n".join(lines))


def test_a_merged_key_gives_way_to_the_mapping_s_own_and_is_no_duplicate() -> None:
    read = parse_document("base: &b {x: 1, y: 2}\nuse:\n  x: 5\n  <<: *b\n")
    assert read["use"] == {"x": 5, "y": 2}


def test_the_first_of_several_merged_mappings_wins() -> None:
    read = parse_document("a: &a {x: 1}\nb: &b {x: 2, y: 2}\nuse:\n  <<: [*a, *b]\n")
    assert read["use"] == {"x": 1, "y": 2}


def test_json_indented_with_tabs_is_read() -> None:
    assert parse_document('{\n\t"a": [1, true, null]\n}') == {"a": [1, True, None]}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3)
    ),
    max_leaves=MAX_DEPTH // 4,
)


@given(VALUES)
def test_every_json_document_reads_as_json_reads_it(value: Any) -> None:
    assert parse_document(json.dumps({"value": value})) == {"value": value}
