"""Quota evaluators: usage of objects, matching quotas, and messages."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.admission.quota_evaluators import (
    difference,
    hard_of,
    missing_values,
    refusal_of,
    scopes_match,
    usage_of,
)


def pod(
    requests: dict[str, str] | None = None, limits: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}], **spec},
        "status": {"phase": "Pending"},
    }


USAGE = [
    (
        "a pod costs its requests under both names, and its limits",
        "pods",
        pod({"cpu": "500m", "memory": "1Gi"}, {"cpu": "1"}),
        {
            "count/pods": 1,
            "pods": 1,
            "cpu": 500,
            "requests.cpu": 500,
            "limits.cpu": 1000,
            "memory": 2**30,
            "requests.memory": 2**30,
        },
    ),
    (
        "an extended resource counts as a request only",
        "pods",
        pod({"nvidia.com/gpu": "2"}),
        {"count/pods": 1, "pods": 1, "requests.nvidia.com/gpu": 2},
    ),
    (
        "a finished pod is only an object",
        "pods",
        {**pod({"cpu": "1"}), "status": {"phase": "Succeeded"}},
        {"count/pods": 1},
    ),
    (
        "a deployment is one object of its group",
        "deployments.apps",
        {"metadata": {"name": "d"}, "spec": {}},
        {"count/deployments.apps": 1},
    ),
    ("a config map counts twice", "configmaps", {"metadata": {}}, {"count/configmaps": 1, "configmaps": 1}),
    (
        "a load balancer service takes node ports",
        "services",
        {"metadata": {}, "spec": {"type": "LoadBalancer", "ports": [{"port": 1}, {"port": 2}]}},
        {"count/services": 1, "services": 1, "services.loadbalancers": 1, "services.nodeports": 2},
    ),
    (
        "a claim costs storage, also of its class",
        "persistentvolumeclaims",
        {"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}},
        {
            "count/persistentvolumeclaims": 1,
            "persistentvolumeclaims": 1,
            "requests.storage": 2**30,
            "fast.storageclass.storage.k8s.io/requests.storage": 2**30,
            "fast.storageclass.storage.k8s.io/persistentvolumeclaims": 1,
        },
    ),
]


@pytest.mark.parametrize(("sentence", "storage", "obj", "usage"), USAGE, ids=[row[0] for row in USAGE])
def test_usage(sentence: str, storage: str, obj: dict[str, Any], usage: dict[str, int]) -> None:
    assert usage_of(storage, obj) == usage, sentence


def terms(operator: str, *values: str) -> dict[str, Any]:
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": list(values)}
    return {"scopeSelector": {"matchExpressions": [expression]}}


HIGH = pod(priorityClassName="high")
SCOPES = [
    ("no scope takes every pod", {}, pod(), True),
    ("Terminating wants a deadline", {"scopes": ["Terminating"]}, pod(), False),
    ("a deadline makes it Terminating", {"scopes": ["Terminating"]}, pod(activeDeadlineSeconds=5), True),
    ("NotTerminating takes the rest", {"scopes": ["NotTerminating"]}, pod(), True),
    ("BestEffort has no requests", {"scopes": ["BestEffort"]}, pod(), True),
    ("a request leaves BestEffort", {"scopes": ["BestEffort"]}, pod({"cpu": "1"}), False),
    ("a GPU request alone stays BestEffort", {"scopes": ["BestEffort"]}, pod({"nvidia.com/gpu": "1"}), True),
    ("all scopes must match", {"scopes": ["BestEffort", "Terminating"]}, pod(), False),
    ("PriorityClass In", terms("In", "high"), HIGH, True),
    ("PriorityClass In with another name", terms("In", "low"), HIGH, False),
    ("PriorityClass NotIn", terms("NotIn", "low"), HIGH, True),
    ("PriorityClass Exists", terms("Exists"), pod(), False),
    ("PriorityClass DoesNotExist", terms("DoesNotExist"), pod(), True),
]


@pytest.mark.parametrize(("sentence", "spec", "obj", "expected"), SCOPES, ids=[row[0] for row in SCOPES])
def test_scopes(sentence: str, spec: dict[str, Any], obj: dict[str, Any], expected: bool) -> None:
    assert scopes_match({"spec": spec}, "pods", obj) is expected, sentence


def test_a_quota_with_scopes_counts_pods_only() -> None:
    assert not scopes_match({"spec": {"scopes": ["NotTerminating"]}}, "configmaps", {"spec": {}})


def test_a_refusal_reads_as_the_native_one() -> None:
    hard = {"cpu": 40_000, "memory": 2**40, "pods": 100}
    used = {"cpu": 38_000, "memory": 0, "pods": 4}
    change = {"cpu": 4_000, "memory": 2**30, "pods": 1, "count/pods": 1}
    assert refusal_of("team", hard, used, change) == (
        "exceeded quota: team, requested: cpu=4, used: cpu=38, limited: cpu=40"
    )


def test_equality_is_no_excess() -> None:
    assert refusal_of("team", {"cpu": 4_000}, {"cpu": 3_000}, {"cpu": 1_000}) is None


def test_a_smaller_request_passes_an_overdrawn_quota() -> None:
    assert refusal_of("team", {"cpu": 1_000}, {"cpu": 9_000}, {"cpu": -500}) is None


def test_a_resource_that_does_not_grow_passes_an_overdrawn_quota() -> None:
    change = difference({"cpu": 500, "pods": 1}, {"cpu": 500})
    assert refusal_of("team", {"cpu": 1_000, "pods": 5}, {"cpu": 9_000, "pods": 1}, change) is None


def test_every_container_must_name_what_the_quota_limits() -> None:
    spec = {"containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}, {"name": "b"}]}
    assert missing_values(["cpu", "limits.memory", "pods"], spec) == {
        "cpu": ["b"],
        "limits.memory": ["a", "b"],
    }


def test_pod_level_resources_stand_for_all_containers() -> None:
    spec = {"containers": [{"name": "a"}], "resources": {"requests": {"cpu": "1"}}}
    assert missing_values(["requests.cpu"], spec) == {}


def test_hard_is_read_in_the_unit_of_the_resource() -> None:
    quota = {
        "spec": {"hard": {"requests.cpu": "1500m", "limits.memory": "1Gi", "requests.nvidia.com/gpu": 4}}
    }
    assert hard_of(quota) == {"requests.cpu": 1500, "limits.memory": 2**30, "requests.nvidia.com/gpu": 4}
