"""Which groups and which borrowers go for a group on the tree, against trying every set of them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection
from typing import Any

import pytest

from scheduler_core.engine.decisions import Evicted, Rejected
from scheduler_core.model.names import CHARGED_ANNOTATION, DEFAULT_SCHEDULER, TOPOLOGY_CONSTRAINTS_ANNOTATION
from tests.support.builders import (
    GroupBuilder,
    PodBuilder,
    make_budget,
    make_group,
    make_node,
    make_pod,
    make_quota,
)
from tests.support.every import every_seed
from tests.unit.engine.topology_scheduler import TopologyScheduler, gone, member, members, nodes

ONE_RACK = '{"rack": {"type": "pack", "hard": true}}'


def asking(
    made: TopologyScheduler, number: int, cpu: int = 1, constraints: str = "{}", priority: int = 5
) -> None:
    made.group("g", number, constraints, priority=str(priority))
    made.put(*(pod.priority(priority) for pod in members("g", number, cpu)))


def runs(
    made: TopologyScheduler, group: str, seats: list[int], priority: int = 0, namespace: str = "a"
) -> None:
    """A group with a member of one CPU on each of these nodes."""
    if namespace == "a":
        made.group(group, len(seats), "{}", priority=str(priority))
    made.put(
        *(
            member(group, number, namespace=namespace).priority(priority).on(f"n{slot}")
            for number, slot in enumerate(seats)
        )
    )


def pod_group(name: str, needs: int) -> GroupBuilder:
    """A PodGroup without a priority of its own, placed on the tree."""
    return make_group(f"a/{name}").uid(name).needs(needs).annotation(TOPOLOGY_CONSTRAINTS_ANNOTATION, "{}")


def of_group(group: str, number: int) -> PodBuilder:
    return make_pod(f"a/{group}-{number}").uid(f"{group}-{number}").requests(cpu=1).group(group)


def holds(free: list[int], number: int, *, one_rack: bool) -> bool:
    racks = [sum(free[rack : rack + 2]) for rack in range(0, len(free), 2)]
    return (max(racks) if one_rack else sum(racks)) >= number


# By priority


@every_seed(range(40))
def test_the_fewest_and_cheapest_groups_go_that_make_room(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.randint(1, 3) for _ in range(4)]
    made = TopologyScheduler(*sizes)
    free = list(sizes)
    groups: dict[str, tuple[int, list[int]]] = {}
    for number in range(rng.randint(1, 5)):
        open_to = [slot for slot in range(4) if free[slot]]
        seats = [rng.choice(open_to) for _ in range(1)] if open_to else []
        seats += [slot for slot in open_to if free[slot] > seats.count(slot) and rng.random() < 0.4]
        for slot in seats:
            free[slot] -= 1
        if seats:
            groups[f"v{number}"] = rng.choice((0, 1, 5, 9)), seats
            runs(made, f"v{number}", seats, groups[f"v{number}"][0])
    number, one_rack = rng.randint(1, 5), rng.random() < 0.5
    asking(made, number, constraints=ONE_RACK if one_rack else "{}")
    decisions = made.step()
    victims = {name.rpartition("-")[0] for name in gone(decisions)}

    def without(chosen: Collection[str]) -> list[int]:
        back = [slot for name in chosen for slot in groups[name][1]]
        return [left + back.count(slot) for slot, left in enumerate(free)]

    lower = [name for name, (priority, _) in groups.items() if priority < 5]
    sets = [
        (
            size,
            max((groups[name][0] for name in chosen), default=0),
            sum(len(groups[name][1]) for name in chosen),
        )
        for size in range(len(lower) + 1)
        for chosen in itertools.combinations(lower, size)
        if holds(without(chosen), number, one_rack=one_rack)
    ]
    assert (len(nodes(decisions)) == number) is bool(sets and not sets[0][0])
    assert bool(victims) is bool(sets and sets[0][0])
    assert gone(decisions) == {f"{name}-{n}" for name in victims for n in range(len(groups[name][1]))}, (
        "whole"
    )
    if victims:
        cost = (
            len(victims),
            max(groups[name][0] for name in victims),
            sum(len(groups[name][1]) for name in victims),
        )
        assert cost == min(sets)
        room = without(victims)
        for index in range(number):
            room[int(made.state.nominations.node_of(f"g-{index}")[1:])] -= 1
        assert min(room) >= 0


def test_each_victim_is_told_for_whom_and_members_where_they_wait() -> None:
    made = TopologyScheduler(2)
    runs(made, "low", [0, 0])
    asking(made, 2)
    decisions = made.step()
    assert {item.preemptor.name for item in decisions if isinstance(item, Evicted)} == {"g-0"}
    assert {item.nominated for item in decisions if isinstance(item, Rejected)} == {"n0"}


def test_of_a_group_that_goes_in_part_only_the_rest_is_evicted_and_counts() -> None:
    made = TopologyScheduler(1, 1, 1, 1)
    made.group("half", 3, "{}", priority="0")
    made.put(
        member("half", 0).on("n0"), member("half", 1).deleting(5.0).on("n1"), member("half", 2).gate("later")
    )
    runs(made, "two", [2, 3])
    asking(made, 2)
    assert gone(made.step()) == {"half-0"}


def test_a_group_does_not_evict_its_own_members() -> None:
    made = TopologyScheduler(1)
    made.put(pod_group("g", 2), of_group("g", 0).on("n0"), of_group("g", 1).priority(5))
    decisions = made.step()
    assert (gone(decisions), nodes(decisions)) == (set(), {})


@pytest.mark.parametrize(
    ("priorities", "goes"),
    [
        pytest.param([0, 4], True, id="all of them are less important"),
        pytest.param([0, 9], False, id="one of them is more important"),
        pytest.param([0, 5], False, id="one of them is as important"),
    ],
)
def test_a_group_without_a_priority_has_that_of_its_most_important_pod(
    priorities: list[int], goes: bool
) -> None:
    made = TopologyScheduler(2)
    made.put(*(pod_group(name, 2) for name in ("low", "g")))
    made.put(*(of_group("low", n).priority(priority).on("n0") for n, priority in enumerate(priorities)))
    made.put(of_group("g", 0).priority(1), of_group("g", 1).priority(5))
    assert bool(gone(made.step())) is goes


def test_the_priority_of_a_group_is_its_own_whatever_its_pods_have() -> None:
    made = TopologyScheduler(1)
    made.group("high", 1, "{}", priority="7")
    made.put(member("high", 0).priority(0).on("n0"))
    asking(made, 1)
    assert gone(made.step()) == set()


def test_one_member_that_never_preempts_keeps_its_group_from_it() -> None:
    made = TopologyScheduler(2)
    runs(made, "low", [0, 0])
    made.group("g", 2, "{}", priority="5")
    made.put(member("g", 0).priority(5), member("g", 1).priority(5).never())
    assert gone(made.step()) == set()


def test_no_pod_is_evicted_if_the_members_would_conflict_with_each_other() -> None:
    made = TopologyScheduler(2)
    runs(made, "low", [0, 0])
    made.group("g", 2, "{}", priority="5")
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"sakkara.group.name": "g"}},
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made.put(*(pod.priority(5).spec(affinity=affinity) for pod in members("g", 2)))
    assert (gone(made.step()), len(made.state.nominations)) == (set(), 0)


def test_members_that_differ_are_kept_the_largest_request() -> None:
    made = TopologyScheduler(2, 2)
    runs(made, "low", [0, 0])
    runs(made, "other", [1, 1])
    made.group("g", 2, "{}", priority="5")
    made.put(member("g", 0, 1).priority(5), member("g", 1, 2).priority(5))
    assert len(gone(made.step())) == 4
    found = [made.state.nominations.get(f"g-{n}") for n in range(2)]
    assert [int(item.vector[0]) for item in found if item is not None] == [2000, 2000]


# Under quotas


def quota(made: TopologyScheduler, namespace: str, low: int) -> None:
    made.put(make_quota(f"{namespace}/q").min(cpu=low).max(cpu=99))


def borrower(number: int, slot: int, priority: int = 0, start: float = 0.0, **more: Any) -> PodBuilder:
    pod = make_pod(f"b/x{number}").uid(f"x{number}").requests(cpu=more.pop("cpu", 1)).priority(priority)
    return pod.started(start or number + 1).on(f"n{slot}").labels(**more)


@every_seed(range(40))
def test_borrowed_room_is_reclaimed_as_far_as_it_is_needed(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.randint(1, 3) for _ in range(4)]
    made = TopologyScheduler(*sizes, quotas=True)
    free, pods = list(sizes), {}
    for number in range(8):
        slot = rng.randrange(4)
        if free[slot]:
            free[slot] -= 1
            pods[f"x{number}"] = slot, rng.choice((0, 0, 9))
            made.put(borrower(number, slot, pods[f"x{number}"][1]))
    low = rng.randint(0, len(pods))
    number, own, one_rack = rng.randint(1, 4), rng.randint(0, 5), rng.random() < 0.5
    quota(made, "a", own)
    quota(made, "b", low)
    asking(made, number, constraints=ONE_RACK if one_rack else "{}", priority=0)
    decisions = made.step()
    victims = gone(decisions)

    def without(names: Collection[str]) -> list[int]:
        back = [pods[name][0] for name in names]
        return [left + back.count(slot) for slot, left in enumerate(free)]

    def enough(names: Collection[str]) -> bool:
        shared = len(pods) - len(names) + number <= own + low
        return shared and holds(without(names), number, one_rack=one_rack)

    assert bool(nodes(decisions)) is enough(())
    order = sorted(pods, key=lambda name: (pods[name][1], -int(name[1:])))
    candidates = order[: len(pods) - low]
    assert bool(victims) is (number <= own and not enough(()) and enough(candidates))
    assert victims <= set(candidates), (
        "the least important first, then the latest, and within what is borrowed"
    )
    if victims:
        assert enough(victims)
        assert not any(enough(victims - {name}) for name in victims)


def test_where_quotas_are_not_watched_priority_alone_decides() -> None:
    made = TopologyScheduler(2)
    quota(made, "a", 2)
    quota(made, "b", 0)
    made.put(borrower(0, 0), borrower(1, 0))
    asking(made, 2)
    assert gone(made.step()) == set(), "pods outside groups are not touched"


@pytest.mark.parametrize("watched", [False, True])
def test_groups_of_another_quota_are_victims_only_where_quotas_are_not_watched(watched: bool) -> None:
    made = TopologyScheduler(2, quotas=watched)
    quota(made, "b", 2)
    made.put(make_group("b/low").uid("low").needs(2))
    pods = [make_pod(f"b/l{n}").uid(f"l{n}").requests(cpu=1).group("low").on("n0") for n in range(2)]
    made.put(*pods)
    asking(made, 2)
    assert gone(made.step()) == (set() if watched else {"l0", "l1"})


def test_groups_of_the_same_quota_go_by_priority() -> None:
    made = TopologyScheduler(2, quotas=True)
    quota(made, "a", 2)
    runs(made, "low", [0, 0])
    asking(made, 2)
    assert gone(made.step()) == {"low-0", "low-1"}


@pytest.mark.parametrize(("number", "victims"), [(1, {"x1"}), (2, {"x0", "x1"})])
def test_a_borrower_of_another_resource_is_a_victim_if_the_others_are_not_enough(
    number: int, victims: set[str]
) -> None:
    """Of two CPUs b borrows one, and its memory; x0 has the memory."""
    made = TopologyScheduler(2, quotas=True)
    made.put(make_node("n0").allocatable(cpu=2, memory=9))
    made.put(make_quota("a/q").min(cpu=2, memory=1).max(cpu=9, memory=9))
    made.put(make_quota("b/q").min(cpu=1, memory=0).max(cpu=9, memory=9))
    made.put(borrower(0, 0).requests(cpu=1, memory=1), borrower(1, 0))
    asking(made, number, priority=0)
    assert gone(made.step()) == victims


@pytest.mark.parametrize(("high", "waiting"), [(4, 0), (2, 0), (2, 2)])
def test_pods_without_a_node_are_no_reason_to_evict_running_pods(high: int, waiting: int) -> None:
    """Nobody can evict it. Its max was lowered when these pods were there."""
    made = TopologyScheduler(9, quotas=True)
    quota(made, "a", 2)
    made.put(make_quota("b/q").min(cpu=0).max(cpu=high))
    made.put(borrower(0, 0), borrower(1, 0))
    for number in range(waiting):
        pod = make_pod(f"b/w{number}").uid(f"w{number}").requests(cpu=1).scheduler(DEFAULT_SCHEDULER)
        made.put(pod.annotation(CHARGED_ANNOTATION, "true"))
    asking(made, 1, priority=0)
    assert gone(made.step()) == {"x1"}


def test_a_borrower_that_is_protected_stays_where_another_one_does() -> None:
    made = TopologyScheduler(2, quotas=True)
    quota(made, "a", 2)
    quota(made, "b", 0)
    made.put(make_budget("b/safe").selects(app="safe").allows(0))
    made.put(borrower(0, 0), borrower(1, 0, app="safe"))
    asking(made, 1, priority=0)
    assert gone(made.step()) == {"x0"}, "though the other one came later"


def test_a_gang_of_borrowers_goes_as_a_whole() -> None:
    made = TopologyScheduler(2, quotas=True)
    quota(made, "a", 2)
    quota(made, "b", 0)
    made.put(make_group("b/v").uid("v").needs(2), borrower(0, 0).group("v"), borrower(1, 0).group("v"))
    asking(made, 1, priority=0)
    assert gone(made.step()) == {"x0", "x1"}


def test_a_group_waits_for_pods_that_leave_anyhow() -> None:
    made = TopologyScheduler(2, quotas=True)
    quota(made, "a", 2)
    quota(made, "b", 0)
    made.put(borrower(0, 0), borrower(1, 0).deleting(5.0))
    asking(made, 1, priority=0)
    assert (gone(made.step()), nodes(made.step())) == (set(), {})
    made.scheduler.remove(made.state.pods["x1"], made.now)
    assert nodes(made.step(30.0)) == {"g-0": "n0"}
