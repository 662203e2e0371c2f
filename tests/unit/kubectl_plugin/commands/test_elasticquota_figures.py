"""`kubectl elasticquota get --figures`: the totals of flavors and of trees, as the scheduler counts them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.kubectl_plugin.plugin_api import Api, Command, pod_object, quota_object

GPU, H100 = "nvidia.com/gpu", "flavor.muster.dev/h100"


def node(name: str, gpu_type: str) -> dict[str, Any]:
    """A node with four GPUs of a type."""
    room = {"cpu": "16", GPU: "4", "pods": "20"}
    return {"metadata": {"name": name, "labels": {"gpu-type": gpu_type}}, "status": {"allocatable": room}}


def totals(eq: Command) -> dict[str, dict[str, str | None]]:
    """By resource, the totals that the command prints."""
    found = json.loads(eq("get", "-A", "--figures", "-o", "json").out)["totals"]
    return {item["resource"]: item for item in found}


@pytest.fixture
def flavored(api: Api) -> None:
    """Two nodes of the flavor h100 and one of none, and a quota with 6 pods on the flavor."""
    spec = {"resource": GPU, "nodeSelector": {"gpu-type": "h100"}}
    api.objects["quotaflavors"] = [{"metadata": {"name": "h100"}, "spec": spec}]
    api.objects["nodes"] = [node("n1", "h100"), node("n2", "h100"), node("n3", "a100")]
    api.objects["elasticquotas"] = [quota_object("a", min={GPU: "4", H100: "2"}, max={GPU: "8"})]
    api.objects["pods"] = [pod_object("a", f"p{i}", "n1", **{GPU: "1"}) for i in range(4)]
    api.objects["pods"] += [pod_object("a", f"q{i}", "n2", **{GPU: "1"}) for i in range(2)]


def test_the_capacity_of_a_flavor_is_that_of_its_nodes(flavored: None, eq: Command) -> None:
    found = totals(eq)
    assert [found[H100][name] for name in ("used", "min", "capacity")] == ["6", "2", "8"]
    assert [found[GPU][name] for name in ("used", "min", "capacity")] == ["6", "4", "12"]


def test_the_capacity_of_a_flavor_that_may_not_be_read_is_not_known(
    flavored: None, api: Api, eq: Command
) -> None:
    api.forbidden.add(("quotaflavors", ""))
    assert [totals(eq)[name]["capacity"] for name in (H100, GPU)] == [None, "12"]
    done = eq("get", "-A", "--figures", "-o", "json")
    row, total = (
        next(item for item in json.loads(done.out)[part] if item["resource"] == H100)
        for part in ("quotas", "totals")
    )
    amounts = ("used", "pending", "borrowed", "lent")
    assert [row[name] for name in (*amounts, "reclaimable", "entitled", "share")] == [None] * 7
    assert [total[name] for name in amounts] == [None] * 4
    assert "it needs the right to list QuotaFlavors and nodes" in done.err
    (line,) = (line for line in eq("get", "-A").out.splitlines() if H100 in line)
    assert line.split()[2:] == [H100, "?", "2", "-", "-", "?", "?", line.split()[-1]]


def test_a_flavor_that_only_a_group_names_counts(flavored: None, api: Api, eq: Command) -> None:
    api.objects["elasticquotas"] = [quota_object("a", min={GPU: "4"})]
    api.objects["elasticquotas"][0]["metadata"]["labels"] = {"muster.dev/quota-group": "dept"}
    api.objects["quotagroups"] = [{"metadata": {"name": "dept"}, "spec": {"min": {GPU: "4", H100: "3"}}}]
    assert [totals(eq)[H100][name] for name in ("used", "min", "capacity")] == ["6", "3", "8"]
    tree = json.loads(eq("get", "--tree", "-o", "json").out)["tree"]
    assert tree[0]["used"][H100] == "6"


def test_the_sum_of_min_is_that_of_the_children_of_the_root(api: Api, eq: Command) -> None:
    """As admission compares: a group guarantees its own min, not what its quotas say."""
    api.objects["quotagroups"] = [{"metadata": {"name": "dept"}, "spec": {"min": {"cpu": "8"}}}]
    api.objects["elasticquotas"] = [quota_object("x", min={"cpu": "2"}), quota_object("y", min={"cpu": "32"})]
    api.objects["elasticquotas"][0]["metadata"]["labels"] = {"muster.dev/quota-group": "dept"}
    assert totals(eq)["cpu"]["min"] == "40"
    groups = json.loads(eq("get", "-A", "--figures", "-o", "json").out)["groups"]
    assert [(item["name"], item["children"]) for item in groups] == [
        ("dept", [{"kind": "ElasticQuota", "name": "x/quota"}])
    ]
    api.forbidden.add(("quotagroups", ""))
    done = eq("get", "-A", "--figures", "-o", "json")
    found = json.loads(done.out)
    assert (found["groups"], found["totals"][0]["min"]) == (None, None)
    assert [(row["share"], row["entitled"]) for row in found["quotas"]] == [(None, None)] * 2
    assert "note: SHARE, ENTITLED and sums of min are not known" in done.err
    assert "you may not list quotagroups" in done.err
    header, *lines = (line.split() for line in eq("get", "-A", "-o", "wide").out.splitlines())
    assert {line[header.index(name)] for line in lines for name in ("SHARE", "ENTITLED")} == {"?"}
    assert "SHARE" not in eq("get", "-A").err


def test_a_quota_that_limits_nothing_is_among_the_figures(api: Api, eq: Command) -> None:
    api.objects["elasticquotas"] = [quota_object("a")]
    found = json.loads(eq("get", "-A", "--figures", "-o", "json").out)
    assert [(row["namespace"], row["resource"], row["used"]) for row in found["quotas"]] == [
        ("a", None, None)
    ]
    assert found["totals"] == []
