"""Effective requests, computed by hand for every rule that adds or replaces something."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.decoding import convert
from scheduler_core.errors import ModelError
from scheduler_core.model.pods.pod import parse_pod
from scheduler_core.model.pods.pod_reader import PodReader
from scheduler_core.model.pods.requests import (
    NONZERO_DEFAULTS,
    PodResourcesWire,
    ResizeRule,
    ResizeStatusWire,
    effective_limits,
    effective_requests,
    nonzero_requests,
    requests_of,
)
from scheduler_core.model.pods.use import parse_pod_use


def container(cpu: str | None = None, memory: str | None = None, **more: Any) -> dict[str, Any]:
    asked = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return {"name": "c", "resources": {"requests": asked}, **more}


def sidecar(cpu: str) -> dict[str, Any]:
    return container(cpu, restartPolicy="Always")


# What a kubelet has set for a container.
HELD = {"name": "c", "allocatedResources": {"cpu": "2"}, "resources": {"limits": {"cpu": "3"}}}

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
        {"resources": {"limits": {"cpu": "3"}}, "containers": [container("100m")]},
        {"cpu": 100},
        id="a limit of the pod level is no request beside containers that ask",
    ),
    pytest.param(
        {"resources": {"limits": {"cpu": "3", "memory": "1Ki"}}, "containers": [container("0")]},
        {"cpu": 0, "memory": 1024},
        id="a limit of the pod level stands in for what no container asks for",
    ),
    pytest.param(
        {
            "resources": {"limits": {"hugepages-2Mi": "4Mi"}},
            "containers": [{"name": "c", "resources": {"limits": {"hugepages-2Mi": "2Mi"}}}],
        },
        {"hugepages-2Mi": 4 * 2**20},
        id="huge pages of the pod level are requested up to their limit",
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
    assert requests_of({"spec": spec}) == expected


def resized(asked: str, allocated: str | None, actuated: str | None) -> tuple[Any, Any]:
    """A container, and what the kubelet says of it."""
    name = f"c-{asked}-{allocated}-{actuated}"
    status: dict[str, Any] = {"name": name}
    if allocated is not None:
        status["allocatedResources"] = {"cpu": allocated}
    if actuated is not None:
        status["resources"] = {"requests": {"cpu": actuated}}
    return {"name": name, "resources": {"requests": {"cpu": asked}}}, status


@pytest.mark.parametrize(
    ("containers", "resize", "cpu"),
    [
        pytest.param([resized("1", "3", "3")], "", 3000, id="what is still held"),
        pytest.param([resized("3", "1", "1")], "", 3000, id="what is asked for"),
        pytest.param(
            [resized("3", "1", "2")], "Infeasible", 2000, id="what is held, where no more can be given"
        ),
        pytest.param(
            [resized("3", None, "1")], "", 3000, id="what is allocated, if not told, is what is asked for"
        ),
        pytest.param([resized("3", None, "1")], "Infeasible", 1000, id="unless it cannot be given"),
        pytest.param(
            [resized("3", "1", None)], "Infeasible", 1000, id="what is actuated, if not told, is allocated"
        ),
        pytest.param(
            [resized("1", "3", "3"), resized("3", "1", "1")],
            "",
            4000,
            id="what moves between containers counts once",
        ),
        pytest.param(
            [resized("1", "2", "3"), resized("1", "2", "1")],
            "",
            4000,
            id="the largest sum may be that of any column",
        ),
    ],
)
def test_requests_while_containers_are_resized(containers: list[Any], resize: str, cpu: int) -> None:
    spec = convert({"containers": [spec for spec, _ in containers]}, PodResourcesWire)
    told = {"containerStatuses": [status for _, status in containers], "resize": resize}
    assert effective_requests(spec, convert(told, ResizeStatusWire)) == {"cpu": cpu}


MOVED = [resized("1", "3", "3"), resized("3", "1", "1")]
BY_VERSION: dict[str, tuple[list[Any], dict[str, Any], int, int]] = {
    "what moves between containers": (MOVED, {}, 4000, 6000),
    "what moves between containers, where no more can be given": (
        MOVED,
        {"resize": "Infeasible"},
        4000,
        4000,
    ),
    "columns that are largest for different containers": (
        [resized("1", "2", "3"), resized("1", "2", "1")],
        {},
        4000,
        5000,
    ),
    "what is allocated and not actuated": ([resized("1", "3", None)], {}, 3000, 1000),
    "what is actuated and not allocated": ([resized("3", None, "1")], {"resize": "Infeasible"}, 1000, 1000),
}


@pytest.mark.parametrize(("containers", "told", "newest", "older"), BY_VERSION.values(), ids=BY_VERSION)
def test_resizes_count_as_in_the_version_of_the_server(
    containers: list[Any], told: dict[str, Any], newest: int, older: int
) -> None:
    spec = {"containers": [spec for spec, _ in containers]}
    status = {"containerStatuses": [status for _, status in containers], **told}
    wires = convert(spec, PodResourcesWire), convert(status, ResizeStatusWire)
    raw = {"metadata": {"name": "p", "uid": "u"}, "spec": spec, "status": status}
    followed: list[ResizeRule] = []
    reader = PodReader(rule=lambda: followed[-1])
    for rule, cpu in ((ResizeRule.LARGEST_SUM, newest), (ResizeRule.SUM_OF_LARGEST, older)):
        followed.append(rule)
        assert effective_requests(*wires, rule=rule) == {"cpu": cpu}
        assert nonzero_requests(*wires, {"cpu": cpu}, rule)[0] == cpu
        assert parse_pod(raw, rule).requests == {"cpu": cpu}
        assert reader.read(msgspec.json.encode(raw)).requests == {"cpu": cpu}
        assert parse_pod_use(raw, rule).usage == {"cpu": cpu, "pods": 1}


# Requests of the pod level, what is allocated and actuated with the overhead of 500m in it, what counts.
WHOLE: dict[str, tuple[dict[str, Any], str, str, int]] = {
    "requests of its own, and nothing is resized": (
        {"resources": {"requests": {"cpu": "2"}}},
        "2500m",
        "2500m",
        2500,
    ),
    "requests of its own that were larger": (
        {"resources": {"requests": {"cpu": "2"}}},
        "3500m",
        "2500m",
        3500,
    ),
    "requests of its own that become larger": (
        {"resources": {"requests": {"cpu": "2"}}},
        "1500m",
        "1500m",
        2500,
    ),
    "requests of its containers alone": ({}, "1500m", "1500m", 1500),
}


@pytest.mark.parametrize("rule", ResizeRule, ids=lambda rule: rule.value)
@pytest.mark.parametrize(("level", "allocated", "actuated", "cpu"), WHOLE.values(), ids=WHOLE)
def test_overhead_in_what_is_reported_of_a_pod_counts_once(
    level: dict[str, Any], allocated: str, actuated: str, cpu: int, rule: ResizeRule
) -> None:
    spec = convert({"containers": [container("1")], "overhead": {"cpu": "500m"}, **level}, PodResourcesWire)
    told = {"allocatedResources": {"cpu": allocated}, "resources": {"requests": {"cpu": actuated}}}
    assert effective_requests(spec, convert(told, ResizeStatusWire), rule=rule) == {"cpu": cpu}


INIT: dict[str, tuple[dict[str, str], int, int]] = {
    "one that ends before the pod runs": ({}, 3000, 1000),
    "a sidecar": ({"restartPolicy": "Always"}, 3000, 3000),
}


@pytest.mark.parametrize(("kind", "newest", "older"), INIT.values(), ids=INIT)
def test_init_containers_that_are_resized(kind: dict[str, str], newest: int, older: int) -> None:
    container, status = resized("1", "3", "3")
    spec = convert({"initContainers": [{**container, **kind}]}, PodResourcesWire)
    told = convert({"initContainerStatuses": [status]}, ResizeStatusWire)
    assert effective_requests(spec, told) == {"cpu": newest}
    assert effective_requests(spec, told, rule=ResizeRule.SUM_OF_LARGEST) == {"cpu": older}


VERSIONS: dict[str, tuple[tuple[int, int] | None, ResizeRule]] = {
    "the last one with the old rule": ((1, 36), ResizeRule.SUM_OF_LARGEST),
    "the first one with the new rule": ((1, 37), ResizeRule.LARGEST_SUM),
    "the next major version": ((2, 0), ResizeRule.LARGEST_SUM),
    "one that is not known": (None, ResizeRule.LARGEST_SUM),
}


@pytest.mark.parametrize(("version", "rule"), VERSIONS.values(), ids=VERSIONS)
def test_the_rule_of_a_version(version: tuple[int, int] | None, rule: ResizeRule) -> None:
    assert ResizeRule.of(version) is rule


@pytest.mark.parametrize(
    ("spec", "scored"),
    [
        pytest.param({"containers": [{"name": "c"}]}, (100, 200 << 20), id="who asks nothing has defaults"),
        pytest.param(
            {"resources": {"limits": {"cpu": "3"}}, "containers": [{"name": "c"}]},
            (3000, 200 << 20),
            id="a limit of the pod level is scored, and what nobody asks for has a default",
        ),
        pytest.param(
            {"resources": {"requests": {"memory": "1Ki"}}, "containers": [container("1"), container()]},
            (1000, 1024),
            id="beside a pod level, containers have no defaults",
        ),
        pytest.param(
            {"resources": {}, "containers": [container("1"), container()]},
            (1100, 400 << 20),
            id="an empty pod level changes nothing",
        ),
    ],
)
def test_what_a_pod_is_scored_with(spec: dict[str, Any], scored: tuple[int, int]) -> None:
    wire, status = convert(spec, PodResourcesWire), ResizeStatusWire()
    assert nonzero_requests(wire, status, effective_requests(wire, status)) == scored


@pytest.mark.parametrize(
    ("status", "limits"),
    [
        pytest.param({}, {"cpu": 2000}, id="without a resize, the limit that is written"),
        pytest.param({"containerStatuses": [HELD]}, {"cpu": 3000}, id="the larger one that is actuated"),
        pytest.param(
            {"containerStatuses": [HELD], "resize": "Infeasible"},
            {"cpu": 3000},
            id="only what is actuated, where the node refused the resize",
        ),
    ],
)
def test_limits_while_a_container_is_resized(status: dict[str, Any], limits: dict[str, int]) -> None:
    spec = convert({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, PodResourcesWire)
    assert effective_limits(spec, convert(status, ResizeStatusWire)) == limits


def test_overhead_adds_nothing_to_a_limit_of_nothing() -> None:
    limits = {"resources": {"limits": {"cpu": "0", "memory": "1"}}}
    spec = convert(
        {"containers": [{"name": "c", **limits}], "overhead": {"cpu": "1", "memory": "2"}}, PodResourcesWire
    )
    assert effective_limits(spec) == {"cpu": 0, "memory": 3}


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
        requests_of({"spec": spec})
    assert caught.value.path == path


AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.sampled_from(["0", "1", "3"])
)
REPORTED = st.builds(
    lambda name, amounts: {"name": name, "allocatedResources": amounts, "resources": {"requests": amounts}},
    st.sampled_from(["a", "b"]),
    AMOUNTS,
)
ASKING = st.builds(
    lambda name, requests, limits: {"name": name, "resources": {"requests": requests, "limits": limits}},
    st.sampled_from(["a", "b"]),
    AMOUNTS,
    AMOUNTS,
)


@given(
    st.lists(ASKING, max_size=3),
    st.lists(ASKING, max_size=2),
    st.lists(REPORTED, max_size=2),
    st.sampled_from(["", "Infeasible"]),
)
def test_amounts_for_scores_are_those_with_defaults(
    containers: list[Any], init: list[Any], statuses: list[Any], resize: str
) -> None:
    spec = convert({"containers": containers, "initContainers": init}, PodResourcesWire)
    status = convert({"containerStatuses": statuses, "resize": resize}, ResizeStatusWire)
    found = nonzero_requests(spec, status, effective_requests(spec, status))
    whole = effective_requests(spec, status, missing=NONZERO_DEFAULTS)
    assert found == (whole.get("cpu", 0), whole.get("memory", 0))
