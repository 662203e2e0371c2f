"""Constraints against the topologies of a cluster, and where there is none against any flat tree."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.model.groups.topology import LARGEST_SIZE, TopologySpec, parse_constraints
from scheduler_core.topology.admission import FLAT, TopologyRequest, flat_tree, refusals
from scheduler_core.topology.constraints import LevelRule, parse_rules

RACKS = TopologySpec("t", ("cpu",), ("rack", "node"), (("r0", "n0"), ("r0", "n1"), ("r1", "n2")))


def said(
    constraints: Any, size: int = 8, *topologies: tuple[str, TopologySpec], labels: str = ""
) -> list[str]:
    wish = TopologyRequest(parse_constraints(json.dumps(constraints)), size, "constraints")
    return list(refusals(wish, topologies, lambda: labels.split()))


@pytest.mark.parametrize(
    ("constraints", "size", "text"),
    [
        pytest.param({"node": {"min": 5, "max": 3}}, 8, "node.min=5 exceeds node.max=3", id="min above max"),
        pytest.param({"node": {"factor": 4}}, 10, "the size 10 is not a multiple of node.factor=4", id="4s"),
        pytest.param({"node": {"partitions": 9}}, 8, "node.partitions=9 exceeds the size 8", id="parts"),
        pytest.param(
            {"node": {"min": 3, "max": 4}}, 5,
            "5 pods do not split into counts of 3 to 4 at level node", id="a remainder",
        ),
        pytest.param(
            {"rak": {}}, 8, "rak is not a level of the topology; its levels are node", id="an unknown level"
        ),
    ],
)  # fmt: skip
def test_on_a_flat_tree_the_size_alone_tells(constraints: Any, size: int, text: str) -> None:
    assert said(constraints, size) == [f"{text}, on {FLAT}"]


@pytest.mark.parametrize(
    "constraints",
    [
        {}, {"node": {}},
        {"node": {"type": "spread", "hard": True}}, {"node": {"type": "pack", "hard": True}},
        {"node": {"partitions": 8}}, {"node": {"min": 2, "max": 4}}, {"node": {"factor": 4}},
    ],
)  # fmt: skip
def test_constraints_that_a_flat_tree_can_meet_pass(constraints: Any) -> None:
    assert said(constraints) == []


def test_labels_of_nodes_are_levels_whose_parts_are_of_every_parent() -> None:
    assert said({"zone": {"type": "spread"}, "node": {"partitions": 2, "max": 2}}, labels="zone") == []
    assert said({"zone": {"min": 5, "max": 3}}, labels="zone") == [
        f"zone.min=5 exceeds zone.max=3, on {FLAT}"
    ]
    (text,) = said({"zone": {}, "row": {}}, labels="zone")
    assert text.startswith("row is not a level of the topology; its levels are zone, node,")


def test_of_several_topologies_one_that_fits_is_enough() -> None:
    few = TopologySpec("u", ("cpu",), ("row",), (("w",),))
    assert said({"rack": {"partitions": 2}}, 8, ("s/few", few), ("s/t", RACKS)) == []
    assert said({"rack": {"partitions": 3}}, 8, ("s/few", few), ("s/t", RACKS)) == [
        "rack is not a level of the topology; its levels are row, on the topology of ConfigMap s/few",
        "rack.partitions=3 exceeds the 2 units that a parent has at most, on the topology of ConfigMap s/t",
    ]


@pytest.mark.parametrize("topologies", [(), (("s/t", RACKS),)], ids=["flat", "a tree"])
@pytest.mark.parametrize("size", [LARGEST_SIZE + 1, 10**7, 2**31 - 1])
def test_a_group_larger_than_any_is_refused_before_it_costs_anything(size: int, topologies: Any) -> None:
    wanted = {"node": {"max": 1}}
    assert said(wanted, size, *topologies) == [
        f"the size {size} exceeds 10000, the most that a topology places as one group"
    ]


def test_levels_of_the_same_width_share_a_tree() -> None:
    flat_tree.cache_clear()
    labels = [f"label-{number}" for number in range(15)]
    assert said({level: {"max": 1} for level in (*labels, "node")}, 100, labels=" ".join(labels)) == []
    assert flat_tree.cache_info().misses == 1


def splits(rule: LevelRule, size: int) -> bool:
    """Whether counts that a rule allows add up to the size, in as many parts as it wants: by trying all."""

    @cache
    def reaches(left: int, parts: int) -> bool:
        if left == 0:
            return rule.exact is None or parts == rule.exact
        return any(
            reaches(left - count, parts + 1) for count in range(1, left + 1) if rule.allows(count, size)
        )

    return reaches(size, 0)


WHOLE = st.none() | st.integers(1, 7)


@given(
    st.integers(1, 9),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["pack", "spread"]),
            "hard": st.booleans(),
            "min": WHOLE,
            "max": WHOLE,
            "factor": WHOLE,
            "partitions": WHOLE,
        }
    ),
)
def test_refused_is_what_no_split_of_the_size_meets_and_nothing_else(size: int, fields: Any) -> None:
    wish = {"node": {name: value for name, value in fields.items() if value is not None}}
    (rule,) = parse_rules(("node",), json.dumps(wish))
    assert (said(wish, size) == []) is splits(rule, size)
