"""`kubectl elasticquota get --tree` and what `lint` says of groups, whole, against a small server."""

from __future__ import annotations

import json

import pytest

from tests.unit.kubectl_plugin.plugin_api import Api, Command, pod_object, quota_object

GPU = "nvidia.com/gpu"


def group_object(name: str, low: int, parent: str = "", **spec: object) -> dict[str, object]:
    """A QuotaGroup with a min of GPUs."""
    found: dict[str, object] = {"min": {GPU: str(low)}, **spec}
    return {"metadata": {"name": name}, "spec": {**found, "parent": parent} if parent else found}


def member(namespace: str, low: int, group: str) -> dict[str, object]:
    """An ElasticQuota of a group."""
    quota = quota_object(namespace, min={GPU: str(low)})
    quota["metadata"]["labels"] = {"muster.dev/quota-group": group}
    return quota


@pytest.fixture
def tree(api: Api) -> None:
    """H1 of docs/quota-trees.md: a1 alone runs 12."""
    api.objects["quotagroups"] = [group_object("dept-a", 6), group_object("dept-b", 6)]
    api.objects["elasticquotas"] = [
        member("a1", 2, "dept-a"), member("a2", 2, "dept-a"),
        member("b1", 4, "dept-b"), member("b2", 2, "dept-b"),
    ]  # fmt: skip
    api.objects["pods"] = [pod_object("a1", "p", **{GPU: "12"})]


def test_the_tree_as_a_table(tree: None, eq: Command) -> None:
    result = eq("get", "--tree")
    assert result.code == 0, result.err
    rows = [line.split() for line in result.out.splitlines()]
    assert rows == [
        ["NAME", "RESOURCE", "MIN", "USED", "MAX", "BORROWED", "LENT"],
        ["dept-a", GPU, "6", "12", "-", "6", "-"],
        ["a1/quota", GPU, "2", "12", "-", "10", "-"],
        ["a2/quota", GPU, "2", "0", "-", "-", "2"],
        ["dept-b", GPU, "6", "0", "-", "-", "6"],
        ["b1/quota", GPU, "4", "0", "-", "-", "4"],
        ["b2/quota", GPU, "2", "0", "-", "-", "2"],
    ]


def test_the_tree_as_json(tree: None, eq: Command) -> None:
    found = json.loads(eq("get", "--tree", "-o", "json").out)["tree"]
    assert [(item["name"], [child["name"] for child in item["children"]]) for item in found] == [
        ("dept-a", ["a1/quota", "a2/quota"]),
        ("dept-b", ["b1/quota", "b2/quota"]),
    ]
    assert found[0]["used"] == {GPU: "12"}


def test_the_tree_cannot_be_narrowed(tree: None, eq: Command) -> None:
    assert eq("get", "quota", "--tree").code != 0


def test_lint_names_what_is_wrong_with_groups(tree: None, api: Api, eq: Command) -> None:
    api.objects["quotagroups"] = [
        group_object("dept-a", 3), group_object("x", 0, "y"), group_object("y", 0, "x"),
    ]  # fmt: skip
    api.objects["nodes"] = [
        {"metadata": {"name": "n"}, "status": {"allocatable": {GPU: "12", "pods": "110"}}}
    ]
    output = eq("lint", "-A").out
    assert f"QuotaGroup dept-a: spec.min[{GPU}]=3 is less than 4, the sum of min of its children" in output
    assert "QuotaGroup x: spec.parent=y makes a cycle: x -> y -> x" in output
    assert (
        "ElasticQuota b1/quota: metadata.labels[muster.dev/quota-group]=dept-b names no QuotaGroup" in output
    )
