"""The tests that `make test` plays of dear files: those that are marked as smoke.

    @pytest.mark.smoke                       this test, with all its cases
    @pytest.mark.smoke("a pod that waits")   of its cases only these, each named as in the test's id

A file without such a mark is played as a whole: nobody leaves out a test without saying so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

OPTION: Final = "--smoke"
# Where files may have smoke tests. `make test-sandbox` plays these folders as a whole.
FOLDERS: Final = ("tests/e2e", "tests/unit/sandbox")
LEFT_OUT: Final = (
    f"{' and '.join(FOLDERS)}: all but the smoke tests of files that have such (make test-sandbox)"
)


def choose(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The items that a short run plays, and the others."""
    restricted = {item.path for item in items if item.get_closest_marker("smoke")}
    chosen = {item for item in items if item.path not in restricted or _is_smoke(item)}
    return [item for item in items if item in chosen], [item for item in items if item not in chosen]


def _is_smoke(item: pytest.Item) -> bool:
    return any(
        not mark.args or any(_is_case(item, case) for case in mark.args)
        for mark in item.iter_markers("smoke")
    )


def _is_case(item: pytest.Item, case: str) -> bool:
    """Whether the case is the item's id, or a part of it beside the API server's name."""
    return f"-{case}-" in f"-{item.nodeid.partition('[')[2].removesuffix(']')}-"
