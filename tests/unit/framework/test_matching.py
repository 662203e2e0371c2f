"""Node selectors against all nodes at once: which nodes each requirement lets through."""

from __future__ import annotations

import random

import numpy as np
import pytest

from scheduler_core.framework.matching import match_any, match_required, match_term
from scheduler_core.framework.view import NodeView
from scheduler_core.model.pods.affinity import PodNodeAffinity
from scheduler_core.model.selectors import EXISTS, GT, IN, LT, NOT_EXISTS, NOT_IN, NodeTerm, Requirement
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_node
from tests.support.every import every_seed

NODES = {
    "a": {"zone": "x", "size": "4"},
    "b": {"zone": "y", "size": "9"},
    "c": {"zone": "x", "size": "big"},
    "d": {},
}
NAME = "metadata.name"


def view(names: str = "abcd") -> NodeView:
    """These nodes of a cluster that has all of them."""
    state = ClusterState()
    for name, labels in NODES.items():
        state.put_node(make_node(name).labels(**labels).allocatable(cpu=1).obj())
    slots = [state.nodes.slot(name) for name in names]
    return NodeView(state.nodes, np.array(slots, dtype=np.int64))


def labels(key: str, operator: str, *values: str) -> NodeTerm:
    return NodeTerm(expressions=(Requirement(key, operator, values),))


def named(operator: str, *values: str, key: str = NAME) -> NodeTerm:
    return NodeTerm(fields=(Requirement(key, operator, values),))


def let_through(nodes: NodeView, matches: np.ndarray, names: str = "abcd") -> str:
    assert len(nodes) == len(matches)
    return "".join(name for name, match in zip(names, matches.tolist(), strict=True) if match)


TERMS: list[tuple[str, NodeTerm, str]] = [
    ("one of some values", labels("zone", IN, "x", "z"), "ac"),
    ("one of several values that there are", labels("zone", IN, "x", "y"), "abc"),
    ("a value that no node has", labels("zone", IN, "z"), ""),
    ("none of some values, or no label", labels("zone", NOT_IN, "x", "z"), "bd"),
    ("a label", labels("zone", EXISTS), "abc"),
    ("no label", labels("zone", NOT_EXISTS), "d"),
    ("a label that no node has", labels("rack", EXISTS), ""),
    ("more than a number", labels("size", GT, "4"), "b"),
    ("less than a number", labels("size", LT, "9"), "a"),
    ("more than what is no number", labels("size", GT, "much"), ""),
    (
        "between two numbers",
        NodeTerm(expressions=(Requirement("size", GT, ("3",)), Requirement("size", LT, ("9",)))),
        "a",
    ),
    (
        "more than the larger of two numbers",
        NodeTerm(expressions=(Requirement("size", GT, ("1",)), Requirement("size", GT, ("4",)))),
        "b",
    ),
    (
        "less than the smaller of two numbers",
        NodeTerm(expressions=(Requirement("size", LT, ("99",)), Requirement("size", LT, ("9",)))),
        "a",
    ),
    (
        "between a number and what is none",
        NodeTerm(expressions=(Requirement("size", GT, ("1",)), Requirement("size", LT, ("much",)))),
        "",
    ),
    ("one of some names", named(IN, "b", "nobody"), "b"),
    ("none of some names", named(NOT_IN, "b", "nobody"), "acd"),
    ("another field", named(IN, "b", key="metadata.uid"), ""),
    ("none of the names in another field", named(NOT_IN, "b", key="metadata.uid"), ""),
    ("an operator that names do not have", named(EXISTS), ""),
    (
        "labels and a name",
        NodeTerm((Requirement("zone", IN, ("x",)),), (Requirement(NAME, NOT_IN, ("c",)),)),
        "a",
    ),
    (
        "two labels",
        NodeTerm(expressions=(Requirement("zone", IN, ("x",)), Requirement("size", NOT_IN, ("4",)))),
        "c",
    ),
    ("nothing is asked for", NodeTerm(), ""),
]


@pytest.mark.parametrize(("term", "through"), [t[1:] for t in TERMS], ids=[t[0] for t in TERMS])
def test_a_term_lets_nodes_through(term: NodeTerm, through: str) -> None:
    nodes = view()
    assert let_through(nodes, match_term(nodes, term)) == through
    some = view("dcb")
    assert set(let_through(some, match_term(some, term), "dcb")) == set(through) - {"a"}, "of some nodes"


def test_one_of_several_terms_is_enough() -> None:
    nodes = view()
    assert let_through(nodes, match_any(nodes, [labels("zone", IN, "y"), named(IN, "d")])) == "bd"
    assert let_through(nodes, match_any(nodes, [])) == ""


@pytest.mark.parametrize(
    ("selector", "required", "through"),
    [
        pytest.param((), None, "abcd", id="nothing"),
        pytest.param((("zone", "x"),), None, "ac", id="a selector"),
        pytest.param((("zone", "x"), ("size", "4")), None, "a", id="a selector of two labels"),
        pytest.param((), (labels("zone", IN, "y"), named(IN, "c")), "bc", id="affinity"),
        pytest.param((("zone", "x"),), (labels("zone", IN, "y"), named(IN, "c")), "c", id="both"),
        pytest.param((), (), "", id="affinity without a term"),
    ],
)
def test_a_pod_requires(
    selector: tuple[tuple[str, str], ...], required: tuple[NodeTerm, ...] | None, through: str
) -> None:
    nodes = view()
    assert let_through(nodes, match_required(nodes, selector, PodNodeAffinity(required))) == through


def passes(term: NodeTerm, name: str) -> bool:
    """Whether one node passes a term, by the definition."""
    fields = all(
        part.key == NAME
        and part.operator in (IN, NOT_IN)
        and ((name in part.values) is (part.operator == IN))
        for part in term.fields
    )
    return not term.empty and fields and all(part.matches(NODES[name]) for part in term.expressions)


@every_seed(range(10))
def test_any_terms_let_through_what_each_node_by_itself_passes(seed: int) -> None:
    dice, nodes = random.Random(seed), view()

    def requirement() -> Requirement:
        operator = dice.choice([IN, NOT_IN, EXISTS, NOT_EXISTS, GT, LT])
        if operator in (GT, LT):
            return Requirement("size", operator, (dice.choice(["3", "4", "8", "9", "-1", "x"]),))
        values = tuple(dice.sample(["x", "y", "z", "4"], dice.randint(1, 3)))
        return Requirement(dice.choice(["zone", "size", "rack"]), operator, values)

    def term() -> NodeTerm:
        fields = [Requirement(dice.choice([NAME, NAME, "x"]), dice.choice([IN, NOT_IN]), ("a", "b", "q"))]
        expressions = tuple(requirement() for _ in range(dice.randint(0, 3)))
        return NodeTerm(expressions, tuple(fields[: dice.randint(0, 1)]))

    for _ in range(20):
        terms = [term() for _ in range(dice.randint(0, 3))]
        expected = "".join(name for name in NODES if any(passes(one, name) for one in terms))
        assert let_through(nodes, match_any(nodes, terms)) == expected, terms
