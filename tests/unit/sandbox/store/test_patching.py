from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.errors import StatusError
from sandbox.kinds.builtin import CONFIG_MAPS, NODES, PODS
from sandbox.store import patching
from sandbox.store.server_side_apply import applied, first_applied

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "1"}, "finalizers": ["x", "y"]},
    "spec": {
        "containers": [
            {"name": "a", "image": "a:1", "env": [{"name": "E", "value": "1"}], "args": ["x"]},
            {"name": "b", "image": "b:1", "ports": [{"containerPort": 80, "protocol": "TCP"}]},
        ],
        "tolerations": [{"key": "k"}],
        "nodeSelector": {"zone": "z"},
    },
}


def containers(*items: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": list(items)}}


STRATEGIC = [
    ("containers merge by name", containers({"name": "a", "image": "a:2"}), "spec.containers.0.image", "a:2"),
    ("a new container comes first", containers({"name": "c", "image": "c"}), "spec.containers.0.name", "c"),
    (
        "$patch delete removes an entry",
        containers({"name": "a", "$patch": "delete"}),
        "spec.containers.0.name",
        "b",
    ),
    (
        "env merges by name inside its container",
        containers({"name": "a", "env": [{"name": "F", "value": "2"}]}),
        "spec.containers.0.env.0.name",
        "F",
    ),
    ("plain lists are replaced", containers({"name": "a", "args": ["y"]}), "spec.containers.0.args", ["y"]),
    (
        "tolerations are replaced whole",
        {"spec": {"tolerations": [{"key": "n"}]}},
        "spec.tolerations",
        [{"key": "n"}],
    ),
    (
        "finalizers are a set",
        {"metadata": {"finalizers": ["y", "z"]}},
        "metadata.finalizers",
        ["x", "y", "z"],
    ),
    (
        "plain entries can be deleted",
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}},
        "metadata.finalizers",
        ["y"],
    ),
    ("null removes", {"metadata": {"labels": {"a": None}}}, "metadata.labels", {}),
    (
        "$patch replace replaces a map",
        {"spec": {"nodeSelector": {"$patch": "replace", "q": "1"}}},
        "spec.nodeSelector",
        {"q": "1"},
    ),
    (
        "$retainKeys drops the others",
        {"spec": {"nodeSelector": {"$retainKeys": ["n"], "n": "1"}}},
        "spec.nodeSelector",
        {"n": "1"},
    ),
    (
        "ports merge by their number alone",
        containers({"name": "b", "ports": [{"containerPort": 80, "protocol": "UDP"}]}),
        "spec.containers.1.ports",
        [{"containerPort": 80, "protocol": "UDP"}],
    ),
    (
        "the stated order wins",
        {
            "spec": {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                "containers": [{"name": "b", "image": "n"}],
            }
        },
        "spec.containers.0.image",
        "n",
    ),
]


def look(obj: Any, path: str) -> Any:
    for step in path.split("."):
        obj = obj[int(step) if isinstance(obj, list) else step]
    return obj


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("sentence", "patch", "path", "wanted"), STRATEGIC, ids=[row[0] for row in STRATEGIC]
)
def test_strategic_merge(sentence: str, patch: Any, path: str, wanted: Any) -> None:
    before = copy.deepcopy(POD)
    assert look(patching.patched(PODS, POD, patch, patching.STRATEGIC), path) == wanted
    assert before == POD


def test_node_conditions_merge_by_type() -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Disk", "status": "False"}]},
    }
    patch = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    found = patching.patched(NODES, node, patch, patching.STRATEGIC)["status"]["conditions"]
    assert [(c["type"], c["status"]) for c in found] == [("Ready", "Unknown"), ("Disk", "False")]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=1), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text("abc", max_size=1), JSON), st.dictionaries(st.text("abc", max_size=1), JSON))
def test_a_merge_patch_applied_twice_changes_nothing_more(old: Any, patch: Any) -> None:
    before = copy.deepcopy(old)
    once = patching.merge(old, patch)
    assert patching.merge(once, patch) == once
    assert old == before


BAD = [
    ("an unknown media type", {}, "application/json", 415),
    ("a list as a merge patch", [], patching.MERGE, 400),
    ("an unknown operation", [{"op": "grow", "path": "/a"}], patching.JSON, 422),
    ("an operation that is no object", ["add"], patching.JSON, 400),
    ("too many operations", 10_001 * [{"op": "test", "path": "/none"}], patching.JSON, 413),
    ("a path that is not there", [{"op": "remove", "path": "/spec/none/x"}], patching.JSON, 422),
    ("a test that fails", [{"op": "test", "path": "/kind", "value": "Node"}], patching.JSON, 422),
    ("another kind", {"kind": "Node"}, patching.MERGE, 400),
    ("no metadata", {"metadata": None}, patching.MERGE, 400),
]


@pytest.mark.smoke
@pytest.mark.parametrize(("sentence", "body", "media", "code"), BAD, ids=[row[0] for row in BAD])
def test_a_bad_patch_is_refused(sentence: str, body: Any, media: str, code: int) -> None:
    def act() -> None:
        patching.check(PODS, body, media)
        patching.patched(PODS, POD, body, media)

    with pytest.raises(StatusError) as refused:
        act()
    assert refused.value.code == code


def test_a_patch_is_shown_as_go_prints_it() -> None:
    body = {"spec": {"replicas": 1, "paused": True, "first": 0, "gone": None, "names": ["a", False]}}
    told = "map[spec:map[first:0 gone:<nil> names:[a false] paused:true replicas:1]]"
    assert patching.shown({}, body, patching.STRATEGIC) == told


def config(**data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "a"},
        "data": data,
    }


def test_apply_removes_what_its_manager_no_longer_names() -> None:
    made = first_applied(config(a="1", b="2"), "c", "one")
    made = {**made, "data": {**made["data"], "other": "kept"}}
    after = applied(CONFIG_MAPS, made, config(b="3"), "one", force=False)
    assert after["data"] == {"b": "3", "other": "kept"}
    assert [entry["manager"] for entry in after["metadata"]["managedFields"]] == ["one"]


def test_apply_respects_other_managers_unless_forced() -> None:
    made = first_applied(config(a="1"), "c", "one")
    with pytest.raises(StatusError, match=r'Apply failed with 1 conflict: conflict with "one": .data.a'):
        applied(CONFIG_MAPS, made, config(a="2"), "two", force=False)
    shared = applied(CONFIG_MAPS, made, config(a="1"), "two", force=False)
    assert [entry["manager"] for entry in shared["metadata"]["managedFields"]] == ["one", "two"]
    before = copy.deepcopy(made)
    taken = applied(CONFIG_MAPS, made, config(a="2"), "two", force=True)
    assert made == before
    assert taken["data"] == {"a": "2"}
    assert applied(CONFIG_MAPS, taken, config(), "one", force=False)["data"] == {"a": "2"}


def test_apply_merges_containers_by_name() -> None:
    body = {**POD, "metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "a:9"}]}}
    found = applied(PODS, POD, body, "m", force=False)["spec"]["containers"]
    assert [(c["name"], c["image"]) for c in found] == [("a", "a:9"), ("b", "b:1")]


def test_applying_the_same_again_changes_nothing() -> None:
    made = first_applied(config(a="1"), "c", "one")
    assert applied(CONFIG_MAPS, made, config(a="1"), "one", force=False) == made
