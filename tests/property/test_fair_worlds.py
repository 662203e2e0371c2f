"""Worlds in which borrowers take from each other: every move is fair, and a fresh scheduler changes nothing.

As tests/property/test_restart_equivalence.py, with weights and run times of quotas, a quota that nobody
uses, and more work. Texts are not compared: a fresh scheduler does not know the holds of the past, and tells
nominations that were restored from those of kept nodes. Who evicted may come away with nothing, if pods
within their min come at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.day_seeds import DaySeeds, portion_names
from tests.support.searches import cases
from tests.support.worlds import checks, player
from tests.support.worlds.checks import Fault, Preemption
from tests.support.worlds.generate import live
from tests.support.worlds.reading import View

WORLDS = cases(200)
NEW_WORLDS: Final = DaySeeds(40, "MUSTER_FAIR_WORLDS")
BLOCK = 25
_PASSED_OVER: Final = frozenset({"message", "evict-vain"})


@pytest.fixture(scope="module", autouse=True)
def moves() -> Iterator[list[bool]]:
    """Whether each preemption of the worlds that were played was a fair move."""
    seen: list[bool] = []
    judged = checks.preemption_faults

    def noted(view: View, found: Preemption) -> Iterator[Fault]:
        seen.append(found.fair)
        return judged(view, found)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(player, "preemption_faults", noted)
        yield seen


@pytest.mark.parametrize("block", range(0, WORLDS, BLOCK), ids="seeds from {}".format)
def test_every_move_is_fair_and_a_fresh_scheduler_would_change_nothing(block: int) -> None:
    told = faults(range(block, min(block + BLOCK, WORLDS)))
    assert not told, "\n".join(told)


@pytest.mark.parametrize("seeds", NEW_WORLDS.portions(BLOCK), ids=portion_names())
def test_so_it_is_in_worlds_of_the_day(seeds: range, request: pytest.FixtureRequest) -> None:
    NEW_WORLDS.judge(faults(seeds), request)


def faults(seeds: range) -> list[str]:
    """The first finding of each world that has one."""
    told = []
    for seed in seeds:
        _, played = live(seed, fair=True)
        found = [item for item in played.findings if item.check not in _PASSED_OVER]
        told += [f"fair world {seed}, step {item.step}, {item.check}: {item.text}" for item in found[:1]]
    return told


def test_worlds_have_fair_moves(moves: list[bool]) -> None:
    """The search says something: borrowers do take from each other, in the worlds above or in some more."""
    for seed in range(20):
        if sum(moves) >= 3:
            return
        live(seed, fair=True)
    pytest.fail(f"{sum(moves)} fair moves")
