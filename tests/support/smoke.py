"""The tests that `make test` plays of dear files: those that are marked as smoke.

    @pytest.mark.smoke                       this test, with all its cases
    @pytest.mark.smoke("a pod that waits")   of its cases only these, each named as in the test's id
    pytestmark = pytest.mark.told_by("tests/e2e/test_answers.py")
                                             none of this file: that one tells what a change breaks

A file without such marks is played as a whole: nobody leaves out a test without saying so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
OPTION: Final = "--smoke"
# Where files may have smoke tests. `make test-sandbox` plays these folders as a whole.
FOLDERS: Final = ("tests/e2e", "tests/unit/sandbox")
LEFT_OUT: Final = f"{' and '.join(FOLDERS)}: all but the smoke tests of dear files (make test-sandbox)"


def choose(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The items that a short run plays, and the others."""
    restricted = {item.path for item in items if item.get_closest_marker("smoke") or _teller(item)}
    chosen = {item for item in items if item.path not in restricted or _is_smoke(item)}
    return [item for item in items if item in chosen], [item for item in items if item not in chosen]


def _is_smoke(item: pytest.Item) -> bool:
    return any(
        not mark.args or any(_is_case(item, case) for case in mark.args)
        for mark in item.iter_markers("smoke")
    )


def _teller(item: pytest.Item) -> str:
    """The file that is played in the place of the item's, or nothing."""
    mark = item.get_closest_marker("told_by")
    if mark is None:
        return ""
    (teller,) = mark.args
    if not (ROOT / teller).is_file():
        raise pytest.UsageError(f"{item.nodeid}: told_by names {teller}, which is no file")
    return str(teller)


def _is_case(item: pytest.Item, case: str) -> bool:
    """Whether the case is the item's id, or a part of it beside the API server's name."""
    return f"-{case}-" in f"-{item.nodeid.partition('[')[2].removesuffix(']')}-"
