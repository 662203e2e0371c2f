"""Reading NodeMetrics: parts that are missing, odd or absurd."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.errors import ModelError
from scheduler_core.model.node_metric import AS_OTHER, AS_PROD, MAX_AMOUNT, UNMEASURED, parse_node_metric
from tests.support.load_builders import NOW, make_metric


def parse(status: dict[str, Any] | None, spec: dict[str, Any] | None = None) -> Any:
    return parse_node_metric({"metadata": {"name": "a"}, "status": status, "spec": spec})


@pytest.mark.parametrize("status", [None, {}, {"podsMetric": None}, {"nodeMetric": None}])
def test_an_empty_status_says_nothing(status: dict[str, Any] | None) -> None:
    metric = parse(status)
    assert (metric.update_time, metric.usage, metric.pods.keys) == (None, None, ())


@pytest.mark.parametrize("info", [{}, {"nodeUsage": {}}, {"nodeUsage": {"resources": None}}])
def test_a_measurement_without_numbers_is_no_use(info: dict[str, Any]) -> None:
    assert parse({"nodeMetric": info}).usage == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1500m", 1500), ("-1", 0), ("9e18", MAX_AMOUNT), ("1n", 1), (2, 2000), (0.5, 500)],
)
def test_amounts(text: Any, expected: int) -> None:
    assert parse({"nodeMetric": {"nodeUsage": {"resources": {"cpu": text}}}}).usage == {"cpu": expected}


@pytest.mark.parametrize(
    ("status", "path"),
    [
        (
            {"nodeMetric": {"nodeUsage": {"resources": {"cpu": "lots"}}}},
            "status.nodeMetric.nodeUsage.resources[cpu]",
        ),
        (
            {"nodeMetric": {"nodeUsage": {"resources": {"cpu": []}}}},
            "status.nodeMetric.nodeUsage.resources[cpu]",
        ),
        (
            {"podsMetric": [{"podUsage": {"resources": {"memory": "x"}}}]},
            "status.podsMetric[0].podUsage.resources[memory]",
        ),
        (
            {"nodeMetric": {"aggregatedNodeUsages": [{"usage": {"p95": {"resources": {"cpu": "x"}}}}]}},
            "status.nodeMetric.aggregatedNodeUsages[0].usage[p95].resources[cpu]",
        ),
    ],
)
def test_text_that_is_no_quantity_names_its_place(status: dict[str, Any], path: str) -> None:
    with pytest.raises(ModelError) as error:
        parse(status)
    assert (error.value.path, error.value.subject) == (path, "NodeMetric a")


@pytest.mark.parametrize(("given", "expected"), [(None, 60), (0, 60), (-5, 60), (7, 7)])
def test_report_interval(given: int | None, expected: int) -> None:
    assert parse({}, {"metricCollectPolicy": {"reportIntervalSeconds": given}}).report_interval == expected


def test_pods_are_columns_and_the_last_entry_of_a_pod_counts() -> None:
    metric = (
        make_metric("a").pod("ns/p", cpu="1").pod("ns/q", "koord-mid", memory="5").pod("ns/r").pod("ns/p")
    )
    pods = metric.obj().pods
    assert pods.keys == ("ns/p", "ns/q", "ns/r", "ns/p")
    assert list(pods.bands) == [AS_PROD, AS_OTHER, UNMEASURED, UNMEASURED]
    assert {name: column.tolist() for name, column in pods.usage.items()} == {
        "cpu": [1000, 0, 0, 0],
        "memory": [0, 5, 0, 0],
    }


def test_times_are_seconds() -> None:
    assert make_metric("a").updated(NOW).obj().update_time == NOW
