"""Victims are taken away and whoever can be spared stays: held against the same with plain sets."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import cast

import numpy as np
import pytest

from scheduler_core.framework.evaluation import Evaluation
from scheduler_core.framework.preemption.demand import Demand
from scheduler_core.framework.preemption.dry_run import Candidate, DryRun, disrupted_gangs, eviction_units
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_group, make_node, make_pod
from tests.support.every import every_seed

GANGS = ("g", "h")


@dataclass(frozen=True)
class Given:
    """Pods p0, p1, ... in order of importance, on all of which some rule looks.

    A node takes the asking pod when at most `most[slot]` of its pods are there, none of those in `apart`
    (slot, pod) is anywhere, and none of the pairs in `only_with` has its first pod without its second.
    """

    slot_of: tuple[int, ...]
    gang_of: tuple[str, ...]
    quorum: dict[str, int]
    forbidden_gangs: frozenset[int]
    most: tuple[int, int]
    apart: frozenset[tuple[int, int]]
    only_with: frozenset[tuple[int, int]]

    def state(self) -> ClusterState:
        state = ClusterState()
        for slot in range(2):
            state.put_node(make_node(f"n{slot}").allocatable(cpu=99).obj())
        for name, quorum in self.quorum.items():
            state.put_gang(make_group(f"a/{name}").needs(quorum).obj())
        for number, slot in enumerate(self.slot_of):
            pod = make_pod(f"a/p{number}").uid(f"p{number}").on(f"n{slot}").started(number)
            if self.gang_of[number]:
                pod.group(self.gang_of[number])
            state.put_pod(pod.obj())
        return state

    def fits(self, there: set[int], slot: int) -> bool:
        return (
            sum(self.slot_of[pod] == slot for pod in there) <= self.most[slot]
            and not any((slot, pod) in self.apart for pod in there)
            and not any(one in there and other not in there for one, other in self.only_with)
        )

    @property
    def everybody(self) -> set[int]:
        return set(range(len(self.slot_of)))

    def members(self, gang: str) -> list[int]:
        return [number for number, name in enumerate(self.gang_of) if name == gang]

    def torn(self, gone: list[int]) -> list[str]:
        """Gangs that run now and could not without those, in the order in which they are met."""
        found: list[str] = []
        for name in (self.gang_of[pod] for pod in gone):
            if name and name not in found:
                stay = len(set(self.members(name)) - set(gone))
                if len(self.members(name)) >= self.quorum[name] > stay:
                    found.append(name)
        return found

    def look(self, gone: set[int], slot: int, others: list[int]) -> int:
        """The node if it takes the pod without those, else another one that does."""
        there = self.everybody - gone
        return next((at for at in (slot, *others) if self.fits(there, at)), -1)

    def needed(
        self, slot: int, units: list[list[list[int]]], leaving: set[int], others: list[int]
    ) -> tuple[int, list[int]] | None:
        gone = leaving | {pod for unit in units for step in unit for pod in step}
        slot = self.look(gone, slot, others)
        if slot < 0:
            return None
        left = [list(unit) for unit in units]
        changed = True
        while changed:
            changed = False
            for unit in left:
                while unit and (at := self.look(gone - set(unit[0]), slot, others)) >= 0:
                    gone -= set(unit.pop(0))
                    slot, changed = at, True
        return slot, [pod for unit in left for step in unit for pod in step]

    def proved(
        self, slot: int, order: list[int], leaving: set[int], others: list[int], forbidden_gangs: set[str]
    ) -> tuple[int, list[int], list[str]] | None:
        kept = self.needed(slot, [[[pod]] for pod in order], leaving, others)
        if kept is None:
            return None
        torn = self.torn(kept[1])
        if torn:
            may_not = {name for name in torn if self.forbidden_gangs & set(self.members(name))}
            forbidden_gangs |= {f"a/{name} PodGroup" for name in may_not}
            if may_not:
                return None
            single = [[[pod]] for pod in kept[1] if self.gang_of[pod] not in torn]
            wholes = [
                [
                    self.members(name)[: self.quorum[name]],
                    *([pod] for pod in self.members(name)[self.quorum[name] :]),
                ]
                for name in torn
            ]
            kept = self.needed(slot, [*single, *wholes], leaving, others)
            if kept is None:
                return None
        return kept[0], kept[1], self.torn(kept[1])


class Rule:
    """What `Given.fits` says of the state as it is."""

    def __init__(self, given: Given, state: ClusterState) -> None:
        self._given = given
        self._state = state
        self.asked = 0

    def fits(self, slot: int) -> bool:
        self.asked += 1
        there = {number for number in self._given.everybody if f"p{number}" in self._state.placed}
        return self._given.fits(there, slot)


def drawn(rng: random.Random) -> Given:
    size = rng.randint(1, 6)
    gang_of = tuple(rng.choice(("", "", *GANGS)) for _ in range(size))
    pods = range(size)
    return Given(
        tuple(rng.choice((0, 0, 1)) for _ in pods),
        gang_of,
        {name: rng.randint(1, 3) for name in GANGS},
        frozenset(pod for pod in pods if rng.random() < 0.1),
        (rng.randint(0, 4), rng.randint(0, 3)),
        frozenset((rng.randint(0, 1), pod) for pod in pods if rng.random() < 0.2),
        frozenset((rng.choice(pods), rng.choice(pods)) for _ in range(rng.choice((0, 0, 1, 2)))),
    )


def dry_run_of(given: Given, state: ClusterState) -> tuple[DryRun, Rule]:
    rule = Rule(given, state)
    eligible = np.ones(state.table.size, dtype=np.bool_)
    eligible[[state.placed[f"p{pod}"].row for pod in given.forbidden_gangs]] = False
    none = np.zeros(len(state.index), dtype=np.int64)
    demand = Demand(make_pod("a/asks").obj(), none, none, eligible)
    return DryRun(state, 1.0, cast(Evaluation, rule), demand), rule


def numbers(found: Candidate | None) -> tuple[int, list[int], list[str]] | None:
    if found is None:
        return None
    names = [gang.key.removeprefix("a/").removesuffix(" PodGroup") for gang in found.disrupted]
    return found.slot, [int(pod.name[1:]) for pod in found.victims], names


@every_seed(range(400))
def test_pods_that_can_be_spared_stay(seed: int) -> None:
    rng = random.Random(seed)
    given = drawn(rng)
    state = given.state()
    dry_run, _ = dry_run_of(given, state)
    order = rng.sample(sorted(given.everybody), rng.randint(1, len(given.slot_of)))
    leaving = {pod for pod in given.everybody - set(order) if rng.random() < 0.3 and not given.gang_of[pod]}
    told, forbidden_gangs = f"seed {seed}: {given}, {order}, {leaving}", set[str]()
    victims = [state.pods[f"p{pod}"] for pod in order]
    gone = [f"p{pod}" for pod in leaving]
    slot = rng.randint(0, 1)
    found = dry_run.on_node(slot, victims, gone)
    assert numbers(found) == given.proved(slot, order, leaving, [], forbidden_gangs), told
    assert dry_run.forbidden_gangs == forbidden_gangs, told
    assert state.check() == []
    assert {int(uid[1:]) for uid in state.placed} == given.everybody, told
    if found is None:
        return
    before = numbers(found)
    assert before is not None
    for others in ([], [slot], [1 - slot], [slot, 1 - slot]):
        elsewhere = dry_run.on_any_node(found, gone, lambda slots=others: slots)  # type: ignore[misc]
        expected = before
        if any(at != slot for at in others):
            expected = given.proved(slot, before[1], leaving, others, forbidden_gangs) or before
        assert numbers(elsewhere) == expected, f"{told}, {others}"
    assert state.check() == []


def test_nobody_is_asked_twice_where_all_could_stay_at_once() -> None:
    given = Given((0, 0, 0), ("", "", ""), {}, frozenset(), (1, 0), frozenset(), frozenset())
    state = given.state()
    dry_run, rule = dry_run_of(given, state)
    assert numbers(dry_run.on_node(0, [state.pods[f"p{pod}"] for pod in range(3)])) == (0, [1, 2], [])
    assert rule.asked == 4, "all gone, and once for each"


def cluster(minimum: int, *, going: str = "", important: str = "") -> ClusterState:
    """Group g of three running members g0, g1, g2 and one that waits, and a single pod s."""
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=20).obj())
    state.put_gang(make_group("a/g").needs(minimum).obj())
    for number in range(3):
        name = f"g{number}"
        pod = make_pod(f"a/{name}").uid(name).group("g").started(9 - number).on("n")
        pod.priority(9 if name == important else 0)
        state.put_pod((pod.deleting(1.0) if name == going else pod).obj())
    state.put_pod(make_pod("a/s").uid("s").on("n").obj())
    state.put_pod(make_pod("a/g-waits").uid("gw").group("g").obj())
    return state


CASES: list[tuple[str, ClusterState, list[str], bool, list[list[str]]]] = [
    ("a single pod", cluster(3), ["s"], False, [["s"]]),
    ("a member that can be spared", cluster(2), ["g0"], False, [["g0"]]),
    ("a member without which the gang is torn", cluster(3), ["g0"], True, [["g0"]]),
    ("more members than can be spared", cluster(2), ["g0", "g2"], True, [["g0", "g2"]]),
    (
        "the whole gang and a single pod",
        cluster(3),
        ["g2", "s", "g1", "g0"],
        True,
        [["g2", "g1", "g0"], ["s"]],
    ),
    ("a gang that is torn already", cluster(4), ["g0", "g1"], False, [["g0"], ["g1"]]),
    ("one that goes anyway is not there", cluster(3, going="g2"), ["g0"], False, [["g0"]]),
    ("of a gang of one each goes alone", cluster(1), ["g0", "g1"], False, [["g0"], ["g1"]]),
]


@pytest.mark.parametrize(
    ("state", "victims", "torn", "units"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_who_goes_together(
    state: ClusterState, victims: list[str], torn: bool, units: list[list[str]]
) -> None:
    pods = [state.pods[uid] for uid in victims]
    found = disrupted_gangs(state, pods)
    assert [item.key for item in found] == (["a/g PodGroup"] if torn else [])
    assert [[pod.uid for pod in unit] for unit in eviction_units(pods, found)] == units


def test_a_torn_gang_is_known_by_its_members_the_most_important_first() -> None:
    state = cluster(3, important="g1")
    (torn,) = disrupted_gangs(state, [state.pods["g0"]])
    assert ([pod.uid for pod in torn.members], torn.quorum) == (["g1", "g2", "g0"], 3)


def test_pods_that_name_a_group_that_is_not_there_are_single() -> None:
    state = cluster(3)
    state.remove_gang(make_group("a/g").needs(3).obj())
    pods = [state.pods["g0"], state.pods["g1"]]
    assert disrupted_gangs(state, pods) == []
    assert [[pod.uid for pod in unit] for unit in eviction_units(pods, [])] == [["g0"], ["g1"]]
