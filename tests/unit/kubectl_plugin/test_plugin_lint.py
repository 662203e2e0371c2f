"""`kubectl elasticquota lint`, whole, against a small server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubectl_plugin.lint_report import UNKNOWN_CAPACITY
from tests.unit.kubectl_plugin.plugin_api import Api, Command, make_native, make_quota


def make_node(name: str, cpu: str, *, unschedulable: bool = False) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"unschedulable": unschedulable},
        "status": {"allocatable": {"cpu": cpu}},
    }


@pytest.fixture(autouse=True)
def cluster(api: Api) -> None:
    """Two quotas of 4 CPUs each on one node of 8, and a node that is cordoned off."""
    api.objects["elasticquotas"] = [
        make_quota("team-a", min={"cpu": "4"}, max={"cpu": "6"}),
        make_quota("team-b", min={"cpu": "4"}, max={"cpu": "6"}),
    ]
    api.objects["nodes"] = [make_node("n1", "8"), make_node("n2", "8", unschedulable=True)]


def test_a_cluster_in_order_has_nothing_to_say(eq: Command) -> None:
    done = eq("lint", "-A")
    assert (done.code, done.out, done.err) == (0, "2 quotas, 0 broken rules, 0 notes\n", "")


@pytest.mark.parametrize(
    ("objects", "line"),
    [
        (
            {"elasticquotas": make_quota("team-c", min={"cpu": "0", "memory": "2Gi"}, max={"memory": "1Gi"})},
            "error: ElasticQuota team-c/quota: spec.min[memory]=2Gi exceeds spec.max[memory]=1Gi",
        ),
        (
            {"resourcequotas": make_native("team-a", requests_cpu="5")},
            "error: ElasticQuota team-a/quota: spec.max[cpu]=6 "
            "exceeds hard[requests.cpu]=5 of ResourceQuota team-a/native",
        ),
        (
            {"elasticquotas": make_quota("team-c", min={"cpu": "1"}, max={"cpu": "1"})},
            "error: all ElasticQuotas: sum of spec.min[cpu]=9 is more than the 8 allocatable in the cluster",
        ),
        (
            {"elasticquotas": make_quota("team-a", "second", min={"cpu": "0"}, max={"cpu": "1"})},
            "error: ElasticQuota team-a/second: metadata.namespace=team-a has ElasticQuota quota already; "
            "only one per namespace is allowed",
        ),
        (
            {
                "elasticquotas": {
                    **make_quota("team-c", max={"cpu": "4"}),
                    "status": {"used": {"cpu": "7"}},
                }
            },
            "error: ElasticQuota team-c/quota: status.used[cpu]=7 exceeds spec.max[cpu]=4; pods were placed "
            "past Muster's scheduler, or max was lowered; nothing more of it starts until pods end",
        ),
    ],
    ids=[
        "min over max",
        "max over hard",
        "more than the nodes have",
        "two in a namespace",
        "more in use than max",
    ],
)
def test_each_broken_rule_names_object_field_and_value(
    api: Api, eq: Command, objects: dict[str, Any], line: str
) -> None:
    for plural, item in objects.items():
        api.objects[plural].append(item)
    done = eq("lint", "-A")
    assert done.code == 1
    assert line in done.out.splitlines()


def test_one_namespace_still_counts_the_min_of_all(api: Api, eq: Command) -> None:
    api.objects["nodes"] = [make_node("n1", "7")]
    done = eq("lint", "-n", "team-a")
    assert "sum of spec.min[cpu]=8 is more than the 7" in done.out
    assert done.out.splitlines()[-1] == "1 quotas, 1 broken rules, 0 notes"


def test_without_the_right_to_see_the_cluster_the_rest_is_checked(api: Api, eq: Command) -> None:
    api.forbidden = {("nodes", "")}
    done = eq("lint")
    assert (done.code, done.err) == (0, f"{UNKNOWN_CAPACITY}\n")


def test_notes_are_no_failure_and_json_holds_both(api: Api, eq: Command) -> None:
    api.objects["elasticquotas"][0]["spec"] = {"min": {"cpu": "4"}}
    done = eq("lint", "-A", "-o", "json")
    assert done.code == 0
    report = json.loads(done.out)
    assert report["violations"] == []
    assert report["notes"] == ["ElasticQuota team-a/quota: cpu is not in spec.max and so unlimited"]


def test_a_quota_that_cannot_be_read_is_a_broken_rule(api: Api, eq: Command) -> None:
    api.objects["elasticquotas"].append(make_quota("team-c", min={"cpu": "-1"}))
    done = eq("lint", "-A")
    assert done.code == 1
    assert "ElasticQuota team-c/quota: spec.min[cpu]: -1 is negative" in done.err
