"""The topology ConfigMap and the group ConfigMap: what is accepted, and the texts of errors."""

from __future__ import annotations

import json

import pytest

from scheduler_core.errors import ModelError
from scheduler_core.model.groups.topology import (
    LARGEST_SIZE,
    LevelConstraint,
    parse_constraints,
    parse_group,
    parse_topology,
)

TREE = '{"rack-0": {"node-0": {}, "node-1": {}}, "rack-1": {"node-2": {}}}'
TOPOLOGY = {
    "name": "cluster-tree",
    "resource-names": '[ "cpu", "memory", "nvidia.com/gpu" ]\n',
    "level-names": '[ "rack", "node" ]\n',
    "tree": TREE,
}
GROUP = {"name": "group-a", "size": "8", "priority": "0", "constraints": '{"rack": {"type": "pack"}}\n'}


def test_a_topology_lists_the_path_of_every_node() -> None:
    spec = parse_topology(TOPOLOGY)
    assert spec.name == "cluster-tree"
    assert spec.resources == ("cpu", "memory", "nvidia.com/gpu")
    assert spec.levels == ("rack", "node")
    assert spec.paths == (("rack-0", "node-0"), ("rack-0", "node-1"), ("rack-1", "node-2"))


def test_resources_need_not_be_named() -> None:
    spec = parse_topology({"level-names": '["node"]', "tree": '{"a": {}}'})
    assert spec.resources == ()


def test_inner_units_of_different_parents_may_share_a_name() -> None:
    tree = '{"zone-0": {"rack-0": {"a": {}}}, "zone-1": {"rack-0": {"b": {}}}}'
    spec = parse_topology({"level-names": '["zone", "rack", "node"]', "tree": tree})
    assert spec.paths == (("zone-0", "rack-0", "a"), ("zone-1", "rack-0", "b"))


def test_a_group_is_read_with_its_constraints() -> None:
    node = '{"min": 2, "max": 4, "factor": 2, "hard": true}'
    text = f'{{"rack": {{"type": "spread", "partitions": 2}}, "node": {node}}}'
    group = parse_group({**GROUP, "size": " 8 ", "priority": "-5", "constraints": text})
    assert (group.name, group.size, group.priority) == ("group-a", 8, -5)
    assert group.constraints == (
        LevelConstraint("rack", "spread", partitions=2),
        LevelConstraint("node", "pack", min=2, max=4, factor=2, hard=True),
    )


@pytest.mark.parametrize("missing", ["constraints", "priority"])
def test_constraints_and_priority_may_be_left_out(missing: str) -> None:
    group = parse_group({key: text for key, text in GROUP.items() if key != missing})
    assert group.constraints == (() if missing == "constraints" else (LevelConstraint("rack"),))
    assert group.priority == (None if missing == "priority" else 0)


def test_results_written_by_the_scheduler_are_not_read() -> None:
    results = {
        "status": "Bound",
        "placement": '{"root": {"node-0": {"pod-0", "pod-4"}}}',
        "rank": "[(pod-0,0)]",
    }
    assert parse_group({**GROUP, **results}) == parse_group(GROUP)


TOPOLOGY_FAULTS = {
    "no levels": ({"level-names": " "}, "data.level-names", "is required"),
    "no tree": ({"tree": ""}, "data.tree", "is required"),
    "levels that are not JSON": ({"level-names": "[rack"}, "data.level-names", "is not JSON"),
    "levels that are no list": ({"level-names": '{"rack": 1}'}, "data.level-names", "must be a JSON list"),
    "an empty list of levels": ({"level-names": "[]"}, "data.level-names", "at least one name"),
    "a level that is a number": ({"level-names": '["rack", 3]'}, "data.level-names[1]", "is 3"),
    "a level twice": ({"level-names": '["node", "node"]'}, "data.level-names[1]", '"node" is given twice'),
    "resources that are no list": ({"resource-names": '"cpu"'}, "data.resource-names", "must be a JSON list"),
    "a tree that is not JSON": ({"tree": '{"rack-0": }'}, "data.tree", "is not JSON"),
    "a tree that is a list": ({"tree": "[]"}, "data.tree", "is a list, must be an object of rack names"),
    "an empty tree": ({"tree": "{}"}, "data.tree", "has no rack"),
    "a rack without nodes": ({"tree": '{"rack-0": {}}'}, "data.tree.rack-0", "must reach level node"),
    "a rack that is text": ({"tree": '{"rack-0": "x"}'}, "data.tree.rack-0", 'is "x"'),
    "a tree deeper than its levels": (
        {"tree": '{"rack-0": {"node-0": {"gpu-0": {}}}}'},
        "data.tree.rack-0.node-0",
        "level node is the lowest",
    ),
    "a tree of more levels than are read": (
        {"tree": '{"rack-0": ' * 200 + "{}" + "}" * 200},
        "data.tree",
        "is nested too deeply, at most 200 levels are read",
    ),
    "levels nested too deeply": ({"level-names": "[" * 300 + "]" * 300}, "data.level-names", "too deeply"),
    "a node with a number": ({"tree": '{"rack-0": {"node-0": 1}}'}, "data.tree.rack-0.node-0", "must be {}"),
    "an empty name": ({"tree": '{"rack-0": {"": {}}}'}, "data.tree.rack-0", "empty name"),
    "a rack twice": ({"tree": '{"r": {"a": {}}, "r": {"b": {}}}'}, "data.tree.r", "is given twice"),
    "a node in two places": (
        {"tree": '{"rack-0": {"a": {}}, "rack-1": {"a": {}}}'},
        "data.tree.rack-1.a",
        "node a is already at rack-0.a",
    ),
    "nesting without end": ({"tree": '{"a":' * 100_000}, "data.tree", ""),
}


@pytest.mark.parametrize(("change", "path", "problem"), TOPOLOGY_FAULTS.values(), ids=TOPOLOGY_FAULTS)
def test_a_faulty_topology_is_refused_at_its_field(change: dict[str, str], path: str, problem: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_topology({**TOPOLOGY, **change})
    assert caught.value.path == path
    assert problem in caught.value.problem


GROUP_FAULTS = {
    "no name": ({"name": ""}, "data.name", "is required"),
    "no size": ({"size": ""}, "data.size", "is required"),
    "a size in words": ({"size": "eight"}, "data.size", 'is "eight", must be a whole number'),
    "a fraction of pods": ({"size": "2.5"}, "data.size", "must be a whole number"),
    "no pods": ({"size": "0"}, "data.size", "is 0, must be between 1"),
    "fewer than no pods": ({"size": "-1"}, "data.size", "is -1"),
    "too many pods": ({"size": str(LARGEST_SIZE + 1)}, "data.size", f"between 1 and {LARGEST_SIZE}"),
    "a size of many digits": ({"size": "9" * 5000}, "data.size", "must be a whole number"),
    "a priority in words": ({"priority": "high"}, "data.priority", "must be a whole number"),
    "constraints that are not JSON": ({"constraints": "{rack}"}, "data.constraints", "is not JSON"),
    "constraints that are a list": ({"constraints": "[1]"}, "data.constraints", "is a list"),
}


@pytest.mark.parametrize(("change", "path", "problem"), GROUP_FAULTS.values(), ids=GROUP_FAULTS)
def test_a_faulty_group_is_refused_at_its_field(change: dict[str, str], path: str, problem: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_group({**GROUP, **change})
    assert caught.value.path == path
    assert problem in caught.value.problem


CONSTRAINT_FAULTS = {
    "a level that is text": ({"rack": "pack"}, "constraints.rack", 'is "pack"'),
    "an unknown type": ({"rack": {"type": "stack"}}, "constraints.rack.type", 'is "stack", must be "pack"'),
    "a type that is a list": ({"rack": {"type": ["pack"]}}, "constraints.rack.type", "is a list"),
    "an unknown field": ({"rack": {"maximum": 3}}, "constraints.rack.maximum", "is not a known field"),
    "hard in words": ({"rack": {"hard": "yes"}}, "constraints.rack.hard", "must be true or false"),
    "partitions in quotes": ({"rack": {"partitions": "3"}}, "constraints.rack.partitions", 'is "3"'),
    "a fraction": ({"rack": {"max": 2.5}}, "constraints.rack.max", "is 2.5, must be a whole number"),
    "true as a number": ({"rack": {"min": True}}, "constraints.rack.min", "is true"),
    "factor 0": ({"rack": {"factor": 0}}, "constraints.rack.factor", "is 0, must be between 1"),
    "no partition": ({"rack": {"partitions": 0}}, "constraints.rack.partitions", "is 0"),
    "a negative minimum": ({"rack": {"min": -1}}, "constraints.rack.min", "is -1, must be between 0"),
    "a maximum of 0": ({"rack": {"max": 0}}, "constraints.rack.max", "is 0, must be between 1"),
}


@pytest.mark.parametrize(("given", "path", "problem"), CONSTRAINT_FAULTS.values(), ids=CONSTRAINT_FAULTS)
def test_faulty_constraints_are_refused_at_their_field(
    given: dict[str, object], path: str, problem: str
) -> None:
    with pytest.raises(ModelError) as caught:
        parse_constraints(json.dumps(given))
    assert caught.value.path == path
    assert problem in caught.value.problem


@pytest.mark.parametrize("text", ['{"rack": {}, "rack": {}}', '{"rack": {"min": 1, "min": 2}}'])
def test_a_key_given_twice_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match="is given twice"):
        parse_constraints(text)


def test_a_range_that_is_empty_is_left_to_the_feasibility_check() -> None:
    assert parse_constraints('{"node": {"min": 4, "max": 2}}') == (LevelConstraint("node", min=4, max=2),)
