"""May a pod preempt now? Not while it waits for what it evicted, unless its node can take it no more."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from scheduler_core.framework.preemption.eligibility import (
    awaited,
    gang_not_eligible,
    gang_waits,
    lost_its_node,
    not_eligible,
    room_after_leaving,
    usable,
)
from scheduler_core.model.pods.affinity import PodNodeAffinity
from scheduler_core.model.selectors import IN, NodeTerm, Requirement
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nodes.rules import NodeRules
from tests.support.builders import PodBuilder, make_group, make_node, make_pod, make_quota
from tests.support.every import every_seed

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
    state.mark_leaving("p")
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


def test_a_pod_that_must_not_preempt_never_does() -> None:
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
    assert lost_its_node(state, state.pods["w"]) is not waits


def test_an_unknown_nominated_node_delays_no_pod() -> None:
    state = cluster()
    waiting = state.pods["w"]
    state.nominations.put(waiting, "nowhere", state.vector(waiting), frozenset("r"))
    assert awaited(state, waiting) == set()


def test_a_pod_that_tolerates_a_cordon_waits_on_a_cordoned_node() -> None:
    tolerant: PodBuilder = make_pod("a/t").uid("t").tolerates("node.kubernetes.io/unschedulable")
    state = cluster("r")
    changed(cordoned=True)(state)
    assert usable(state, tolerant.obj(), 1)


SSD: Final = PodNodeAffinity((NodeTerm((Requirement("disk", IN, ("ssd",)),)),))

RULES: list[tuple[str, NodeRules, dict[str, Any], bool]] = [
    ("a taint, and taints are nothing to it", NodeRules(taints=False), {"taint": "other"}, True),
    ("a cordon, and taints are nothing to it", NodeRules(taints=False), {"cordoned": True}, False),
    ("a cordon is a taint, too", NodeRules(cordons=False), {"cordoned": True}, False),
    ("neither is anything to it", NodeRules(taints=False, cordons=False), {"cordoned": True}, True),
    ("a label, and affinity is nothing to it", NodeRules(affinity=False), {"disk": "hdd"}, True),
    ("the label that the profile wants", NodeRules(affinity=False, added=SSD), {"disk": "ssd"}, True),
    ("another one", NodeRules(affinity=False, added=SSD), {"disk": "hdd"}, False),
]


@pytest.mark.parametrize(("rules", "now", "waits"), [r[1:] for r in RULES], ids=[r[0] for r in RULES])
def test_only_the_filters_of_its_profile_make_a_node_useless_to_a_pod(
    rules: NodeRules, now: dict[str, Any], waits: bool
) -> None:
    state = cluster("r")
    state.nodes.rules[state.pods["w"].scheduler_name] = rules
    changed(**now)(state)
    assert awaited(state, state.pods["w"]) == ({"r"} if waits else set())
    assert lost_its_node(state, state.pods["w"]) is not waits


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


def test_only_who_is_nominated_can_lose_a_node() -> None:
    state = cluster("r")
    assert not lost_its_node(state, state.pods["p"])
    waiting = state.pods["w"]
    state.nominations.put(waiting, "nowhere", state.vector(waiting))
    assert lost_its_node(state, waiting)


def crowded(cpu: int, memory: int, *, quota: dict[str, Any] | None = None, **others: int) -> set[str]:
    """Whom a pod of 2 CPUs and 1 of memory waits for: r goes from n, which has room for so much in all.

    r takes 1 and 1 of it, q, which stays, the same; `others` are the CPUs of further nominated pods of a and
    b, both with a quota where `quota` says what that of a has.
    """
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=cpu, memory=memory).obj())
    if quota is not None:
        state.put_quota(make_quota("a/q").min(cpu=quota.get("min", 9)).max(cpu=quota.get("max", 99)).obj())
        state.put_quota(make_quota("b/q").min(cpu=quota.get("of b", 0)).obj())
    for uid in "qr":
        pod = make_pod(f"a/{uid}").uid(uid).requests(cpu=1, memory=1).on("n")
        state.put_pod((pod.deleting(1.0) if uid == "r" else pod).obj())
    asked = {"a-w": ("a/w", 2, 1)} | {f"{space}-x": (f"{space}/x", size, 0) for space, size in others.items()}
    for uid, (key, size, more) in asked.items():
        requests = {"cpu": size} | ({"memory": more} if more else {})
        state.put_pod(make_pod(key).uid(uid).requests(**requests).created(2.0 if uid == "a-w" else 1.0).obj())
        pod = state.pods[uid]
        state.nominations.put(pod, "n", state.vector(pod))
    found = awaited(state, state.pods["a-w"])
    if not found:
        assert not_eligible(state, state.pods["a-w"]) == ""
    return found


WAITS: list[tuple[str, int, int, dict[str, Any], bool]] = [
    ("room for who stays and the pod", 3, 2, {}, True),
    ("a CPU less", 2, 2, {}, False),
    ("less memory", 3, 1, {}, False),
    ("its quota has as much", 3, 2, {"quota": {"max": 3}}, True),
    ("its quota has less", 3, 2, {"quota": {"max": 2}}, False),
    ("all quotas together have as much", 3, 2, {"quota": {"min": 3}}, True),
    ("all quotas together have less", 3, 2, {"quota": {"min": 2}}, False),
    ("another pod of its quota goes first", 9, 9, {"quota": {"max": 3}, "a": 1}, False),
    ("and there is enough for both", 9, 9, {"quota": {"max": 4}, "a": 1}, True),
    ("a pod of another quota goes first", 9, 9, {"quota": {"min": 1, "of b": 2}, "b": 1}, False),
    ("and all quotas are enough for both", 9, 9, {"quota": {"min": 1, "of b": 3}, "b": 1}, True),
    ("a pod of a quota over its min goes after it", 9, 9, {"quota": {"min": 3}, "b": 1}, True),
]


@pytest.mark.parametrize(
    ("cpu", "memory", "more", "waits"), [w[1:] for w in WAITS], ids=[w[0] for w in WAITS]
)
def test_a_pod_waits_while_there_will_be_room_and_quota(
    cpu: int, memory: int, more: dict[str, Any], waits: bool
) -> None:
    assert crowded(cpu, memory, **more) == ({"r"} if waits else set())


@every_seed(range(60))
def test_room_is_what_nobody_holds_who_stays(seed: int) -> None:
    rng = random.Random(seed)
    state = ClusterState()
    rooms = {name: (rng.randint(0, 6), rng.randint(0, 4)) for name in ("m", "n")}
    for name, (cpu, memory) in rooms.items():
        state.put_node(make_node(name).allocatable(cpu=cpu, memory=memory, pods=9).obj())
    stays = {name: [0, 0] for name in rooms}
    for i in range(rng.randint(0, 6)):
        name, sizes = rng.choice("mn"), (rng.randint(0, 2), rng.randint(0, 1))
        pod = make_pod(f"a/p{i}").uid(f"p{i}").requests(cpu=sizes[0], memory=sizes[1]).on(name)
        going = rng.random() < 0.4
        state.put_pod((pod.deleting(1.0) if going else pod).obj())
        if not going:
            held = stays[name]
            held[:] = held[0] + sizes[0], held[1] + sizes[1]
    asked = (rng.randint(0, 4), rng.choice((0, 0, 2)))
    listed = {key: size for key, size in zip(("cpu", "memory"), asked, strict=True) if size}
    vector = state.vector(make_pod("a/x").requests(**listed).obj())
    before = state.nodes.requested.copy()
    for name, held in stays.items():
        slot = state.nodes.slot(name)
        assert slot is not None
        fits = all(not asked[r] or held[r] + asked[r] <= rooms[name][r] for r in (0, 1))
        assert room_after_leaving(state, vector, slot) is fits
    assert np.array_equal(before, state.nodes.requested)
