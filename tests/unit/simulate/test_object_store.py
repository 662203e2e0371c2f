"""The store in place of an API server: what each write makes of an object, and which changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.errors import ConfigError
from scheduler_core.model.kinds import CONFIG_MAPS, NODES, PODS
from scheduler_core.model.writes import Bind, Create, Delete, Evict, Patch, Replace, Write
from scheduler_core.simulate.objects import Objects, label, merge_patch

Raw = dict[str, Any]
NOW = 1_767_225_600.0
POD = ("Pod", "a", "p")


def pod(**spec: Any) -> Raw:
    return {"kind": "Pod", "metadata": {"namespace": "a", "name": "p"}, "spec": spec}


@pytest.fixture
def store() -> Objects:
    """A pod, a node and a ConfigMap."""
    found = Objects(lambda: NOW)
    found.create(pod(containers=[]), "x")
    found.create({"kind": "Node", "metadata": {"name": "n", "uid": "given", "labels": {"a": None}}}, "x")
    found.create({"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "v"}}, "x")
    return found


def test_the_store_sets_what_a_server_sets(store: Objects) -> None:
    assert store.get(POD) == {
        "kind": "Pod",
        "metadata": {
            "namespace": "a",
            "name": "p",
            "uid": "Pod/a/p",
            "creationTimestamp": "2026-01-01T00:00:00.001000Z",
            "resourceVersion": "2",
        },
        "spec": {"containers": []},
        "status": {"phase": "Pending"},
    }
    node = store.get(("Node", "", "n"))
    assert node is not None
    assert (node["metadata"]["uid"], node["metadata"]["labels"]) == ("given", {"a": ""})
    assert "namespace" not in node["metadata"]
    other = store.get(("ConfigMap", "default", "c"))
    assert other is not None
    assert other["metadata"]["namespace"] == "default"


@pytest.mark.parametrize(
    ("spec", "priority", "policy"),
    [
        pytest.param({"priorityClassName": "high"}, 7, "Never", id="of its class"),
        pytest.param({"priorityClassName": "high", "priority": 3}, 3, None, id="its own"),
        pytest.param(
            {"priorityClassName": "high", "preemptionPolicy": "x"},
            7,
            "x",
            id="its own policy beside its class",
        ),
        pytest.param({"priorityClassName": "none"}, None, None, id="an unknown class"),
        pytest.param({}, None, None, id="no class"),
    ],
)
def test_a_pod_gets_the_priority_of_its_class(
    store: Objects, spec: Raw, priority: int | None, policy: str | None
) -> None:
    store.create(
        {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"}, "x"
    )
    store.update(pod(**spec), "x")
    found = store.get(POD)
    assert found is not None
    assert (found["spec"].get("priority"), found["spec"].get("preemptionPolicy")) == (priority, policy)


def test_a_bound_pod_runs_once(store: Objects) -> None:
    store.update(
        {
            **pod(),
            "status": {"nominatedNodeName": "m", "conditions": [{"type": "PodScheduled"}, {"type": "Ready"}]},
        },
        "x",
    )
    assert store.write(Bind("a", "p", "another", "n")) == []
    assert store.write(Bind("a", "gone", "Pod/a/p", "n")) == []
    (change,) = store.write(Bind("a", "p", "Pod/a/p", "n"))
    assert (change.key, change.gone, change.obj["spec"]) == (POD, False, {"nodeName": "n"})
    status = change.obj["status"]
    assert "nominatedNodeName" not in status
    assert (status["phase"], [item["type"] for item in status["conditions"]]) == (
        "Running",
        ["Ready", "PodScheduled"],
    )
    assert status["startTime"] == status["conditions"][1]["lastTransitionTime"]
    assert store.write(Bind("a", "p", "Pod/a/p", "m")) == []


@pytest.mark.parametrize(
    ("write", "changes"),
    [
        pytest.param(Patch(PODS, "a", "p", {"spec": {"x": 1}}), 1, id="a patch"),
        pytest.param(Patch(PODS, "a", "p", {"spec": {"x": 1}}, uid="Pod/a/p"), 1, id="of the same pod"),
        pytest.param(Patch(PODS, "a", "p", {"spec": {"x": 1}}, uid="y"), 0, id="of another pod"),
        pytest.param(
            Patch(PODS, "a", "p", {"spec": {"x": 1}}, resource_version="2"), 1, id="of this version"
        ),
        pytest.param(
            Patch(PODS, "a", "p", {"spec": {"x": 1}}, resource_version="1"), 0, id="of another version"
        ),
        pytest.param(
            Patch(PODS, "a", "p", {"spec": {"containers": []}}), 0, id="a patch that changes nothing"
        ),
        pytest.param(Patch(PODS, "a", "p", [{"op": "add"}]), 0, id="a list of operations"),
        pytest.param(Patch(PODS, "b", "p", {"spec": {"x": 1}}), 0, id="a patch of nothing"),
        pytest.param(Evict("a", "p", "Pod/a/p", "r", "m"), 1, id="an eviction"),
        pytest.param(Evict("a", "p", "y", "r", "m"), 0, id="an eviction of another pod"),
        pytest.param(Delete(PODS, "a", "p"), 1, id="a deletion"),
        pytest.param(Delete(PODS, "a", "p", "y"), 0, id="a deletion of another pod"),
        pytest.param(Delete(PODS, "a", "gone"), 0, id="a deletion of nothing"),
        pytest.param(Delete(NODES, "ignored", "n"), 1, id="a deletion without a namespace"),
        pytest.param(Delete(CONFIG_MAPS, "default", "c", "ConfigMap/default/c"), 1, id="a ConfigMap"),
    ],
)
def test_a_write_changes_an_object_or_nothing(store: Objects, write: Write, changes: int) -> None:
    found = store.write(write)
    assert len(found) == changes
    assert [change.gone for change in found] == [isinstance(write, Delete | Evict)] * changes
    gone = {change.key for change in found if change.gone}
    assert not gone & set(store.keys())
    assert len(store.keys()) == 3 - len(gone)


def test_objects_are_created_and_replaced(store: Objects) -> None:
    body = {"kind": "ConfigMap", "metadata": {"name": "d", "namespace": "a"}, "data": {}}
    (made,) = store.write(Create(CONFIG_MAPS, "a", body))
    assert (made.key, made.obj["metadata"]["uid"]) == (("ConfigMap", "a", "d"), "ConfigMap/a/d")
    (replaced,) = store.write(Replace(CONFIG_MAPS, "a", "d", {**body, "data": {"k": "w"}}))
    assert replaced.obj["data"] == {"k": "w"}
    for field in ("uid", "creationTimestamp"):
        assert replaced.obj["metadata"][field] == made.obj["metadata"][field]
    assert int(replaced.obj["metadata"]["resourceVersion"]) > int(made.obj["metadata"]["resourceVersion"])


@pytest.mark.parametrize(
    ("verb", "obj", "problem"),
    [
        pytest.param("create", pod(), "x: Pod a/p exists already", id="created twice"),
        pytest.param("create", {"kind": "Pod"}, "x.metadata.name: is required", id="created without a name"),
        pytest.param("delete", {"kind": "Pod"}, "x.metadata.name: is required", id="deleted without a name"),
        pytest.param(
            "delete", {"kind": "Pod", "name": "q"}, "x: Pod default/q does not exist", id="not there"
        ),
        pytest.param(
            "update",
            {"kind": "Node", "metadata": {"name": "m"}},
            "x: Node m does not exist",
            id="replaced, not there",
        ),
    ],
)
def test_what_cannot_be_written_is_told(store: Objects, verb: str, obj: Raw, problem: str) -> None:
    with pytest.raises(ConfigError) as found:
        getattr(store, verb)(obj, "x")
    assert str(found.value) == problem


@pytest.mark.parametrize(
    ("target", "patch", "merged"),
    [
        pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, id="added"),
        pytest.param({"a": 1}, {"a": None, "b": None}, {}, id="removed"),
        pytest.param(
            {"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}, id="removed further inside"
        ),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="a list is replaced"),
        pytest.param({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="a map for a number"),
        pytest.param(None, {"a": {"b": None}}, {"a": {}}, id="of nothing"),
    ],
)
def test_patches_merge(target: Any, patch: Raw, merged: Raw) -> None:
    assert merge_patch(target, patch) == merged


def test_a_copy_goes_its_own_way(store: Objects) -> None:
    twin = store.copy(lambda: NOW)
    twin.write(Delete(PODS, "a", "p"))
    assert (POD in store, POD in twin) == (True, False)
    store.restore(POD, None)
    assert POD not in store
    store.restore(POD, pod())
    assert store.get(POD) == pod()


def test_labels_name_the_group_only_where_two_kinds_meet(store: Objects) -> None:
    assert [label(key) for key in (POD, ("Node", "", "n"), ("PodGroup.x.io", "a", "g"))] == [
        "Pod a/p", "Node n", "PodGroup a/g",
    ]  # fmt: skip
    assert store.label(("PodGroup.x.io", "a", "g")) == "PodGroup a/g"
    store.create({"kind": "PodGroup", "metadata": {"namespace": "a", "name": "g"}}, "x")
    assert store.label(("PodGroup.x.io", "a", "g")) == "PodGroup.x.io a/g"
    assert store.label(("PodGroup", "a", "g")) == "PodGroup a/g"
