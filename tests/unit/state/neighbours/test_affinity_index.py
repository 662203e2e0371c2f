"""Terms that placed pods carry: whom each speaks of, and who carries it where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler_core.model.namespace import Namespace
from scheduler_core.model.selectors import IN, Requirement, Selector
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.neighbours.affinity_index import AffinityIndex, Role, carries_terms, terms_of
from scheduler_core.state.neighbours.neighbours import FEW_TERMS
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.kept import entries

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
WANTS, AVOIDS = "podAffinity", "podAntiAffinity"


def term(app: str | None = "web", **more: Any) -> dict[str, Any]:
    selector = {"labelSelector": {"matchLabels": {"app": app}}} if app is not None else {}
    return {"topologyKey": "zone", **selector, **more}


def carrier(kind: str, *terms: dict[str, Any], key: str = "a/p") -> PodBuilder:
    return make_pod(key).uid(key).spec(affinity={kind: {REQUIRED: list(terms)}})


def preferring(kind: str, weight: int) -> PodBuilder:
    wish = {"weight": weight, "podAffinityTerm": term()}
    return make_pod("a/p").uid("a/p").spec(affinity={kind: {PREFERRED: [wish]}})


def spoken_of(pod: PodBuilder, by: PodBuilder, labels: dict[str, str] | None = None) -> bool:
    index = AffinityIndex()
    index.add(by.obj(), 0, 0)
    return bool(index.matching(pod.obj(), labels or {}))


WEB_A, WEB_B = make_pod("a/x").labels(app="web"), make_pod("b/x").labels(app="web")
TEAM = {"namespaceSelector": {"matchLabels": {"team": "blue"}}}
SPEAKS: list[tuple[str, dict[str, Any], PodBuilder, dict[str, str], bool]] = [
    ("its own namespace", term(), WEB_A, {}, True),
    ("another namespace", term(), WEB_B, {}, False),
    ("other labels", term("db"), WEB_A, {}, False),
    ("namespaces that it names", term(namespaces=["b"]), WEB_B, {}, True),
    ("no more than those it names", term(namespaces=["b"]), WEB_A, {}, False),
    ("namespaces that it selects", term(**TEAM), WEB_B, {"team": "blue"}, True),
    ("namespaces that it does not select", term(**TEAM), WEB_B, {"team": "red"}, False),
    ("its own, if it selects others", term(**TEAM), WEB_A, {"team": "red"}, False),
    ("those it names and those it selects", term(namespaces=["b"], **TEAM), WEB_B, {"team": "red"}, True),
    ("all namespaces", term(namespaceSelector={}), WEB_B, {}, True),
]


@pytest.mark.parametrize(
    ("said", "pod", "labels", "speaks"), [s[1:] for s in SPEAKS], ids=[s[0] for s in SPEAKS]
)
def test_whom_a_term_speaks_of(
    said: dict[str, Any], pod: PodBuilder, labels: dict[str, str], speaks: bool
) -> None:
    assert spoken_of(pod, carrier(AVOIDS, said), labels) is speaks


@pytest.mark.parametrize(
    ("pod", "role", "weight"),
    [
        pytest.param(carrier(AVOIDS, term()), Role.REPELS, 0, id="required anti-affinity"),
        pytest.param(carrier(WANTS, term()), Role.REQUIRES, 0, id="required affinity"),
        pytest.param(preferring(WANTS, 7), Role.PREFERS, 7, id="preferred affinity"),
        pytest.param(preferring(AVOIDS, 7), Role.PREFERS, -7, id="preferred anti-affinity"),
    ],
)
def test_what_a_term_means(pod: PodBuilder, role: Role, weight: int) -> None:
    assert carries_terms(pod.obj())
    ((found),) = terms_of(pod.obj())
    assert (found.role, found.weight, found.topology_key) == (role, weight, "zone")


def test_a_term_without_a_selector_speaks_of_nobody() -> None:
    pod = carrier(AVOIDS, term(None)).obj()
    assert (carries_terms(pod), list(terms_of(pod))) == (True, [])
    assert not carries_terms(make_pod("a/p").obj())


def test_carriers_are_counted_by_node_and_a_term_goes_with_the_last() -> None:
    index, pod = AffinityIndex(), carrier(AVOIDS, term()).obj()
    for row, slot in enumerate((1, 1, 4)):
        index.add(pod, row, slot)
    (group,) = index.matching(WEB_A.obj(), {})
    assert group.spots()[0].tolist() == [1, 1, 4]
    for row, slot in ((1, 1), (2, 4), (0, 1)):
        index.remove(row, slot)
    assert (list(index.matching(WEB_A.obj(), {})), index.carried) == ([], 0)


def test_terms_without_carriers_are_kept_for_a_while_as_evictions_are_tried_again_and_again() -> None:
    index, pod = AffinityIndex(), carrier(AVOIDS, term()).obj()
    for _ in range(3):
        index.add(pod, 0, 1)
        index.remove(0, 1)
    assert len(index.groups) == 1
    kept = []
    for number in range(900):
        index.add(carrier(AVOIDS, term(f"app-{number}")).obj(), 0, 1)
        index.remove(0, 1)
        if number in (300, 899):
            kept.append(entries(index))
    assert len(index.groups) < 300
    assert kept[1] < kept[0] + 2100, "the moves that are kept"


def test_a_pod_that_says_the_same_twice_counts_twice() -> None:
    index, pod = AffinityIndex(), carrier(AVOIDS, term(), term()).obj()
    index.add(pod, 5, 1)
    (group,) = index.matching(WEB_A.obj(), {})
    assert (group.spots()[0].tolist(), index.check([(pod, 1)])) == ([1, 1], [])
    index.remove(5, 1)
    assert (index.carried, index.check([])) == (0, [])


def test_the_checker_compares_with_the_pods() -> None:
    index, pod = AffinityIndex(), carrier(AVOIDS, term()).obj()
    index.add(pod, 0, 1)
    assert index.check([(pod, 1)]) == []
    for placed in ([], [(pod, 2)], [(pod, 1), (pod, 1)], [(pod, 1), (carrier(WANTS, term()).obj(), 1)]):
        assert len(index.check(placed)) == 1


# In the cluster


def cluster(*pods: PodBuilder) -> ClusterState:
    state = ClusterState()
    for name, zone in (("m", "x"), ("n", "y"), ("o", "x")):
        state.put_node(make_node(name).label("zone", zone).allocatable(cpu=9).obj())
    for pod in pods:
        state.put_pod(pod.obj())
    return state


def carried(state: ClusterState) -> list[list[int]]:
    return [state.neighbours.carried(group).tolist() for group in state.neighbours.terms_about(WEB_A.obj())]


def test_carriers_by_domain_follow_the_pods() -> None:
    state = cluster(carrier(AVOIDS, term(), key="a/p").on("m"), carrier(AVOIDS, term(), key="a/q").on("o"))
    assert (state.neighbours.have_terms, carried(state)) == (True, [[2, 0, 0]])
    state.put_pod(carrier(AVOIDS, term(), key="a/r").on("n").obj())
    assert carried(state) == [[2, 1, 0]]
    for uid in ("a/p", "a/q", "a/r"):
        state.remove_pod(uid)
    assert carried(state) == []
    state.put_pod(carrier(AVOIDS, term(), key="a/s").on("n").obj())
    assert (carried(state), state.check()) == ([[0, 1, 0]], [])


def test_thousands_of_terms_that_few_pods_carry_are_counted_together() -> None:
    """Each keeps no count of its own: of more than are kept, every attempt made all anew, 16 us each."""
    pods = [
        carrier(
            WANTS, *(term("web", namespaces=["a", f"{number}-{at}"]) for at in range(20)), key=f"a/{number}"
        )
        for number in range(50)
    ]
    state = cluster(*(pod.on("mno"[number % 3]) for number, pod in enumerate(pods)))
    groups = state.neighbours.terms_about(WEB_A.obj())
    assert len(groups) == 1000
    weights = 2 + np.arange(1000) % 2
    together = state.neighbours.carried_together(groups, weights)
    assert not any(group.counts for group in groups)
    one_by_one = [
        weight * state.neighbours.carried(group).astype(int)
        for group, weight in zip(groups, weights, strict=True)
    ]
    assert {key: sums.tolist() for key, sums in together.items()} == {"zone": sum(one_by_one).tolist()}


@pytest.mark.parametrize("more", [0, FEW_TERMS], ids=["few terms", "many terms"])
def test_terms_of_many_and_of_few_pods_add_up(more: int) -> None:
    state = ClusterState()
    for number in range(48):
        state.put_node(make_node(f"n{number}").label("zone", f"z{number % 3}").allocatable(cpu=9).obj())
        state.put_pod(carrier(AVOIDS, term(), key=f"a/p{number}").on(f"n{number}").obj())
    nowhere = [{**term(), "topologyKey": f"nowhere-{number}"} for number in range(more)]
    state.put_pod(carrier(AVOIDS, term(namespaces=["a", "b"]), *nowhere, key="a/q").on("n1").obj())
    found = state.neighbours.carried_together(state.neighbours.terms_about(WEB_A.obj()))
    assert found["zone"].tolist() == [16, 17, 16, 0]
    assert not any(sums.any() for key, sums in found.items() if key != "zone")


def test_a_cluster_without_terms_says_so() -> None:
    state = cluster(WEB_A.on("m"))
    assert not state.neighbours.have_terms
    assert len(state.neighbours.terms_about(WEB_A.obj())) == 0


def test_terms_that_select_namespaces_follow_their_labels() -> None:
    state = cluster(carrier(AVOIDS, term(**TEAM)).on("m"))
    assert len(state.neighbours.terms_about(WEB_B.obj())) == 0
    state.put_namespace(Namespace("b", "uid", "1", {"team": "blue"}, {}, False))
    assert len(state.neighbours.terms_about(WEB_B.obj())) == 1
    state.put_namespace(Namespace("b", "uid", "2", {"team": "red"}, {}, False))
    assert len(state.neighbours.terms_about(WEB_B.obj())) == 0


def test_namespaces_with_some_labels() -> None:
    state = cluster()
    blue = Selector((Requirement("team", IN, ("blue",)),))
    assert state.neighbours.namespaces_with(blue) == frozenset()
    for name, team in (("a", "blue"), ("b", "red"), ("c", "blue")):
        state.put_namespace(Namespace(name, "uid", "1", {"team": team}, {}, False))
    assert state.neighbours.namespaces_with(blue) == {"a", "c"}
    assert state.neighbours.namespaces_with(Selector()) == {"a", "b", "c"}
    state.remove_namespace("c")
    assert state.neighbours.namespaces_with(blue) == {"a"}
