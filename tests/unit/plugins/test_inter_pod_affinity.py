"""Affinity between pods by examples: who may be near whom, and who would like to be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.status import Code
from scheduler_core.framework.view import NodeView
from scheduler_core.model.namespace import parse_namespace
from scheduler_core.model.pods.pod import Pod
from scheduler_core.plugins.inter_pod_affinity import REASONS, InterPodAffinity
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind
from scheduler_core.state.trial import Trial
from tests.support.builders import PodBuilder, make_node, make_pod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
AFFINITY, ANTI, EXISTING = 1, 2, 4
NODES = {"a1": "za", "a2": "za", "b1": "zb", "bare": ""}
WANTS, AVOIDS = "podAffinity", "podAntiAffinity"


def cluster(*pods: PodBuilder) -> ClusterState:
    """Four nodes, the last without a zone; namespaces red (team=red) and plain; some pods."""
    state = ClusterState()
    for name, zone in NODES.items():
        node = make_node(name).allocatable(cpu="8")
        if zone:
            node.label(ZONE, zone)
        state.put_node(node.obj())
    for name, labels in (("red", {"team": "red"}), ("plain", {})):
        state.put_namespace(parse_namespace({"metadata": {"name": name, "labels": labels}}))
    for pod in pods:
        state.put_pod(pod.obj())
    return state


def app(name: str, namespace: str = "plain", number: int = 0) -> PodBuilder:
    return make_pod(f"{namespace}/{name}-{number}").labels(app=name)


def term(name: str, key: str = ZONE, **fields: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": name}}, **fields}


def requires(pod: PodBuilder, kind: str, *terms: dict[str, Any]) -> PodBuilder:
    return pod.spec(affinity={kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}})


def prefers(pod: PodBuilder, kind: str, *terms: tuple[int, dict[str, Any]]) -> PodBuilder:
    weighted = [{"weight": weight, "podAffinityTerm": item} for weight, item in terms]
    return pod.spec(affinity={kind: {"preferredDuringSchedulingIgnoredDuringExecution": weighted}})


def cycle_of(state: ClusterState, pod: PodBuilder) -> Cycle:
    made = pod.obj()
    return Cycle(state, made, state.vector(made), 0.0, "default")


def bits(state: ClusterState, pod: PodBuilder) -> dict[str, int]:
    plugin, cycle = InterPodAffinity(), cycle_of(state, pod)
    if plugin.pre_filter(cycle).code is Code.SKIP:
        return dict.fromkeys(state.nodes.names, 0)
    found = plugin.filter(cycle, NodeView.all(state.nodes)).tolist()
    return dict(zip(state.nodes.names, found, strict=True))


def scores(state: ClusterState, pod: PodBuilder, plugin: InterPodAffinity | None = None) -> dict[str, int]:
    """Empty where the plugin has nothing to say."""
    plugin, cycle = plugin or InterPodAffinity(), cycle_of(state, pod)
    feasible = np.ones(len(NODES), dtype=np.bool_)
    if plugin.pre_score(cycle, feasible).code is Code.SKIP:
        return {}
    found = plugin.normalize(cycle, plugin.score(cycle, NodeView.all(state.nodes)), feasible).tolist()
    return dict(zip(state.nodes.names, found, strict=True))


def new(kind: str, *terms: dict[str, Any]) -> PodBuilder:
    return requires(app("new", number=1), kind, *terms)


FILTERS = {
    "affinity allows the domain of a pod that is spoken of": (
        [app("db").on("a1")], new(WANTS, term("db")),
        {"a1": 0, "a2": 0, "b1": AFFINITY, "bare": AFFINITY},
    ),
    "affinity to nobody fits nowhere": (
        [], new(WANTS, term("db")), dict.fromkeys(NODES, AFFINITY),
    ),
    "the first pod of a group may go anywhere where the key exists": (
        [], new(WANTS, term("new")), {"a1": 0, "a2": 0, "b1": 0, "bare": AFFINITY},
    ),
    "the second pod of a group follows the first": (
        [app("new").on("b1")], new(WANTS, term("new")), {"a1": AFFINITY, "b1": 0},
    ),
    "a group pod on a node without the key does not hold the first one back": (
        [app("new").on("bare")], new(WANTS, term("new")), {"a1": 0, "b1": 0, "bare": AFFINITY},
    ),
    "one pod must satisfy all affinity terms": (
        [app("db").on("a1"), app("web").on("a2")], new(WANTS, term("db"), term("web")),
        dict.fromkeys(NODES, AFFINITY),
    ),
    "anti-affinity rules the whole domain out": (
        [app("db").on("a1")], new(AVOIDS, term("db")), {"a1": ANTI, "a2": ANTI, "b1": 0, "bare": 0},
    ),
    "any anti-affinity term rules out": (
        [app("db").on("a1"), app("web").on("b1")], new(AVOIDS, term("db", HOST), term("web", HOST)),
        {"a1": ANTI, "a2": 0, "b1": ANTI, "bare": 0},
    ),
    "anti-affinity of a placed pod holds against those it speaks of": (
        [requires(app("db"), AVOIDS, term("new")).on("a1")], app("new", number=1),
        {"a1": EXISTING, "a2": EXISTING, "b1": 0, "bare": 0},
    ),
    "anti-affinity of a placed pod concerns nobody else": (
        [requires(app("db"), AVOIDS, term("other")).on("a1")], app("new", number=1),
        dict.fromkeys(NODES, 0),
    ),
    "the pod's own reason comes before that of others": (
        [requires(app("db"), AVOIDS, term("new")).on("a1")], new(AVOIDS, term("db")),
        {"a1": ANTI, "a2": ANTI, "b1": 0},
    ),
    "terminating pods still count": (
        [app("db").on("a1").deleting(1.0)], new(AVOIDS, term("db")), {"a1": ANTI, "b1": 0},
    ),
    "a term without selector speaks of nobody": (
        [app("db").on("a1")], new(AVOIDS, {"topologyKey": ZONE}), dict.fromkeys(NODES, 0),
    ),
    "mismatchLabelKeys speak of the others": (
        [app("db").on("a1"), app("new").on("b1")],
        new(AVOIDS, {"topologyKey": ZONE, "labelSelector": {}, "mismatchLabelKeys": ["app"]}),
        {"a1": ANTI, "b1": 0},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pods", "pod", "expected"), FILTERS.values(), ids=FILTERS)
def test_filter(pods: list[PodBuilder], pod: PodBuilder, expected: dict[str, int]) -> None:
    found = bits(cluster(*pods), pod)
    assert {name: found[name] for name in expected} == expected


RED = {"matchLabels": {"team": "red"}}
UNLABELLED = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
NAMESPACES = {
    "nothing said means the own namespace": ({}, "plain", ANTI),
    "and no other": ({}, "red", 0),
    "namespaces by name": ({"namespaces": ["red"]}, "red", ANTI),
    "names leave the own one out": ({"namespaces": ["red"]}, "plain", 0),
    "namespaces by label": ({"namespaceSelector": RED}, "red", ANTI),
    "by label or by name": ({"namespaceSelector": RED, "namespaces": ["plain"]}, "plain", ANTI),
    "an empty selector reaches all": ({"namespaceSelector": {}}, "unknown", ANTI),
    "unknown namespaces are not found by what they lack": ({"namespaceSelector": UNLABELLED}, "unknown", 0),
}


@pytest.mark.parametrize(("fields", "namespace", "expected"), NAMESPACES.values(), ids=NAMESPACES)
def test_namespaces_of_terms(fields: dict[str, Any], namespace: str, expected: int) -> None:
    state = cluster(app("db", namespace).on("a1"))
    assert bits(state, new(AVOIDS, term("db", **fields)))["a1"] == expected


def test_a_namespace_that_gets_the_label_is_reached_from_then_on() -> None:
    state = cluster(app("db").on("a1"))
    pod = new(AVOIDS, term("db", namespaceSelector=RED))
    assert bits(state, pod)["a1"] == 0
    state.put_namespace(parse_namespace({"metadata": {"name": "plain", "labels": {"team": "red"}}}))
    assert bits(state, pod)["a1"] == ANTI
    state.remove_namespace("plain")
    assert bits(state, pod)["a1"] == 0


def test_reasons_say_which_bit_no_eviction_clears() -> None:
    assert [(reason.text, reason.resolvable) for reason in REASONS] == [
        ("node(s) didn't match pod affinity rules", False),
        ("node(s) didn't match pod anti-affinity rules", True),
        ("node(s) didn't satisfy existing pods anti-affinity rules", True),
    ]


def test_a_trial_is_seen_and_forgotten() -> None:
    state = cluster(app("db").on("a1"))
    avoiding = new(AVOIDS, term("db"))
    with Trial(state, 0.0) as trial:
        trial.remove_placed("plain/db-0")
        assert set(bits(state, avoiding).values()) == {0}
        slot = state.nodes.slot("b1")
        assert slot is not None
        trial.place(requires(app("x"), AVOIDS, term("new")).obj(), slot)
        assert bits(state, avoiding)["b1"] == EXISTING
    assert bits(state, avoiding) == {"a1": ANTI, "a2": ANTI, "b1": 0, "bare": 0}
    assert state.check() == []


def test_a_pod_without_terms_that_no_other_term_selects_is_skipped() -> None:
    cycle = cycle_of(cluster(app("db").on("a1")), app("new"))
    plugin = InterPodAffinity()
    assert plugin.pre_filter(cycle).code is Code.SKIP
    assert plugin.pre_score(cycle, np.ones(4, dtype=np.bool_)).code is Code.SKIP


def wishing(kind: str, *terms: tuple[int, dict[str, Any]]) -> PodBuilder:
    return prefers(app("new", number=1), kind, *terms)


SCORES = {
    "near a pod that is liked": (
        [app("db").on("a1")], wishing(WANTS, (10, term("db"))), {"a1": 100, "a2": 100, "b1": 0, "bare": 0},
    ),
    "away from a pod that is not": (
        [app("db").on("a1")], wishing(AVOIDS, (10, term("db"))), {"a1": 0, "a2": 0, "b1": 100, "bare": 100},
    ),
    "every pod counts": (
        [app("db").on("a1"), app("db", number=1).on("a1"), app("db", number=2).on("b1")],
        wishing(WANTS, (10, term("db"))), {"a1": 100, "b1": 50, "bare": 0},
    ),
    "weights add up over keys": (
        [app("db").on("a1")], wishing(WANTS, (1, term("db")), (3, term("db", HOST))),
        {"a1": 100, "a2": 25, "b1": 0},
    ),
    "a placed pod's preference counts as well": (
        [prefers(app("db"), WANTS, (5, term("new"))).on("b1")], app("new", number=1), {"a1": 0, "b1": 100},
    ),
    "a placed pod's dislike too": (
        [prefers(app("db"), AVOIDS, (5, term("new"))).on("b1")], app("new", number=1), {"a1": 100, "b1": 0},
    ),
    "required affinity of a placed pod pulls": (
        [requires(app("db"), WANTS, term("new")).on("b1")], app("new", number=1), {"a1": 0, "b1": 100},
    ),
    "truncated as in floating point: 29 of 100 is 28": (
        [app("db").on("a1"), app("web").on("b1")],
        wishing(WANTS, (100, term("db")), (29, term("web"))), {"a1": 100, "b1": 28, "bare": 0},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pods", "pod", "expected"), SCORES.values(), ids=SCORES)
def test_score(pods: list[PodBuilder], pod: PodBuilder, expected: dict[str, int]) -> None:
    found = scores(cluster(*pods), pod)
    assert {name: found[name] for name in expected} == expected


def test_the_weight_of_required_affinity_is_configured_and_may_be_none() -> None:
    state = cluster(
        requires(app("db"), WANTS, term("new")).on("b1"),
        prefers(app("web"), WANTS, (10, term("new"))).on("a1"),
    )
    assert scores(state, app("new", number=1), InterPodAffinity(hard_weight=40))["a1"] == 25
    assert scores(state, app("new", number=1), InterPodAffinity(hard_weight=0))["b1"] == 0


def test_preferences_of_placed_pods_can_be_ignored_by_pods_without_any() -> None:
    state = cluster(prefers(app("db"), WANTS, (5, term("new"))).on("b1"))
    plugin = InterPodAffinity(ignore_existing=True)
    assert scores(state, app("new", number=1), plugin) == {}
    assert scores(state, wishing(WANTS, (1, term("nobody"))), plugin)["b1"] == 100


EVENTS = {
    "a pod came that is wanted": (new(WANTS, term("db")), EventKind.POD_ADD, app("db"), True),
    "a pod came that nobody wants": (new(AVOIDS, term("db")), EventKind.POD_ADD, app("db"), False),
    "an avoided pod left": (new(AVOIDS, term("db")), EventKind.POD_DELETE, app("db"), True),
    "a pod that matters to nobody left": (new(AVOIDS, term("db")), EventKind.POD_DELETE, app("x"), False),
    "a pod that keeps others away left": (
        app("new"), EventKind.POD_DELETE, requires(app("db"), AVOIDS, term("new")), True,
    ),
    "a pod changed": (new(AVOIDS, term("db")), EventKind.POD_UPDATE, app("x"), True),
    "a node came": (new(WANTS, term("db")), EventKind.NODE_ADD, None, True),
    "a quota changed": (new(WANTS, term("db")), EventKind.QUOTA, None, False),
}  # fmt: skip


@pytest.mark.parametrize(("pod", "what", "other", "expected"), EVENTS.values(), ids=EVENTS)
def test_events_wake(pod: PodBuilder, what: EventKind, other: PodBuilder | None, expected: bool) -> None:
    concerned: Pod | None = other.obj() if other is not None else None
    state, event = cluster(), ClusterEvent(what, pod=concerned)
    hints = [hint for kinds, hint in InterPodAffinity().hints().items() if kinds & what]
    assert any(hint is None or hint(state, pod.obj(), event) for hint in hints) is expected
