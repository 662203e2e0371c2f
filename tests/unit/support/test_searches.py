"""Which tests a run of the searches plays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.searches import choose

COUNTING = "from tests.support.searches import cases\n"


class _Item(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]


def item(path: Path, test: Callable[..., object], *marks: str) -> pytest.Item:
    made = _Item(path=path, obj=test, get_closest_marker=lambda name: name if name in marks else None)
    return cast(pytest.Item, made)


@given(st.integers())
def searching(number: int) -> None:
    pass


def fixed() -> None:
    pass


CASES = {
    "a property": ("", searching, (), True),
    "a long test": ("", fixed, ("long",), True),
    "a test of a file that asks for a number of cases": (COUNTING, fixed, (), True),
    "a test that is played in full elsewhere": ("", fixed, (), False),
}


@pytest.mark.parametrize(("text", "test", "marks", "wanted"), CASES.values(), ids=CASES)
def test_what_a_run_of_the_searches_plays(
    text: str, test: Callable[..., object], marks: tuple[str, ...], wanted: bool, tmp_path: Path
) -> None:
    path = tmp_path / "test_some.py"
    path.write_text(text)
    asked = item(path, test, *marks)
    assert choose([asked]) == (([asked], []) if wanted else ([], [asked]))
