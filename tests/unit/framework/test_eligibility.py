"""May a pod preempt now? Not while it waits for what it evicted, unless its node can take it no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler_core.framework.preemption.eligibility import awaited, not_eligible, usable
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_node, make_pod

WAITING = make_pod("a/w").uid("w").requests(cpu=1).selector(disk="ssd").tolerates("own")


def cluster(*victims: str) -> ClusterState:
    """w waits for node n, on which p and q run and r goes; it has evicted these victims."""
    state = ClusterState()
    for name in ("m", "n"):
        state.put_node(make_node(name).labels(disk="ssd").allocatable(cpu=4).obj())
    for uid in "pqr":
        pod = make_pod(f"a/{uid}").uid(uid).on("n")
        state.put_pod((pod.deleting(1.0) if uid == "r" else pod).obj())
    state.put_pod(WAITING.obj())
    waiting = state.pods["w"]
    state.nominations.put(waiting, "n", state.vector(waiting), frozenset(victims))
    return state


def test_victims_on_their_way_out_are_waited_for_until_they_are_gone() -> None:
    state = cluster("p", "q")
    assert awaited(state, state.pods["w"]) == set()
    state.condemn("p")
    state.put_pod(make_pod("a/q").uid("q").deleting(2.0).on("n").obj())
    assert awaited(state, state.pods["w"]) == {"p", "q"}
    assert not_eligible(state, state.pods["w"]) == "waiting for pods to end on node n."
    state.remove_pod("p")
    state.remove_pod("q")
    assert (awaited(state, state.pods["w"]), not_eligible(state, state.pods["w"])) == (set(), "")


def test_victims_elsewhere_are_waited_for_as_well() -> None:
    state = cluster("x")
    state.put_pod(make_pod("a/x").uid("x").deleting(1.0).on("m").obj())
    assert awaited(state, state.pods["w"]) == {"x"}


def test_after_a_restart_those_that_go_on_the_node_are_waited_for() -> None:
    state = cluster()
    assert awaited(state, state.pods["w"]) == {"r"}


def test_a_pod_without_a_node_that_is_kept_waits_for_nobody() -> None:
    state = cluster("r")
    state.nominations.remove("w")
    assert awaited(state, state.pods["w"]) == set()


def test_who_must_not_preempt_never_does() -> None:
    state = cluster("r")
    assert not_eligible(state, make_pod("a/x").never().obj()) == "not eligible due to preemptionPolicy=Never"


def changed(**more: Any) -> Callable[[ClusterState], Any]:
    def change(state: ClusterState) -> None:
        node = make_node("n").labels(disk=more.get("disk", "ssd")).allocatable(cpu=4)
        if "taint" in more:
            node.taint(more["taint"], effect=more.get("effect", "NoSchedule"))
        if more.get("cordoned"):
            node.unschedulable()
        state.put_node(node.obj())

    return change


NODES: list[tuple[str, Callable[[ClusterState], Any], bool]] = [
    ("as it was", changed(), True),
    ("gone", lambda state: state.remove_node("n"), False),
    (
        "without any report of its room",
        lambda state: state.put_node(make_node("n").labels(disk="ssd").obj()),
        False,
    ),
    ("cordoned", changed(cordoned=True), False),
    ("tainted", changed(taint="other"), False),
    ("tainted for execution", changed(taint="other", effect="NoExecute"), False),
    ("tainted as the pod tolerates", changed(taint="own"), True),
    ("with a taint that only asks", changed(taint="other", effect="PreferNoSchedule"), True),
    ("with another label", changed(disk="hdd"), False),
]


@pytest.mark.parametrize(("change", "waits"), [n[1:] for n in NODES], ids=[n[0] for n in NODES])
def test_nobody_waits_for_a_node_that_cannot_take_the_pod(
    change: Callable[[ClusterState], Any], waits: bool
) -> None:
    state = cluster("r")
    change(state)
    assert awaited(state, state.pods["w"]) == ({"r"} if waits else set())
    assert (not_eligible(state, state.pods["w"]) != "") is waits
    slot = state.nodes.slot("n")
    assert slot is None or usable(state, state.pods["w"], slot) is waits


def test_a_node_whose_name_nobody_knows_keeps_nobody_waiting() -> None:
    state = cluster()
    waiting = state.pods["w"]
    state.nominations.put(waiting, "nowhere", state.vector(waiting), frozenset("r"))
    assert awaited(state, waiting) == set()


def test_who_tolerates_a_cordon_waits_on_a_cordoned_node() -> None:
    tolerant: PodBuilder = make_pod("a/t").uid("t").tolerates("node.kubernetes.io/unschedulable")
    state = cluster("r")
    changed(cordoned=True)(state)
    assert usable(state, tolerant.obj(), 1)
