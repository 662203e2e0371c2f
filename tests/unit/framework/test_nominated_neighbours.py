"""Domains that nominated pods close to a pod, by its required anti-affinity or by theirs."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.framework.preemption.nominated_neighbours import closed_beside
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota

# Node, zone; the last one has no zone.
NODES = (("m", "east"), ("n", "east"), ("o", "west"), ("p", ""))


def cluster() -> ClusterState:
    state = ClusterState()
    for name, zone in NODES:
        node = make_node(name).allocatable(cpu=9)
        state.put_node((node.label("zone", zone) if zone else node).obj())
    return state


def pod(key: str, app: str, avoids: str = "", topology_key: str = "zone", priority: int = 5) -> PodBuilder:
    made = make_pod(key).uid(key).labels(app=app).requests(cpu=1).priority(priority)
    term = {"labelSelector": {"matchLabels": {"app": avoids}}, "topologyKey": topology_key}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return made.spec(affinity=rules) if avoids else made


def nominate(state: ClusterState, item: PodBuilder, node: str, **more: Any) -> None:
    state.put_pod(item.obj())
    waiting = state.pods[item.meta["uid"]]
    state.nominations.put(waiting, node, state.vector(waiting), **more)


def closed(state: ClusterState, item: PodBuilder) -> str:
    found = closed_beside(state, item.obj())
    return (
        "" if found is None else "".join(name for (name, _), shut in zip(NODES, found, strict=True) if shut)
    )


CASES = [
    ("the nominated pod avoids this one", pod("a/w", "red", "blue"), "m", pod("a/x", "blue"), "mn"),
    ("this one avoids the nominated pod", pod("a/w", "red"), "m", pod("a/x", "blue", "red"), "mn"),
    ("the other zone", pod("a/w", "red", "blue"), "o", pod("a/x", "blue"), "o"),
    ("a node without the key is in no domain", pod("a/w", "red", "blue"), "p", pod("a/x", "blue"), ""),
    ("a node that is gone", pod("a/w", "red", "blue"), "gone", pod("a/x", "blue"), ""),
    ("terms speak of others", pod("a/w", "red", "green"), "m", pod("a/x", "blue", "yellow"), ""),
    ("terms speak of their own namespace", pod("b/w", "red", "blue"), "m", pod("a/x", "blue"), ""),
    ("nobody avoids anybody", pod("a/w", "red"), "m", pod("a/x", "red"), ""),
    ("it concedes", pod("a/w", "red", "blue", priority=4), "m", pod("a/x", "blue"), ""),
    (
        "a domain that is one node is judged there",
        pod("a/w", "red", "blue", "kubernetes.io/hostname"),
        "m",
        pod("a/x", "blue"),
        "",
    ),
]


@pytest.mark.parametrize(
    ("waiting", "node", "item", "shut"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_who_may_not_share_a_domain(waiting: PodBuilder, node: str, item: PodBuilder, shut: str) -> None:
    state = cluster()
    nominate(state, waiting, node)
    assert closed(state, item) == shut


def test_it_counts_while_it_waits() -> None:
    state = cluster()
    nominate(state, pod("a/w", "red", "blue"), "m")
    state.nominations.hold("a/w")
    assert closed(state, pod("a/x", "blue")) == ""
    state.nominations.release("a/w")
    assert closed(state, pod("a/x", "blue")) == "mn"
    state.nominations.remove("a/w")
    assert closed(state, pod("a/x", "blue")) == ""


def test_of_two_nominated_pods_only_one_is_stopped() -> None:
    state = cluster()
    state.put_quota(make_quota("a/q").min(cpu=9).obj())
    first, second = pod("a/w", "red", "red").created(1), pod("a/x", "red", "red").created(2)
    nominate(state, first, "m")
    nominate(state, second, "n")
    assert (closed(state, first), closed(state, second)) == ("", "mn")


def test_a_node_that_is_merely_kept_gives_way_to_who_evicted() -> None:
    state = cluster()
    kept, evicted = pod("a/w", "red", "red", priority=9), pod("a/x", "red", "red", priority=9).created(2)
    nominate(state, kept, "m", kept=True)
    nominate(state, evicted, "n")
    assert (closed(state, kept), closed(state, evicted)) == ("mn", "")
