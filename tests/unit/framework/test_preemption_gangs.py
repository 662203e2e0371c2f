"""Victims that belong to gangs: a gang that would be torn goes as a whole, others lose single members."""

from __future__ import annotations

import pytest

from scheduler_core.framework.preemption.demand import ordinary_demand
from scheduler_core.framework.preemption.gangs import whole_gangs
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_group, make_node, make_pod

ASKING = make_pod("a/x").uid("x").priority(5).obj()


def cluster(minimum: int, *, members: int = 3, high: str = "", going: str = "") -> ClusterState:
    """Group g of so many members g0, g1, ..., and a single pod s; all on one node."""
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=20).obj())
    state.put_gang(make_group("a/g").needs(minimum).obj())
    for number in range(members):
        name = f"g{number}"
        pod = make_pod(f"a/{name}").uid(name).group("g").priority(9 if name == high else 0).on("n")
        state.put_pod((pod.deleting(1.0) if name == going else pod).obj())
    state.put_pod(make_pod("a/s").uid("s").on("n").obj())
    state.put_pod(make_pod("a/g-waits").uid("gw").group("g").obj())
    return state


CASES: list[tuple[str, ClusterState, list[str], list[str] | None]] = [
    ("a single pod", cluster(3), ["s"], ["s"]),
    ("a member that can be spared", cluster(2), ["g0"], ["g0"]),
    ("a member without which the gang is torn", cluster(3), ["g0"], ["g0", "g1", "g2"]),
    ("more members than can be spared", cluster(2), ["g0", "g2"], ["g0", "g2", "g1"]),
    ("the whole gang", cluster(3), ["g2", "g1", "g0"], ["g2", "g1", "g0"]),
    ("beside a single pod", cluster(3), ["s", "g1"], ["s", "g1", "g0", "g2"]),
    ("a gang that is torn already", cluster(4), ["g0"], ["g0"]),
    ("one that goes anyway is not there", cluster(3, going="g2"), ["g0"], ["g0"]),
    ("a member that must not go", cluster(3, high="g2"), ["g0"], None),
    ("a member that must not go is spared where one can be", cluster(2, high="g2"), ["g0"], ["g0"]),
]


@pytest.mark.parametrize(("state", "victims", "whole"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_gang_is_not_torn_apart(state: ClusterState, victims: list[str], whole: list[str] | None) -> None:
    demand = ordinary_demand(state, ASKING, spare_quotas=True)
    found = whole_gangs(state, demand, [state.pods[uid] for uid in victims])
    assert (None if found is None else [pod.uid for pod in found]) == whole


def test_pods_that_name_a_group_that_is_not_there_are_single() -> None:
    state = cluster(3)
    state.remove_gang(make_group("a/g").needs(3).obj())
    demand = ordinary_demand(state, ASKING, spare_quotas=True)
    found = whole_gangs(state, demand, [state.pods["g0"]])
    assert found is not None
    assert [pod.uid for pod in found] == ["g0"]
