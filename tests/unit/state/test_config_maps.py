"""Which ConfigMap counts, and which tree is in use, while ConfigMaps come, change and go."""

from __future__ import annotations

import json
from typing import Any

from scheduler_core.model.config_map import ConfigMap, parse_config_map
from scheduler_core.model.node import parse_node
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.config_maps import Changed
from scheduler_core.state.topology import TopologySettings


def config_map(name: str, label: str, data: dict[str, str], created: int = 1) -> ConfigMap:
    stamp = f"2026-01-01T00:00:{created:02}Z"
    meta = {"name": name, "namespace": "a", "uid": name, "creationTimestamp": stamp}
    return parse_config_map({"metadata": meta | {"labels": {label: ""} if label else {}}, "data": data})


def group(config_name: str, name: str = "g", size: int = 2, created: int = 1) -> ConfigMap:
    return config_map(config_name, "sakkara.group", {"name": name, "size": str(size)}, created)


def tree(config_name: str, *nodes: str, created: int = 1) -> ConfigMap:
    data = {"level-names": '["node"]', "tree": json.dumps({node: {} for node in nodes})}
    return config_map(config_name, "sakkara.topology", data, created)


def said(changed: Changed) -> tuple[list[str], list[tuple[str, int]], bool]:
    come = [(gang.ref.name, gang.min_members) for gang in changed.come]
    return [gang.ref.name for gang in changed.gone], come, changed.topology


def state_with(**settings: Any) -> ClusterState:
    state = ClusterState()
    state.topology.settings["s"] = TopologySettings("a", **settings)
    return state


def test_a_group_comes_changes_and_goes() -> None:
    table = ClusterState().config_maps
    assert said(table.put(group("c"))) == ([], [("g", 2)], False)
    assert said(table.put(group("c", size=3))) == ([], [("g", 3)], False)
    assert said(table.remove(group("c"))) == (["g"], [], False)


def test_a_config_map_that_names_another_group_takes_the_old_one_away() -> None:
    table = ClusterState().config_maps
    table.put(group("c"))
    assert said(table.put(group("c", "other"))) == (["g"], [("other", 2)], False)


def test_of_two_config_maps_of_one_group_the_oldest_counts() -> None:
    table = ClusterState().config_maps
    table.put(group("young", size=5, created=9))
    assert said(table.put(group("old", size=3, created=2))) == ([], [("g", 3)], False)
    assert said(table.put(group("young", size=7, created=9))) == ([], [], False)
    assert said(table.remove(group("old"))) == ([], [("g", 7)], False)


def test_a_config_map_that_loses_its_label_is_nothing_any_more() -> None:
    table = ClusterState().config_maps
    table.put(group("c"))
    assert said(table.put(config_map("c", "", {}))) == (["g"], [], False)
    table.put(tree("t", "n"))
    assert said(table.put(config_map("t", "", {}))) == ([], [], True)


def test_a_tree_that_says_the_same_is_no_change() -> None:
    table = ClusterState().config_maps
    assert said(table.put(tree("t", "n"))) == ([], [], True)
    assert said(table.put(tree("t", "n"))) == ([], [], False)
    assert said(table.put(tree("t", "n", "m"))) == ([], [], True)


def test_a_faulty_tree_keeps_the_one_before_and_waits_to_be_told() -> None:
    state = state_with()
    state.config_maps.put(tree("t", "n"))
    bad = config_map("t", "sakkara.topology", {"level-names": "[]"})
    assert said(state.config_maps.put(bad)) == ([], [], False)
    assert state.topology.tree("s").leaves == ("n",)
    assert state.topology.unreported == [bad]


def test_the_tree_comes_from_the_config_map_else_labels_else_it_is_flat() -> None:
    flat, labelled = state_with(), state_with(labels=("zone",))
    room = {"status": {"allocatable": {"cpu": "1"}}}
    for state in (flat, labelled):
        state.put_node(parse_node({"metadata": {"name": "n", "labels": {"zone": "z"}}, **room}))
        state.put_node(parse_node({"metadata": {"name": "m"}, **room}))
        state.put_node(parse_node({"metadata": {"name": "not-ready"}}))
    assert (flat.topology.tree("s").levels, flat.topology.tree("s").leaves) == (("node",), ("m", "n"))
    assert labelled.topology.tree("s").path(0) == ("z", "n")
    labelled.config_maps.put(tree("t", "k"))
    assert labelled.topology.tree("s").leaves == ("k",)


def test_a_tree_is_built_once_while_nothing_changes() -> None:
    state = state_with()
    state.config_maps.put(tree("t", "n"))
    first = state.topology.tree("s")
    assert state.topology.tree("s") is first
    state.config_maps.put(tree("t", "n", "m"))
    assert state.topology.tree("s") is not first
