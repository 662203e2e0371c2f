"""Ratcheting validation: an invalid object may be changed, but not for the worse."""

from __future__ import annotations

import pytest

from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.resource_quota import parse_resource_quota
from scheduler_core.quota.validation import ValidationContext, broken_rules, ratcheted
from tests.support.builders import make_quota

HARD = parse_resource_quota(
    {"metadata": {"name": "rq", "namespace": "a"}, "spec": {"hard": {"requests.cpu": 4}}}
)


def quota(low: int, high: int | None = None, name: str = "q") -> ElasticQuota:
    made = make_quota(f"a/{name}").min(cpu=low)
    return (made if high is None else made.max(cpu=high)).obj()


CASES: list[tuple[str, ElasticQuota, ElasticQuota, ValidationContext, bool]] = [
    ("min above max stays as it was", quota(3, 2), quota(3, 2), ValidationContext(), True),
    ("min is lowered, not enough", quota(5, 2), quota(4, 2), ValidationContext(), True),
    ("min is raised", quota(3, 2), quota(4, 2), ValidationContext(), False),
    ("max is raised, not enough", quota(5, 2), quota(5, 3), ValidationContext(), True),
    ("max is lowered", quota(5, 3), quota(5, 2), ValidationContext(), False),
    ("it was in order before", quota(1, 2), quota(3, 2), ValidationContext(), False),
    ("max above hard stays", quota(1, 6), quota(1, 6), ValidationContext(natives=[HARD]), True),
    ("max above hard is lowered", quota(1, 7), quota(1, 6), ValidationContext(natives=[HARD]), True),
    ("max above hard is raised", quota(1, 6), quota(1, 7), ValidationContext(natives=[HARD]), False),
    ("min above hard where max is open", quota(6), quota(6), ValidationContext(natives=[HARD]), True),
    ("min above hard is raised", quota(6), quota(7), ValidationContext(natives=[HARD]), False),
    ("a second quota stays one", quota(1, 2), quota(1, 3), ValidationContext((quota(1, 2, "older"),)), True),
]


@pytest.mark.parametrize(
    ("old", "new", "beside", "tolerated"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_changes_of_what_is_illegal(
    old: ElasticQuota, new: ElasticQuota, beside: ValidationContext, tolerated: bool
) -> None:
    broken = broken_rules(new, beside)
    assert broken
    assert ratcheted(broken, new, old, beside) == (broken if tolerated else [])
