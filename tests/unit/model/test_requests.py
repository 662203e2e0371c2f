"""Effective requests, computed by hand for every rule that adds or replaces something."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.errors import ModelError
from scheduler_core.model.pod import parse_pod
from scheduler_core.model.requests import requests_of


def container(cpu: str | None = None, memory: str | None = None, **more: Any) -> dict[str, Any]:
    asked = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return {"name": "c", "resources": {"requests": asked}, **more}


def sidecar(cpu: str) -> dict[str, Any]:
    return container(cpu, restartPolicy="Always")


CASES = [
    pytest.param({"containers": [{"name": "c"}]}, {}, id="nothing asked is nothing"),
    pytest.param(
        {"containers": [container("1"), container("500m", "1Ki")]}, {"cpu": 1500, "memory": 1024}, id="sum"
    ),
    pytest.param({"containers": [container("0")]}, {"cpu": 0}, id="an explicit zero stays"),
    pytest.param(
        {"containers": [container("1")], "initContainers": [container("3"), container("2")]},
        {"cpu": 3000},
        id="init containers run one after the other: the largest counts",
    ),
    pytest.param(
        {"containers": [container("2")], "initContainers": [container("1")]},
        {"cpu": 2000},
        id="small init is free",
    ),
    pytest.param(
        {"containers": [container("1")], "initContainers": [sidecar("500m")]},
        {"cpu": 1500},
        id="a sidecar adds",
    ),
    pytest.param(
        {"containers": [container("1")], "initContainers": [sidecar("1"), container("2")]},
        {"cpu": 3000},
        id="an init container runs beside the sidecars before it",
    ),
    pytest.param(
        {"containers": [container("1")], "initContainers": [container("2"), sidecar("1")]},
        {"cpu": 2000},
        id="and not beside those after it",
    ),
    pytest.param(
        {"containers": [container("1")], "overhead": {"cpu": "250m", "memory": "1"}},
        {"cpu": 1250, "memory": 1},
        id="overhead comes on top",
    ),
    pytest.param(
        {"containers": [container("1", "5")], "resources": {"requests": {"cpu": "4"}}},
        {"cpu": 4000, "memory": 5},
        id="the pod level replaces what it names",
    ),
    pytest.param(
        {"containers": [container("1")], "resources": {"requests": {"nvidia.com/gpu": "4"}}},
        {"cpu": 1000},
        id="an extended resource has no pod level",
    ),
    pytest.param(
        {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]},
        {"cpu": 2000},
        id="limits stand in",
    ),
    pytest.param({"containers": [container("0.1m")]}, {"cpu": 1}, id="requests round up"),
]


@pytest.mark.parametrize(("spec", "expected"), CASES)
def test_requests(spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert requests_of(spec) == expected


def resized(asked: str, status: dict[str, Any], **pod_status: Any) -> dict[str, int]:
    raw = {
        "metadata": {"name": "p", "namespace": "a"},
        "spec": {"nodeName": "n", "containers": [container(asked)]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "c", **status}], **pod_status},
    }
    return parse_pod(raw).requests


ALLOCATED = {"allocatedResources": {"cpu": "2"}}


def test_a_resize_counts_the_larger_of_asked_and_held() -> None:
    assert resized("3", ALLOCATED) == {"cpu": 3000}
    assert resized("1", ALLOCATED) == {"cpu": 2000}
    assert resized("1", ALLOCATED | {"resources": {"requests": {"cpu": "4"}}}) == {"cpu": 4000}
    assert resized("1", {}) == {"cpu": 1000}


def test_an_infeasible_resize_asks_for_nothing_more() -> None:
    condition = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    assert resized("9", ALLOCATED, conditions=[condition]) == {"cpu": 2000}
    assert resized("9", ALLOCATED, resize="Infeasible") == {"cpu": 2000}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"containers": [container("x")]}, "spec.containers[0].resources.requests[cpu]"),
        (
            {"containers": [], "initContainers": [container("-1")]},
            "spec.initContainers[0].resources.requests[cpu]",
        ),
        ({"overhead": {"cpu": "1Kx"}}, "spec.overhead[cpu]"),
    ],
)
def test_a_malformed_quantity_names_its_path(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(ModelError) as caught:
        requests_of(spec)
    assert caught.value.path == path
