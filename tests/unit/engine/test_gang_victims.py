"""Who goes for a gang: enough for its minimum, nobody who can be spared, and gangs of others as a whole."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from scheduler_core.engine.gang_preemption import blocks_of
from tests.support.builders import PodBuilder, make_budget, make_group, make_pod
from tests.support.gang_scheduler import GangScheduler, evicted, member, placed


def runs(
    name: str, node: str = "n0", cpu: int = 1, priority: int = 0, start: int = 1, **labels: Any
) -> PodBuilder:
    made = make_pod(f"a/{name}").uid(name).requests(cpu=cpu).priority(priority).started(start).on(node)
    return made.labels(**labels)


def asking(made: GangScheduler, number: int, cpu: int = 1) -> None:
    made.put(*(member(f"m{index}", cpu=cpu).priority(5) for index in range(number)))


def seated(free: list[int], members: int, cpu: int) -> bool:
    return sum(room // cpu for room in free) >= members


@pytest.mark.parametrize("seed", range(25))
def test_victims_are_enough_and_none_of_them_can_be_spared(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.randint(2, 5) for _ in range(rng.randint(1, 3))]
    number, cpu = rng.randint(1, 4), rng.randint(1, 2)
    made = GangScheduler(sizes, g=number)
    free, pods = list(sizes), {}
    for index in range(rng.randint(2, 8)):
        slot, size = rng.randrange(len(sizes)), rng.randint(1, 2)
        if free[slot] >= size:
            free[slot] -= size
            priority = rng.choice((0, 1, 9))
            pods[f"v{index}"] = (slot, size, priority)
            made.put(runs(f"v{index}", f"n{slot}", size, priority, rng.randint(1, 9)))
    asking(made, number, cpu)
    decisions = made.step()
    victims = evicted(decisions)

    def without(gone: set[str]) -> list[int]:
        return [room + sum(pods[v][1] for v in gone if pods[v][0] == slot) for slot, room in enumerate(free)]

    every = {name for name, (_, _, priority) in pods.items() if priority < 5}
    if seated(free, number, cpu):
        assert (len(placed(decisions)), victims) == (number, set())
        return
    assert bool(victims) is seated(without(every), number, cpu)
    assert victims <= every
    if victims:
        assert seated(without(victims), number, cpu)
        spared = [victims - {name} for name in victims]
        assert not any(seated(without(rest), number, cpu) for rest in spared)
        nominated = [made.state.nominations.node_of(f"m{index}") for index in range(number)]
        room = without(victims)
        for node in nominated:
            room[int(node.removeprefix("n"))] -= cpu
        assert min(room) >= 0


def test_protected_pods_are_given_back_first_then_the_most_important() -> None:
    made = GangScheduler([9])
    made.scheduler.put(make_budget("a/safe").selects(app="safe").allows(0).obj(), made.now)
    made.scheduler.put(make_group("a/v").needs(2).obj(), made.now)
    made.put(
        runs("low", start=9),
        runs("old", start=1),
        runs("high", priority=3),
        runs("safe", app="safe", start=5),
        runs("g0").group("v"),
        runs("g1", priority=1).group("v"),
    )
    victims = [made.state.pods[name] for name in ("low", "old", "high", "safe", "g0", "g1")]
    assert [[pod.name for pod in block] for block in blocks_of(made.state, victims)] == [
        ["safe"], ["high"], ["g1", "g0"], ["old"], ["low"],
    ]  # fmt: skip
    spare = [made.state.pods[name] for name in ("g0", "low")]
    made.put(runs("g2").group("v"))
    assert sorted(pod.name for block in blocks_of(made.state, spare) for pod in block) == ["g0", "low"]
    assert all(len(block) == 1 for block in blocks_of(made.state, spare)), "one of three may go alone"


def test_each_victim_is_told_for_whom_it_goes() -> None:
    made = GangScheduler([2], g=2)
    made.put(runs("v0"), runs("v1"))
    asking(made, 2)
    decisions = [item for item in made.step() if hasattr(item, "preemptor")]
    assert {item.pod.name for item in decisions} == {"v0", "v1"}
    assert all("for node n0" in item.message for item in decisions)
    assert {item.preemptor.name for item in decisions} <= {"m0", "m1"}


def test_what_goes_already_is_counted_on_and_the_gang_waits() -> None:
    made = GangScheduler([2], g=2)
    made.put(runs("v0").deleting(5.0), runs("v1").deleting(5.0))
    asking(made, 2)
    decisions = made.step()
    assert (evicted(decisions), placed(decisions)) == (set(), {})
    for name in ("v0", "v1"):
        made.scheduler.remove(made.state.pods[name], made.now)
    assert set(placed(made.step(30.0))) == {"m0", "m1"}


def test_all_pairs_of_sizes_leave_nobody_half_started() -> None:
    for size, number in itertools.product((1, 2, 3), (1, 2, 3)):
        made = GangScheduler([size], g=number)
        asking(made, number)
        assert len(placed(made.step())) in (0, number)
