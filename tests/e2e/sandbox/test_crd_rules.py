"""Validation rules in Muster's CRDs, enforced by the API server without Muster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually

pytestmark = pytest.mark.long

QUOTAS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/elasticquotas"
GROUPS = "/apis/incubator.scheduling.k8s.io/v1alpha1/namespaces/{}/podgroups"
METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
PATTERN = "is not a quantity such as 500m, 4 or 1.5Gi"
WHOLE = "is not a whole number, as {} is counted"

LEGAL_QUOTAS = [
    ("empty spec", {}),
    ("min alone", {"min": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": 2}}),
    ("max alone", {"max": {"cpu": "500m"}}),
    ("min equals max in other units", {"min": {"cpu": "1500m"}, "max": {"cpu": "1.5"}}),
    ("min below max as numbers", {"min": {"cpu": 4}, "max": {"cpu": 6}}),
    ("different resources are not compared", {"min": {"cpu": "9"}, "max": {"memory": "1Gi"}}),
    ("fractions of what is measured", {"min": {"cpu": "500m", "memory": "1.5Gi"}}),
    (
        "whole numbers, however they are written",
        {"max": {"a.com/x": "1000m", "a.com/y": "2.5k", "pods": "1.0"}},
    ),
    ("exponents within bounds", {"min": {"cpu": "1e3"}, "max": {"cpu": "2E3"}}),
    (
        "as many and as long as allowed",
        {part: {f"x{i}.example.com/{'n' * 60}": "9" * 19 for i in range(64)} for part in ("min", "max")},
    ),
]

ILLEGAL_QUOTAS = [
    (
        "min above max",
        {"min": {"cpu": "4"}, "max": {"cpu": "3500m"}},
        "spec.min[cpu]=4 exceeds spec.max[cpu]=3500m",
    ),
    (
        "min above max for one of two",
        {"min": {"pods": 1, "cpu": 2}, "max": {"pods": 1, "cpu": 1}},
        "spec.min[cpu]=2 exceeds spec.max[cpu]=1",
    ),
    (
        "min above max across suffixes",
        {"min": {"memory": "1Gi"}, "max": {"memory": "1G"}},
        "spec.min[memory]=1Gi exceeds spec.max[memory]=1G",
    ),
    ("negative min", {"min": {"cpu": "-4"}}, 'spec.min[cpu]: Invalid value: "-4": -4 is negative'),
    ("negative number", {"min": {"cpu": -4}}, "spec.min[cpu]: Invalid value: -4: -4 is negative"),
    ("negative max", {"max": {"cpu": "-1m"}}, 'spec.max[cpu]: Invalid value: "-1m": -1m is negative'),
    (
        "no quantity",
        {"min": {"cpu": "4 cores"}},
        f'spec.min[cpu]: Invalid value: "4 cores": "4 cores" {PATTERN}',
    ),
    ("empty quantity", {"max": {"cpu": ""}}, f'spec.max[cpu]: Invalid value: "": "" {PATTERN}'),
    ("unknown suffix", {"max": {"memory": "1KiB"}}, f'"1KiB" {PATTERN}'),
    ("absurd exponent", {"min": {"cpu": "1e9999999"}, "max": {"cpu": "1e9999998"}}, PATTERN),
    ("exponent of two digits", {"max": {"cpu": "1e99"}}, PATTERN),
    ("half a GPU", {"min": {"a.com/gpu": "500m"}}, f"spec.min[a.com/gpu]=500m {WHOLE.format('a.com/gpu')}"),
    (
        "a tenth of a GPU",
        {"max": {"a.com/gpu": "1e-1"}},
        f"spec.max[a.com/gpu]=1e-1 {WHOLE.format('a.com/gpu')}",
    ),
    ("half a pod", {"max": {"pods": "1.5"}}, f"spec.max[pods]=1.5 {WHOLE.format('pods')}"),
    ("too many digits", {"max": {"cpu": "1" * 33}}, "Too long"),
    ("too many resources", {"min": {f"r{i}": 1 for i in range(65)}}, "at most 64"),
    ("a fraction as a number", {"min": {"cpu": 1.5}}, "must be of type integer"),
    ("a list", {"min": ["cpu"]}, "must be of type object"),
]


def quota(name: str, spec: object) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name},
        "spec": spec,
    }


def group(name: str, spec: object) -> dict[str, Any]:
    return {
        "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.mark.parametrize("spec", [c[1] for c in LEGAL_QUOTAS], ids=[c[0] for c in LEGAL_QUOTAS])
def test_legal_quota_is_accepted_as_written(cluster: Cluster, spec: dict[str, Any]) -> None:
    made = cluster.request("POST", QUOTAS.format(cluster.namespace()), quota("quota", spec))
    assert made["spec"] == spec


@pytest.mark.parametrize(
    ("spec", "rule"), [c[1:] for c in ILLEGAL_QUOTAS], ids=[c[0] for c in ILLEGAL_QUOTAS]
)
def test_illegal_quota_is_refused_with_its_rule(cluster: Cluster, spec: dict[str, Any], rule: str) -> None:
    namespace = cluster.namespace()
    with pytest.raises(RequestFailed) as refused:
        cluster.request("POST", QUOTAS.format(namespace), quota("quota", spec))
    assert refused.value.status == 422
    message = refused.value.body["message"]
    assert rule in message
    assert 'ElasticQuota.scheduling.x-k8s.io "quota" is invalid' in message
    assert "[0-9]" not in message
    assert cluster.request("GET", QUOTAS.format(namespace))["items"] == []


def test_quota_without_spec_gets_an_empty_one(cluster: Cluster) -> None:
    bare = quota("quota", None)
    del bare["spec"]
    assert cluster.request("POST", QUOTAS.format(cluster.namespace()), bare)["spec"] == {}


def test_status_is_written_only_through_its_subresource(cluster: Cluster) -> None:
    path = QUOTAS.format(cluster.namespace())
    status = {"used": {"cpu": "5"}, "summary": {"used": "cpu 5/6", "borrowed": "cpu 1"}}
    spec = {"min": {"cpu": "4"}, "max": {"cpu": "6"}}
    made = cluster.request("POST", path, quota("quota", spec) | {"status": status})
    assert "status" not in made
    written = cluster.request("PATCH", f"{path}/quota/status", {"status": status, "spec": {}})
    assert (written["status"], written["spec"]) == (status, spec)
    assert written["metadata"]["generation"] == 1


def test_unknown_fields_are_dropped(cluster: Cluster) -> None:
    made = cluster.request("POST", QUOTAS.format(cluster.namespace()), quota("quota", {"mni": {"cpu": 1}}))
    assert made["spec"] == {}


def test_quota_columns(cluster: Cluster) -> None:
    namespace = cluster.namespace()
    path = QUOTAS.format(namespace)
    cluster.request("POST", path, quota("quota", {"min": {"cpu": 4}, "max": {"cpu": "6"}}))
    condition = {
        "type": "Enforced",
        "status": "True",
        "reason": "Oldest",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    summary = {"used": "cpu 5/6", "borrowed": "cpu 1"}
    cluster.request(
        "PATCH", f"{path}/quota/status", {"status": {"summary": summary, "conditions": [condition]}}
    )
    head, row = cluster.kubectl("-n", namespace, "get", "eq").stdout.splitlines()
    assert head.split() == ["NAME", "USED", "MIN", "MAX", "AGE"]
    assert row.split()[:-1] == ["quota", "cpu", "5/6", '{"cpu":4}', '{"cpu":"6"}']
    head, row = cluster.kubectl("-n", namespace, "get", "eqs", "-o", "wide").stdout.splitlines()
    assert head.split() == [*["NAME", "USED", "MIN", "MAX", "BORROWED"], "LAST", "RECLAIM", "ENFORCED", "AGE"]
    assert row.split()[5:7] == ["cpu", "1"]
    assert row.split()[-2] == "True"


@pytest.mark.parametrize("category", ["muster", "batch"])
def test_categories_list_quotas_and_groups(cluster: Cluster, category: str) -> None:
    namespace = cluster.namespace()
    cluster.request("POST", QUOTAS.format(namespace), quota("quota", {}))
    cluster.request("POST", GROUPS.format(namespace), group("gang", {"minMembers": 1}))
    names = cluster.kubectl("-n", namespace, "get", category, "-o", "name").stdout.split()
    assert set(names) == {
        "elasticquota.scheduling.x-k8s.io/quota",
        "podgroup.incubator.scheduling.k8s.io/gang",
    }


def test_kubectl_explains_every_level(cluster: Cluster) -> None:
    # kube-apiserver publishes the schema of a new kind after it serves it.
    def explained() -> bool:
        assert "Guaranteed amount per resource name" in cluster.kubectl("explain", "eq.spec.min").stdout
        group = cluster.kubectl("explain", "pg.spec.minMembers").stdout
        assert "Members that must be placed together" in group
        return True

    eventually(explained)


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ({"minMembers": 0}, "should be greater than or equal to 1"),
        ({}, "Required value"),
        ({"minMembers": 2, "totalResources": {"cpu": "-1"}}, "-1 is negative"),
        ({"minMembers": 2, "totalResources": {"cpu": "1e9999999"}}, PATTERN),
        ({"minMembers": 2, "totalResources": {"a.com/gpu": "500m"}}, WHOLE.format("a.com/gpu")),
        ({"minMembers": "two"}, "must be of type integer"),
        ({"minMembers": 2, "policy": {"belowMinMembers": "Always"}}, 'supported values: "Restart", "Ignore"'),
        ({"minMembers": 2, "policy": "Restart"}, "must be of type object"),
    ],
    ids=[
        *("no members", "members not given", "negative total", "absurd exponent", "half a GPU", "a word"),
        *("unknown policy", "a policy without its field"),
    ],
)
def test_illegal_group_is_refused_with_its_rule(cluster: Cluster, spec: dict[str, Any], rule: str) -> None:
    with pytest.raises(RequestFailed) as refused:
        cluster.request("POST", GROUPS.format(cluster.namespace()), group("gang", spec))
    assert refused.value.status == 422
    assert rule in refused.value.body["message"]


@pytest.mark.parametrize(
    "change",
    [{"minMembers": 3}, {"totalResources": None}, {"totalResources": {"cpu": "9"}}, {"policy": {}}],
    ids=["members", "total taken away", "total changed", "policy given"],
)
def test_group_spec_is_immutable(cluster: Cluster, change: dict[str, Any]) -> None:
    path = GROUPS.format(cluster.namespace())
    spec = {"minMembers": 2, "totalResources": {"cpu": "8"}}
    cluster.request("POST", path, group("gang", spec))
    with pytest.raises(RequestFailed) as refused:
        cluster.request("PATCH", f"{path}/gang", {"spec": change})
    assert "the spec of a PodGroup cannot be changed" in refused.value.body["message"]
    labelled = cluster.request("PATCH", f"{path}/gang", {"metadata": {"labels": {"a": "b"}}, "spec": spec})
    assert labelled["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    "change",
    [{"totalResources": {"cpu": "8"}}, {"policy": {}}, {"minMembersFrom": None}],
    ids=["total given", "policy given", "not from the owner any more"],
)
def test_only_the_minimum_of_a_group_follows_its_owner(cluster: Cluster, change: dict[str, Any]) -> None:
    path = GROUPS.format(cluster.namespace())
    cluster.request("POST", path, group("gang", {"minMembers": 2, "minMembersFrom": "Owner"}))
    changed = cluster.request("PATCH", f"{path}/gang", {"spec": {"minMembers": 5}})
    assert changed["spec"] == {"minMembers": 5, "minMembersFrom": "Owner"}
    with pytest.raises(RequestFailed) as refused:
        cluster.request("PATCH", f"{path}/gang", {"spec": change})
    assert "the spec of a PodGroup cannot be changed" in refused.value.body["message"]


@pytest.mark.parametrize(
    ("policy", "stored"),
    [
        ({"belowMinMembers": "Restart"}, {"belowMinMembers": "Restart"}),
        ({"belowMinMembers": None}, {}),
        ({}, {}),
        (None, None),
    ],
    ids=["with a word", "with nothing said", "empty", "nil"],
)
def test_the_policy_of_a_group_is_stored_as_written(
    cluster: Cluster, policy: dict[str, Any] | None, stored: dict[str, Any] | None
) -> None:
    spec = {"minMembers": 2, "policy": policy}
    made = cluster.request("POST", GROUPS.format(cluster.namespace()), group("gang", spec))
    assert made["spec"] == {"minMembers": 2} | ({"policy": stored} if stored is not None else {})


def test_group_columns(cluster: Cluster) -> None:
    namespace = cluster.namespace()
    path = GROUPS.format(namespace)
    cluster.request("POST", path, group("gang", {"minMembers": 2}))
    status = {"phase": "Running", "admitted": 3, "running": 2, "succeeded": 1, "failed": 0}
    cluster.request("PATCH", f"{path}/gang/status", {"status": status})
    head, row = cluster.kubectl("-n", namespace, "get", "pg").stdout.splitlines()
    assert head.split() == ["NAME", "PHASE", "MIN", "RUNNING", "SUCCEEDED", "FAILED", "AGE"]
    assert row.split()[:-1] == ["gang", "Running", "2", "2", "1", "0"]


def test_node_metric_keeps_what_load_aware_scheduling_reads(cluster: Cluster) -> None:
    usage = {"resources": {"cpu": "30", "memory": "100Gi"}}
    percentiles = [{"duration": "5m0s", "usage": {"p95": {"resources": {"cpu": "70"}}}}]
    status = {
        "updateTime": "2026-01-01T00:00:00Z",
        "nodeMetric": {
            "nodeUsage": usage,
            "aggregatedNodeUsages": percentiles,
            "systemUsage": {"resources": {"cpu": "500m"}},
        },
        "podsMetric": [{"namespace": "a", "name": "web-0", "priority": "koord-prod", "podUsage": usage}],
    }
    metric = {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": "node-1"},
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60, "aggregateDurationSeconds": 300}},
    }
    made = cluster.request("POST", METRICS, metric)
    written = cluster.request("PATCH", f"{METRICS}/node-1/status", {"status": status})
    assert json.dumps(written["status"], sort_keys=True) == json.dumps(status, sort_keys=True)
    assert made["spec"] == metric["spec"]
    row = cluster.kubectl("get", "nodemetrics", "--no-headers").stdout.split()
    assert row[:3] == ["node-1", "30", "100Gi"]
