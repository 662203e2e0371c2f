"""Quota lies on other nodes than the room: who goes where the pod's node cannot give what its quota lacks."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from scheduler_core.framework.preemption import cross_node
from scheduler_core.framework.preemption.cross_node import ClusterCandidates, RemainingLoans
from scheduler_core.framework.preemption.loans import loans_of
from tests.support.builders import PodBuilder
from tests.support.every import every_seed
from tests.support.gang_scheduler import evicted, placed, rejected
from tests.unit.framework.preemption.candidates import WIDTH, Given, Runs, Sizes, some
from tests.unit.framework.preemption.test_stories import asks, budget, outcome, quota, runs, world

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


def test_with_cross_node_preemption_off_no_pod_is_evicted_on_several_nodes() -> None:
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


@every_seed(range(40))
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


WITHIN, BEYOND, OTHERS = range(3)


class Slow:
    """What is left of loans and budgets, in plain numbers."""

    def __init__(self, given: Given, local: list[Runs], contended: list[int]) -> None:
        self.given = given
        self.gone = list(local)
        self.contended = contended

    def may_go(self, pod: Runs, needed: list[int], stage: int) -> bool:
        if not any(pod.sizes[r] > 0 and needed[r] > 0 for r in range(WIDTH)):
            return False
        if self.given.loans is None:
            return True
        left = self.given.left(pod.namespace, self.gone)
        known = {r: value for r, value in enumerate(left) if value is not None}
        asked = known if stage == OTHERS else {r: known[r] for r in self.contended if r in known}
        if not any(value > 0 and pod.sizes[r] > 0 for r, value in asked.items()):
            return False
        return stage != WITHIN or all(pod.sizes[r] <= max(0, value) for r, value in asked.items())

    def violates(self, pod: Runs) -> bool:
        return any(
            sum(other.namespace == name and other.app == app for other in self.gone) >= allowed
            for name, app, allowed in self.given.budgets
            if (pod.namespace, pod.app) == (name, app)
        )

    def sweep(self, rows: list[Runs], need: Sizes, stages: tuple[int, ...]) -> set[Runs] | None:
        left, found = list(need), set[Runs]()
        for stage, late in itertools.product(stages, (False, True)):
            for pod in rows:
                if pod not in found and self.may_go(pod, left, stage) and (late or not self.violates(pod)):
                    self.gone.append(pod)
                    found.add(pod)
                    left = [value - pod.sizes[r] for r, value in enumerate(left)]
        return None if any(value > 0 for value in left) else found


def slow_rest(given: Given, local: list[Runs], contended: list[int], need: Sizes) -> set[Runs] | None:
    rows = given.order(pod for pod in given.running if pod.eligible and pod not in local)
    found = Slow(given, local, contended).sweep(rows, need, (WITHIN, BEYOND, OTHERS))
    if found is None and given.loans is not None:
        shares = {pod: sum(Fraction(pod.sizes[r], n) for r, n in enumerate(need) if n) for pod in rows}
        largest = sorted(rows, key=lambda pod: -shares[pod])
        found = Slow(given, local, contended).sweep(largest, need, (WITHIN, OTHERS))
    return found


def anywhere(given: Given) -> ClusterCandidates:
    table = given.table()
    demand = given.demand(table)
    return ClusterCandidates(table, demand, loans_of(table, demand), given.known_budgets(table))


def mask(contended: list[int]) -> np.ndarray:
    return np.isin(np.arange(WIDTH), contended)


@pytest.mark.parametrize("chunk", [1, 4, 1024])
@every_seed(range(120))
def test_the_rest_is_taken_from_the_least_important_up(
    seed: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_node, "CHUNK", chunk)
    rng = random.Random(seed)
    given = some(rng, most=4)
    local = [pod for pod in given.running if rng.random() < 0.15]
    need = tuple(rng.choice((0, 1, 3, 5)) for _ in range(WIDTH))
    contended = sorted({r for r in range(WIDTH) if need[r] or rng.random() < 0.3})
    rows = np.array([given.running.index(pod) for pod in local], dtype=np.int64)
    found = anywhere(given).rest(rows, mask(contended), np.array(need, dtype=np.int64))
    expected = slow_rest(given, local, contended, need)
    told = f"seed {seed}: {given}, {local}, {need}, {contended}"
    assert (found is None) is (expected is None), told
    if found is not None and expected is not None:
        assert sorted(given.names(found)) == sorted(pod.name for pod in expected), told


def test_a_larger_victim_goes_where_the_least_important_would_end_a_loan_in_vain() -> None:
    """b borrows one CPU, so one of its pods may go; only v frees memory, too, and is the larger part."""
    running = (
        Runs("u", "b", 0, (3, 0, 0)),
        Runs("v", "b", 0, (2, 1, 0), priority=1),
        Runs("w", "c", 0, (2, 0, 0), priority=2),
    )
    given = Given(running, loans={"b": (1, 0, 0), "c": (2, 0, 0)})
    found = anywhere(given).rest(np.zeros(0, dtype=np.int64), mask([0, 1]), np.array([4, 1, 0]))
    assert found is not None
    assert sorted(given.names(found)) == ["v", "w"]


@every_seed(range(40))
def test_remaining_loans_answer_for_many_pods_as_for_each(seed: int) -> None:
    rng = random.Random(seed)
    given = some(rng, most=4)
    table = given.table()
    contended = rng.sample(range(WIDTH), rng.randint(1, 2))
    local = [pod for pod in given.running if rng.random() < 0.2]
    rows = np.array([given.running.index(pod) for pod in local], dtype=np.int64)
    loans, budgets = loans_of(table, given.demand(table)), given.known_budgets(table)
    books = RemainingLoans(table, loans, budgets, rows, mask(contended))
    slow = Slow(given, local, contended)
    others = [pod for pod in given.running if pod not in local]
    for _ in range(4):
        needed = [rng.choice((0, 0, 1, -1)) for _ in range(WIDTH)]
        for stage in (WITHIN, BEYOND, OTHERS):
            every = np.array([given.running.index(pod) for pod in others], dtype=np.int64)
            found = given.names(books.may_go(every, np.array(needed, dtype=np.int64), stage))
            assert found == [pod.name for pod in others if slow.may_go(pod, needed, stage)]
        for pod in others:
            assert books.violates(given.running.index(pod)) is slow.violates(pod)
        if others:
            pod = others.pop(rng.randrange(len(others)))
            books.take(given.running.index(pod))
            slow.gone.append(pod)


@every_seed(range(80))
def test_the_best_of_all_sets_for_room_here_and_quota_anywhere(seed: int) -> None:
    rng = random.Random(seed)
    given = some(rng, most=3)
    slot = rng.randrange(given.slots)
    lacking = tuple(rng.choice((0, 0, 1, 2)) for _ in range(WIDTH))
    need = tuple(rng.choice((0, 1, 2, 3)) for _ in range(WIDTH))
    found = anywhere(given).best(slot, np.array(lacking), np.array(need))
    contended = given.contended(tuple(map(max, lacking, need)))

    def enough(gone: tuple[Runs, ...]) -> bool:
        here = [pod for pod in gone if pod.slot == slot]
        return all(
            sum(pod.sizes[r] for pod in gone) >= need[r] and sum(pod.sizes[r] for pod in here) >= lacking[r]
            for r in range(WIDTH)
        )

    pods = given.order(pod for pod in given.running if pod.eligible)
    every = [gone for size in range(len(pods) + 1) for gone in itertools.combinations(pods, size)]
    ways = [gone for gone in every if enough(gone) and given.lawful(gone)]
    if not ways:
        assert found is None
        return
    assert found is not None
    chosen = [given.running[row] for row in found.tolist()]
    assert given.order(chosen) == chosen[::-1], "the most important first"
    assert tuple(chosen[::-1]) in ways
    assert given.cost(chosen, contended) == min(given.cost(gone, contended) for gone in ways)


def test_too_many_candidates_are_not_tried_but_those_that_free_nothing_needed_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    useful = [Runs("cpu", "b", 1, (1, 0, 0)), Runs("memory", "b", 0, (0, 1, 0))]
    useless = [
        Runs("elsewhere", "b", 1, (0, 1, 0)),
        Runs("gpu", "b", 0, (0, 0, 1)),
        Runs("none", "b", 0, (0, 0, 0)),
    ]
    given = Given((*useful, *useless), slots=2)
    need, lacking = np.array([1, 0, 0]), np.array([0, 1, 0])
    monkeypatch.setattr(cross_node, "MOST_CANDIDATES", 2)
    found = anywhere(given).best(0, lacking, need)
    assert found is not None
    assert set(given.names(found)) == {"cpu", "memory"}
    monkeypatch.setattr(cross_node, "MOST_CANDIDATES", 1)
    assert anywhere(given).best(0, lacking, need) is None


@every_seed(range(80))
def test_what_may_come_free_within_loans(seed: int) -> None:
    """Each quota gives what its pods hold that are no larger than its loan, up to the loan."""
    given = some(random.Random(seed), most=3)
    found = anywhere(given).frees_within_loans(np.array(given.need))
    if given.loans is None:
        assert found
        return
    lacks = [r for r in range(WIDTH) if given.need[r]]
    for r in lacks:
        total = 0
        for name, loan in given.loans.items():
            amount = 0
            for pod in given.running:
                fits = all(loan[k] is None or pod.sizes[k] <= max(0, loan[k] or 0) for k in lacks)
                if pod.namespace == name and pod.eligible and fits:
                    amount += pod.sizes[r]
            total += amount if loan[r] is None else min(amount, max(0, loan[r] or 0))
        if total < given.need[r]:
            assert not found
            return
    assert found
