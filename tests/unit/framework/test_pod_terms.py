"""Affinity terms as selections of pods: whose pods they take, alone and together."""

from __future__ import annotations

import pytest

from scheduler_core.framework.pod_terms import selected_by, selected_by_all
from scheduler_core.model.namespace import Namespace
from scheduler_core.model.pods.affinity import PodTerm
from scheduler_core.model.selectors import EVERYTHING, IN, Requirement, Selector
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_pod

ASKING = make_pod("a/asking").obj()
PODS = [
    make_pod(f"{namespace}/{app}-{tier}").labels(app=app, tier=tier).obj()
    for namespace in ("a", "b", "c")
    for app in ("web", "db")
    for tier in ("gold", "tin")
]
TEAM = Selector((Requirement("team", IN, ("x",)),))


def has(key: str, value: str) -> Selector:
    return Selector((Requirement(key, IN, (value,)),))


def world() -> ClusterState:
    """Namespaces a and b of team x, and c of team y."""
    state = ClusterState()
    for name, team in (("a", "x"), ("b", "x"), ("c", "y")):
        state.put_namespace(Namespace(name, name, "1", {"team": team}, {}, False))
    return state


WEB, GOLD = has("app", "web"), has("tier", "gold")
TERMS: list[tuple[str, PodTerm, set[str]]] = [
    ("its own namespace by default", PodTerm("k", WEB), {"a/web-gold", "a/web-tin"}),
    ("a namespace that it names", PodTerm("k", WEB, ("b",)), {"b/web-gold", "b/web-tin"}),
    (
        "namespaces by their labels",
        PodTerm("k", GOLD, (), TEAM),
        {"a/web-gold", "a/db-gold", "b/web-gold", "b/db-gold"},
    ),
    (
        "namespaces by name and by labels",
        PodTerm("k", has("app", "db"), ("c",), TEAM),
        {f"{namespace}/db-{tier}" for namespace in "abc" for tier in ("gold", "tin")},
    ),
    (
        "all namespaces",
        PodTerm("k", WEB, (), EVERYTHING),
        {f"{namespace}/web-{tier}" for namespace in "abc" for tier in ("gold", "tin")},
    ),
    ("nobody", PodTerm("k", Selector(nothing=True)), set()),
]


@pytest.mark.parametrize(("term", "taken"), [t[1:] for t in TERMS], ids=[t[0] for t in TERMS])
def test_a_term_takes_pods(term: PodTerm, taken: set[str]) -> None:
    selection = selected_by(world(), ASKING, term)
    assert {pod.key for pod in PODS if selection.takes(pod)} == taken
    assert not selection.live, "terminating pods are taken, too"


def test_terms_together_take_what_each_of_them_takes() -> None:
    state = world()
    for what, one, _ in TERMS:
        for other_what, other, _ in TERMS:
            together = selected_by_all(state, ASKING, [one, other])
            each = [selected_by(state, ASKING, term) for term in (one, other)]
            for pod in PODS:
                expected = all(selection.takes(pod) for selection in each)
                assert together.takes(pod) is expected, f"{pod.key}: {what}, and {other_what}"
    (what, term, taken) = TERMS[2]
    alone = selected_by_all(state, ASKING, [term])
    assert {pod.key for pod in PODS if alone.takes(pod)} == taken, what
