"""How many cases the random searches play: all of them, or a part where a run has to be short.

Which tests a run of the searches plays, too: those that the short run shortens or leaves out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.mark import ParameterSet
from hypothesis import is_hypothesis_test

OPTION: Final = "--searches"
LEFT_OUT: Final = "tests that are neither a search nor long, of files without numbers of cases (make test)"

PART: Final = int(os.environ.get("MUSTER_SEARCH_PART", "1"))
"""Every search plays one case of so many; `make test` sets it, `make test-searches` plays all."""


def cases(usual: int, variable: str = "", *, least: int = 1) -> int:
    """The number of cases of one search: the variable of the environment, else its part of the usual number.

    A search has a variable if the long searches of the night give it another number. With fewer cases than
    `least` it would say too little.
    """
    asked = os.environ.get(variable) if variable else None
    return int(asked) if asked else max(least, usual // PART)


def sampled(cases: Iterable[tuple[str, *tuple[Any, ...]]], each: int = 3) -> list[ParameterSet]:
    """Cases (an id, and values) that are cheap alone, but not together: `make test` plays one of `each`."""
    return [
        pytest.param(*values, id=name, marks=[pytest.mark.long] if number % each else [])
        for number, (name, *values) in enumerate(cases)
    ]


def choose(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The items that `make test` plays in part or not at all, and the others.

    A file that asks for numbers of cases is played as a whole: which of its tests they are for is not known.
    """
    counting = {path: _counts_cases(path) for path in {item.path for item in items}}
    chosen = {
        item
        for item in items
        if counting[item.path]
        or item.get_closest_marker("long")
        or is_hypothesis_test(getattr(item, "obj", None))
    }
    return [item for item in items if item in chosen], [item for item in items if item not in chosen]


def _counts_cases(path: Path) -> bool:
    return bool(re.search(r"^from tests\.support\.searches import", path.read_text("utf-8"), re.M))
