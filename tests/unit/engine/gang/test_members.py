"""The kinds of members, the pods that could make room for them, and the bound of their quota."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from scheduler_core.engine.gang.capacity import beyond_quota, capacity_limit, in_use, leaving
from scheduler_core.engine.gang.members import equal_members, kinds_of
from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.framework.profile import Profile
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, member

TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}
SPREAD = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]


def pairs(made: GangScheduler, *pods: PodBuilder) -> list[tuple[Profile, Any]]:
    return [(made.scheduler.profiles[pod.obj().scheduler_name], pod.obj()) for pod in pods]


# Kinds


@pytest.mark.parametrize(
    ("spec", "running", "equal"),
    [
        pytest.param({}, {}, True, id="nobody reads labels"),
        pytest.param({"topologySpreadConstraints": SPREAD}, {}, False, id="a member spreads by them"),
        pytest.param({"affinity": {"podAffinity": REQUIRED}}, {}, False, id="a member wants to be near some"),
        pytest.param(
            {"affinity": {"podAntiAffinity": REQUIRED}}, {}, False, id="a member keeps away from some"
        ),
        pytest.param({}, {"affinity": {"podAntiAffinity": REQUIRED}}, False, id="somebody else keeps away"),
        pytest.param({}, {"priority": 3}, True, id="somebody else without rules"),
    ],
)
def test_labels_tell_members_apart_only_where_they_are_read(
    spec: dict[str, Any], running: dict[str, Any], equal: bool
) -> None:
    made = GangScheduler([9], g=2)
    made.put(make_pod("f/x").uid("x").spec(**running).on("n0"))
    members = pairs(
        made, member("a").labels(index="0").spec(**spec), member("b").labels(index="1").spec(**spec)
    )
    assert equal_members(made.state, members) is equal
    assert len(set(kinds_of(made.state, members))) == (1 if equal else 2)


def test_one_member_with_rules_is_enough_to_read_the_labels_of_all() -> None:
    made = GangScheduler([9], g=2)
    plain = [member(name).labels(index=name) for name in "ab"]
    ruled = member("c").spec(affinity={"podAffinity": REQUIRED})
    assert len(set(kinds_of(made.state, pairs(made, *plain, ruled)))) == 3
    assert len(set(kinds_of(made.state, pairs(made, *plain)))) == 1


def test_members_of_two_profiles_are_not_equal() -> None:
    made = GangScheduler([9], g=2)
    ((profile, pod),) = pairs(made, member("a"))
    other = cast(Profile, SimpleNamespace(name="other"))
    assert equal_members(made.state, [(profile, pod), (profile, pod)])
    assert not equal_members(made.state, [(profile, pod), (other, pod)])


def test_a_unit_is_a_pod_alone_unless_it_is_said() -> None:
    assert not QueuedUnit("k", 0.0).gang
    assert QueuedUnit("k", 0.0, gang=True).gang


# Room by evictions


@pytest.mark.parametrize(
    ("quota", "namespace", "priority", "victim"),
    [
        pytest.param(False, "f", 4, True, id="less important"),
        pytest.param(False, "f", 5, False, id="as important"),
        pytest.param(False, "a", 4, True, id="of the own namespace, less important"),
        pytest.param(True, "f", 9, True, id="under a quota: of another namespace, however important"),
        pytest.param(True, "a", 9, False, id="under a quota: of the own namespace, more important"),
        pytest.param(True, "a", 4, True, id="under a quota: of the own namespace, less important"),
    ],
)
def test_whose_room_evictions_could_free(quota: bool, namespace: str, priority: int, victim: bool) -> None:
    made = GangScheduler([4], g=2)
    if quota:
        made.scheduler.put(make_quota("a/q").min(cpu=9).max(cpu=9).obj(), made.now)
    made.put(make_pod(f"{namespace}/v").uid("v").requests(cpu=3).priority(priority).on("n0"))
    ((profile, pod),) = pairs(made, member("m").priority(5))
    cycle = made.scheduler.cycle
    assert capacity_limit(cycle, profile, pod, made.now).fits == 1
    assert capacity_limit(cycle, profile, pod, made.now, evicting=True).fits == (4 if victim else 1)


def test_room_is_not_made_of_what_a_node_never_had() -> None:
    made = GangScheduler([2, 5], g=2)
    made.put(make_pod("f/over").uid("over").requests(cpu=4).on("n0"))
    ((profile, pod),) = pairs(made, member("m"))
    assert capacity_limit(made.scheduler.cycle, profile, pod, made.now).fits == 5, (
        "an overcommitted node has none"
    )


def test_the_scarce_resource_is_that_of_which_the_fewest_find_enough_where_they_may_go() -> None:
    made = GangScheduler(g=2)
    for name, cpu, memory in (("n0", 9, 1), ("n1", 9, 1)):
        made.scheduler.put(make_node(name).allocatable(cpu=cpu, memory=memory).obj(), made.now)
    made.scheduler.put(make_node("closed").allocatable(cpu=9, memory=99).taint("t").obj(), made.now)
    ((profile, pod),) = pairs(made, member("m").requests(cpu=3, memory=1))
    room = capacity_limit(made.scheduler.cycle, profile, pod, made.now)
    assert (room.fits, room.nodes, room.scarce) == (2, 2, "memory")


def test_a_resource_that_appears_later_is_known_of_pods_that_ran_before() -> None:
    made = GangScheduler([4], g=2)
    made.put(make_pod("f/x").uid("x").requests(cpu=1).deleting(5.0).on("n0"))
    made.scheduler.put(make_node("n1").allocatable(cpu=4, gpu=2).obj(), made.now)
    ((profile, pod),) = pairs(made, member("m").requests(cpu=1, gpu=1))
    assert capacity_limit(made.scheduler.cycle, profile, pod, made.now, evicting=True).fits == 2


def test_a_leaving_member_counts_as_placed_and_as_leaving() -> None:
    made = GangScheduler([9])
    made.put(
        make_pod("f/a").uid("a").on("n0"),
        make_pod("f/b").uid("b").deleting(5.0).on("n0"),
        make_pod("f/c").uid("c"),
    )
    assert [pod.name for pod in made.state.table.of(np.flatnonzero(leaving(made.state)))] == ["b"]
    made.scheduler.remove(made.state.pods["b"], made.now)
    assert not leaving(made.state).any()


# Quota


def test_a_quota_that_a_profile_does_not_watch_holds_nothing_against_anybody() -> None:
    made = GangScheduler([9], g=1)
    made.scheduler.put(make_quota("a/q").min(cpu=1).max(cpu=1).obj(), made.now)
    ((profile, pod),) = pairs(made, member("m", cpu=2))
    blind = cast(Profile, SimpleNamespace(name="blind", enabled=frozenset()))
    assert beyond_quota(made.state, [(profile, pod)], 1)
    assert beyond_quota(made.state, [(blind, pod)], 1) == ""
    assert beyond_quota(made.state, [(profile, pod), (blind, pod)], 1) == "", "one of them is not bound by it"


SAID: list[tuple[str, dict[str, int], dict[str, int], int, str]] = [
    ("what is in use", {"cpu": 2}, {"cpu": 1000}, 2, "cpu=2 beside 1 in use, more than spec.max[cpu]=2"),
    ("nothing in use", {"cpu": 1}, {}, 2, "ask for cpu=2, more than spec.max[cpu]=1"),
    ("what nobody asks for is never too much", {"memory": 1}, {"memory": 9}, 2, ""),
    ("a resource without a limit", {"memory": 1}, {"cpu": 99000}, 2, ""),
    ("exactly the limit", {"cpu": 3}, {"cpu": 1000}, 2, ""),
]  # fmt: skip


@pytest.mark.parametrize(("most", "used", "need", "words"), [s[1:] for s in SAID], ids=[s[0] for s in SAID])
def test_what_is_said_of_a_gang_beyond_its_quota(
    most: dict[str, int], used: dict[str, int], need: int, words: str
) -> None:
    made = GangScheduler([9], g=2)
    made.scheduler.put(make_quota("a/q").min(cpu=99).max(**most).obj(), made.now)
    said = beyond_quota(made.state, pairs(made, member("a"), member("b")), need, used)
    assert words in said
    assert bool(said) is bool(words)


def test_what_is_in_use_of_a_namespace_without_a_quota() -> None:
    made = GangScheduler([9])
    made.scheduler.put(make_quota("a/q").min(cpu=9).max(cpu=9).obj(), made.now)
    made.put(
        make_pod("a/x").uid("x").requests(cpu=2).on("n0"), make_pod("f/y").uid("y").requests(cpu=4).on("n0")
    )
    everybody = np.ones(made.state.table.size, dtype=np.bool_)
    for namespace in ("a", "f"):
        used, total = in_use(
            made.state, namespace, everybody & made.state.table.alive[: made.state.table.size]
        )
        assert total["cpu"] == 0, namespace
        assert used.get("cpu", 0) == (0 if namespace == "a" else made.state.ledger.used("f")["cpu"])
