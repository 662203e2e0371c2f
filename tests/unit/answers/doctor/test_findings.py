"""Findings that say the same are told once, and a second look confirms only what it finds again."""

from __future__ import annotations

import pytest

from scheduler_core.answers.doctor.findings import CheckResult, DoctorRepair, HealthFinding, gathered
from scheduler_core.model.kinds import ELASTIC_QUOTAS
from scheduler_core.model.writes import Patch

REPAIR = DoctorRepair(ELASTIC_QUOTAS, "a", "q", Patch(ELASTIC_QUOTAS, "a", "q", {}))


def finding(subject: str, problem: str = "is odd", **more: object) -> HealthFinding:
    return HealthFinding("warning", subject, problem, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([finding("Pod a/p"), finding("Pod a/q")], ["Pod a/p and 1 other: is odd"]),
        (
            [finding("Pod a/p"), finding("Pod a/q", "is even"), finding("Pod a/r"), finding("Pod a/s")],
            ["Pod a/p and 2 others: is odd", "Pod a/q: is even"],
        ),
        ([finding("Pod a/p"), finding("Pod b/p")], ["Pod a/p: is odd", "Pod b/p: is odd"]),
        ([finding("webhook"), finding("webhook")], ["webhook: is odd", "webhook: is odd"]),
        (
            [finding("ElasticQuota a/q", repair=REPAIR), finding("ElasticQuota a/r", repair=REPAIR)],
            ["ElasticQuota a/q: is odd", "ElasticQuota a/r: is odd"],
        ),
        (
            [finding("ElasticQuota a/q", repair=REPAIR), finding("ElasticQuota a/r")],
            ["ElasticQuota a/q: is odd", "ElasticQuota a/r: is odd"],
        ),
    ],
    ids=["two", "three, one apart", "namespaces", "no object", "each has a repair", "one has a repair"],
)
def test_one_line_for_objects_of_a_kind_and_namespace(found: list[HealthFinding], said: list[str]) -> None:
    assert [str(item) for item in gathered(found)] == said


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ((), ("b",), True),
        (("a", "b"), ("b", "c"), True),
        (("a",), ("b",), False),
        (("a",), (), False),
    ],
)
def test_a_second_look_shares_evidence_with_the_first(
    first: tuple[str, ...], second: tuple[str, ...], same: bool
) -> None:
    before, after = finding("Pod a/p", evidence=first), finding("Pod a/p", evidence=second)
    assert after.confirms(before) is same
    assert not finding("Pod a/q", evidence=second).confirms(before)


def test_a_check_is_as_bad_as_its_worst_finding() -> None:
    notes = (HealthFinding("note", "a", "b"), HealthFinding("error", "a", "b"))
    assert [CheckResult("c", notes[:count]).severity for count in (0, 1, 2)] == ["ok", "note", "error"]
    assert CheckResult("c", unchecked="no rights").severity == "not checked"
