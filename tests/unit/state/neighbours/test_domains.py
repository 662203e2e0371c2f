"""Domains of a topology key, and how many pods of a selection are in each."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler_core.arrays.intern import ABSENT
from scheduler_core.model.selectors import (
    EXISTS,
    IN,
    NOT_EXISTS,
    NOT_IN,
    Requirement,
    Selector,
)
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.neighbours import domains as domains_module
from scheduler_core.state.neighbours.domains import EACH_NODE, DomainCache
from scheduler_core.state.neighbours.selections import Selection
from tests.support.builders import PodBuilder, make_node, make_pod

ZONE = "zone"
EVERY = Selection(None, Selector(), live=False)


def cluster(*zones: str) -> ClusterState:
    """Node n0, n1, ... in these zones; empty for none."""
    state = ClusterState()
    for number, zone in enumerate(zones):
        node = make_node(f"n{number}").allocatable(cpu=9)
        state.put_node((node.label(ZONE, zone) if zone else node).obj())
    return state


def fill(state: ClusterState, *pods: PodBuilder) -> None:
    for number, pod in enumerate(pods):
        state.put_pod(pod.uid(f"{pod.meta['name']}-{number}").obj())


def on(node: str, app: str = "web", key: str = "a/p") -> PodBuilder:
    return make_pod(key).labels(app=app).on(node)


def test_nodes_without_the_key_are_in_no_domain() -> None:
    found = cluster("x", "", "y", "x").neighbours.domains(ZONE)
    assert (found.ids[:4].tolist(), found.size, found.occupied.tolist()) == ([0, ABSENT, 1, 0], 2, [0, 1])
    assert found.labelled[:4].tolist() == [True, False, True, True]


def test_each_node_is_a_domain_of_its_own_under_no_key() -> None:
    state = cluster("x", "x")
    found = state.neighbours.domains(EACH_NODE)
    fill(state, on("n1"), on("n1"))
    assert found.ids[:2].tolist() == [0, 1]
    assert state.neighbours.selected(EVERY, found)[:2].tolist() == [0, 2]


def test_of_nodes_that_are_not_eligible_only_the_label_counts() -> None:
    state = cluster("x", "y", "y", "z")
    eligible = np.array([True, False, True, False])
    found = state.neighbours.domains(ZONE, "rule", lambda: eligible)
    assert (found.ids[:4].tolist(), found.raw[:4].tolist()) == ([0, ABSENT, 1, ABSENT], [0, 1, 1, 2])
    assert (found.occupied.tolist(), found.size) == ([0, 1], 3)
    assert state.neighbours.domains(ZONE).ids[:4].tolist() == [0, 1, 1, 2], "another rule, other domains"
    fill(state, on("n1"), on("n2"), on("n3"))
    assert state.neighbours.selected(EVERY, found).tolist() == [0, 1, 0, 0]


def test_the_least_is_taken_over_domains_in_use() -> None:
    state = cluster("x", "y", "z")
    every = state.neighbours.domains(ZONE)
    fill(state, on("n0"), on("n0"), on("n2"))
    assert every.lowest(state.neighbours.selected(EVERY, every)) == 0
    some = state.neighbours.domains(ZONE, "rule", lambda: np.array([True, False, True]))
    assert some.lowest(state.neighbours.selected(EVERY, some)) == 1
    state.put_pod(make_pod("a/last").uid("last").on("n1").obj())
    assert every.lowest(state.neighbours.selected(EVERY, every)) == 1


@pytest.mark.parametrize("count", [3, 100])
def test_domains_among_chosen_nodes(count: int) -> None:
    state = cluster(*(f"z{number % count}" for number in range(2 * count)), "")
    found = state.neighbours.domains(ZONE)
    chosen = np.zeros(2 * count + 1, dtype=np.bool_)
    assert found.among(chosen) == 0
    chosen[[1, count + 1, 2, 2 * count]] = True
    assert found.among(chosen) == 2
    assert found.among(~chosen) == count - 1
    chosen[:] = True
    assert found.among(chosen) == count


def test_domains_that_were_not_asked_for_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domains_module, "MAX_DOMAINS", 2)
    state = ClusterState()
    state.put_node(make_node("n0").allocatable(cpu=9).labels(a="1", b="1", c="1").obj())
    cache = DomainCache(state.nodes)
    first, second = cache.get("a"), cache.get("b")
    assert cache.get("a") is first
    cache.get("c")
    assert cache.get("a") is first
    assert cache.get("b") is not second


def test_keys_that_no_node_has_share_their_domains_until_one_has_them() -> None:
    state = cluster("x")
    cache = DomainCache(state.nodes)
    nowhere = cache.get("a")
    assert cache.get("b") is nowhere
    assert (nowhere.size, nowhere.occupied.tolist()) == (0, [])
    state.put_node(make_node("n1").allocatable(cpu=9).label("b", "1").obj())
    assert cache.get("b").raw.tolist()[:2] == [ABSENT, 0]
    assert cache.get("a").size == 0


def test_counts_over_few_domains_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domains_module, "MAX_COUNTS", 3)
    state = cluster("x")
    for number in range(9):
        selector = Selector((Requirement(f"k{number}", EXISTS),))
        state.neighbours.selected(Selection(None, selector, live=False), state.neighbours.domains(ZONE))
    assert len(state.neighbours.selections.watched) == 3


def test_counts_are_made_anew_for_other_domains() -> None:
    state = cluster("x", "y")
    fill(state, on("n0"), on("n1"))
    assert state.neighbours.selected(EVERY, state.neighbours.domains(ZONE)).tolist() == [1, 1, 0]
    state.put_node(make_node("n1").label(ZONE, "x").allocatable(cpu=9).obj())
    assert state.neighbours.selected(EVERY, state.neighbours.domains(ZONE)).tolist() == [2, 0, 0]
    assert state.check() == []


# Which pods a selection takes

LABELS = {"web": "n0", "db": "n1", "": "n2"}
SELECTORS: list[tuple[str, Selector, list[int]]] = [
    ("one value", Selector((Requirement("app", IN, ("web",)),)), [1, 0, 0]),
    ("one of several", Selector((Requirement("app", IN, ("web", "db", "no")),)), [1, 1, 0]),
    ("none of several", Selector((Requirement("app", NOT_IN, ("web",)),)), [0, 1, 1]),
    ("with the label", Selector((Requirement("app", EXISTS),)), [1, 1, 0]),
    ("without the label", Selector((Requirement("app", NOT_EXISTS),)), [0, 0, 1]),
    ("an unknown value", Selector((Requirement("app", IN, ("no",)),)), [0, 0, 0]),
    ("two at once", Selector((Requirement("app", NOT_IN, ("db",)), Requirement("app", EXISTS))), [1, 0, 0]),
    ("everything", Selector(), [1, 1, 1]),
    ("nothing", Selector((), nothing=True), [0, 0, 0]),
]


@pytest.mark.parametrize("early", [True, False], ids=["asked before", "asked after"])
@pytest.mark.parametrize(("selector", "expected"), [s[1:] for s in SELECTORS], ids=[s[0] for s in SELECTORS])
def test_labels(selector: Selector, expected: list[int], early: bool) -> None:
    state = cluster("x", "y", "z")
    selection, domains = Selection(None, selector, live=False), state.neighbours.domains(ZONE)
    if early:
        state.neighbours.selected(selection, domains)
    for app, node in LABELS.items():
        pod = make_pod(f"a/{node}").uid(node).on(node)
        state.put_pod((pod.labels(app=app) if app else pod).obj())
    assert state.neighbours.selected(selection, domains)[:3].tolist() == expected
    assert state.check() == []


@pytest.mark.parametrize(
    ("namespaces", "live", "expected"),
    [
        pytest.param(None, False, 3, id="all"),
        pytest.param(None, True, 2, id="all that stay"),
        pytest.param({"a"}, False, 2, id="one namespace"),
        pytest.param({"a"}, True, 1, id="those of one namespace that stay"),
        pytest.param({"a", "b"}, False, 3, id="two namespaces"),
        pytest.param({"b", "unknown"}, False, 1, id="one of them unknown"),
        pytest.param({"unknown"}, False, 0, id="an unknown namespace"),
        pytest.param({"c", "unknown"}, False, 0, id="one that was there, one that was not"),
    ],
)
@pytest.mark.parametrize("early", [True, False], ids=["asked before", "asked after"])
def test_namespaces_and_deletion(namespaces: set[str] | None, live: bool, expected: int, early: bool) -> None:
    state = cluster("x")
    chosen = Selection(None if namespaces is None else frozenset(namespaces), Selector(), live=live)
    domains = state.neighbours.domains(ZONE)
    if early:
        state.neighbours.selected(chosen, domains)
    gone = on("n0", key="c/gone")
    fill(state, on("n0"), on("n0", key="b/p"), on("n0", key="a/going").deleting(1.0), gone)
    state.remove_pod(gone.meta["uid"])
    assert state.neighbours.selected(chosen, domains)[0] == expected
    assert state.check() == []


def test_a_pod_that_changes_is_counted_as_it_is_now() -> None:
    state = cluster("x")
    domains = state.neighbours.domains(ZONE)
    webs = Selection(None, Selector((Requirement("app", IN, ("web",)),)), live=True)
    assert state.neighbours.selected(webs, domains)[0] == 0
    for pod, count in (
        (make_pod("a/p").labels(app="web"), 1),
        (make_pod("a/p").labels(app="db"), 0),
        (make_pod("a/p").labels(app="web"), 1),
        (make_pod("a/p").labels(app="web").deleting(1.0), 0),
    ):
        state.put_pod(pod.uid("p").on("n0").obj())
        assert state.neighbours.selected(webs, domains)[0] == count
        assert state.check() == []


def test_a_pod_on_a_node_younger_than_the_domains_is_in_none_of_them() -> None:
    state = cluster(*("x" for _ in range(64)))
    domains = state.neighbours.domains(ZONE)
    assert state.neighbours.selected(EVERY, domains).tolist() == [0, 0]
    state.put_pod(on("beyond").uid("p").obj())
    assert state.neighbours.selected(EVERY, domains).tolist() == [0, 0]
    other = Selection(None, Selector(), live=True)
    assert state.neighbours.selected(other, domains).tolist() == [0, 0]
    state.remove_pod("p")
    assert state.neighbours.selected(EVERY, domains).tolist() == [0, 0]
