"""The annotations of fair sharing: what they say, and what is reported where they break their rule."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.model.quotas.sharing import Sharing, sharing_of


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        (None, Sharing()),
        ({"muster.dev/weight": "3"}, Sharing(Fraction(3))),
        ({"muster.dev/weight": "0"}, Sharing(Fraction(0))),
        ({"muster.dev/weight": "0.125"}, Sharing(Fraction(1, 8))),
        ({"muster.dev/weight": "1000000"}, Sharing(Fraction(1_000_000))),
        ({"muster.dev/min-runtime": "0"}, Sharing(min_runtime=0)),
        ({"muster.dev/min-runtime": "1h30m"}, Sharing(min_runtime=5400)),
        ({"muster.dev/reclaim-min-runtime": "5m"}, Sharing(reclaim_min_runtime=300)),
    ],
)
def test_annotations(annotations: dict[str, str] | None, expected: Sharing) -> None:
    assert sharing_of(annotations) == (expected, ())


NOT_WEIGHTS = ("-1", "", "many", "1e3", "1/2", "0.0001", "1000001", "NaN", "٣")
WEIGHT = "must be a number from 0 to 1000000 with at most three decimals"
DURATION = 'must be a duration of at least 0, such as "10m"'


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        *(
            ("weight", value, WEIGHT)
            for value in ("-1", "", "many", "1e3", "1/2", "0.0001", "1000001", "NaN", "٣")
        ),
        *(("min-runtime", value, DURATION) for value in ("-1s", "", "10", "soon")),
        *(("reclaim-min-runtime", value, DURATION) for value in ("-1s", "1d")),
    ],
)
def test_values_that_break_their_rule_are_told_and_count_as_absent(name: str, value: str, rule: str) -> None:
    raw = {
        "metadata": {"namespace": "team-a", "name": "quota", "annotations": {f"muster.dev/{name}": value}},
        "spec": {"min": {"cpu": 1}},
    }
    quota = parse_elastic_quota(raw)
    assert quota.sharing == Sharing()
    found = [str(problem) for problem in quota.sharing_problems]
    assert found == [f"metadata.annotations[muster.dev/{name}]={value!r} {rule}"]
