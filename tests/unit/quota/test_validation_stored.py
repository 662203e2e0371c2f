"""Validation of stored objects, which can break rules without being written."""

from __future__ import annotations

import msgspec
import pytest

from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.quotas.resource_quota import ResourceQuota, parse_resource_quota
from scheduler_core.quota.validation import validate_capacity, validate_stored
from tests.support.builders import make_quota


def native(namespace: str, cpu: int) -> ResourceQuota:
    return parse_resource_quota(
        {"metadata": {"name": "rq", "namespace": namespace}, "spec": {"hard": {"requests.cpu": cpu}}}
    )


def quota(key: str, low: int, high: int, created: float = 0.0) -> ElasticQuota:
    return make_quota(key).min(cpu=low).max(cpu=high).created(created).obj()


def used(quota: ElasticQuota, cpu: int) -> ElasticQuota:
    return msgspec.structs.replace(quota, status_used={"cpu": cpu * 1000, "memory": 1 << 40})


CASES: list[tuple[str, list[ElasticQuota], list[ResourceQuota], list[tuple[str, str]]]] = [
    ("nothing is wrong", [quota("a/q", 1, 2)], [native("a", 2)], []),
    ("min above max", [quota("a/q", 3, 2)], [], [("bounds", "a/q")]),
    (
        "a fraction of a GPU",
        [
            parse_elastic_quota(
                {"metadata": {"name": "q", "namespace": "a"}, "spec": {"max": {"a.com/gpu": "1.5"}}}
            )
        ],
        [],
        [("whole", "a/q")],
    ),
    ("max above hard", [quota("a/q", 1, 4)], [native("a", 3)], [("hard", "a/q")]),
    ("hard of another namespace is nobody's business", [quota("a/q", 1, 4)], [native("b", 3)], []),
    (
        "every ResourceQuota of the namespace is looked at",
        [quota("a/q", 1, 4)],
        [native("a", 9), native("a", 3)],
        [("hard", "a/q")],
    ),
    (
        "of two quotas the younger is too many, in whatever order they are read",
        [quota("a/young", 1, 2, 7.0), quota("a/old", 1, 2, 5.0)],
        [],
        [("single", "a/young")],
    ),
    (
        "more is used than max, exactly max is in order",
        [used(quota("a/q", 1, 4), 5), used(quota("b/q", 1, 4), 4)],
        [],
        [("max", "a/q")],
    ),
    (
        "use is held against the quota that binds",
        [used(quota("a/young", 1, 2, 7.0), 3), used(quota("a/old", 1, 4, 5.0), 3)],
        [],
        [("single", "a/young")],
    ),
    (
        "each quota is told its own",
        [quota("a/q", 3, 2), quota("b/q", 1, 4)],
        [native("b", 3)],
        [("bounds", "a/q"), ("hard", "b/q")],
    ),
]


@pytest.mark.parametrize(("quotas", "natives", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_what_stored_quotas_break(
    quotas: list[ElasticQuota], natives: list[ResourceQuota], expected: list[tuple[str, str]]
) -> None:
    found = validate_stored(quotas, natives)
    assert [(item.rule, item.quota.key if item.quota else "") for item in found] == expected
    assert all(item.quota is None or item.quota.key in str(item.violation) for item in found)


def test_the_sum_of_min_is_held_against_the_cluster_resource_by_resource() -> None:
    found = validate_capacity({"cpu": 5000, "memory": 10, "nvidia.com/gpu": 1}, {"cpu": 4000, "memory": 10})
    assert [(item.rule, item.quota, str(item.violation)) for item in found] == [
        (
            "capacity",
            None,
            "all ElasticQuotas: sum of spec.min[cpu]=5 is more than the 4 allocatable in the cluster",
        ),
        (
            "capacity",
            None,
            "all ElasticQuotas: sum of spec.min[nvidia.com/gpu]=1 is more than the 0 allocatable"
            " in the cluster",
        ),
    ]
