"""Pods, nodes, quotas and budgets: parsing, and the texts of errors."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.errors import ModelError
from scheduler_core.model.node import parse_node
from scheduler_core.model.pdb import parse_pdb
from scheduler_core.model.pods.pod import parse_pod
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.model.quotas.resource_quota import parse_resource_quota
from tests.support.builders import make_budget, make_node, make_pod, make_quota

BAD_QUOTAS = [
    pytest.param(
        {"min": {"cpu": "abc"}},
        "ElasticQuota team-a/quota: spec.min[cpu]: 'abc' is not a quantity such as 500m, 4 or 1.5Gi",
        id="no quantity",
    ),
    pytest.param(
        {"max": {"memory": "-1Gi"}},
        "ElasticQuota team-a/quota: spec.max[memory]: -1Gi is negative; must be 0 or more",
        id="negative",
    ),
    pytest.param(
        {"min": {"gpu": "1"}},
        "ElasticQuota team-a/quota: spec.min[gpu]: 'gpu' is neither a standard resource nor a qualified name "
        "like nvidia.com/gpu",
        id="a bare name that is no standard resource",
    ),
    pytest.param(
        {"min": {f"a.b/r{i}": "1" for i in range(65)}},
        "ElasticQuota team-a/quota: spec.min: 65 resources are too many (at most 64)",
        id="too many",
    ),
    pytest.param(
        {"min": [1]},
        "ElasticQuota team-a/quota: spec.min: Expected `object | null`, got `array`",
        id="no map",
    ),
]


@pytest.mark.parametrize(("spec", "text"), BAD_QUOTAS)
def test_a_malformed_quota_names_object_field_value_and_rule(spec: dict[str, Any], text: str) -> None:
    raw = make_quota("team-a/quota").dict() | {"spec": spec}
    with pytest.raises(ModelError) as caught:
        parse_elastic_quota(raw)
    assert str(caught.value) == text


def test_a_quota_rounds_down_and_ignores_a_status_it_cannot_read() -> None:
    raw = make_quota("a/q").min(cpu="1.0009").dict() | {"status": {"used": {"cpu": "?"}}}
    quota = parse_elastic_quota(raw)
    assert (quota.min, quota.max, quota.status_used) == ({"cpu": 1000}, {}, {})


def test_a_quota_may_lack_its_spec() -> None:
    raw = make_quota("a/q").dict()
    del raw["spec"]
    assert parse_elastic_quota(raw).min == {}


def test_unknown_fields_are_dropped_and_known_ones_typed() -> None:
    raw = make_pod("a/p").requests(cpu=1).priority(7).spec(surprise={"x": 1}).dict()
    pod = parse_pod(raw)
    assert (pod.key, pod.priority, pod.requests, pod.assigned) == ("a/p", 7, {"cpu": 1000}, False)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"priority": "high"}, "spec.priority"),
        (
            {"containers": [{"resources": {"requests": {"cpu": "x"}}}]},
            "spec.containers[0].resources.requests[cpu]",
        ),
        ({"nodeSelector": {"a": 1}}, "spec.nodeSelector[...]"),
    ],
)
def test_a_malformed_pod_names_itself_and_the_field(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_pod(make_pod("a/p").spec(**spec).dict())
    assert (caught.value.subject, caught.value.path) == ("Pod a/p", path)


@pytest.mark.parametrize(
    ("phase", "finished"),
    [
        ("", False),
        ("Pending", False),
        ("Running", False),
        ("Unknown", False),
        ("a phase of a later Kubernetes", False),
        ("Succeeded", True),
        ("Failed", True),
    ],
)
def test_only_succeeded_and_failed_pods_are_finished(phase: str, finished: bool) -> None:
    assert make_pod("a/p").on("n", phase).obj().finished is finished


def test_a_node_defaults_allocatable_to_capacity_and_rounds_down() -> None:
    raw = make_node("n").dict() | {"status": {"capacity": {"cpu": "1.9999", "pods": "5"}}}
    assert parse_node(raw).allocatable == {"cpu": 1999, "pods": 5}


def test_a_malformed_node_names_itself_and_the_field() -> None:
    raw = make_node("n").dict() | {"status": {"allocatable": {"memory": "lots"}}}
    with pytest.raises(ModelError, match=r"^Node n: status\.allocatable\[memory\]: 'lots' is not a quantity"):
        parse_node(raw)


def test_a_resource_quota_takes_the_smaller_of_two_names_of_one_resource() -> None:
    hard = {"cpu": "4", "requests.cpu": "3", "limits.cpu": "9", "count/jobs": "1", "pods": "8"}
    quota = parse_resource_quota({"metadata": {"name": "r", "namespace": "a"}, "spec": {"hard": hard}})
    assert quota.hard_of_requests() == {"cpu": ("requests.cpu", 3000), "pods": ("pods", 8)}


def test_a_budget_without_selector_protects_nothing_and_an_empty_one_everything() -> None:
    assert not make_budget("a/b").obj().selector.matches({"x": "y"})
    everything = make_budget("a/b").selects().allows(1, "p").obj()
    assert everything.selector.matches({})
    assert (everything.allowed, everything.disrupted) == (1, {"p"})


def test_a_malformed_budget_names_the_expression() -> None:
    raw = make_budget("a/b").dict()
    raw["spec"] = {"selector": {"matchExpressions": [{"key": "x", "operator": "Is", "values": ["y"]}]}}
    with pytest.raises(
        ModelError, match=r"spec\.selector\.matchExpressions\[0\]\.operator: 'Is' is not a known"
    ):
        parse_pdb(raw)
