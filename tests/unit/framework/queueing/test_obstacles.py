"""Which events may let a pod find victims, or free it from waiting for those it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler_core.framework.queueing.hints import NOBODY, NarrowHint
from scheduler_core.framework.queueing.obstacles import PREEMPTION, WITHIN_MIN, preemption_hints
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind
from tests.support.builders import PodBuilder, make_group, make_node, make_pod, make_quota


def helps(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    known = preemption_hints()
    hints = {**known[PREEMPTION], **known[WITHIN_MIN]}
    return any(
        event.what & kinds and (hint is None or hint(state, pod, event)) for kinds, hint in hints.items()
    )


def waiting(*victims: str, **more: Any) -> Callable[[ClusterState], None]:
    def nominate(state: ClusterState) -> None:
        pod = state.pods["w"]
        state.nominations.put(pod, "n", state.vector(pod), frozenset(victims), **more)

    return nominate


def going(state: ClusterState) -> None:
    """Somebody else leaves the node, too."""
    state.put_pod(make_pod("b/o").uid("o").requests(cpu=1).on("n").deleting(1.0).obj())


Changes = tuple[Callable[[ClusterState], Any], ...]
ENDS: list[tuple[str, Changes, bool]] = [
    ("it waits for no node", (), False),
    ("it evicted the pod", (waiting("v"),), True),
    ("it evicted others, and one still leaves", (going, waiting("o")), False),
    ("it evicted others, and all are gone", (waiting("x"),), True),
    ("it waited for those that leave the node anyhow, and all are gone", (waiting(),), True),
    ("it waited for those that leave the node anyhow, and one still does", (going, waiting()), False),
    ("its node is merely kept for its gang", (waiting(kept=True),), False),
]


@pytest.mark.parametrize(("changes", "woken"), [e[1:] for e in ENDS], ids=[e[0] for e in ENDS])
def test_whose_end_lets_a_pod_look_for_victims_again(changes: Changes, woken: bool) -> None:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=4).obj())
    state.put_pod(make_pod("b/v").uid("v").requests(cpu=1).on("n").deleting(1.0).obj())
    state.put_pod(make_pod("a/w").uid("w").requests(cpu=4).obj())
    for change in changes:
        change(state)
    gone = state.pods["v"]
    state.remove_pod("v")
    assert helps(state, state.pods["w"], ClusterEvent(EventKind.POD_DELETE, pod=gone)) is woken


# A gang runs with two pods, of which the less important one has priority 0; then a third one comes.
Namespaces = tuple[str, ...]
SPARES: list[tuple[str, int, Namespaces, PodBuilder, bool, bool]] = [
    ("a more important pod may evict one member now", 2, (), make_pod("g/w").priority(5), True, True),
    ("a pod of another namespace too, without quotas", 2, (), make_pod("a/w").priority(5), True, True),
    ("a pod that is not more important never may", 2, (), make_pod("g/w"), True, False),
    ("nor may one that never preempts", 2, (), make_pod("g/w").priority(5).never(), True, False),
    ("no member can be spared yet", 3, (), make_pod("g/w").priority(5), False, False),
    ("a pod that reclaims its min", 2, ("a", "g"), make_pod("a/w").requests(cpu=1), True, True),
    ("a pod beyond its min", 2, ("a", "g"), make_pod("a/w").requests(cpu=9).priority(5), True, False),
    ("a pod of the same quota, within its min", 2, ("a", "g"), make_pod("g/w").priority(5), True, False),
]


@pytest.mark.parametrize(
    ("needed", "quotas", "pod", "concerns", "woken"), [s[1:] for s in SPARES], ids=[s[0] for s in SPARES]
)
def test_a_gang_with_one_more_than_it_needs_can_spare_single_members(
    needed: int, quotas: Namespaces, pod: PodBuilder, concerns: bool, woken: bool
) -> None:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=4).obj())
    for namespace in quotas:
        state.put_quota(make_quota(f"{namespace}/q").min(cpu=4).obj())
    state.put_gang(make_group("g/g").needs(needed).obj())
    for name, priority in (("0", 0), ("1", 5)):
        state.put_pod(make_pod(f"g/{name}").uid(name).group("g").priority(priority).on("n").obj())
    came = make_pod("g/2").uid("2").group("g").priority(5).obj()
    state.put_pod(came)
    state.assume(came, 0, 0.0)
    event = ClusterEvent(EventKind.POD_ADD, pod=came)
    hint, *_ = preemption_hints()[PREEMPTION].values()
    assert isinstance(hint, NarrowHint)
    assert (hint.reach(state, event) != NOBODY) is concerns
    assert helps(state, pod.uid("w").obj(), event) is woken


# The quota is guaranteed 6 CPUs, and the pods of the gang ask for 1 each; then one of its quota gets a node.
FILLS: list[tuple[str, int, int, int, bool]] = [
    ("one of them alone is beyond the min now", 1, 4, 2, True),
    ("two of them are, and only two may start", 2, 4, 1, True),
    ("two of them still are within the min", 2, 3, 1, False),
    ("none was within the min before", 2, 6, 1, False),
]


@pytest.mark.parametrize(
    ("needed", "used", "comes", "woken"), [f[1:] for f in FILLS], ids=[f[0] for f in FILLS]
)
def test_a_gang_that_is_not_within_its_min_any_more_may_evict_in_its_own_quota(
    needed: int, used: int, comes: int, woken: bool
) -> None:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=8).obj())
    state.put_quota(make_quota("g/q").min(cpu=6).obj())
    state.put_gang(make_group("g/g").needs(needed).obj())
    state.put_pod(make_pod("g/v").uid("v").requests(cpu=used).on("n").obj())
    for uid in "wx":
        state.put_pod(make_pod(f"g/{uid}").uid(uid).group("g").requests(cpu=1).priority(5).obj())
    came = make_pod("g/c").uid("c").requests(cpu=comes).obj()
    state.put_pod(came)
    state.assume(came, 0, 0.0)
    assert helps(state, state.pods["w"], ClusterEvent(EventKind.POD_ADD, pod=came)) is woken


@pytest.mark.parametrize("pod", [make_pod("a/w"), make_pod("a/w").never()], ids=["any", "never preempts"])
@pytest.mark.parametrize(("name", "woken"), [("n", True), ("m", False)])
def test_whose_node_goes_looks_anew_though_it_never_preempts(pod: PodBuilder, name: str, woken: bool) -> None:
    state = ClusterState()
    for node in ("m", "n"):
        state.put_node(make_node(node).allocatable(cpu=4).obj())
    state.put_pod(pod.uid("w").requests(cpu=1).obj())
    waiting(kept=True)(state)
    gone = make_node(name).obj()
    state.remove_node(name)
    assert helps(state, state.pods["w"], ClusterEvent(EventKind.NODE_DELETE, old_node=gone)) is woken


LEAVES: list[tuple[str, PodBuilder, int, bool]] = [
    ("beside a less important one", make_pod("f/w").priority(5), 1, True),
    ("beside one that is as important", make_pod("f/w"), 1, False),
    ("beside a borrower, with a min", make_pod("a/w"), 1, True),
    ("beside a borrower, with too small a min", make_pod("a/w"), 3, False),
    ("and never evicts", make_pod("a/w").never(), 1, False),
]


@pytest.mark.parametrize(("pod", "used", "woken"), [e[1:] for e in LEAVES], ids=[e[0] for e in LEAVES])
def test_who_may_need_a_victim_beside_a_pod_that_leaves(pod: PodBuilder, used: int, woken: bool) -> None:
    """Nobody but those who reclaim evicts whom they are no more important than."""
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=2).obj())
    state.put_node(make_node("m").allocatable(cpu=9).obj())
    if pod.meta["namespace"] == "a":
        state.put_quota(make_quota("a/q").min(cpu=4).obj())
        state.put_quota(make_quota("b/q").min(memory=1).obj())
    state.put_pod(make_pod("a/u").uid("u").requests(cpu=used).on("m").obj())
    state.put_pod(make_pod("b/v").uid("v").requests(cpu=1).on("n").obj())
    state.put_pod(make_pod("c/o").uid("o").requests(cpu=1).on("n").deleting(1.0).obj())
    state.put_pod(pod.uid("w").requests(cpu=2).obj())
    event = ClusterEvent(EventKind.POD_LEAVING, pod=state.pods["o"])
    assert helps(state, state.pods["w"], event) is woken
