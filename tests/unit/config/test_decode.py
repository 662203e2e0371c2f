"""Strict decoding: types, unknown fields and defaults, each error with its path."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler_core.config.decode import Int32, Int64, Seconds, decode
from scheduler_core.errors import ConfigError


class Inner(msgspec.Struct, frozen=True, rename="camel"):
    some_name: str = ""
    count: Int32 = 7


class Outer(msgspec.Struct, frozen=True, rename="camel"):
    inner: Inner = Inner()
    items: tuple[Inner, ...] = ()
    words: tuple[str, ...] = ()
    limits: dict[str, Int64] = msgspec.field(default_factory=dict)
    wait: Seconds = 1.0
    flag: bool = False
    rate: float = 0.5
    maybe: Int32 | None = None
    raw: Any = None


def read(value: Any, base: str = "") -> tuple[Outer, list[ConfigError]]:
    errors: list[ConfigError] = []
    return decode(value, Outer, base, errors), errors


def test_a_full_value_is_read_without_errors() -> None:
    value = {
        "inner": {"someName": "a", "count": 3.0},
        "items": [{"someName": "b"}, None],
        "words": ["x", None],
        "limits": {"cpu": 5},
        "wait": "1m",
        "flag": True,
        "rate": 2,
        "maybe": 0,
        "raw": {"anything": [1]},
    }
    assert read(value) == (
        Outer(
            Inner("a", 3),
            (Inner("b"), Inner()),
            ("x", ""),
            {"cpu": 5},
            60.0,
            True,
            2.0,
            0,
            {"anything": [1]},
        ),
        [],
    )


def test_null_is_an_absent_field() -> None:
    assert read({"inner": None, "items": None, "wait": None, "maybe": None, "flag": None}) == (Outer(), [])


WRONG: dict[str, tuple[Any, str, str]] = {
    "not an object": ([], "", "cannot unmarshal list into a value of type object"),
    "a list for an object": ({"inner": []}, "inner", "of type object"),
    "an object for a list": ({"items": {}}, "items", "cannot unmarshal object into a value of type list"),
    "text for a number": ({"inner": {"count": "3"}}, "inner.count", 'string "3" into a value of type int32'),
    "a boolean for a number": ({"maybe": True}, "maybe", "cannot unmarshal bool into a value of type int32"),
    "a part for a whole": ({"maybe": 1.5}, "maybe", "cannot unmarshal number 1.5"),
    "beyond int32": ({"maybe": 2**31}, "maybe", "allowed: -2147483648..2147483647"),
    "beyond int64": ({"limits": {"cpu": 2**63}}, "limits.cpu", "type int64"),
    "a number for text": ({"inner": {"someName": 5}}, "inner.someName", "of type string"),
    "a word for text": ({"words": [True]}, "words[0]", "in quotes"),
    "text for a boolean": ({"flag": "true"}, "flag", "of type bool"),
    "text for a rate": ({"rate": "1"}, "rate", "of type number"),
    "a bare number of seconds": ({"wait": 5}, "wait", "of type duration"),
    "no unit": ({"wait": "5"}, "wait", 'invalid duration "5"'),
    "an unknown field": ({"items": [{}, {"Count": 1}]}, "items[1].Count", "known fields: count, someName"),
}


@pytest.mark.parametrize(("value", "path", "problem"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_value_is_one_error_with_its_path(value: Any, path: str, problem: str) -> None:
    _, errors = read(value)
    (error,) = errors
    assert error.path == path
    assert problem in error.problem


def test_paths_start_at_the_base_and_quoted_names_do_not() -> None:
    _, errors = read({"inner": {"x": 1}}, "profiles[0].args")
    assert errors[0].path == "profiles[0].args.inner.x"
    assert 'unknown field "inner.x"' in errors[0].problem


def test_all_errors_are_collected_in_the_order_of_the_file() -> None:
    outer, errors = read({"zzz": 1, "flag": 3, "maybe": 4, "items": [{"count": "x"}]})
    assert [error.path for error in errors] == ["zzz", "flag", "items[0].count"]
    assert outer.maybe == 4
    assert outer.items == (Inner(),)
