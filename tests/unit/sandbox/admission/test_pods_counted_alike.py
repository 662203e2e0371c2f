"""Scheduler, webhook and sandbox count the same for a pod; the sandbox has code of its own for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.admission.quota_evaluators import scopes_match, usage_of
from sandbox.kinds.pods import qos_class
from scheduler_core.model.pods.pod import parse_pod
from scheduler_core.model.pods.use import parse_pod_use


def container(cpu: str | None = None, memory: str | None = None, **more: Any) -> dict[str, Any]:
    asked = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return {"name": "c", "resources": {"requests": asked}, **more}


def resized(asked: str, status: dict[str, Any], level: Any = None, **pod_status: Any) -> dict[str, int]:
    """What scheduler, webhook and sandbox count for a pod in the middle of a resize: the same.

    The pod level is the exception: a ResourceQuota counts what is asked for there.
    """
    raw = {
        "metadata": {"name": "p", "namespace": "a"},
        "spec": {"nodeName": "n", "containers": [container(asked)], "resources": level},
        "status": {"phase": "Running", "containerStatuses": [{"name": "c", **status}], **pod_status},
    }
    requests = parse_pod(raw).requests
    assert parse_pod_use(raw).usage == {**requests, "pods": 1}
    if level is None:
        assert usage_of("pods", raw)["requests.cpu"] == requests["cpu"]
    return requests


ALLOCATED = {"allocatedResources": {"cpu": "2"}}
INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {**INFEASIBLE, "reason": "Deferred"}


def test_a_resize_counts_the_larger_of_asked_and_held() -> None:
    assert resized("3", ALLOCATED) == {"cpu": 3000}
    assert resized("1", ALLOCATED) == {"cpu": 2000}
    assert resized("1", ALLOCATED | {"resources": {"requests": {"cpu": "4"}}}) == {"cpu": 4000}
    assert resized("1", {}) == {"cpu": 1000}


def test_an_infeasible_resize_asks_for_nothing_more() -> None:
    assert resized("9", ALLOCATED, conditions=[INFEASIBLE]) == {"cpu": 2000}
    assert resized("9", ALLOCATED, resize="Infeasible") == {"cpu": 2000}
    assert resized("9", {}, conditions=[INFEASIBLE]) == {"cpu": 9000}


def test_a_resize_that_is_only_put_off_counts() -> None:
    assert resized("9", ALLOCATED, conditions=[DEFERRED]) == {"cpu": 9000}
    assert resized("9", ALLOCATED, conditions=[DEFERRED], resize="Infeasible") == {"cpu": 9000}


def test_a_resize_of_the_pod_level_counts_the_larger_too() -> None:
    level = {"requests": {"cpu": "1"}}
    assert resized("1", {}, level, allocatedResources={"cpu": "4"}) == {"cpu": 4000}
    assert resized("1", {}, level, resources={"requests": {"cpu": "3"}}) == {"cpu": 3000}
    level = {"requests": {"cpu": "9"}}
    asked = {"allocatedResources": {"cpu": "4"}, "conditions": [INFEASIBLE]}
    assert resized("1", {}, level, **asked) == {"cpu": 4000}


EFFORT = [
    ("nothing asked", {"containers": [{}]}, True),
    ("cpu", {"containers": [container("1")]}, False),
    ("memory", {"containers": [container(memory="1")]}, False),
    ("a limit alone", {"containers": [{"resources": {"limits": {"memory": "1"}}}]}, False),
    ("cpu of 0, however it is written", {"containers": [container("0m", "0Gi")]}, True),
    (
        "cpu of 0 with a limit",
        {"containers": [{"resources": {"requests": {"cpu": "0"}, "limits": {"cpu": "1"}}}]},
        False,
    ),
    (
        "a GPU and nothing else",
        {
            "containers": [
                {"resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}}
            ]
        },
        True,
    ),
    ("local storage", {"containers": [{"resources": {"requests": {"ephemeral-storage": "1Gi"}}}]}, True),
    ("one container of two", {"containers": [{}, container("1")]}, False),
    ("an init container", {"containers": [{}], "initContainers": [container("1")]}, False),
    ("overhead is nobody's wish", {"containers": [{}], "overhead": {"cpu": "1"}}, True),
    ("the pod level", {"containers": [{}], "resources": {"requests": {"cpu": "1"}}}, False),
    ("a pod level of nothing", {"containers": [container("1")], "resources": {}}, True),
    (
        "a limit of the pod level, which fills in requests",
        {"containers": [container("1")], "resources": {"limits": {"hugepages-2Mi": "2Mi"}}},
        False,
    ),
]


@pytest.mark.parametrize(("spec", "best"), [case[1:] for case in EFFORT], ids=[case[0] for case in EFFORT])
def test_best_effort_has_one_answer(spec: dict[str, Any], best: bool) -> None:
    """QoS looks at cpu and memory alone. The sandbox, which imitates an API server, has code of its own."""
    raw = {"metadata": {"name": "p"}, "spec": spec}
    assert parse_pod(raw).best_effort is best
    assert parse_pod_use(raw).best_effort is best
    assert (qos_class(spec) == "BestEffort") is best
    assert scopes_match({"spec": {"scopes": ["BestEffort"]}}, "pods", raw) is best


def test_a_request_of_zero_is_another_one_than_the_limit() -> None:
    limits = {"cpu": "1", "memory": "1Gi"}
    spec = {"containers": [{"resources": {"requests": {"cpu": "0", "memory": "0"}, "limits": limits}}]}
    assert qos_class(spec) == "Burstable"
    assert qos_class({"containers": [{"resources": {"limits": limits}}]}) == "Guaranteed"


names = st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi"])
lists = st.dictionaries(names, st.sampled_from(["0", "0m", "1", "2Gi"]), max_size=2)
resources = st.one_of(st.none(), st.fixed_dictionaries({}, optional={"requests": lists, "limits": lists}))
containers = st.lists(st.fixed_dictionaries({"name": st.just("c"), "resources": resources}), max_size=2)
specs = st.fixed_dictionaries(
    {"containers": containers, "initContainers": containers, "resources": resources}
)


@given(specs)
def test_all_parts_agree_on_whatever_pod(spec: dict[str, Any]) -> None:
    raw = {"metadata": {"name": "p"}, "spec": spec}
    pod, use = parse_pod(raw), parse_pod_use(raw)
    assert pod.best_effort == use.best_effort == (qos_class(spec) == "BestEffort")
    assert {**pod.requests, "pods": 1} == use.usage
