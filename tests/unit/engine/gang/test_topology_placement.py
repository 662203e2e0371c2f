"""Groups on the tree: who is placed together and where, who goes for them, what they are told."""

from __future__ import annotations

import pytest

from scheduler_core.engine.decisions import Placed
from scheduler_core.model.config_map import parse_config_map
from tests.support.builders import make_node, make_pod, make_quota
from tests.unit.engine.topology_scheduler import (
    PACKED,
    TopologyScheduler,
    gone,
    member,
    members,
    nodes,
    why,
)

SPREAD = '{"rack": {"type": "spread"}}'


def racks(placed: dict[str, str]) -> set[int]:
    return {int(node.removeprefix("n")) // 2 for node in placed.values()}


def test_a_packed_group_is_in_one_rack_as_long_as_one_holds_it() -> None:
    made = TopologyScheduler(1, 1, 2, 2)
    made.group("g", 4)
    made.put(*members("g", 4))
    placed = nodes(made.step())
    assert (len(placed), racks(placed)) == (4, {1})


def test_a_group_is_placed_as_a_whole_or_not_at_all() -> None:
    made = TopologyScheduler(1, 1)
    made.group("g", 3)
    made.put(*members("g", 3))
    decisions = made.step()
    assert (nodes(decisions), made.state.placed) == ({}, {})
    made.put(make_node("n0").allocatable(cpu=2))
    assert len(nodes(made.step(30.0))) == 3


def test_too_few_pods_are_told_with_the_numbers() -> None:
    made = TopologyScheduler(9)
    made.group("g", 4)
    made.put(member("g", 0).on("n0"), member("g", 1), member("g", 2))
    decisions = made.step()
    assert nodes(decisions) == {}
    (text,) = why(decisions)
    assert "has size 4: 2 pods wait, 1 has a node, 0 succeeded" in text


def test_pods_of_a_group_that_is_not_there_wait_for_it() -> None:
    made = TopologyScheduler(9)
    made.put(*members("g", 2))
    (text,) = why(made.step())
    assert "does not exist; its pods wait until it is created" in text
    made.group("g", 2)
    assert len(nodes(made.step(30.0))) == 2


def test_pods_are_told_of_a_config_map_that_lacks_the_label() -> None:
    made = TopologyScheduler(9)
    bare = parse_config_map({"metadata": {"name": "g", "namespace": "a"}})
    made.scheduler.put(bare, made.now)
    made.put(*members("g", 2))
    (text,) = why(made.step())
    assert text == (
        "ConfigMap a/g lacks the label sakkara.group, without which it is no group; "
        "`kubectl label configmap -n a g sakkara.group=` adds it"
    )
    made.group("g", 2)
    assert len(nodes(made.step(30.0))) == 2


def test_pods_that_wait_already_are_told_soon() -> None:
    made = TopologyScheduler(9)
    made.put(*members("g", 2))
    assert "does not exist" in why(made.step()).pop()
    assert made.scheduler.reviews.due() is None
    made.scheduler.put(parse_config_map({"metadata": {"name": "other", "namespace": "a"}}), made.now)
    assert made.scheduler.reviews.due() is None
    made.scheduler.put(parse_config_map({"metadata": {"name": "g", "namespace": "a"}}), made.now)
    assert made.scheduler.reviews.due() is not None
    said = why(made.scheduler.reviews.review(made.now + 10.0))
    assert "lacks the label sakkara.group" in said.pop()


def test_pods_are_not_told_of_a_config_map_that_is_gone() -> None:
    made = TopologyScheduler(9)
    bare = parse_config_map({"metadata": {"name": "g", "namespace": "a"}})
    made.scheduler.put(bare, made.now)
    made.scheduler.remove(bare, made.now)
    made.put(*members("g", 2))
    (text,) = why(made.step())
    assert "does not exist; its pods wait until it is created" in text


def test_no_more_members_than_its_size_are_placed_the_oldest_first() -> None:
    made = TopologyScheduler(9)
    made.group("g", 2)
    made.put(*reversed(members("g", 3)))
    decisions = made.step()
    assert set(nodes(decisions)) == {"g-0", "g-1"}
    (text,) = why(decisions)
    assert "has size 2, and so many members are placed" in text
    made.put(member("g", 3))
    (text,) = why(made.step(30.0))
    assert "so many members are placed or done" in text


def test_a_group_with_unreadable_constraints_gets_an_event_and_no_placement() -> None:
    made = TopologyScheduler(9)
    made.group("g", 1, '{"shelf": {"type": "pack"}}')
    made.put(member("g", 0))
    (text,) = why(made.step())
    assert "shelf" in text


def test_members_that_come_later_join_those_that_are_placed() -> None:
    made = TopologyScheduler(1, 1, 2, 2)
    made.group("g", 2)
    made.put(member("g", 0).on("n0"), member("g", 1))
    assert nodes(made.step()) == {"g-1": "n1"}


def test_closed_nodes_and_other_filters_count() -> None:
    made = TopologyScheduler(4, 4, 2, 2)
    made.put(
        make_node("n0").allocatable(cpu=4).taint("t"), make_node("n1").allocatable(cpu=4).unschedulable()
    )
    made.group("g", 3)
    made.put(*members("g", 3))
    assert racks(nodes(made.step())) == {1}


def test_members_that_take_a_host_port_need_a_node_each() -> None:
    made = TopologyScheduler(4, 4, 4, 4)
    made.group("g", 2)
    port = [{"containerPort": 1, "hostPort": 80}]
    pods = members("g", 2)
    for pod in pods:
        pod.raw["spec"]["containers"][0]["ports"] = port
    made.put(*pods)
    placed = nodes(made.step())
    assert (len(set(placed.values())), len(racks(placed))) == (2, 1)
    made = TopologyScheduler(4)
    made.group("g", 2)
    made.put(*pods)
    assert nodes(made.step()) == {}


def test_members_of_different_size_have_room_for_the_largest() -> None:
    made = TopologyScheduler(3, 3, 9, 9)
    made.group("g", 2)
    made.put(member("g", 0, 1), member("g", 1, 3))
    placed = nodes(made.step())
    assert len(placed) == 2
    assert made.state.topology.runs["a/g ConfigMap"].mixed


def test_nodes_kept_for_others_are_not_used_and_a_members_own_are() -> None:
    made = TopologyScheduler(2, 2)
    made.put(make_pod("b/w").uid("w").requests(cpu=2).priority(9).gate("later"))
    waiting = made.state.pods["w"]
    made.state.nominations.put(waiting, "n0", made.state.vector(waiting))
    made.group("g", 4)
    made.put(*members("g", 4))
    assert nodes(made.step()) == {}
    made.state.nominations.remove("w")
    own = made.state.pods["g-0"]
    made.state.nominations.put(own, "n0", made.state.vector(own))
    assert len(nodes(made.step(400.0))) == 4


def test_rules_between_pods_may_need_another_placement_than_packing_chooses() -> None:
    made = TopologyScheduler(4, 4, 4, 4)
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"sakkara.group.name": "g"}},
    }
    made.group("g", 2)
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made.put(*(pod.spec(affinity=affinity) for pod in members("g", 2)))
    placed = nodes(made.step())
    assert (len(set(placed.values())), len(racks(placed))) == (2, 1)


def test_ranks_follow_the_tree_and_are_written_with_trials() -> None:
    made = TopologyScheduler(1, 1, 1, 1)
    made.group("g", 4, "{}")
    made.put(*members("g", 4))
    decisions = [item for item in made.step() if isinstance(item, Placed)]
    labels = [item.pre_bind[-1].body["metadata"]["labels"] for item in decisions]  # type: ignore[union-attr]
    assert [label["sakkara.member.rank"] for label in labels] == ["0", "1", "2", "3"]
    assert [item.node for item in decisions] == ["n0", "n1", "n2", "n3"]
    assert {label["sakkara.member.status"] for label in labels} == {"Bound"}


def test_the_refusal_of_a_group_is_written_with_its_status() -> None:
    made = TopologyScheduler(1)
    made.group("g", 2)
    made.put(*members("g", 2))
    made.step()
    run = made.state.topology.runs["a/g ConfigMap"]
    assert run.reason
    made.state.gangs.group_dirty.clear()
    made.put(make_node("n0").allocatable(cpu=1).labels(x="y"))
    made.step(400.0)
    assert made.state.gangs.group_dirty == set(), "the same reason is not news"
    made.put(make_node("n0").allocatable(cpu=2))
    made.step(400.0)
    assert (run.reason, made.state.gangs.group_dirty) == ("", {"a/g ConfigMap"})


# Who goes


def running(
    made: TopologyScheduler, group: str, node: str, number: int, cpu: int = 1, priority: int = 0
) -> None:
    made.group(group, number, priority=str(priority))
    made.put(*(pod.on(node).priority(priority) for pod in members(group, number, cpu)))


def asking(made: TopologyScheduler, number: int, cpu: int = 1, priority: int = 5) -> None:
    made.group("g", number, priority=str(priority))
    made.put(*(pod.priority(priority) for pod in members("g", number, cpu)))


def test_a_whole_group_of_lower_priority_goes() -> None:
    made = TopologyScheduler(2, 2)
    running(made, "low", "n0", 2)
    running(made, "high", "n1", 2, priority=9)
    asking(made, 2)
    decisions = made.step()
    assert (gone(decisions), nodes(decisions)) == ({"low-0", "low-1"}, {})
    assert [made.state.nominations.node_of(f"g-{n}") for n in range(2)] == ["n0", "n0"]


def test_as_few_groups_as_possible_go_and_of_those_the_cheapest() -> None:
    made = TopologyScheduler(2, 2)
    running(made, "one", "n0", 1)
    running(made, "two", "n0", 1)
    running(made, "both", "n1", 2)
    asking(made, 2)
    assert gone(made.step()) == {"both-0", "both-1"}
    made = TopologyScheduler(2, 2)
    running(made, "dear", "n0", 2, priority=3)
    running(made, "cheap", "n1", 2, priority=1)
    asking(made, 2)
    assert gone(made.step()) == {"cheap-0", "cheap-1"}


@pytest.mark.parametrize("why_not", ["same priority", "single pod", "never", "still not enough"])
def test_no_pod_is_evicted(why_not: str) -> None:
    made = TopologyScheduler(2)
    if why_not == "single pod":
        made.put(make_pod("a/x").uid("x").requests(cpu=2).on("n0"))
    else:
        running(made, "low", "n0", 1, cpu=2, priority=5 if why_not == "same priority" else 0)
    if why_not == "never":
        made.group("g", 2, priority="5")
        made.put(*(pod.priority(5).never() for pod in members("g", 2)))
    else:
        asking(made, 3 if why_not == "still not enough" else 2)
    decisions = made.step()
    assert (gone(decisions), nodes(decisions)) == (set(), {})


def test_a_group_waits_for_leaving_pods_and_evicts_no_other() -> None:
    made = TopologyScheduler(2, 2)
    made.put(make_pod("a/x").uid("x").requests(cpu=2).deleting(5.0).on("n0"))
    running(made, "low", "n1", 2)
    asking(made, 2)
    decisions = made.step()
    assert gone(decisions) == set()


def test_a_group_does_not_evict_twice_for_the_same_room() -> None:
    made = TopologyScheduler(2, 2)
    running(made, "low", "n0", 2)
    running(made, "other", "n1", 2)
    asking(made, 2)
    first = gone(made.step())
    assert len(first) == 2
    assert gone(made.step(400.0)) == set()
    for name in first:
        made.scheduler.remove(made.state.pods[name], made.now)
    assert len(nodes(made.step(30.0))) == 2


# Under quotas


def quotas(made: TopologyScheduler, **minima: int) -> None:
    for namespace, low in minima.items():
        made.put(make_quota(f"{namespace}/q").min(cpu=low).max(cpu=99))


def test_a_group_reclaims_the_min_of_its_quota() -> None:
    made = TopologyScheduler(2, 2, quotas=True)
    quotas(made, a=2, b=2)
    for number in range(4):
        made.put(
            make_pod(f"b/x{number}")
            .uid(f"x{number}")
            .requests(cpu=1)
            .started(number)
            .priority(9)
            .on(f"n{number // 2}")
        )
    asking(made, 2, priority=0)
    assert gone(made.step()) == {"x2", "x3"}, "the latest, on one node, and no more than b borrows"


def test_a_group_above_its_min_reclaims_nothing() -> None:
    made = TopologyScheduler(2, 2, quotas=True)
    quotas(made, a=1, b=3)
    for number in range(4):
        made.put(make_pod(f"b/x{number}").uid(f"x{number}").requests(cpu=1).on(f"n{number // 2}"))
    asking(made, 2)
    decisions = made.step()
    assert (gone(decisions), nodes(decisions)) == (set(), {})


def test_groups_of_other_quotas_are_spared_by_priority() -> None:
    made = TopologyScheduler(2, quotas=True)
    quotas(made, b=2)
    made.group("low", 2)
    made.put(*(member("low", n, namespace="b").on("n0") for n in range(2)))
    asking(made, 2)
    assert gone(made.step()) == set()


def test_packing_is_a_wish_and_spreading_uses_all_racks() -> None:
    made = TopologyScheduler(1, 1, 1, 1)
    made.group("g", 4, PACKED)
    made.put(*members("g", 4))
    assert len(nodes(made.step())) == 4, "no rack holds four"
    made = TopologyScheduler(2, 2, 2, 2)
    made.group("g", 4, SPREAD)
    made.put(*members("g", 4))
    assert racks(nodes(made.step())) == {0, 1}


def test_a_pod_that_leaves_rejects_a_member_until_it_is_gone() -> None:
    made = TopologyScheduler(9)
    term = {"labelSelector": {"matchLabels": {"app": "red"}}, "topologyKey": "kubernetes.io/hostname"}
    away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made.put(make_node("n0").allocatable(cpu=9).label("kubernetes.io/hostname", "n0"))
    made.put(make_pod("a/red").uid("red").label("app", "red").on("n0").deleting(5.0))
    made.group("g", 2)
    made.put(member("g", 0), member("g", 1).spec(affinity=away))
    assert nodes(made.step()) == {}
    made.scheduler.remove(made.state.placed["red"].pod, made.now)
    assert nodes(made.step(30.0)) == {"g-0": "n0", "g-1": "n0"}
