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
        "a pod whose grace period is over counts until it is gone",
        "pods",
        {
            **pod({"nvidia.com/gpu": "2"}),
            "metadata": {"deletionTimestamp": "2000-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30},
        },
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
        "a load balancer without node ports of its own takes those that it names",
        "services",
        {
            "metadata": {},
            "spec": {
                "type": "LoadBalancer",
                "allocateLoadBalancerNodePorts": False,
                "ports": [{"port": 1}, {"port": 2, "nodePort": 30002}],
            },
        },
        {"count/services": 1, "services": 1, "services.loadbalancers": 1, "services.nodeports": 1},
    ),
    (
        "a claim that was enlarged before costs what is allocated",
        "persistentvolumeclaims",
        {
            "spec": {"resources": {"requests": {"storage": "1Gi"}}},
            "status": {"allocatedResources": {"storage": "3Gi"}},
        },
        {"count/persistentvolumeclaims": 1, "persistentvolumeclaims": 1, "requests.storage": 3 * 2**30},
    ),
    (
        "the class in the old annotation goes before the one in the spec",
        "persistentvolumeclaims",
        {
            "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "fast"}},
            "spec": {"storageClassName": "slow", "resources": {"requests": {"storage": "1500m"}}},
        },
        {
            "count/persistentvolumeclaims": 1,
            "persistentvolumeclaims": 1,
            "requests.storage": 2,
            "fast.storageclass.storage.k8s.io/requests.storage": 2,
            "fast.storageclass.storage.k8s.io/persistentvolumeclaims": 1,
        },
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


def attributes(operator: str, *values: str) -> dict[str, Any]:
    expression = {"scopeName": "VolumeAttributesClass", "operator": operator, "values": list(values)}
    return {"scopeSelector": {"matchExpressions": [expression]}}


CHANGING = {
    "spec": {"volumeAttributesClassName": "gold"},
    "status": {
        "currentVolumeAttributesClassName": "silver",
        "modifyVolumeStatus": {"targetVolumeAttributesClassName": "bronze"},
    },
}
CLAIM_SCOPES = [
    ("the class that a claim asks for", attributes("In", "gold"), CHANGING, True),
    ("the class that its volume has", attributes("In", "silver"), CHANGING, True),
    ("the class that its volume is given", attributes("In", "bronze"), CHANGING, True),
    ("another class", attributes("In", "lead"), CHANGING, False),
    ("any of its classes is not the one", attributes("NotIn", "gold"), CHANGING, True),
    ("a class at all", attributes("Exists"), CHANGING, True),
    ("no class", attributes("DoesNotExist"), CHANGING, False),
    ("no class is not the one", attributes("NotIn", "gold"), {"spec": {}}, True),
    ("no class is there", attributes("DoesNotExist"), {"spec": {}}, True),
    ("a scope of pods takes no claim", {"scopes": ["NotTerminating"]}, CHANGING, False),
]


@pytest.mark.parametrize(
    ("sentence", "spec", "claim", "expected"), CLAIM_SCOPES, ids=[row[0] for row in CLAIM_SCOPES]
)
def test_scopes_of_claims(sentence: str, spec: dict[str, Any], claim: dict[str, Any], expected: bool) -> None:
    assert scopes_match({"spec": spec}, "persistentvolumeclaims", claim) is expected, sentence


def test_a_scope_of_claims_takes_no_pod() -> None:
    assert not scopes_match({"spec": attributes("DoesNotExist")}, "pods", pod())


def test_a_quota_with_scopes_counts_no_other_objects() -> None:
    assert not scopes_match({"spec": {"scopes": ["NotTerminating"]}}, "configmaps", {"spec": {}})


def test_a_refusal_reads_as_the_native_one() -> None:
    hard = {"cpu": 40_000, "memory": 2**40, "pods": 100}
    used = {"cpu": 38_000, "memory": 0, "pods": 4}
    change = {"cpu": 4_000, "memory": 2**30, "pods": 1, "count/pods": 1}
    assert refusal_of("team", hard, used, change) == (
        "exceeded quota: team, requested: cpu=4, used: cpu=38, limited: cpu=40"
    )


def test_a_refusal_writes_amounts_in_one_form() -> None:
    hard = hard_of({"spec": {"hard": {"memory": "5G"}}})
    assert refusal_of("team", hard, {"memory": 1}, {"memory": 5 * 10**9}) == (
        "exceeded quota: team, requested: memory=5000000000, used: memory=1, limited: memory=5000000000"
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


def test_containers_are_named_once_and_in_order() -> None:
    spec = {"containers": [{"name": "b"}], "initContainers": [{"name": "c"}, {"name": "a"}]}
    assert missing_values(["cpu"], spec) == {"cpu": ["a", "b", "c"]}


@pytest.mark.parametrize("name", ["cpu", "memory", "hugepages-2Mi"])
def test_any_pod_level_resource_stands_for_all_containers(name: str) -> None:
    spec = {"containers": [{"name": "a"}], "resources": {"requests": {name: "1"}}}
    assert missing_values(["requests.cpu", "limits.memory"], spec) == {}


def test_hard_is_read_in_the_unit_of_the_resource() -> None:
    quota = {
        "spec": {"hard": {"requests.cpu": "1500m", "limits.memory": "1Gi", "requests.nvidia.com/gpu": 4}}
    }
    assert hard_of(quota) == {"requests.cpu": 1500, "limits.memory": 2**30, "requests.nvidia.com/gpu": 4}
