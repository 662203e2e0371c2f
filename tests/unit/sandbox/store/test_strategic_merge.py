"""Strategic merge: orders and directives of lists, as recorded from kube-apiserver 1.37."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.errors import StatusError
from sandbox.store.strategic_merge import strategic_merge

SPEC = "io.k8s.api.core.v1.PodSpec"
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def names(*values: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": value, **more} for value in values]


def ordered(*values: str) -> dict[str, Any]:
    return {"$setElementOrder/containers": names(*values)}


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("there", "patch", "wanted"),
    [
        pytest.param("abc", {"containers": names("b")}, "abc", id="known elements keep their places"),
        pytest.param("abc", {"containers": names("x")}, "xabc", id="new ones come first"),
        pytest.param("abc", {"containers": names("b", "x")}, "abxc", id="or where the patch has them"),
        pytest.param("abc", {"containers": names("c", "a")}, "bca", id="the order of the patch counts"),
        pytest.param("abc", ordered("c", "a", "b"), "cab", id="an order alone"),
        pytest.param("abc", ordered("c"), "abc", id="an order of one"),
        pytest.param("abc", ordered("x", "c", "a"), "bca", id="names that are not there do not matter"),
        pytest.param(
            "abc",
            {**ordered("x", "c", "a"), "containers": names("x")},
            "xbca",
            id="an order and a new element",
        ),
        pytest.param("", {**ordered("b", "a"), "containers": names("a")}, "a", id="an order for a new list"),
        pytest.param("abc", {"containers": names("b", **{"$patch": "delete"})}, "ac", id="one goes"),
        pytest.param(
            "abc", {"containers": [{"$patch": "replace"}, *names("x")]}, "x", id="the list is replaced"
        ),
        pytest.param(
            "abc", {"containers": names("b", **{"$patch": "replace"})}, "", id="by nothing, whatever it names"
        ),
    ],
)
def test_orders(there: str, patch: dict[str, Any], wanted: str) -> None:
    old = {"containers": names(*there)} if there else {}
    found = strategic_merge(old, patch, SPEC).get("containers") or []
    assert "".join(item["name"] for item in found) == wanted


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("patch", "wanted"),
    [
        pytest.param({"finalizers": ["c"]}, ["c", "a", "b"], id="a new plain value comes first"),
        pytest.param({"$deleteFromPrimitiveList/finalizers": ["a", "x"]}, ["b"], id="one goes"),
        pytest.param({"$setElementOrder/finalizers": ["x", "b", "a"]}, ["b", "a"], id="an order"),
        pytest.param({"finalizers": None}, None, id="all go"),
    ],
)
def test_plain_values(patch: dict[str, Any], wanted: list[str] | None) -> None:
    assert strategic_merge({"finalizers": ["a", "b"]}, patch, META).get("finalizers") == wanted


def test_directives_inside_a_new_element_mean_nothing() -> None:
    new = {"name": "x", "env": [{"name": "A", "$patch": "delete"}]}
    assert strategic_merge({"containers": names("a")}, {"containers": [new]}, SPEC)["containers"][0] == new


def test_a_directive_in_what_is_not_there_leaves_nothing() -> None:
    patch = {"nodeSelector": {"$patch": "replace", "a": "b"}, "volumes": names("v", **{"$patch": "delete"})}
    assert strategic_merge({"containers": []}, patch, SPEC) == {"containers": [], "volumes": []}


def test_a_new_object_has_no_nulls() -> None:
    patch = {"securityContext": {"runAsUser": None, "seLinuxOptions": {"level": None, "role": "r"}}}
    assert strategic_merge({}, patch, SPEC) == {"securityContext": {"seLinuxOptions": {"role": "r"}}}


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        pytest.param(
            {**ordered("b", "a"), "containers": names("a", "b")},
            500,
            "The order in patch list",
            id="two orders",
        ),
        pytest.param(
            {**ordered("a"), "containers": names("x")}, 500, "The order in patch list", id="unordered"
        ),
        pytest.param(
            {"containers": [{"image": "i"}]}, 500, "declared merge key: name", id="an element without key"
        ),
        pytest.param(
            {"containers": names("a", **{"$patch": "merge"})},
            500,
            "unknown patch type",
            id="an unknown directive",
        ),
        pytest.param({"containers": ["a"]}, 500, "types are not identical", id="a text among objects"),
        pytest.param(
            {"$setElementOrder/containers": "a"}, 500, "expected a list", id="an order that is a text"
        ),
        pytest.param(
            {"$patch": "grow"}, 500, "unknown patch type found: grow", id="an unknown directive of all"
        ),
        pytest.param({"$retainKeys": ["a"], "b": 1}, 400, "retainKeys", id="a key that is not retained"),
        pytest.param({"$retainKeys": [{}], "b": 1}, 400, "retainKeys", id="an object is no key to retain"),
        pytest.param(
            {"$setElementOrder/tolerations": [{"key": "a"}], "tolerations": [{"key": "a"}]},
            500,
            "no key",
            id="an order of what has no key",
        ),
    ],
)
def test_contradictions(patch: dict[str, Any], code: int, message: str) -> None:
    with pytest.raises(StatusError, match=message) as refused:
        strategic_merge({"containers": names("a", "b")}, patch, SPEC)
    assert refused.value.code == code
