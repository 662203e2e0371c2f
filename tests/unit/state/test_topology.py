"""Which tree a group is placed on, and whether it is placed on one at all."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.errors import ModelError
from scheduler_core.model.groups.gang import Gang, parse_gang
from scheduler_core.model.groups.native import parse_native_gang
from scheduler_core.model.names import TOPOLOGY_CONSTRAINTS_ANNOTATION
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.topology import TopologySettings, is_constrained, rules_of
from tests.support.builders import make_group, make_node

LABELS = TopologySettings("default", ("rack", "kubernetes.io/hostname"))


def cluster(settings: TopologySettings | None = None) -> ClusterState:
    state = ClusterState()
    if settings is not None:
        state.topology.settings["s"] = settings
    for name, rack in (("n1", "r0"), ("n0", "r0"), ("n2", "r1")):
        state.put_node(make_node(name).label("rack", rack).allocatable(cpu=1).obj())
    state.put_node(make_node("silent").label("rack", "r9").obj())
    return state


def plain(constraints: str | None = None) -> Gang:
    made = make_group("a/g").needs(2)
    if constraints is not None:
        made.annotation(TOPOLOGY_CONSTRAINTS_ANNOTATION, constraints)
    return parse_gang(made.dict())


def native(key: str) -> Gang:
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    if key:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    raw = {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "a"},
    }
    return parse_native_gang({**raw, "spec": spec})


def test_without_settings_the_tree_is_flat() -> None:
    tree = cluster().topology.tree("unknown")
    assert (tree.leaves, len(tree.levels)) == (("n0", "n1", "n2"), 1)


def test_labels_give_the_tree_where_they_are_configured() -> None:
    state = cluster(LABELS)
    tree = state.topology.tree("s")
    assert (tree.units[0], tree.leaves) == (("r0", "r1"), ("n0", "n1", "n2"))
    assert state.topology.tree("s") is tree, "the same while nothing changes"
    state.put_node(make_node("n2").label("rack", "r0").allocatable(cpu=2).obj())
    assert state.topology.tree("s").units[0] == ("r0",)
    state.remove_node("n2")
    assert state.topology.tree("s").leaves == ("n0", "n1")


def test_a_flat_tree_follows_the_nodes() -> None:
    state = cluster()
    first = state.topology.tree("s")
    assert state.topology.tree("s") is first
    state.remove_node("n0")
    assert state.topology.tree("s").leaves == ("n1", "n2")


def test_a_native_group_is_placed_on_the_tree_of_its_key() -> None:
    state = cluster()
    gang = native("rack")
    assert gang.topology_key == "rack"
    tree = state.topology.tree_of(gang, "s")
    assert (tree.units[0], tree.leaves) == (("r0", "r1"), ("n0", "n1", "n2"))
    assert state.topology.tree_of(native("kubernetes.io/hostname"), "s").leaves == ("n0", "n1", "n2")
    assert state.topology.tree_of(plain("x"), "s") is state.topology.tree("s")


@pytest.mark.parametrize(
    ("gang", "constrained"),
    [
        pytest.param(plain(), False, id="a plain group"),
        pytest.param(plain("  "), False, id="constraints without words"),
        pytest.param(plain("node: pack"), True, id="constraints"),
        pytest.param(native(""), False, id="a native group"),
        pytest.param(native("rack"), True, id="a native group with a key"),
    ],
)
def test_who_is_placed_on_the_topology(gang: Gang, constrained: bool) -> None:
    assert is_constrained(gang) is constrained


def test_constraints_that_cannot_be_read_name_group_and_field() -> None:
    tree = cluster(LABELS).topology.tree("s")
    with pytest.raises(ModelError) as error:
        rules_of(plain("{nonsense"), tree)
    assert "PodGroup a/g" in str(error.value)
    assert TOPOLOGY_CONSTRAINTS_ANNOTATION in str(error.value)
