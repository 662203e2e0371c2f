"""What a node's pods hold who might go for others: asked for every node that a pod has left."""

from __future__ import annotations

import pytest

from scheduler_core.framework.queueing.widest_victims import evictable_requests, no_possible_victims
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_node, make_pod, make_quota

# Least priority above which others may go, whether all may; what the first 0, 1 and 2 hold, or None.
CASES = [
    ("nobody is less important", 1, False, None),
    ("one is", 2, False, [0, 2, 5]),
    ("somebody takes back from others", 0, True, [0, 2, 5]),
]


def cluster() -> ClusterState:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=10).obj())
    for name, cpu, priority in (("low", 2, 1), ("high", 3, 4)):
        state.put_pod(make_pod(f"a/{name}").uid(name).requests(cpu=cpu).priority(priority).on("n").obj(), 1.0)
    return state


@pytest.mark.parametrize(
    ("above", "everybody", "held"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_what_evictions_on_a_node_may_bring(above: int, everybody: bool, held: list[int] | None) -> None:
    state = cluster()
    found = evictable_requests(state, 0, above, everybody)
    cpu = state.index.row("cpu")
    assert (None if found is None else (found.held[cpu] // 1000).tolist()) == held


def test_pods_that_leave_anyhow_count_for_every_preemptor() -> None:
    state = cluster()
    state.put_pod(make_pod("a/low").uid("low").requests(cpu=2).priority(1).on("n").deleting(1.0).obj(), 2.0)
    found = evictable_requests(state, 0, 0, False)
    assert found is not None
    assert found.leaving[state.index.row("cpu")] == 2_000


def test_an_empty_node_has_nobody() -> None:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=10).obj())
    assert evictable_requests(state, 0, 9, True) is None


# The quota's min in cpu, priority of the waiting pod; whether the running one leaves; whether nobody may go.
NOBODY = [
    ("beyond its min, as important as the other one", 0, 1, False, True),
    ("more important than one of its own", 0, 2, False, False),
    ("within its min", 9, 1, False, False),
    ("somebody leaves anyhow", 0, 1, True, False),
]


@pytest.mark.parametrize(
    ("minimum", "priority", "leaves", "nobody"), [c[1:] for c in NOBODY], ids=[c[0] for c in NOBODY]
)
def test_who_under_a_quota_need_not_search(minimum: int, priority: int, leaves: bool, nobody: bool) -> None:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=10).obj())
    state.put_quota(make_quota("a/q").min(cpu=minimum).obj())
    running = make_pod("a/r").uid("r").requests(cpu=2).priority(1).on("n")
    state.put_pod((running.deleting(1.0) if leaves else running).obj(), 1.0)
    assert no_possible_victims(state, make_pod("a/p").requests(cpu=2).priority(priority).obj()) is nobody
