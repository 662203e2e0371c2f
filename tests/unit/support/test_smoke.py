"""Which tests a short run plays."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.support.smoke import choose

SMOKE = pytest.mark.smoke


def item(nodeid: str, *marks: pytest.MarkDecorator) -> pytest.Item:
    of_name = [decorator.mark for decorator in marks]
    return cast(
        pytest.Item,
        _Item(
            nodeid=nodeid,
            path=Path(nodeid.partition("::")[0]),
            iter_markers=lambda name: [mark for mark in of_name if mark.name == name],
            get_closest_marker=lambda name: next((mark for mark in of_name if mark.name == name), None),
        ),
    )


class _Item(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]


def chosen(*items: pytest.Item) -> list[str]:
    some, others = choose(items)
    assert sorted(one.nodeid for one in (*some, *others)) == sorted(one.nodeid for one in items)
    return [one.nodeid for one in some]


def test_a_file_with_smoke_tests_is_played_by_these_alone() -> None:
    assert chosen(item("a.py::dear"), item("a.py::cheap", SMOKE), item("a.py::long")) == ["a.py::cheap"]


def test_a_file_without_smoke_tests_is_played_as_a_whole() -> None:
    assert chosen(item("a.py::x"), item("b.py::y", SMOKE), item("a.py::z")) == [
        "a.py::x",
        "b.py::y",
        "a.py::z",
    ]


def test_a_file_that_another_one_tells_is_left_out() -> None:
    told = pytest.mark.told_by("tests/e2e/test_answers.py")
    assert chosen(item("a.py::x", told), item("a.py::y", told), item("b.py::z")) == ["b.py::z"]


def test_what_tells_a_file_exists() -> None:
    with pytest.raises(pytest.UsageError, match=r"a\.py::x: told_by names tests/gone\.py, which is no file"):
        choose([item("a.py::x", pytest.mark.told_by("tests/gone.py"))])


def test_a_mark_without_cases_plays_all_cases() -> None:
    assert chosen(item("a.py::x[one]", SMOKE), item("a.py::x[two]", SMOKE)) == [
        "a.py::x[one]",
        "a.py::x[two]",
    ]


CASES = {
    "a case of a table": ("x[a pod that waits]", True),
    "behind the server's name": ("x[sandbox-a pod that waits]", True),
    "before the server's name": ("x[a pod that waits-sandbox]", True),
    "another case": ("x[a pod]", False),
    "a case with a longer name": ("x[a pod that waits long]", False),
    "no case": ("x", False),
}


@pytest.mark.parametrize(("test", "wanted"), CASES.values(), ids=CASES)
def test_a_mark_with_cases_plays_these(test: str, wanted: bool) -> None:
    marked = item(f"a.py::{test}", SMOKE("a pod that waits"))
    other = item("a.py::always", SMOKE)
    assert chosen(marked, other) == [marked.nodeid] * wanted + [other.nodeid]


def test_of_a_table_in_which_no_case_is_smoke_nothing_is_played() -> None:
    assert chosen(item("a.py::x[one]", SMOKE("two")), item("a.py::y")) == []
