"""Where the members of a group sit on the tree, and which rank each keeps."""

from __future__ import annotations

import pytest

from scheduler_core.model.names import JOB_COMPLETION_INDEX, MUSTER_SCHEDULER, SAKKARA_MEMBER_RANK_LABEL
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.group_members import (
    counts_of,
    in_rank_order,
    placed_members,
    pod_index,
    ranks_of,
    scheduler_of,
)
from scheduler_core.state.topology import TopologySettings
from scheduler_core.topology.tree import build
from tests.support.builders import PodBuilder, make_group, make_node, make_pod

TREE = build(("rack", "node"), [("r0", "n0"), ("r0", "n1"), ("r1", "n2")])
GANG = make_group("a/g").needs(2).obj()


def member(name: str, rank: str = "", index: str = "") -> PodBuilder:
    made = make_pod(f"a/{name}").uid(name).group("g").requests(cpu=1)
    if rank:
        made.label(SAKKARA_MEMBER_RANK_LABEL, rank)
    if index:
        made.meta["annotations"][JOB_COMPLETION_INDEX] = index
    return made


def cluster(*pods: PodBuilder) -> ClusterState:
    state = ClusterState()
    for name in ("n0", "n1", "n2", "outside"):
        state.put_node(make_node(name).allocatable(cpu=9).obj())
    state.put_gang(GANG)
    for item in pods:
        state.put_pod(item.obj())
    return state


def ranks(state: ClusterState, **given: int) -> dict[str, int]:
    return ranks_of(TREE, placed_members(state, GANG, TREE), given)


def test_seats_are_of_members_on_nodes_of_the_tree() -> None:
    state = cluster(
        member("p2").on("n1"), member("p1").on("n2"), member("p3"), member("p4").on("outside"),
        member("p5").on("n0", "Succeeded"), member("p6").on("n0", "Failed"), make_pod("a/other").on("n0"),
    )  # fmt: skip
    state.assume(state.pods["p3"], 0, 1.0)
    seats = placed_members(state, GANG, TREE)
    assert [(seat.pod.name, seat.leaf) for seat in seats] == [("p1", 2), ("p2", 1), ("p3", 0), ("p5", 0)]
    assert counts_of(TREE, seats).tolist() == [2, 1, 1]
    assert counts_of(TREE, []).tolist() == [0, 0, 0]


def test_an_assumed_member_sits_where_it_was_assumed() -> None:
    state = cluster(member("p"))
    assert placed_members(state, GANG, TREE) == []
    state.assume(state.pods["p"], 2, 1.0)
    state.put_pod(member("p").labels(new="form").obj())
    (seat,) = placed_members(state, GANG, TREE)
    assert (seat.leaf, seat.pod.labels) == (2, {"new": "form"})


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([member("p10"), member("p9")], ["p9", "p10"], id="numbers in names are numbers"),
        pytest.param(
            [member("a", index="10"), member("b", index="9")], ["b", "a"], id="an index before the name"
        ),
        pytest.param([member("a", index="x"), member("b", index="-1")], ["a", "b"], id="no index is 0"),
        pytest.param(
            [member("a", index="9" * 12), member("b", index="1")], ["a", "b"], id="nor is a huge one"
        ),
    ],
)
def test_the_order_of_members(pods: list[PodBuilder], expected: list[str]) -> None:
    assert [pod.name for pod in sorted((item.obj() for item in pods), key=pod_index)] == expected


def test_ranks_grow_with_the_distance_from_the_master() -> None:
    state = cluster(member("p0").on("n2"), member("p1").on("n0"), member("p2-master").on("n1"))
    assert ranks(state) == {"p2-master": 0, "p1": 1, "p0": 2}


def test_a_member_keeps_its_rank_and_a_replacement_takes_a_free_one() -> None:
    state = cluster(member("p0", rank="2").on("n0"), member("p1").on("n1"), member("p2", rank="1").on("n2"))
    assert ranks(state) == {"p0": 2, "p1": 0, "p2": 1}
    assert ranks(state, p0=0) == {"p0": 0, "p1": 2, "p2": 1}, "what was given counts before the label"


@pytest.mark.parametrize("rank", ["x", "-1", "9999999999", ""])
def test_a_label_that_is_no_rank_is_none(rank: str) -> None:
    assert ranks(cluster(member("p0", rank=rank).on("n0"), member("p1").on("n1"))) == {"p0": 0, "p1": 1}


def test_a_rank_that_two_claim_is_the_first_ones() -> None:
    state = cluster(member("p0", rank="1").on("n0"), member("p1", rank="1").on("n0"))
    assert ranks(state) == {"p0": 1, "p1": 0}


def test_members_in_the_order_of_their_ranks() -> None:
    state = cluster(member("p0").on("n0"), member("p1").on("n1"))
    found = in_rank_order(TREE, placed_members(state, GANG, TREE), {"p0": 1, "p1": 0})
    assert [(rank, seat.pod.name) for rank, seat in found] == [(0, "p1"), (1, "p0")]


def test_the_scheduler_of_a_group_is_one_of_ours_if_any_member_says_so() -> None:
    state = cluster()
    assert scheduler_of(state, GANG) == ""
    for name, scheduler in (("p", "z"), ("q", "b")):
        state.put_pod(member(name).scheduler(scheduler).obj())
    assert scheduler_of(state, GANG) == "b"
    state.topology.settings["z"] = TopologySettings()
    assert scheduler_of(state, GANG) == "z"
    state.put_pod(member("r").obj())
    state.topology.settings[MUSTER_SCHEDULER] = TopologySettings()
    assert scheduler_of(state, GANG) == MUSTER_SCHEDULER
