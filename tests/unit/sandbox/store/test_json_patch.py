"""JSON patch as kube-apiserver 1.37 applies it: what it takes beyond the RFC, and what it refuses."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from sandbox.store.json_patch import PatchFailed, apply

OBJECT: dict[str, Any] = {
    "data": {"a": "1", "b": "2", "null": None},
    "list": ["x", "y"],
    "deep": {"list": [{"k": [1]}]},
    "a/b": {"~": 1},
}


def op(name: str, path: str, value: Any = ..., **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **({} if value is ... else {"value": value}), **more}


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("operation", "path", "wanted"),
    [
        pytest.param(op("replace", "/data/new", "x"), "data.new", "x", id="a missing member can be replaced"),
        pytest.param(
            op("copy", "/data/new", **{"from": "/data/none"}), "data.new", None, id="and copied, as null"
        ),
        pytest.param(op("add", "/data/new"), "data.new", None, id="no value is null"),
        pytest.param(op("add", "/list/-", "z"), "list", ["x", "y", "z"], id="after the last"),
        pytest.param(op("add", "/list/-1", "z"), "list", ["x", "y", "z"], id="after the last, from the end"),
        pytest.param(
            op("add", "/list/-3", "z"), "list", ["z", "x", "y"], id="before the first, from the end"
        ),
        pytest.param(op("add", "/list/01", "z"), "list", ["x", "z", "y"], id="a leading zero"),
        pytest.param(op("replace", "/list/-1", "z"), "list", ["x", "z"], id="the last is replaced"),
        pytest.param(op("remove", "/list/-2"), "list", ["y"], id="the first is removed from the end"),
        pytest.param(
            op("move", "/list/0", **{"from": "/list/1"}), "list", ["y", "x"], id="a move inside a list"
        ),
        pytest.param(op("move", "/data/q", **{"from": "/data/a"}), "data.q", "1", id="a move"),
        pytest.param(op("add", "data/x", "1"), "x", "1", id="what stands before the first slash is ignored"),
        pytest.param(op("replace", "/a~1b/~0", 2), "a/b.~", 2, id="escapes"),
        pytest.param(op("add", "/data/n~2", "x"), "data.n~2", "x", id="no escape stays as it is"),
        pytest.param(
            op("replace", "/deep/list/0/k/0", 2, extra=1), "deep.list.0.k", [2], id="deep, with more"
        ),
        pytest.param(op("replace", "", {"only": 1}), "only", 1, id="the whole"),
        pytest.param(op("test", "/data/none"), "data.a", "1", id="a missing member is equal to no value"),
        pytest.param(op("test", "/data/none", None), "data.a", "1", id="and to null"),
        pytest.param(op("test", "/deep", {"list": [{"k": [1]}]}), "data.a", "1", id="equal objects"),
    ],
)
def test_what_is_applied(operation: dict[str, Any], path: str, wanted: Any) -> None:
    before = copy.deepcopy(OBJECT)
    found = apply(OBJECT, [operation])
    for step in path.split("."):
        found = found[int(step) if isinstance(found, list) else step]
    assert found == wanted
    assert before == OBJECT


@pytest.mark.smoke
@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(op("remove", "/data/new"), id="a missing member is not removed"),
        pytest.param(op("move", "/data/q", **{"from": "/data/new"}), id="nor moved"),
        pytest.param(op("add", "/none/x", 1), id="no object to add to"),
        pytest.param(op("add", "/data/null/x", 1), id="null is no object to add to"),
        pytest.param(op("add", "/data/a/x", 1), id="nor is a text"),
        pytest.param(op("add", "/list/3", "z"), id="beyond the end"),
        pytest.param(op("add", "/list/-4", "z"), id="beyond the beginning"),
        pytest.param(op("replace", "/list/2", "z"), id="nothing to replace there"),
        pytest.param(op("remove", "/list/-"), id="after the last is nothing to remove"),
        pytest.param(op("add", "/list/x", "z"), id="an index that is no number"),
        pytest.param(op("add", "/list/" + 30 * "1", "z"), id="an index beyond all lists"),
        pytest.param(op("add", "", {}), id="the whole cannot be added"),
        pytest.param(op("remove", ""), id="nor removed"),
        pytest.param(op("replace", "", "text"), id="nor become a text"),
        pytest.param({"op": "add", "value": 1}, id="no path"),
        pytest.param({"op": "move", "path": "/data/x"}, id="no origin"),
        pytest.param(op("grow", "/data/x"), id="an unknown operation"),
        pytest.param({"path": "/data/x"}, id="no operation"),
        pytest.param({"op": ["add"], "path": "/data/x"}, id="a list of operations as one"),
        pytest.param(op("test", "/data/a"), id="a value is not equal to none"),
        pytest.param(op("test", "/data/none", "x"), id="nor none to a value"),
        pytest.param(op("test", "/deep/list/0/k/0", True), id="true is not 1"),
        pytest.param(op("test", "/deep/list/0/k", [1, 1]), id="a longer list"),
    ],
)
def test_what_is_refused(operation: dict[str, Any]) -> None:
    before = copy.deepcopy(OBJECT)
    with pytest.raises(PatchFailed, match="operation 1: "):
        apply(OBJECT, [op("add", "/data/a", "9"), operation])
    assert before == OBJECT
