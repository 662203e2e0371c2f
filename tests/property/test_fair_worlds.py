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

from tests.support.searches import cases
from tests.support.worlds import checks, player
from tests.support.worlds.checks import Fault, Preemption
from tests.support.worlds.generate import live
from tests.support.worlds.reading import View

WORLDS = cases(200, "MUSTER_FAIR_WORLDS")
BLOCK = 25
_PASSED_OVER: Final = frozenset({"message", "evict-vain"})


@pytest.mark.parametrize("block", range(0, WORLDS, BLOCK))
def test_every_move_is_fair_and_a_fresh_scheduler_would_change_nothing(block: int) -> None:
    told = []
    for seed in range(block, min(block + BLOCK, WORLDS)):
        _, played = live(seed, fair=True)
        faults = [item for item in played.findings if item.check not in _PASSED_OVER]
        told += [f"world {seed}, step {item.step}, {item.check}: {item.text}" for item in faults[:1]]
    assert not told, "\n".join(told)


def test_worlds_have_fair_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search says something: borrowers do take from each other in it."""
    seen = []
    judged = checks.preemption_faults

    def noted(view: View, found: Preemption) -> Iterator[Fault]:
        seen.append(found.fair)
        return judged(view, found)

    monkeypatch.setattr(player, "preemption_faults", noted)
    for seed in range(20):
        live(seed, fair=True)
    assert sum(seen) >= 3
