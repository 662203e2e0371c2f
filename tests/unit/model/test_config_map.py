"""ConfigMaps by label: topologies, groups, and others, of which only the name is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler_core.errors import ModelError
from scheduler_core.model.config_map import GROUP, TOPOLOGY, parse_config_map
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.groups.topology import TopologySpec

TREE = {"level-names": '["node"]', "tree": '{"n": {}}'}


def raw(label: str = "", data: Any = None, **meta: Any) -> dict[str, Any]:
    labels = {label: ""} if label else {}
    return {"metadata": {"name": "c", "namespace": "a", "uid": "u", "labels": labels, **meta}, "data": data}


def test_a_topology_is_read() -> None:
    found = parse_config_map(json.dumps(raw("sakkara.topology", TREE)).encode())
    assert (found.key, found.role, found.fault) == ("a/c", TOPOLOGY, None)
    assert isinstance(found.content, TopologySpec)
    assert found.content.paths == (("n",),)


def test_a_faulty_topology_comes_with_its_fault_and_the_objects_name() -> None:
    found = parse_config_map(raw("sakkara.topology", {**TREE, "tree": "{"}))
    assert found.content is None
    assert str(found.fault).startswith("ConfigMap a/c: data.tree: is not JSON")


def test_a_group_is_a_gang_under_the_name_in_its_data() -> None:
    found = parse_config_map(raw("sakkara.group", {"name": "g", "size": "3", "priority": "7"}))
    gang = found.content
    assert isinstance(gang, Gang)
    assert (str(gang.ref), gang.min_members, gang.priority) == ("group ConfigMap a/g", 3, 7)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        pytest.param({"name": "g", "size": "0"}, "g", id="a bad size"),
        pytest.param({"size": "1"}, "c", id="without a name that of the ConfigMap"),
        pytest.param(None, "c", id="without data"),
    ],
)
def test_a_faulty_group_is_a_gang_with_a_problem(data: Any, name: str) -> None:
    found = parse_config_map(raw("sakkara.group", data))
    assert found.role == GROUP
    assert found.content.ref.name == name
    assert found.content.problem == str(found.fault)


def test_of_other_config_maps_nothing_is_kept() -> None:
    found = parse_config_map(raw("app", {"secret": "text"}))
    assert (found.role, found.content, dict(found.data)) == ("", None, {})


def test_an_object_that_is_no_config_map_is_refused() -> None:
    with pytest.raises(ModelError, match="ConfigMap a/c"):
        parse_config_map(raw("sakkara.group", ["not", "a", "map"]))


def test_of_a_group_only_what_somebody_reads_is_kept() -> None:
    data = {
        "name": "g",
        "size": "3",
        "status": "Bound",
        "other": "x",
        "placement": "\U0001f600" + "x" * 100_000,
    }
    found = parse_config_map(raw("sakkara.group", data))
    assert dict(found.data) == {"name": "g", "size": "3", "status": "Bound"}
    placement = "x" * 100_000
    kept = parse_config_map(raw("sakkara.group", data | {"placement": placement}))
    assert kept.data["placement"] == placement, "as long as a large placement is"


def test_the_fault_of_a_group_does_not_repeat_all_that_was_written() -> None:
    constraints = json.dumps({"x" * 60_000: 1})
    found = parse_config_map(raw("sakkara.group", {"name": "g", "size": "3", "constraints": constraints}))
    assert len(found.content.problem) < 2_000
    long = parse_config_map(raw("sakkara.group", {"name": "n" * 254, "size": "3"}))
    assert long.content.ref.name == "c"
    assert long.content.problem == "ConfigMap a/c: data.name: has 254 characters, at most 253 are read"


def test_topologies_are_read_where_profiles_have_them() -> None:
    text = raw("sakkara.topology", TREE)
    assert parse_config_map(text, topologies={"a"}).content is not None
    elsewhere = parse_config_map(text, topologies={"default"})
    assert (elsewhere.role, elsewhere.content, elsewhere.fault) == (TOPOLOGY, None, None)
