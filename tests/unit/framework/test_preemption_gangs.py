"""Victims that belong to gangs: a gang that would be torn goes as a whole, others lose single members."""

from __future__ import annotations

import pytest

from scheduler_core.framework.preemption.gangs import torn_gangs, units_of
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_group, make_node, make_pod


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
    found = torn_gangs(state, pods)
    assert [item.key for item in found] == (["a/g PodGroup"] if torn else [])
    assert [[pod.uid for pod in unit] for unit in units_of(pods, found)] == units


def test_a_torn_gang_is_known_by_its_members_the_most_important_first() -> None:
    state = cluster(3, important="g1")
    (torn,) = torn_gangs(state, [state.pods["g0"]])
    assert ([pod.uid for pod in torn.members], torn.quorum) == (["g1", "g2", "g0"], 3)


def test_pods_that_name_a_group_that_is_not_there_are_single() -> None:
    state = cluster(3)
    state.remove_gang(make_group("a/g").needs(3).obj())
    pods = [state.pods["g0"], state.pods["g1"]]
    assert torn_gangs(state, pods) == []
    assert [[pod.uid for pod in unit] for unit in units_of(pods, [])] == [["g0"], ["g1"]]
