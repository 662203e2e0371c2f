"""Counts of placed pods by selector and domain: current whatever happens, bounded, and checked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from scheduler_core.model.selectors import IN, NOT_IN, NOTHING, Requirement, Selector
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.neighbours.domains import EACH_NODE, CountCache, DomainCounts
from scheduler_core.state.neighbours.selections import MOST_CURRENT, Selection, Selections
from scheduler_core.state.neighbours.selector_index import NamespacedIndex, SelectorIndex
from scheduler_core.state.placed.labels import PodLabels
from scheduler_core.state.trial import Trial
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.kept import entries

ZONE = "zone"
WEB = Selector((Requirement("app", IN, ("web",)),))
WEBS = Selection(frozenset(("default",)), WEB, live=True)


def cluster(nodes: int) -> ClusterState:
    state = ClusterState()
    for number in range(nodes):
        state.put_node(make_node(f"n{number}").label(ZONE, f"z{number % 2}").allocatable(cpu="8").obj())
    return state


def web(number: int) -> PodBuilder:
    return make_pod(f"default/p{number}").labels(app="web")


def webs_per_zone(state: ClusterState) -> list[int]:
    found: list[int] = state.neighbours.selected(WEBS, state.neighbours.domains(ZONE)).tolist()
    return found


def test_counts_follow_while_tables_grow() -> None:
    state = cluster(1)
    assert webs_per_zone(state) == [0, 0]
    for number in range(200):
        state.put_node(make_node(f"n{number}").label(ZONE, f"z{number % 2}").allocatable(cpu="8").obj())
        state.put_pod(web(number).on(f"n{number}").obj())
        if number % 50 == 0:
            assert sum(webs_per_zone(state)) == number + 1
    assert webs_per_zone(state) == [100, 100, 0]
    assert state.neighbours.selected(WEBS, state.neighbours.domains(EACH_NODE))[:200].tolist() == [1] * 200
    assert state.check() == []


def test_a_pod_on_a_node_that_is_not_known_yet_counts_once_it_is() -> None:
    state = cluster(1)
    assert webs_per_zone(state) == [0, 0]
    state.put_pod(web(1).on("later").obj())
    assert webs_per_zone(state) == [0, 0]
    state.put_node(make_node("later").label(ZONE, "z0").allocatable(cpu="8").obj())
    assert webs_per_zone(state) == [1, 0]
    assert state.check() == []


def test_who_is_to_be_evicted_counts_no_more_until_the_eviction_fails() -> None:
    state = cluster(2)
    for number in range(3):
        state.put_pod(web(number).uid(f"p{number}").on("n0").obj())
    assert webs_per_zone(state) == [3, 0, 0]
    state.mark_leaving("p0")
    assert webs_per_zone(state) == [2, 0, 0]
    state.put_pod(web(0).uid("p0").on("n0").deleting(0).obj())
    assert webs_per_zone(state) == [2, 0, 0], "its deletion is seen, and says nothing new"
    state.mark_leaving("p1")
    state.put_pod(web(1).uid("p1").labels(app="other").on("n0").obj())
    state.put_pod(web(1).uid("p1").labels(app="web").on("n0").obj())
    assert webs_per_zone(state) == [1, 0, 0], "whatever its labels become meanwhile"
    with Trial(state, 0.0) as trial:
        trial.remove_placed("p1")
        trial.remove_placed("p2")
        assert webs_per_zone(state) == [0, 0, 0]
    assert webs_per_zone(state) == [1, 0, 0], "a trial leaves no trace"
    state.reprieve("p1")
    assert webs_per_zone(state) == [2, 0, 0]
    assert state.check() == []


def test_domains_stay_the_same_object_while_only_other_things_of_nodes_change() -> None:
    state = cluster(2)
    before = state.neighbours.domains(ZONE)
    state.put_node(make_node("n0").label(ZONE, "z0").label("other", "x").allocatable(cpu="4").obj())
    assert state.neighbours.domains(ZONE) is before
    state.put_node(make_node("n0").label(ZONE, "z1").allocatable(cpu="4").obj())
    assert state.neighbours.domains(ZONE) is not before


def test_domains_among_some_nodes() -> None:
    domains = cluster(4).neighbours.domains(ZONE)
    assert domains.among(np.array([True, True, False, False])) == 2
    assert domains.among(np.array([True, False, True, False])) == 1
    assert domains.among(np.array([False, False, False, True])) == 1


def selections(state: ClusterState, cells: int) -> Selections:
    labels = PodLabels(state.table)
    return Selections(state.table, labels, CountCache(cells))


def test_the_least_recently_used_counts_are_forgotten() -> None:
    state = cluster(4)
    held, domains = selections(state, cells=8), state.neighbours.domains(ZONE)
    chosen = [
        Selection(None, Selector((Requirement("app", IN, (str(number),)),)), live=True) for number in range(4)
    ]
    for number in (0, 1, 0, 2):
        held.sums(chosen[number], domains)
    # Three cells each: two fit into eight, and the second was not asked for since.
    assert list(held.watched) == [chosen[0], chosen[2]]
    assert len(held.index) == 2


def test_values_that_never_come_back_do_not_pile_up() -> None:
    state = cluster(1)
    job = Selection(None, Selector((Requirement("job", IN, ("j1",)),)), live=True)
    domains = state.neighbours.domains(ZONE)
    state.neighbours.selected(job, domains)
    most = entries(state.neighbours.labels) + 2 * 1100
    for number in range(3000):
        pod = make_pod(f"default/p{number}").labels(job=f"j{number}").on("n0").obj()
        state.put_pod(pod)
        state.remove_pod(pod.uid)
        if number % 97 == 0:
            assert entries(state.neighbours.labels) < most
    assert state.check() == []


def test_check_finds_counts_that_went_astray() -> None:
    state = cluster(2)
    state.put_pod(web(1).on("n0").obj())
    state.neighbours.selected(WEBS, state.neighbours.domains(ZONE))[0] += 1
    assert any("counts by" in problem for problem in state.check())


def test_check_finds_terms_of_pods_that_are_gone() -> None:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    state = cluster(2)
    state.put_pod(web(1).spec(affinity=affinity).on("n0").obj())
    assert state.check() == []
    state.neighbours.affinity.groups.clear()
    assert any("anti-affinity term by zone" in problem for problem in state.check())


SELECTORS = {
    "by the only pair": (WEB, {"app": "web"}, True),
    "not by another value": (WEB, {"app": "db"}, False),
    "by one of several values": (Selector((Requirement("app", IN, ("db", "web")),)), {"app": "db"}, True),
    "without a pair it is always tried": (Selector((Requirement("app", "Exists"),)), {}, True),
    "everything is always tried": (Selector(), {}, True),
    "nothing never is": (NOTHING, {"app": "web"}, False),
}


@pytest.mark.parametrize(("selector", "labels", "expected"), SELECTORS.values(), ids=SELECTORS)
def test_candidates(selector: Selector, labels: dict[str, str], expected: bool) -> None:
    index: SelectorIndex[str] = SelectorIndex()
    index.add("it", selector)
    index.add("other", Selector((Requirement("x", IN, ("y",)),)))
    found: Iterator[str] = index.candidates(labels)
    assert ("it" in list(found)) is expected
    index.remove("it")
    assert "it" not in list(index.candidates(labels))
    assert len(index) == 1


MANY = [f"n{number}" for number in range(40)]


@pytest.mark.parametrize(
    ("namespaces", "found"),
    [(["a"], "a"), (["a", "b", "a"], "ab"), (None, "abc"), (MANY, "abc")],
    ids=["one", "two", "any", "too many to file in each"],
)
def test_candidates_of_a_namespace(namespaces: list[str] | None, found: str) -> None:
    index: NamespacedIndex[str] = NamespacedIndex()
    index.add("it", namespaces, WEB)
    index.add("nothing", namespaces, NOTHING)
    assert [name for name in "abc" if list(index.candidates(name, {"app": "web"})) == ["it"]] == [*found]
    assert not list(index.candidates("a", {"app": "db"}))
    for item in ("it", "nothing", "unknown"):
        index.remove(item)
    assert (len(index), list(index.candidates("a", {"app": "web"}))) == (0, [])


def test_counts_of_many_selections_are_left_behind_and_counted_anew_when_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pod that came or went updated all of them, 2 us each: 8,192 of a tenant's pods took 14 ms."""
    updated = list[int]()
    add = DomainCounts.add
    monkeypatch.setattr(
        DomainCounts, "add", lambda counts, slot, times: updated.append(slot) or add(counts, slot, times)
    )
    state = cluster(4)
    zones = state.neighbours.domains(ZONE)
    about = [
        Selection(names, Selector((Requirement(f"k{number}", NOT_IN, ("x",)),)), live)
        for number in range(MOST_CURRENT)
        for names in (None, frozenset(("a",)))
        for live in (True, False)
    ]
    other = Selection(frozenset(("b",)), WEB, live=False)
    for selection in (*about, other):
        state.neighbours.selected(selection, zones)
    for number in range(5):
        state.put_pod(make_pod(f"a/p{number}").uid(f"p{number}").on(f"n{number % 2}").obj())
    state.remove_pod("p0")
    state.put_pod(make_pod("b/web").uid("web").labels(app="web").on("n1").obj())
    assert not updated
    for selection in about:
        expected = 4 + (selection.namespaces is None)
        assert state.neighbours.selected(selection, zones).sum() == expected
    assert state.neighbours.selected(other, zones).sum() == 1
    assert state.check() == []
