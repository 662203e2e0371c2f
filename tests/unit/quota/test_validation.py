"""Validation of quotas: the exact text of every finding."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.resource_quota import ResourceQuota, parse_resource_quota
from scheduler_core.quota.validation import (
    check_bounds,
    check_capacity,
    check_hard,
    check_resource_quota,
    check_single,
    notes,
    overcommitted,
)
from tests.support.builders import make_quota


def native(hard: dict[str, str], namespace: str = "team-a", scopes: list[str] | None = None) -> ResourceQuota:
    spec: dict[str, Any] = {"hard": hard} | ({"scopes": scopes} if scopes else {})
    return parse_resource_quota({"metadata": {"name": "rq", "namespace": namespace}, "spec": spec})


QUOTA = make_quota("team-a/quota").min(cpu=4, memory="1Gi").max(cpu=10).obj()


def texts(findings: list[Any]) -> list[str]:
    return [str(item) for item in findings]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        pytest.param(
            {"cpu": 12}, {"cpu": 10},
            ["ElasticQuota team-a/quota: spec.min[cpu]=12 exceeds spec.max[cpu]=10"], id="min above max",
        ),
        pytest.param({"cpu": 10}, {"cpu": 10}, [], id="equal is fine"),
        pytest.param({"cpu": 12}, {"memory": "1Gi"}, [], id="a resource absent from max is unlimited"),
        pytest.param(
            {"cpu": "1500m", "memory": "2Gi"}, {"cpu": 1, "memory": "1Gi"},
            [
                "ElasticQuota team-a/quota: spec.min[cpu]=1500m exceeds spec.max[cpu]=1",
                "ElasticQuota team-a/quota: spec.min[memory]=2Gi exceeds spec.max[memory]=1Gi",
            ],
            id="every resource that is wrong, by name",
        ),
    ],
)  # fmt: skip
def test_bounds(low: dict[str, Any], high: dict[str, Any], expected: list[str]) -> None:
    assert texts(check_bounds(make_quota("team-a/quota").min(**low).max(**high).obj())) == expected


@pytest.mark.parametrize(
    ("quotas", "expected"),
    [
        pytest.param([native({"cpu": "10"})], [], id="max equal to hard"),
        pytest.param(
            [native({"requests.cpu": "8", "cpu": "9"})],
            [
                "ElasticQuota team-a/quota: spec.max[cpu]=10 exceeds hard[requests.cpu]=8"
                " of ResourceQuota team-a/rq"
            ],
            id="the smaller of cpu and requests.cpu binds",
        ),
        pytest.param(
            [native({"memory": "512Mi"})],
            [
                "ElasticQuota team-a/quota: spec.min[memory]=1Gi exceeds hard[memory]=512Mi"
                " of ResourceQuota team-a/rq"
            ],
            id="min where max is open",
        ),
        pytest.param(
            [native({"cpu": "1"}, scopes=["BestEffort"])], [], id="a quota with scopes does not bind"
        ),
        pytest.param([native({"cpu": "1"}, namespace="team-b")], [], id="another namespace"),
        pytest.param(
            [native({"limits.cpu": "1", "count/pods": "1"})], [], id="limits and counts are no requests"
        ),
    ],
)
def test_hard(quotas: list[ResourceQuota], expected: list[str]) -> None:
    assert texts(check_hard(QUOTA, quotas)) == expected


def test_hard_seen_from_the_resource_quota() -> None:
    assert texts(check_resource_quota(native({"requests.cpu": "8"}), [QUOTA])) == [
        "ResourceQuota team-a/rq: spec.hard[requests.cpu]=8 is below spec.max[cpu]=10"
        " of ElasticQuota team-a/quota"
    ]


def test_one_quota_per_namespace() -> None:
    other, elsewhere = make_quota("team-a/first").obj(), make_quota("team-b/first").obj()
    assert texts(check_single(QUOTA, [QUOTA, elsewhere])) == []
    assert texts(check_single(QUOTA, [other])) == [
        "ElasticQuota team-a/quota: metadata.namespace=team-a has ElasticQuota first already; "
        "only one per namespace is allowed"
    ]


@pytest.mark.parametrize(
    ("others", "room", "expected"),
    [
        pytest.param(
            [make_quota("b/q").min(cpu=6).obj()], {"cpu": 10000, "memory": 2**30}, [], id="equal fits"
        ),
        pytest.param(
            [make_quota("b/q").min(cpu=7).obj()], {"cpu": 10000, "memory": 2**30},
            [
                "ElasticQuota team-a/quota: spec.min[cpu]=4 makes the sum of min 11, "
                "more than the 10 allocatable in the cluster"
            ],
            id="one more does not",
        ),
        pytest.param(
            [], {"cpu": 10000},
            [
                "ElasticQuota team-a/quota: spec.min[memory]=1Gi makes the sum of min 1Gi, "
                "more than the 0 allocatable in the cluster"
            ],
            id="a resource that no node has",
        ),
        pytest.param([QUOTA], {"cpu": 4000, "memory": 2**30}, [], id="its own old form does not count"),
    ],
)  # fmt: skip
def test_capacity(others: list[ElasticQuota], room: dict[str, int], expected: list[str]) -> None:
    assert texts(check_capacity(QUOTA, others, room)) == expected


def test_overcommitted_names_sum_and_room() -> None:
    assert overcommitted({"cpu": 5000, "memory": 1}, {"cpu": 4000, "memory": 1}) == {"cpu": (5000, 4000)}


def test_notes_tell_what_is_open() -> None:
    found = notes(
        make_quota("a/q").min(cpu=1).max(memory=1).obj(), [native({"cpu": "9"}, "a", ["BestEffort"])]
    )
    assert found == [
        "ElasticQuota a/q: cpu is not in spec.max and so unlimited",
        "ElasticQuota a/q: memory is not in spec.min; nothing is guaranteed",
        "ElasticQuota a/q: ResourceQuota rq has scopes and does not bound spec.max",
    ]
