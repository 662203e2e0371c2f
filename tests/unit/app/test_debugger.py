from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler_core.app import debugger
from scheduler_core.app.debugger import Versions, compare, differences

HELD: Versions = {("Pod", "a/p"): "5", ("Node", "n"): "7"}


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        pytest.param(HELD, set(), id="the same"),
        pytest.param({**HELD, ("Pod", "a/p"): "4"}, set(), id="the cache is newer than the list"),
        pytest.param(
            {**HELD, ("Pod", "a/p"): "10"}, {"Pod a/p: version 5 in the cache, 10 in the API"}, id="behind"
        ),
        pytest.param({**HELD, ("Pod", "a/q"): "1"}, {"Pod a/q: not in the cache"}, id="missed"),
        pytest.param({("Pod", "a/p"): "5"}, {"Node n: not in the API"}, id="kept"),
    ],
)
def test_a_difference_names_the_object_and_the_side(listed: Versions, found: set[str]) -> None:
    assert differences(HELD, listed) == found


@pytest.mark.parametrize(
    ("looks", "found"),
    [
        pytest.param([{}, HELD], [], id="the watch caught up"),
        pytest.param([{}] * 4, ["Node n: not in the cache", "Pod a/p: not in the cache"], id="it lasts"),
    ],
)
def test_only_differences_that_last_are_told(
    looks: list[Versions], found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debugger, "listed_versions", lambda client: HELD)
    answers = iter(looks)
    slept: list[float] = []

    def ask(question: Callable[[Any], Any]) -> Versions:
        return next(answers)

    client: Any = None
    assert compare(client, ask, slept.append) == found
    assert len(slept) == len(looks) - 1
