"""Charges by flavor in the state: pods that come before their flavor, and charges that are settled again."""

from __future__ import annotations

from typing import Any

from scheduler_core.model.node import parse_node
from scheduler_core.model.quotas.quota_flavor import QuotaFlavor, parse_quota_flavor
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind
from scheduler_core.state.first_pods import place_first_pods
from tests.support.builders import make_pod, make_quota

GPU, HOT = "nvidia.com/gpu", "flavor.muster.dev/hot"


def flavor(**labels: str) -> QuotaFlavor:
    spec = {"resource": GPU, "nodeSelector": labels or {"gpu": "hot"}}
    return parse_quota_flavor({"metadata": {"name": "hot", "uid": "f", "resourceVersion": "1"}, "spec": spec})


def node(labels: dict[str, str]) -> Any:
    status = {"allocatable": {GPU: "8", "pods": "10"}}
    return parse_node({"metadata": {"name": "n1", "labels": labels}, "status": status})


def state_with_pods(*, first: bool) -> ClusterState:
    """Two pods on a node; `first`: the flavor is there before them."""
    state = ClusterState()
    state.put_quota(make_quota("a/q").min(gpu=2).obj())
    if first:
        state.put_flavor(flavor())
    state.put_node(node({"gpu": "hot"}))
    pods = [make_pod(f"a/p{number}").requests(gpu=2).on("n1").obj() for number in range(2)]
    for pod in place_first_pods(state, pods, 1.0):
        state.put_pod(pod, 1.0)
    if not first:
        state.put_flavor(flavor())
    return state


def test_pods_count_by_the_flavor_whoever_comes_first() -> None:
    for first in (True, False):
        state = state_with_pods(first=first)
        assert (state.ledger.used("a")[GPU], state.ledger.used("a")[HOT]) == (4, 4)
        assert state.check() == []


def test_a_flavor_that_changes_or_goes_recharges_its_pods() -> None:
    state = state_with_pods(first=True)
    state.put_flavor(flavor(gpu="cold"))
    assert state.ledger.used("a").get(HOT, 0) == 0
    state.put_flavor(flavor())
    assert state.ledger.used("a")[HOT] == 4
    state.remove_flavor(flavor())
    assert (state.ledger.used("a")[GPU], state.ledger.used("a").get(HOT, 0)) == (4, 0)
    assert state.check() == []


def test_a_charge_that_is_settled_again_keeps_its_flavor() -> None:
    state = state_with_pods(first=True)
    assert not state.unplaced.follow(state.pods[make_pod("a/p0").obj().uid])
    assert state.ledger.used("a")[HOT] == 4


def test_a_pod_that_leaves_still_counts_by_its_flavor_after_a_change_of_labels() -> None:
    state = state_with_pods(first=True)
    uid = make_pod("a/p0").obj().uid
    state.mark_leaving(uid)
    state.put_node(node({}))
    assert state.ledger.is_leaving("a", uid)
    state.put_node(node({"gpu": "hot"}))
    assert state.ledger.leaving("a")[HOT] == 2
    assert state.check() == []


def test_pods_of_a_deleted_node_count_as_after_a_restart_by_the_total_alone() -> None:
    state = state_with_pods(first=True)
    events = state.remove_node("n1")
    assert (state.ledger.used("a")[GPU], state.ledger.used("a").get(HOT, 0)) == (4, 0)
    assert any(event.what.meets(EventKind.QUOTA) for event in events)
    assert state.check() == []
    state.put_node(node({"gpu": "hot"}))
    assert state.ledger.used("a")[HOT] == 4
    assert state.check() == []


def test_the_place_of_a_deleted_node_has_no_flavor_for_the_next_one() -> None:
    state = ClusterState()
    state.put_quota(make_quota("a/q").min(gpu=2).obj())
    state.put_flavor(flavor())
    state.put_node(node({"gpu": "hot"}))
    state.remove_node("n1")
    # A pod may be read before its node.
    state.put_pod(make_pod("a/p").requests(gpu=2).on("unknown").obj(), 1.0)
    assert state.ledger.used("a").get(HOT, 0) == 0


def test_a_nominated_pod_counts_by_the_flavor_that_its_node_has_now() -> None:
    state = state_with_pods(first=True)
    pod = make_pod("a/waits").requests(gpu=2).obj()
    state.put_pod(pod, 1.0)
    state.nominations.put(pod, "n1", state.vector(pod))

    def charged() -> list[int]:
        return [sums.get(HOT, 0) for sums in state.nominations.sums.values()]

    assert charged() == [2]
    state.put_node(node({}))
    assert charged() == [0]
    state.put_node(node({"gpu": "hot"}))
    assert charged() == [2]
    state.remove_flavor(flavor())
    assert charged() == [0]
