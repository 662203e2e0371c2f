"""Topology spread by examples: what is counted, where a pod may go, and which nodes it prefers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.status import Code
from scheduler_core.framework.view import NodeView
from scheduler_core.model.pods.affinity import SpreadConstraint
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.selectors import NOTHING
from scheduler_core.plugins.pod_topology_spread import REASONS, PodTopologySpread
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind
from tests.support.builders import PodBuilder, make_node, make_pod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
SKEWED, NO_LABEL = 1, 2
NODES = {"a1": "za", "a2": "za", "b1": "zb", "bare": ""}


def cluster(*pods: tuple[str, str]) -> ClusterState:
    """Four nodes, the last without a zone; pods of app web as (name, node)."""
    state = ClusterState()
    for name, zone in NODES.items():
        node = make_node(name).allocatable(cpu="8")
        if zone:
            node.label(ZONE, zone)
        state.put_node(node.obj())
    for name, node_name in pods:
        state.put_pod(web(name).on(node_name).obj())
    return state


def web(name: str) -> PodBuilder:
    return make_pod(f"team/{name}").labels(app="web")


def constraint(key: str = ZONE, skew: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        **fields,
    }


def soft(key: str = ZONE, skew: int = 1, **fields: Any) -> dict[str, Any]:
    return constraint(key, skew, **{"whenUnsatisfiable": "ScheduleAnyway", **fields})


def spreading(*constraints: dict[str, Any]) -> PodBuilder:
    return web("new").spec(topologySpreadConstraints=list(constraints))


def cycle_of(state: ClusterState, pod: Pod) -> Cycle:
    return Cycle(state, pod, state.vector(pod), 0.0, "default")


def bits(state: ClusterState, pod: Pod, plugin: PodTopologySpread | None = None) -> dict[str, int]:
    plugin, cycle = plugin or PodTopologySpread(), cycle_of(state, pod)
    assert plugin.pre_filter(cycle).code is Code.SUCCESS
    found = plugin.filter(cycle, NodeView.all(state.nodes)).tolist()
    return dict(zip(state.nodes.names, found, strict=True))


def scores(
    state: ClusterState, pod: Pod, *feasible: str, plugin: PodTopologySpread | None = None
) -> dict[str, int]:
    plugin, cycle = plugin or PodTopologySpread(), cycle_of(state, pod)
    chosen = np.array([name in (feasible or NODES) for name in state.nodes.names])
    assert plugin.pre_score(cycle, chosen).code is Code.SUCCESS
    raw = plugin.score(cycle, NodeView.all(state.nodes))
    found = plugin.normalize(cycle, raw, chosen).tolist()
    return {name: found[slot] for slot, name in enumerate(state.nodes.names) if chosen[slot]}


FILTERS = {
    "the emptier zone may take one more": (
        [("p1", "a1")], [constraint()], {"a1": SKEWED, "a2": SKEWED, "b1": 0},
    ),
    "a skew of two allows a second pod in a zone": (
        [("p1", "a1")], [constraint(skew=2)], {"a1": 0, "a2": 0, "b1": 0},
    ),
    "host names are domains of one node": (
        [("p1", "a1")], [constraint(HOST)], {"a1": SKEWED, "a2": 0, "b1": 0, "bare": 0},
    ),
    "a node without the label is out, and no eviction helps": (
        [], [constraint()], {"a1": 0, "bare": NO_LABEL},
    ),
    "too few domains make the least count zero": (
        [("p1", "a1"), ("p2", "b1")], [constraint(minDomains=3)], {"a1": SKEWED, "b1": SKEWED},
    ),
    "enough domains leave the least count as it is": (
        [("p1", "a1"), ("p2", "b1")], [constraint(minDomains=2)], {"a1": 0, "b1": 0},
    ),
    "the first broken constraint gives the reason": (
        [("p1", "bare")], [constraint(HOST), constraint()], {"bare": NO_LABEL, "a1": 0},
    ),
    "an absent selector counts nobody": (
        [("p1", "a1")], [constraint(labelSelector=None)], {"a1": 0, "b1": 0, "bare": NO_LABEL},
    ),
    "an empty selector counts nobody": (
        [("p1", "a1")], [constraint(labelSelector={})], {"a1": 0, "b1": 0, "bare": NO_LABEL},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pods", "constraints", "expected"), FILTERS.values(), ids=FILTERS)
def test_filter(
    pods: list[tuple[str, str]], constraints: list[dict[str, Any]], expected: dict[str, int]
) -> None:
    found = bits(cluster(*pods), spreading(*constraints).obj())
    assert {name: found[name] for name in expected} == expected


def test_reasons_say_which_bit_no_eviction_clears() -> None:
    assert [(reason.text, reason.resolvable) for reason in REASONS] == [
        ("node(s) didn't match pod topology spread constraints", True),
        ("node(s) didn't match pod topology spread constraints (missing required label)", False),
    ]


def test_pods_that_leave_or_live_elsewhere_do_not_count() -> None:
    state = cluster()
    state.put_pod(web("leaving").on("a1").deleting(1.0).obj())
    state.put_pod(make_pod("other/p").labels(app="web").on("a1").obj())
    assert bits(state, spreading(constraint()).obj())["a1"] == 0
    state.put_pod(web("staying").on("a1").obj())
    assert bits(state, spreading(constraint()).obj())["a1"] == SKEWED
    state.put_pod(web("staying").on("a1").deleting(2.0).obj())
    assert bits(state, spreading(constraint()).obj())["a1"] == 0


def test_a_pod_that_its_selector_misses_does_not_add_to_the_skew() -> None:
    other = {"matchLabels": {"app": "db"}}
    state = cluster()
    state.put_pod(make_pod("team/db").labels(app="db").on("a1").obj())
    assert bits(state, spreading(constraint(labelSelector=other)).obj())["a1"] == 0
    state.put_pod(make_pod("team/db2").labels(app="db").on("a1").obj())
    assert bits(state, spreading(constraint(labelSelector=other)).obj())["a1"] == SKEWED


def test_match_label_keys_count_one_revision_only() -> None:
    state = cluster()
    state.put_pod(web("old").labels(rev="1").on("a1").obj())
    pod = spreading(constraint(matchLabelKeys=["rev"])).labels(rev="2").obj()
    assert bits(state, pod)["a1"] == 0
    state.put_pod(web("same").labels(rev="2").on("a1").obj())
    assert bits(state, pod)["a1"] == SKEWED


POLICIES = {
    "nodes outside the pod's affinity are no domains": ({}, 0),
    "affinity ignored makes the other zone the least": ({"nodeAffinityPolicy": "Ignore"}, SKEWED),
}


@pytest.mark.parametrize(("fields", "expected"), POLICIES.values(), ids=POLICIES)
def test_affinity_policy(fields: dict[str, str], expected: int) -> None:
    pod = spreading(constraint(**fields)).spec(nodeSelector={ZONE: "za"}).obj()
    assert bits(cluster(("p1", "a1")), pod)["a2"] == expected


@pytest.mark.parametrize(("policy", "expected"), [("Honor", 0), ("Ignore", SKEWED)])
def test_taints_policy(policy: str, expected: int) -> None:
    state = cluster(("p1", "a1"))
    state.put_node(make_node("b1").label(ZONE, "zb").allocatable(cpu="8").taint("gone").obj())
    pod = spreading(constraint(nodeTaintsPolicy=policy))
    assert bits(state, pod.obj())["a2"] == expected
    assert bits(state, pod.tolerates("gone").obj())["a2"] == SKEWED


def test_a_node_that_changes_its_zone_takes_its_pods_along() -> None:
    state = cluster(("p1", "a1"))
    pod = spreading(constraint()).obj()
    assert bits(state, pod)["a2"] == SKEWED
    state.put_node(make_node("a1").label(ZONE, "zb").allocatable(cpu="8").obj())
    assert bits(state, pod)["a2"] == 0
    state.remove_node("a1")
    assert bits(state, pod)["b1"] == 0


def test_without_hard_constraints_the_filter_is_skipped() -> None:
    state = cluster()
    assert PodTopologySpread().pre_filter(cycle_of(state, spreading(soft()).obj())).code is Code.SKIP
    assert PodTopologySpread().pre_filter(cycle_of(state, web("new").obj())).code is Code.SKIP


SCORES = {
    "the emptier zone is best": (
        [("p1", "a1")], [soft()], {"a1": 0, "a2": 0, "b1": 100, "bare": 0},
    ),
    "all zones alike get full marks": ([], [soft()], {"a1": 100, "a2": 100, "b1": 100, "bare": 0}),
    "under host names each node counts its own pods": (
        [("p1", "a1"), ("p2", "a1"), ("p3", "a2")], [soft(HOST)], {"a1": 0, "a2": 50, "b1": 100, "bare": 100},
    ),
    "a node that lacks one of the keys is ignored": (
        [("p1", "bare")], [soft(), soft(HOST)], {"a1": 100, "a2": 100, "b1": 100, "bare": 0},
    ),
    # log(2 + 2) per pod, plus maxSkew - 1: 8 for za, 5 for zb; 100 * (8 + 5 - 8) // 8 = 62.
    "a large maxSkew softens the difference": (
        [("p1", "a1"), ("p2", "a2")], [soft(skew=6)], {"a1": 62, "b1": 100},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pods", "constraints", "expected"), SCORES.values(), ids=SCORES)
def test_score(
    pods: list[tuple[str, str]], constraints: list[dict[str, Any]], expected: dict[str, int]
) -> None:
    found = scores(cluster(*pods), spreading(*constraints).obj())
    assert {name: found[name] for name in expected} == expected


def test_only_domains_with_a_feasible_node_make_a_pod_weigh_more() -> None:
    state = cluster(("p1", "a1"), ("p2", "a1"), ("p3", "a2"))
    state.put_node(make_node("c1").label(ZONE, "zc").allocatable(cpu="8").obj())
    pod = spreading(soft(skew=6)).obj()
    # Three pods of log(3 + 2) and 5 round to 10; of log(2 + 2) to 9.
    assert scores(state, pod, "a1", "b1", "c1") == {"a1": 50, "b1": 100, "c1": 100}
    assert scores(state, pod, "a1", "b1") == {"a1": 55, "b1": 100}


def test_without_soft_constraints_the_score_is_skipped() -> None:
    state = cluster()
    feasible = np.ones(4, dtype=np.bool_)
    cycle = cycle_of(state, spreading(constraint()).obj())
    assert PodTopologySpread().pre_score(cycle, feasible).code is Code.SKIP


OWNERS = {"ReplicaSet": Code.SUCCESS, "StatefulSet": Code.SUCCESS, "Job": Code.SKIP, "": Code.SKIP}


@pytest.mark.parametrize(("kind", "expected"), OWNERS.items())
def test_defaults_apply_to_pods_of_workloads_with_a_selector(kind: str, expected: Code) -> None:
    pod = web("new")
    if kind:
        pod.meta["ownerReferences"] = [{"kind": kind, "name": "w", "uid": "w", "controller": True}]
    feasible = np.ones(4, dtype=np.bool_)
    assert PodTopologySpread().pre_score(cycle_of(cluster(), pod.obj()), feasible).code is expected


def test_stateful_pods_of_different_names_count_as_one_workload() -> None:
    owner = [{"kind": "StatefulSet", "name": "w", "uid": "w", "controller": True}]
    state = cluster()
    for number, node in enumerate(("a1", "")):
        pod = web(f"w-{number}").label("statefulset.kubernetes.io/pod-name", f"w-{number}")
        pod.meta["ownerReferences"] = owner
        if node:
            state.put_pod(pod.on(node).obj())
    found = scores(state, pod.obj())
    assert found["b1"] > found["a2"] > found["a1"]


def test_a_list_of_defaults_replaces_those_of_the_system() -> None:
    hard = SpreadConstraint(max_skew=1, topology_key=ZONE, hard=True, selector=NOTHING)
    plugin = PodTopologySpread([hard], system=False)
    pod = web("new")
    pod.meta["ownerReferences"] = [{"kind": "ReplicaSet", "name": "w", "uid": "w", "controller": True}]
    assert bits(cluster(("p1", "a1")), pod.obj(), plugin)["a2"] == SKEWED


EVENTS = {
    "a counted pod came": (EventKind.POD_ADD, web("p").obj(), True),
    "a pod that is not counted left": (EventKind.POD_DELETE, make_pod("team/p").obj(), False),
    "a pod of another namespace left": (EventKind.POD_DELETE, make_pod("x/p").labels(app="web").obj(), False),
    "a pod changed, and may have been counted": (EventKind.POD_UPDATE, make_pod("team/p").obj(), True),
}


@pytest.mark.parametrize(("what", "other", "expected"), EVENTS.values(), ids=EVENTS)
def test_pod_events_wake(what: EventKind, other: Pod, expected: bool) -> None:
    assert wakes(what, pod=other) is expected


def test_node_events_wake_if_the_node_has_or_had_the_keys() -> None:
    zoned, bare = make_node("n").label(ZONE, "za").obj(), make_node("n").obj()
    assert wakes(EventKind.NODE_ADD, node=zoned)
    assert wakes(EventKind.NODE_LABELS, node=bare, old_node=zoned)
    assert wakes(EventKind.NODE_DELETE, old_node=zoned)
    assert not wakes(EventKind.NODE_ADD, node=bare)
    assert not wakes(EventKind.QUOTA)


def wakes(what: EventKind, **fields: Any) -> bool:
    """Whether an event wakes a pod that is spread over zones."""
    state, event = cluster(), ClusterEvent(what, **fields)
    hints = [hint for kinds, hint in PodTopologySpread().hints().items() if kinds & what]
    pod = spreading(constraint()).obj()
    return any(hint is None or hint(state, pod, event) for hint in hints)
