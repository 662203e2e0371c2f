"""Which placed pods make their quota borrow, so that those who wait within their min are told."""

from __future__ import annotations

import pytest

from scheduler_core.engine.loans import with_loans
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, Happened
from tests.support.builders import make_node, make_pod, make_quota


def cluster(running: int, *, leaving: int = 0) -> ClusterState:
    """A node, quota `a` with a min of 2 CPUs that uses `running`, of which `leaving` are on their way out."""
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=16, memory=16).obj())
    state.put_quota(make_quota("a/q").min(cpu=2).obj())
    for i in range(running):
        pod = make_pod(f"a/r{i}").requests(cpu=1).on("n")
        state.put_pod((pod.deleting(50.0) if i < leaving else pod).obj())
    return state


def place(state: ClusterState, *pods: Pod) -> list[ClusterEvent]:
    made = []
    for pod in pods:
        state.put_pod(pod)
        state.assume(pod, 0, 1.0)
        made.append(ClusterEvent(Happened.POD_ADD, pod=pod))
    return made


def loans(state: ClusterState, came: list[ClusterEvent]) -> list[ClusterEvent]:
    """What is told besides that these pods came."""
    told = with_loans(state, came)
    assert told[: len(came)] == came
    return told[len(came) :]


@pytest.mark.parametrize(
    ("running", "leaving", "cpus", "begins"),
    [
        pytest.param(1, 0, [1], False, id="up to min nothing is borrowed"),
        pytest.param(1, 0, [2], True, id="a pod across min begins to borrow"),
        pytest.param(2, 0, [1], True, id="the first pod above min begins to borrow"),
        pytest.param(3, 0, [1], True, id="who borrows already borrows more"),
        pytest.param(3, 2, [1], False, id="pods on their way out leave room within min"),
        pytest.param(3, 1, [1], True, id="what is on its way out was no loan any more"),
        pytest.param(0, 0, [1, 1, 1], True, id="a gang counts together"),
    ],
)
def test_a_quota_borrows_more(running: int, leaving: int, cpus: list[int], begins: bool) -> None:
    state = cluster(running, leaving=leaving)
    made = place(state, *(make_pod(f"a/new{i}").requests(cpu=cpu).obj() for i, cpu in enumerate(cpus)))
    expected = [ClusterEvent(Happened.LOAN, namespace="a")] if begins else []
    assert loans(state, made) == expected


def test_a_resource_that_is_nobodys_business_is_no_loan() -> None:
    state = cluster(0)
    assert loans(state, place(state, make_pod("a/p").requests(memory=4).obj())) == []


def test_a_namespace_without_a_quota_does_not_borrow() -> None:
    state = cluster(0)
    assert loans(state, place(state, make_pod("free/p").requests(cpu=4).obj())) == []


def test_a_borrower_whose_node_was_kept_for_it_can_be_a_victim_only_now() -> None:
    state = cluster(4)
    pod = make_pod("a/p").requests(cpu=1).obj()
    state.nominations.put(pod, "n", state.vector(pod))
    assert loans(state, place(state, pod)) == [ClusterEvent(Happened.LOAN, namespace="a")]


def test_a_pod_that_comes_with_its_node_counts_too() -> None:
    state = cluster(2)
    events = state.put_pod(make_pod("a/static").requests(cpu=1).on("n").obj())
    assert with_loans(state, events) == [*events, ClusterEvent(Happened.LOAN, namespace="a")]
