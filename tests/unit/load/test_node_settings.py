"""Annotations of nodes: thresholds of their own, and what is told of those that cannot be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler_core.load.node_settings import capacity_of, thresholds_of
from scheduler_core.load.problems import AnnotationProblem
from scheduler_core.load.spec import Estimation, LoadSpec, Percentile, Thresholds
from tests.support.builders import make_node

ANNOTATION = "scheduling.koordinator.sh/usage-thresholds"
CONFIGURED = Thresholds(plain=(65, 95), prod=(0, 0))
SPEC = LoadSpec(("cpu", "memory"), Estimation((85, 70)), CONFIGURED)


def read(said: Any) -> tuple[Thresholds, list[AnnotationProblem]]:
    told: list[AnnotationProblem] = []
    made = make_node("n")
    made.meta["annotations"] = {ANNOTATION: said if isinstance(said, str) else json.dumps(said)}
    node = made.obj()
    return thresholds_of(node, SPEC, told.append), told


def aggregated(**more: Any) -> dict[str, Any]:
    return {"aggregatedUsage": {"usageThresholds": {"cpu": 50}, "usageAggregationType": "p95", **more}}


@pytest.mark.parametrize(
    ("duration", "seconds"), [("5m", 300.0), ("0s", 0.0), ("", 0.0), (None, 0.0), ("1h30m", 5400.0)]
)
def test_the_window_of_a_percentile(duration: str | None, seconds: float) -> None:
    found, told = read(aggregated(usageAggregatedDuration=duration))
    assert (found.percentile, found.aggregated, told) == (Percentile("p95", seconds), (50, 0), [])


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        pytest.param("{", "must be a JSON map", id="no JSON"),
        pytest.param(
            {"usageThresholds": {"cpu": -1}}, "usageThresholds: cpu must be", id="a negative threshold"
        ),
        pytest.param(
            aggregated(usageAggregationType="p97"),
            "aggregatedUsage: usageAggregationType='p97' must be one of avg, p50, p90, p95, p99",
            id="a percentile that nobody reports",
        ),
        pytest.param(
            aggregated(usageAggregationType=["p95"]),
            "aggregatedUsage: usageAggregationType=['p95'] must be one of",
            id="a percentile that is no text",
        ),
        pytest.param(
            aggregated(usageAggregatedDuration="-5m"),
            "aggregatedUsage: usageAggregatedDuration='-5m' must be a duration such as 5m, 0s or more",
            id="a negative window",
        ),
        pytest.param(
            aggregated(usageAggregatedDuration="soon"),
            "aggregatedUsage: usageAggregatedDuration='soon' must be a duration",
            id="a window that is no time",
        ),
        pytest.param(
            aggregated(usageAggregatedDuration=5),
            "aggregatedUsage: usageAggregatedDuration=5 must be a duration",
            id="a number",
        ),
        pytest.param([], "must be a JSON map", id="a list"),
        pytest.param({"prodUsageThresholds": 5}, "prodUsageThresholds: ", id="thresholds that are no map"),
        pytest.param({"aggregatedUsage": 5}, "aggregatedUsage: must be a map", id="a part that is no map"),
        pytest.param(
            {"aggregatedUsage": {"usageThresholds": {"cpu": -1}}},
            "aggregatedUsage: usageThresholds: cpu must be",
            id="a negative aggregated threshold",
        ),
    ],
)
def test_an_annotation_that_cannot_be_used_is_told_and_the_arguments_hold(said: Any, rule: str) -> None:
    found, (problem,) = read(said)
    assert found == CONFIGURED
    assert problem.rule.startswith(rule)
    assert problem.message.startswith(f"Node n: annotation {ANNOTATION}=")


PARTS: list[tuple[str, dict[str, Any], Thresholds]] = [
    ("nothing", {}, CONFIGURED),
    ("empty parts", {"usageThresholds": {}, "prodUsageThresholds": None, "aggregatedUsage": {}}, CONFIGURED),
    ("one part, whole", {"usageThresholds": {"memory": 70}}, Thresholds(plain=(0, 70), prod=(0, 0))),
    ("more than a node has", {"prodUsageThresholds": {"cpu": 50}}, Thresholds(plain=(65, 95), prod=(50, 0))),
    ("thresholds without a type", {"aggregatedUsage": {"usageThresholds": {"cpu": 5}}}, CONFIGURED),
    ("a type without thresholds", {"aggregatedUsage": {"usageAggregationType": "p95"}}, CONFIGURED),
]


@pytest.mark.parametrize(("said", "thresholds"), [p[1:] for p in PARTS], ids=[p[0] for p in PARTS])
def test_each_part_that_says_something_replaces_the_configured_one(
    said: dict[str, Any], thresholds: Thresholds
) -> None:
    assert read(said) == (thresholds, [])


RAW = "node.koordinator.sh/raw-allocatable"
CAPACITIES: list[tuple[str, str | None, tuple[int, int], str]] = [
    ("none", None, (4000, 8), ""),
    ("another cpu", '{"cpu": "6"}', (6000, 8), ""),
    ("no cpu", '{"cpu": 0}', (0, 8), ""),
    ("another resource", '{"gpu": 1}', (4000, 8), ""),
    ("less than none", '{"cpu": -1, "memory": 9}', (4000, 8), "cpu must be 0 or more"),
    ("no quantity", '{"memory": 9, "cpu": "much"}', (4000, 8), "cpu: "),
    ("no map", "[1]", (4000, 8), "must be a JSON map of resource to quantity"),
    ("no JSON", "{", (4000, 8), "must be a JSON map of resource to quantity"),
]


@pytest.mark.parametrize(
    ("said", "capacity", "rule"), [c[1:] for c in CAPACITIES], ids=[c[0] for c in CAPACITIES]
)
def test_a_node_may_say_what_its_use_is_compared_with(
    said: str | None, capacity: tuple[int, int], rule: str
) -> None:
    told: list[AnnotationProblem] = []
    made = make_node("n").allocatable(cpu=4, memory=8)
    node = (made if said is None else made.annotation(RAW, said)).obj()
    assert capacity_of(node, SPEC, told.append) == capacity
    assert [problem.rule[: len(rule)] for problem in told] == ([rule] if rule else [])
    assert all((problem.name, problem.annotation) == ("n", RAW) for problem in told)
