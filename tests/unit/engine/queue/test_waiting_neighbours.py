"""Waiting classes by their rules about other pods, beside asking each rule."""

from __future__ import annotations

import random

from scheduler_core.engine.queue.waiting_neighbours import WaitingNeighbours
from scheduler_core.framework.queueing.hints import Neighbour
from scheduler_core.framework.queueing.neighbour_terms import MOST_VALUES, NeighbourTerm, neighbour_terms
from scheduler_core.model.selectors import EVERYTHING, EXISTS, IN, NOT_IN, NOTHING, Requirement, Selector
from tests.support.builders import make_pod
from tests.support.every import every_seed

SPACES, KEYS, VALUES = ("a", "b", "c"), ("app", "tier"), ("x", "y", "z")


def some_term(rng: random.Random) -> NeighbourTerm:
    def requirement() -> Requirement:
        values = tuple(rng.sample(VALUES, rng.randint(1, 2)))
        operator = rng.choice([IN, IN, NOT_IN, EXISTS])
        return Requirement(rng.choice(KEYS), operator, () if operator == EXISTS else values)

    selector = Selector(tuple(requirement() for _ in range(rng.randint(0, 2))))
    namespaces = None if rng.random() < 0.3 else frozenset(rng.sample(SPACES, rng.randint(1, 2)))
    return NeighbourTerm(namespaces, NOTHING if rng.random() < 0.1 else selector)


def concerns(term: NeighbourTerm, pod: Neighbour) -> bool:
    named = term.namespaces is None or pod.namespace in term.namespaces
    return named and term.selector.matches(pod.labels)


@every_seed(range(30))
def test_every_class_with_a_rule_about_a_pod_is_found(seed: int) -> None:
    rng, index, known = random.Random(seed), WaitingNeighbours(), dict[int, list[NeighbourTerm]]()
    for row in range(40):
        known[row] = [some_term(rng) for _ in range(rng.randint(0, 3))]
        index.add(row, known[row])
        if rng.random() < 0.3:
            gone = rng.choice(list(known))
            index.remove(gone)
            del known[gone]
    for _ in range(20):
        labels = {key: rng.choice(VALUES) for key in KEYS if rng.random() < 0.7}
        pod = Neighbour(rng.choice(SPACES), labels)
        found = set(index.about(pod))
        assert found >= {row for row, terms in known.items() if any(concerns(term, pod) for term in terms)}
        named = {
            row
            for row, terms in known.items()
            if any(concerns(t._replace(selector=Selector()), pod) for t in terms)
        }
        assert found <= named


def affinity(kind: str, *terms: dict[str, object]) -> dict[str, object]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def about(app: str, **more: object) -> dict[str, object]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "zone", **more}


def test_the_rules_of_a_pod_are_one_of_affinity_and_all_of_anti_affinity_and_of_spread() -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "s"}}}
    pod = make_pod("a/p").spec(
        affinity={
            **affinity("podAffinity", about("far", namespaceSelector={}), about("near")),
            **affinity("podAntiAffinity", about("one", namespaces=["b"]), about("two", namespaceSelector={})),
        },
        topologySpreadConstraints=[
            {**spread, "whenUnsatisfiable": "DoNotSchedule"},
            {**spread, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "t"}}},
        ],
    )
    found = {
        (term.selector.requirements[0].values[0], term.namespaces) for term in neighbour_terms(pod.obj())
    }
    a, b = frozenset({"a"}), frozenset({"b"})
    assert found == {("near", a), ("one", b), ("two", None), ("s", a)}
    assert neighbour_terms(make_pod("a/plain").obj()) == ()


def test_rules_without_a_named_label_are_one_and_of_many_labels_the_namespaces_alone_are_told() -> None:
    rule = {"topologyKey": "zone"}
    unlike = [
        {
            **rule,
            "labelSelector": {"matchExpressions": [{"key": "k", "operator": "NotIn", "values": [f"{n}"]}]},
        }
        for n in range(9)
    ]
    many = [about(f"app-{number}") for number in range(MOST_VALUES + 1)]
    everything = (NeighbourTerm(frozenset({"a"}), EVERYTHING),)
    for terms in (unlike, many):
        assert (
            neighbour_terms(make_pod("a/p").spec(affinity=affinity("podAntiAffinity", *terms)).obj())
            == everything
        )
    few = make_pod("a/p").spec(affinity=affinity("podAntiAffinity", *many[:-1])).obj()
    assert len(neighbour_terms(few)) == MOST_VALUES
    assert neighbour_terms(few, few) == neighbour_terms(few)
