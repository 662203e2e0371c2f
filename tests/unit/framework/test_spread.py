"""Topology spread constraints: which apply to a pod, and over which nodes."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.config.args.spread import DefaultSpreadConstraint, PodTopologySpreadArgs
from scheduler_core.framework.pod_terms import looks_around
from scheduler_core.framework.spread import (
    SYSTEM_CONSTRAINTS,
    constraints_of,
    default_constraints,
    may_spread,
    owner_selector,
    spread_domains,
)
from scheduler_core.model.pods.affinity import SpreadConstraint
from scheduler_core.model.selectors import IN, NOTHING, Requirement, Selector
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_node, make_pod

ZONE = "topology.kubernetes.io/zone"


def constraint(**more: Any) -> SpreadConstraint:
    return SpreadConstraint(
        **{"max_skew": 1, "topology_key": "zone", "hard": True, "selector": NOTHING, **more}
    )


def said(**more: Any) -> DefaultSpreadConstraint:
    given = {"max_skew": 1, "topology_key": "zone", "when_unsatisfiable": "DoNotSchedule", **more}
    return DefaultSpreadConstraint(**given)


DEFAULTS: list[tuple[str, DefaultSpreadConstraint, SpreadConstraint]] = [
    ("nothing more", said(), constraint()),
    ("a preference", said(when_unsatisfiable="ScheduleAnyway"), constraint(hard=False)),
    ("a skew", said(max_skew=7), constraint(max_skew=7)),
    ("domains", said(min_domains=3), constraint(min_domains=3)),
    ("affinity ignored", said(node_affinity_policy="Ignore"), constraint(node_affinity_honored=False)),
    ("affinity honored", said(node_affinity_policy="Honor"), constraint()),
    ("taints honored", said(node_taints_policy="Honor"), constraint(node_taints_honored=True)),
    ("taints ignored", said(node_taints_policy="Ignore"), constraint()),
    ("labels", said(match_label_keys=("a",)), constraint(match_label_keys=("a",))),
]


@pytest.mark.parametrize(("given", "found"), [d[1:] for d in DEFAULTS], ids=[d[0] for d in DEFAULTS])
def test_default_constraints_of_a_list(given: DefaultSpreadConstraint, found: SpreadConstraint) -> None:
    args = PodTopologySpreadArgs(default_constraints=(given,), defaulting_type="List")
    assert default_constraints(args) == (found,)


def test_the_systems_defaults_are_those_of_kube_scheduler() -> None:
    assert default_constraints(PodTopologySpreadArgs()) == SYSTEM_CONSTRAINTS
    told = [(c.topology_key, c.max_skew, c.hard, c.min_domains) for c in SYSTEM_CONSTRAINTS]
    assert told == [("kubernetes.io/hostname", 3, False, 1), (ZONE, 5, False, 1)]


def owned(kind: str, labels: dict[str, str]) -> PodBuilder:
    made = make_pod("a/p")
    made.meta["labels"] = labels
    owner = {"kind": kind, "name": "o", "uid": "u", "apiVersion": "v1", "controller": True}
    made.meta["ownerReferences"] = [owner]
    return made


APP = {"app": "x"}
PER_POD = {
    "statefulset.kubernetes.io/pod-name": "p",
    "apps.kubernetes.io/pod-index": "0",
    "controller-revision-hash": "1",
}
OWNERS: list[tuple[str, PodBuilder, str | None, bool]] = [
    ("nobody", make_pod("a/p").labels(app="x"), None, False),
    ("a ReplicaSet", owned("ReplicaSet", {"tier": "y", **APP}), "app=x tier=y", True),
    ("a ReplicationController", owned("ReplicationController", APP), "app=x", True),
    ("a StatefulSet", owned("StatefulSet", {**APP, **PER_POD}), "app=x", True),
    ("a StatefulSet whose pods have no other labels", owned("StatefulSet", PER_POD), None, True),
    ("a ReplicaSet without labels", owned("ReplicaSet", {}), None, True),
    ("a Job", owned("Job", APP), None, False),
    ("a DaemonSet", owned("DaemonSet", APP), None, False),
]


@pytest.mark.parametrize(("owner", "labels", "may"), [o[1:] for o in OWNERS], ids=[o[0] for o in OWNERS])
def test_defaults_hold_for_the_pods_of_one_workload(owner: PodBuilder, labels: str | None, may: bool) -> None:
    pod, soft = owner.obj(), constraint(hard=False)
    selector = owner_selector(pod)
    pairs = None if selector is None else [f"{r.key}={r.values[0]}" for r in selector.requirements]
    assert (None if pairs is None else " ".join(pairs)) == labels
    assert may_spread(pod, [soft]) is may
    assert not may_spread(pod, [])
    expected = () if selector is None else (constraint(hard=False, selector=selector),)
    assert constraints_of(pod, [soft, constraint()], hard=False) == expected
    assert constraints_of(pod, [constraint()], hard=False) == ()


def test_constraints_of_its_own_leave_no_place_for_defaults() -> None:
    parts = [
        {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": kind, "labelSelector": {}}
        for kind in ("DoNotSchedule", "ScheduleAnyway")
    ]
    pod = owned("ReplicaSet", APP).spec(topologySpreadConstraints=parts).obj()
    for hard in (True, False):
        (found,) = constraints_of(pod, [constraint(hard=hard)], hard=hard)
        assert (found.topology_key, found.max_skew, found.hard) == ("rack", 2, hard)
    assert may_spread(pod, [])
    assert looks_around(pod)


AFFINITY = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {}}]}
AROUND: list[tuple[str, PodBuilder, bool]] = [
    ("nothing", make_pod("a/p"), False),
    ("affinity", make_pod("a/p").spec(affinity={"podAffinity": AFFINITY}), True),
    ("anti-affinity alone", make_pod("a/p").spec(affinity={"podAntiAffinity": AFFINITY}), False),
]


@pytest.mark.parametrize(("pod", "around"), [a[1:] for a in AROUND], ids=[a[0] for a in AROUND])
def test_who_needs_others_near_itself(pod: PodBuilder, around: bool) -> None:
    assert looks_around(pod.obj()) is around


NODES = {
    "a": {"zone": "1", "rack": "r", "disk": "ssd"},
    "b": {"zone": "2", "rack": "r"},
    "c": {"zone": "3", "disk": "ssd"},
    "d": {"rack": "r", "disk": "ssd"},
    "tainted": {"zone": "4", "rack": "r", "disk": "ssd"},
}
PLAIN, SSD, TOLERANT = make_pod("a/p"), make_pod("a/p").selector(disk="ssd"), make_pod("a/p").tolerates("t")
HONORED, IGNORED = constraint(node_taints_honored=True), constraint(node_affinity_honored=False)
DOMAINS: list[tuple[str, PodBuilder, SpreadConstraint, str, str]] = [
    ("all that have the key", PLAIN, constraint(), "zone", "a b c tainted"),
    ("those with all keys", PLAIN, constraint(), "zone rack", "a b tainted"),
    ("those that the selector allows", SSD, constraint(), "zone", "a c tainted"),
    ("those with all keys that the selector allows", SSD, constraint(), "rack zone", "a tainted"),
    ("whatever the selector says", SSD, IGNORED, "zone", "a b c tainted"),
    ("those without an untolerated taint", PLAIN, HONORED, "zone", "a b c"),
    ("those with a tolerated taint too", TOLERANT, HONORED, "zone", "a b c tainted"),
    ("what all policies leave", SSD, HONORED, "zone rack", "a"),
]


@pytest.mark.parametrize(
    ("pod", "rule", "keys", "names"), [d[1:] for d in DOMAINS], ids=[d[0] for d in DOMAINS]
)
def test_domains_are_those_of_nodes_that_the_policies_include(
    pod: PodBuilder, rule: SpreadConstraint, keys: str, names: str
) -> None:
    state = ClusterState()
    for name, labels in NODES.items():
        made = make_node(name).labels(**labels).allocatable(cpu=1)
        state.put_node((made.taint("t") if name == "tainted" else made).obj())
    found = spread_domains(state, pod.obj(), rule, keys.split())
    eligible = [
        name for name in NODES if (slot := state.nodes.slot(name)) is not None and found.ids[slot] >= 0
    ]
    assert " ".join(eligible) == names


def test_the_selector_of_an_owner_takes_pods_with_all_labels() -> None:
    selector = owner_selector(owned("ReplicaSet", {"tier": "y", **APP}).obj())
    assert selector == Selector((Requirement("app", IN, ("x",)), Requirement("tier", IN, ("y",))))
