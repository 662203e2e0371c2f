"""What-if says of random worlds what their long-lived scheduler then does when the change is made.

A world has lived for up to a dozen steps (tests/support/worlds): its scheduler has a queue, kept nodes and
memories. What-if knows only its objects. `MUSTER_WHAT_IF_WORLDS` says how many worlds of the day are asked.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, NamedTuple

import pytest

from scheduler_core.answers.changes import Changes
from scheduler_core.answers.draft import Draft
from scheduler_core.answers.run_result import RunResult, run
from scheduler_core.answers.worlds import CopiedWorld
from scheduler_core.simulate import Simulation
from tests.support.day_seeds import DaySeeds, portion_names
from tests.support.random_changes import suppose_something
from tests.support.searches import cases
from tests.support.worlds.generate import live
from tests.support.worlds.player import Player

_WORLDS: Final = cases(120, least=100)
_NEW_WORLDS: Final = DaySeeds(40, "MUSTER_WHAT_IF_WORLDS")
_NEW_AT_ONCE: Final = 500
_PORTIONS: Final = 4
# Worlds with another outcome, as nothing in their objects tells what their scheduler remembers.
_KNOWN: Final = {
    86: "nodes are kept for a gang that has waited for longer than its patience",
    981: "as 86",
    2766: "as 86",
    4032: "as 86",
    4079: "as 86",
    845: "a member of a gang takes the room that is kept for another one",
}
# Of a hundred answers at most one may be another than what then happens.
_MOST_WRONG: Final = 0.01


class Outcome(NamedTuple):
    """Who started, on which nodes, and who was evicted."""

    started: dict[str, str]
    evicted: frozenset[str]


@pytest.mark.long
@pytest.mark.parametrize("portion", range(_PORTIONS), ids=f"one seed of {_PORTIONS}, from {{}}".format)
def test_what_if_says_what_the_running_scheduler_does(portion: int, record_property: Callable) -> None:
    seeds = range(portion, _WORLDS, _PORTIONS)
    told, happens = other_outcomes(seeds, record_property)
    assert happens
    assert len(told.keys() - _KNOWN) <= len(seeds) * _MOST_WRONG, "\n".join(told.values())


@pytest.mark.long
@pytest.mark.parametrize("seeds", _NEW_WORLDS.portions(_NEW_AT_ONCE), ids=portion_names())
def test_so_it_does_in_worlds_of_the_day(
    seeds: range, request: pytest.FixtureRequest, record_property: Callable
) -> None:
    told, _ = other_outcomes(seeds, record_property)
    _NEW_WORLDS.judge(told.values(), request, allowed=max(1, int(len(seeds) * _MOST_WRONG)))


def other_outcomes(seeds: range, record_property: Callable) -> tuple[dict[int, str], int]:
    """Worlds with another outcome than was said, and in how many worlds something happened."""
    happens, moved, told = 0, 0, {}
    for seed in seeds:
        said, done, changes = outcomes(seed)
        happens += bool(done.started or done.evicted)
        moved += said.started != done.started
        if (said.started.keys(), said.evicted) != (done.started.keys(), done.evicted):
            told[seed] = f"world {seed}, if {changes.texts}: said {said}, then {done}"
    record_property("worlds in which something happens", happens)
    record_property("other pods", sorted(told))
    record_property("other nodes", moved)
    return told, happens


def outcomes(seed: int) -> tuple[Outcome, Outcome, Changes]:
    """What what-if says of a world and a change, what the world's own scheduler then does, and the change."""
    _, player = live(seed, judged=False)
    base = fresh(player)
    draft = Draft(base)
    suppose_something(draft, random.Random(f"change {seed}"))
    changes = draft.changes()
    said = outcome_of(CopiedWorld(base).ask(changes, run, RunResult))
    return said, then(player, changes), changes


def fresh(player: Player) -> Simulation:
    """The objects of a world as a cluster that was just read."""
    base = Simulation(player.config, player.now)
    base.objects = player.objects.copy(lambda: base.now)
    base.known = dict(player.known)
    for obj in base.known.values():
        base.scheduler.put(obj, base.now)
    return base


def then(player: Player, changes: Changes) -> Outcome:
    """Make the changes in a world, and let its scheduler run; who is evicted ends at once."""
    player.forget_happenings()
    player.grace = False
    changes.apply(player)
    return outcome_of(run(player))


def outcome_of(result: RunResult) -> Outcome:
    started = {item.pod: item.node for item in result.started}
    return Outcome(started, frozenset(item.pod for item in result.evicted))
