"""Quota lies on other nodes than the room: who goes where the pod's node cannot give what its quota lacks."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tests.support.builders import PodBuilder
from tests.support.gang_scheduler import evicted, placed, rejected
from tests.unit.framework.test_preemption_stories import asks, budget, outcome, quota, runs, world

# Mins: a 2, b 1, c 1 on nodes of 2 and 2 CPUs unless said otherwise: the sum of min is 4.
STORIES: list[tuple[str, list[PodBuilder], int, str]] = [
    (
        "one that makes room and frees the quota at once",
        [runs("b/x", "n0", 1), runs("b/y", "n1", 1), runs("b/z", "n1", 1, priority=9)],
        2,
        "x",
    ),
    (
        "the least important of all nodes",
        [runs("b/x", "n0", 2, start=1), runs("b/y", "n1", start=5), runs("b/z", "n1", start=9)],
        1,
        "z",
    ),
    (
        "nobody beyond what is borrowed where others borrow",
        [runs("b/x", "n0", 2, start=9), runs("c/y", "n1", 1, start=1), runs("c/z", "n1", 1, start=2)],
        1,
        "z",
    ),
    (
        "a quota within its min keeps its pods",
        [runs("b/x", "n0", 1), runs("c/y", "n1", 1), runs("a/own", "n0", 1)],
        1,
        "",
    ),
]


@pytest.mark.parametrize(("running", "cpu", "victims"), [s[1:] for s in STORIES], ids=[s[0] for s in STORIES])
def test_who_goes_for_a_quota(running: list[PodBuilder], cpu: int, victims: str) -> None:
    made = world([2, 2], *running, quotas=(quota("a", 2), quota("b", 1), quota("c", 1)))
    made.put(asks("a/p", cpu, priority=0))
    assert " ".join(sorted(evicted(made.step()))) == victims


def port(made: PodBuilder) -> PodBuilder:
    (container,) = made.raw["spec"]["containers"]
    return made.containers({**container, "ports": [{"containerPort": 80, "hostPort": 80}]})


# Mins: a 2, b 1, c 0; n0 of 4 CPUs is the only node with room, and x holds the port there that a/p asks for.
PORTS: list[tuple[str, list[PodBuilder], str]] = [
    ("the port here and the quota there", [port(runs("c/x", "n0")), runs("c/y", "n1", 2)], "x y"),
    ("the port here suffices", [port(runs("b/x", "n0", 2)), runs("c/y", "n1")], "x"),
    (
        "the one here that is guaranteed stays where the quota there will do",
        [port(runs("b/x", "n0", priority=9)), runs("b/z", "n0"), runs("c/y", "n1")],
        "x y",
    ),
    (
        "nobody where a quota within its min holds the port",
        [port(runs("b/x", "n0")), runs("c/y", "n1", 2)],
        "",
    ),
]


@pytest.mark.parametrize(("running", "victims"), [s[1:] for s in PORTS], ids=[s[0] for s in PORTS])
def test_who_goes_for_a_port_and_for_a_quota(running: list[PodBuilder], victims: str) -> None:
    made = world([4, 1], *running, quotas=(quota("a", 2), quota("b", 1), quota("c", 0)))
    made.put(port(asks("a/p", 2, priority=0)))
    assert " ".join(sorted(evicted(made.step()))) == victims


def test_a_protected_borrower_stays_where_another_one_will_do_on_whatever_node() -> None:
    """Room is on n1; the quota's need may come from either node."""
    for safe, victim in (("x", "y"), ("y", "x")):
        running = [
            runs(f"b/{name}", node, 1, app="safe" if name == safe else "free")
            for name, node in (("x", "n0"), ("y", "n2"))
        ]
        made = world(
            [1, 1, 1], *running, quotas=(quota("a", 1), quota("b", 1)), budgets=(budget(namespace="b"),)
        )
        assert outcome(made, asks("a/p", 1, priority=0))[1] == victim


def spread_out(cross_node: bool) -> Any:
    """b runs one CPU on each of three nodes and borrows two; n3 has room for two."""
    running = [runs("b/x", "n0", start=1), runs("b/y", "n1", start=3), runs("b/z", "n2", start=2)]
    made = world([1, 1, 1, 2], *running, quotas=(quota("a", 2), quota("b", 1)))
    for profile in made.scheduler.profiles.values():
        for plugin in profile.plugins:
            if hasattr(plugin, "cross_node"):
                plugin.cross_node = cross_node
    return made


def test_room_is_on_one_node_and_the_least_important_go_elsewhere() -> None:
    assert outcome(spread_out(True), asks("a/p", 2, priority=0)) == ("n3", "y z")


def test_without_leave_to_evict_on_several_nodes_nobody_goes() -> None:
    assert outcome(spread_out(False), asks("a/p", 2, priority=0)) == ("", "")


Pods = dict[str, tuple[str, int, int]]


def lawful(pods: Pods, minima: dict[str, int], gone: tuple[str, ...]) -> bool:
    """Whether some order takes each of them from a quota that is over its min at that moment."""
    used = {space: sum(cpu for where, cpu, _ in pods.values() if where == space) for space in minima}
    for space, low in minima.items():
        sizes = [pods[name][1] for name in gone if pods[name][0] == space]
        if sizes and used[space] - (sum(sizes) - max(sizes)) <= low:
            return False
    return True


@pytest.mark.parametrize("seed", range(40))
def test_a_min_is_reclaimed_exactly_where_some_lawful_set_suffices(seed: int) -> None:
    """All sets are tried; of the set that goes nobody can be spared."""
    rng = random.Random(seed)
    minima = {"a": rng.randint(1, 3), "b": rng.randint(0, 2), "c": rng.randint(0, 2)}
    total = sum(minima.values())
    sizes = [rng.randint(1, 3) for _ in range(3)]
    free, pods = list(sizes), {}
    running: list[Any] = []
    for number in range(rng.randint(2, 6)):
        slot, cpu, space = rng.randrange(3), rng.randint(1, 2), rng.choice("bc")
        if free[slot] >= cpu:
            free[slot] -= cpu
            pods[f"v{number}"] = (space, cpu, slot)
            running.append(
                runs(f"{space}/v{number}", f"n{slot}", cpu, rng.choice((0, 5)), rng.randint(1, 99))
            )
    cpu = rng.randint(1, minima["a"])
    made = world(sizes, *running, quotas=tuple(quota(space, low) for space, low in minima.items()))
    made.put(asks("a/p", cpu, priority=0))
    decisions = made.step()
    victims = evicted(decisions)

    def enough(gone: tuple[str, ...]) -> bool:
        room = [
            left + sum(pods[name][1] for name in gone if pods[name][2] == slot)
            for slot, left in enumerate(free)
        ]
        used = sum(size for name, (_, size, _) in pods.items() if name not in gone)
        return max(room) >= cpu and used + cpu <= total

    every = [gone for count in range(len(pods) + 1) for gone in itertools.combinations(sorted(pods), count)]
    if enough(()):
        assert set(placed(decisions)) == {"p"}
        return
    possible = [gone for gone in every if enough(gone) and lawful(pods, minima, gone)]
    assert bool(victims) is bool(possible), (pods, minima, cpu, free)
    if victims:
        chosen = tuple(sorted(victims))
        assert chosen in possible
        assert not any(enough(tuple(name for name in chosen if name != spared)) for spared in chosen)
        assert rejected(decisions)["p"].nominated
