"""May a pod preempt now? Not while it waits for what it evicted, unless its node can take it no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler_core.framework.preemption.eligibility import (
    awaited,
    gang_not_eligible,
    gang_waits,
    not_eligible,
    usable,
)
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_group, make_node, make_pod, make_quota

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
    assert (
        not_eligible(state, make_pod("a/x").never().obj())
        == "preemption: not eligible due to preemptionPolicy=Never."
    )


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


# Gangs


def member(name: str) -> PodBuilder:
    return make_pod(f"a/{name}").uid(name).group("g").requests(cpu=2)


def gang(low: int = 8, *, together: bool = True) -> ClusterState:
    """Two members that ask for 2 wait on n (4 CPUs), which v leaves for them; a's min is `low` of 8."""
    state = ClusterState()
    for name in ("m", "n"):
        state.put_node(make_node(name).allocatable(cpu=4).obj())
    state.put_quota(make_quota("a/q").min(cpu=low).obj())
    state.put_quota(make_quota("b/q").min(cpu=8 - low).obj())
    state.put_gang(make_group("a/g").needs(2).obj())
    state.put_pod(make_pod("b/v").uid("v").requests(cpu=4).deleting(1.0).on("n").obj())
    for name in "gh":
        state.put_pod(member(name).obj())
        pod = state.pods[name]
        group = "a/g PodGroup" if together else ""
        state.nominations.put(pod, "n", state.vector(pod), frozenset("v"), group=group)
    return state


def bound(key: str, cpu: int, node: str) -> Callable[[ClusterState], Any]:
    pod = make_pod(key).uid(key).requests(cpu=cpu).on(node)
    return lambda state: state.put_pod(pod.obj())


def nominated(state: ClusterState) -> None:
    """Another pod waits for its node, within the min of its own quota if that is 5 or more."""
    pod = make_pod("b/o").uid("o").requests(cpu=5).obj()
    state.put_pod(pod)
    state.nominations.put(pod, "m", state.vector(pod))


GANGS: list[tuple[str, int, Callable[[ClusterState], Any], bool]] = [
    ("as it was", 8, lambda state: None, True),
    ("another pod took a part of the node", 8, bound("c/o", 1, "n"), False),
    ("another pod is elsewhere", 8, bound("c/o", 1, "m"), True),
    ("its quota holds both", 4, bound("b/o", 4, "m"), True),
    ("its quota holds one of them", 4, bound("b/o", 5, "m"), False),
    ("others go before one of them", 2, nominated, False),
    ("others go before none of them", 4, nominated, True),
    ("nobody leaves any more", 8, lambda state: state.remove_pod("v"), False),
    ("the node is gone", 8, lambda state: state.remove_node("n"), False),
]


@pytest.mark.parametrize(("low", "change", "waits"), [g[1:] for g in GANGS], ids=[g[0] for g in GANGS])
def test_a_gang_waits_while_its_nodes_will_do_for_all_of_it(
    low: int, change: Callable[[ClusterState], Any], waits: bool
) -> None:
    state = gang(low)
    change(state)
    members = [state.pods[name] for name in "gh"]
    assert gang_waits(state, members) is waits
    assert gang_not_eligible(state, members) is waits
    assert [awaited(state, pod) for pod in members] == [{"v"} if waits else set()] * 2


def test_a_gang_waits_for_nothing_where_one_member_cannot_start() -> None:
    state = gang()
    pod = state.pods["h"]
    state.nominations.put(pod, "m", state.vector(pod), frozenset("v"), group="a/g PodGroup")
    members = [state.pods[name] for name in "gh"]
    assert gang_waits(state, members)
    bound("c/o", 3, "m")(state)
    assert (awaited(state, members[0]), gang_waits(state, members)) == ({"v"}, False)


def test_pods_that_were_nominated_one_by_one_wait_one_by_one() -> None:
    state = gang(together=False)
    assert [awaited(state, state.pods[name]) for name in "gh"] == [{"v"}, {"v"}]
    bound("c/o", 1, "n")(state)
    assert [awaited(state, state.pods[name]) for name in "gh"] == [{"v"}, set()], (
        "the first of them goes first"
    )


FIRST: list[tuple[str, PodBuilder, bool]] = [
    ("more important", make_pod("a/o").priority(5).requests(cpu=4), False),
    ("less important", make_pod("a/o").priority(-5).requests(cpu=4), True),
    ("more important, with room beside", make_pod("a/o").priority(5).requests(cpu=3), True),
    ("more important, for something else", make_pod("a/o").priority(5).requests(gpu=9), True),
]


@pytest.mark.parametrize(("other", "waits"), [f[1:] for f in FIRST], ids=[f[0] for f in FIRST])
def test_a_pod_waits_no_more_when_another_takes_its_room(other: PodBuilder, waits: bool) -> None:
    state = cluster("r")
    pod = other.uid("o").obj()
    state.put_pod(pod)
    state.nominations.put(pod, "n", state.vector(pod))
    assert awaited(state, state.pods["w"]) == ({"r"} if waits else set())


def test_a_gang_with_a_member_that_never_preempts_does_not() -> None:
    state = gang()
    state.remove_pod("v")
    members = [state.pods["g"], member("n").never().obj()]
    assert gang_not_eligible(state, members)
