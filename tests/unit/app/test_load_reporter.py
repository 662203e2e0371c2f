"""The reporter fills NodeMetrics of its own from the metrics API and never writes over those of an agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from scheduler_core.app.load_reporter import NODE_USAGE, LoadReporter, LoadView
from scheduler_core.app.load_samples import NodeSamples, average, node_status, percentile, windows_of
from scheduler_core.errors import ModelError
from scheduler_core.load.spec import Percentile
from scheduler_core.load.usage import base_usage
from scheduler_core.model.kinds import Resource
from scheduler_core.model.node_metric import CollectPolicy, NodeMetric, parse_node_metric
from scheduler_core.model.timestamps import format_micro_time
from scheduler_core.model.writes import Create, Patch
from tests.support.builders import make_node, make_pod
from tests.support.load_builders import NOW

OURS = {"muster.dev/reported-by": "muster-scheduler"}
POLICY = CollectPolicy(60, 60)


class MetricsApi:
    """Stands for the client: answers lists, keeps NodeMetrics, notes writes."""

    def __init__(self) -> None:
        self.moment = NOW
        self.cpu = {"a": "500m"}
        self.pods: dict[str, list[str]] = {}
        self.objects: dict[str, dict[str, Any]] = {}
        self.patches: list[Patch] = []

    def list_raw(self, resource: Resource) -> Iterator[msgspec.Raw]:
        moment = format_micro_time(self.moment)
        items: list[dict[str, Any]]
        if resource == NODE_USAGE:
            items = [
                {"metadata": {"name": n}, "timestamp": moment, "usage": {"cpu": cpu, "memory": "1Gi"}}
                for n, cpu in self.cpu.items()
            ]
        else:
            items = [
                {
                    "metadata": {"namespace": "ns", "name": name},
                    "timestamp": moment,
                    "containers": [
                        {"name": str(i), "usage": {"cpu": cpu}} for i, cpu in enumerate(containers)
                    ],
                }
                for name, containers in self.pods.items()
            ]
        for item in items:
            yield msgspec.Raw(msgspec.json.encode(item))

    def create(self, write: Create) -> bytes:
        body = msgspec.to_builtins(write.body)
        body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
        self.objects[body["metadata"]["name"]] = body
        return msgspec.json.encode(body)

    def patch(self, write: Patch) -> bytes:
        self.patches.append(write)
        assert isinstance(write.body, Mapping)
        found = self.objects[write.name]
        found["status"] = write.body["status"]
        found["metadata"]["resourceVersion"] = str(int(found["metadata"]["resourceVersion"]) + 1)
        return b"{}"

    def metrics(self) -> dict[str, NodeMetric]:
        return {name: parse_node_metric(raw) for name, raw in self.objects.items()}

    def agent(self, name: str, updated: float, **meta: Any) -> None:
        """An agent wrote this NodeMetric."""
        self.objects[name] = {
            "metadata": {"name": name, "resourceVersion": "7", **meta},
            "status": {
                "updateTime": format_micro_time(updated),
                "nodeMetric": {"nodeUsage": {"resources": {"cpu": "9"}}},
            },
        }


class Bench:
    """A reporter on a made-up API, with a clock to turn."""

    def __init__(self) -> None:
        self.api = MetricsApi()
        self.leads = True
        self.now = NOW
        self.nodes = {"a": make_node("a").uid("uid-a").obj()}
        self.placed = {"ns/p": (make_pod("ns/p").requests(cpu="1").obj(), "a")}
        client: Any = self.api
        self.reporter = LoadReporter(client, self.view, lambda: self.leads, lambda: self.now)

    def view(self) -> LoadView:
        return LoadView(self.nodes, self.api.metrics(), self.placed)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.api.moment += seconds

    def turn(self) -> int:
        """A round; how many reports were written."""
        before = len(self.api.patches)
        self.reporter.turn()
        return len(self.api.patches) - before


def test_a_node_without_a_node_metric_gets_one_with_its_first_numbers() -> None:
    bench = Bench()
    bench.api.pods = {"p": ["100m", "50m"], "elsewhere": ["1"]}
    assert bench.turn() == 1
    raw = bench.api.objects["a"]
    assert raw["metadata"]["annotations"] == OURS
    metric = parse_node_metric(raw)
    assert metric.update_time == NOW
    assert metric.usage == {"cpu": 500, "memory": 2**30}
    assert metric.system == {"cpu": 350, "memory": 2**30}
    assert metric.pods.keys == ("ns/p",)
    assert metric.pods.usage["cpu"].tolist() == [150]
    assert raw["status"]["podsMetric"][0]["priority"] == "koord-prod"


def test_every_write_carries_the_version_it_was_decided_on() -> None:
    bench = Bench()
    bench.turn()
    bench.pass_time(60)
    bench.turn()
    assert [patch.resource_version for patch in bench.api.patches] == ["1", "2"]
    assert all(patch.subresource == "status" for patch in bench.api.patches)


def test_a_report_is_written_once_per_interval() -> None:
    bench = Bench()
    written = []
    for _ in range(9):
        written.append(bench.turn())
        bench.pass_time(15)
    assert written == [1, 0, 0, 0, 1, 0, 0, 0, 1]


def test_an_agents_node_metric_is_never_written() -> None:
    bench = Bench()
    bench.api.agent("a", NOW - 10_000)
    for _ in range(5):
        assert bench.turn() == 0
        bench.pass_time(100)


def test_another_writer_of_our_own_is_left_alone_until_it_is_silent() -> None:
    bench = Bench()
    bench.turn()
    bench.pass_time(60)
    bench.api.agent("a", bench.now, annotations=OURS)
    bench.pass_time(90)
    assert bench.turn() == 0
    bench.pass_time(30)
    assert bench.turn() == 1


# Who reported last, how many seconds ago, and whether a report is due: the interval is a minute.
DUE: list[tuple[str, bool, float, int]] = [
    ("at once again", True, 0.0, 0),
    ("a moment before most of the interval has passed", True, 52.0, 0),
    ("as the next sample would be later", True, 53.0, 1),
    ("another process, a moment ago", False, 0.0, 0),
    ("another process that is not silent for long", False, 119.0, 0),
    ("another process that is silent for two intervals", False, 120.0, 1),
]


@pytest.mark.parametrize(
    ("own", "seconds", "written"), [case[1:] for case in DUE], ids=[case[0] for case in DUE]
)
def test_when_a_report_is_due(own: bool, seconds: float, written: int) -> None:
    bench = Bench()
    if own:
        bench.turn()
    else:
        bench.api.agent("a", bench.now, annotations=OURS)
    bench.pass_time(seconds)
    assert bench.turn() == written


@pytest.mark.parametrize(("annotations", "written"), [(OURS, 1), ({}, 0)], ids=["our own", "an agent's"])
def test_a_node_metric_without_a_report_gets_one_from_its_reporter(
    annotations: dict[str, str], written: int
) -> None:
    bench = Bench()
    bench.api.objects["a"] = {"metadata": {"name": "a", "resourceVersion": "7", "annotations": annotations}}
    assert bench.turn() == written


def test_a_sample_without_a_moment_or_of_a_node_that_is_gone_tells_nothing() -> None:
    bench = Bench()
    bench.nodes["b"] = make_node("b").obj()
    bench.api.cpu["b"] = "1"
    bench.turn()
    assert set(bench.api.objects) == {"a", "b"}
    del bench.nodes["b"], bench.api.cpu["b"], bench.api.objects["b"]
    bench.pass_time(60)
    bench.turn()
    assert set(bench.api.objects) == {"a"}
    bench.nodes["b"] = make_node("b").obj()
    bench.pass_time(60)
    assert bench.turn() == 1, "what was sampled before it went is forgotten"


def test_a_round_ends_where_the_process_stops_to_lead_or_to_run() -> None:
    for ends in ("leads", "runs"):
        bench = Bench()
        bench.nodes["b"] = make_node("b").obj()
        bench.api.cpu["b"] = "1"
        create = bench.api.create

        def last(write: Create, bench: Bench = bench, ends: str = ends, create: Any = create) -> bytes:
            if ends == "leads":
                bench.leads = False
            else:
                bench.reporter.stop(0)
            return create(write)  # type: ignore[no-any-return]

        bench.api.create = last  # type: ignore[method-assign]
        assert bench.turn() == 1
        assert set(bench.api.objects) == {"a"}


def test_numbers_that_do_not_move_are_not_told_again() -> None:
    bench = Bench()
    bench.turn()
    bench.now += 600
    assert bench.turn() == 0


def test_a_process_that_does_not_lead_writes_nothing() -> None:
    bench = Bench()
    bench.leads = False
    assert bench.turn() == 0


def test_a_node_of_the_metrics_api_that_does_not_exist_is_ignored() -> None:
    bench = Bench()
    bench.api.cpu["ghost"] = "1"
    bench.turn()
    assert set(bench.api.objects) == {"a"}


def test_use_that_cannot_be_read_is_left_out() -> None:
    bench = Bench()
    bench.api.cpu["a"] = "lots"
    assert bench.turn() == 0
    assert bench.api.objects == {}


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([7], 50, 7),
        ([1, 2], 50, 1),
        ([1, 2, 3], 50, 2),
        (list(range(1, 101)), 95, 95),
        (list(range(1, 101)), 99, 99),
        ([1, 2, 3, 4], 90, 4),
    ],
)
def test_nearest_rank(values: list[int], percent: int, expected: int) -> None:
    assert percentile(values, percent) == expected


def test_the_mean_is_rounded_down_and_none_without_values() -> None:
    assert [average(values) for values in ([], [3], [1, 2], [1, 2, 3])] == [0, 3, 1, 2]


def test_a_window_is_reported_once_half_of_it_is_known() -> None:
    samples = NodeSamples()
    for i in range(11):
        samples.add(NOW + 15 * i, {"cpu": 100 * i, "memory": 5}, 1800)
    status = node_status(samples, POLICY, {})
    assert [entry["duration"] for entry in status["aggregatedNodeUsages"]] == ["5m0s"]
    (entry,) = status["aggregatedNodeUsages"]
    assert entry["usage"]["p50"] == {"resources": {"cpu": "500m", "memory": "5"}}
    assert entry["usage"]["p99"] == {"resources": {"cpu": "1", "memory": "5"}}
    # The last minute holds the samples 600m to 1000m.
    assert status["nodeUsage"]["resources"]["cpu"] == "800m"


@pytest.mark.parametrize("asked", [None, 0, -60])
def test_a_node_that_is_told_to_measure_over_no_time_measures_over_five_minutes(asked: int | None) -> None:
    samples = NodeSamples()
    for i in range(11):
        samples.add(NOW + 60 * i, {"cpu": 100 * i}, 1800)
    status = node_status(samples, CollectPolicy(asked), {})
    # The last five minutes hold the samples 500m to 1000m.
    assert status["nodeUsage"]["resources"]["cpu"] == "750m"


def test_the_plugin_reads_the_written_reports() -> None:
    samples = NodeSamples()
    for i in range(21):
        samples.add(NOW + 15 * i, {"cpu": 100 * i, "memory": 5}, 1800)
    metric = parse_node_metric(
        {"metadata": {"name": "a"}, "status": {"nodeMetric": node_status(samples, POLICY, {})}}
    )
    assert base_usage(metric, Percentile("p90", 300.0)) == {"cpu": 1800, "memory": 5}


def test_samples_older_than_the_longest_window_are_dropped() -> None:
    samples = NodeSamples()
    for i in range(1000):
        samples.add(NOW + i, {"cpu": i}, 100)
    assert len(samples.times) == 101
    samples.add(NOW, {"cpu": 0}, 100)
    assert len(samples.times) == 101


def test_windows_that_cannot_be_read_are_left_out() -> None:
    assert windows_of(CollectPolicy(durations=("5m", "soon", "-1m", "1h"))) == {"5m0s": 300, "1h0m0s": 3600}
    assert list(windows_of(CollectPolicy())) == ["5m0s", "10m0s", "30m0s"]


def test_a_report_that_is_refused_does_not_end_the_round() -> None:
    bench = Bench()
    bench.nodes["b"] = make_node("b").obj()
    bench.api.cpu["b"] = "1"
    refused = bench.api.create

    def create(write: Create) -> bytes:
        if write.body["metadata"]["name"] == "a":
            raise ModelError("metadata.name", "refused")
        return refused(write)

    bench.api.create = create  # type: ignore[method-assign]
    assert bench.turn() == 1
    assert set(bench.api.objects) == {"b"}


def test_samples_are_kept_for_the_longest_window_of_the_node() -> None:
    bench = Bench()
    bench.turn()
    bench.api.objects["a"]["spec"] = {
        "metricCollectPolicy": {
            "aggregateDurationSeconds": 60,
            "nodeAggregatePolicy": {"durations": ["30s", "1h"]},
        }
    }
    for _ in range(125):
        bench.pass_time(15)
        bench.turn()
    windows = bench.api.objects["a"]["status"]["nodeMetric"]["aggregatedNodeUsages"]
    assert [entry["duration"] for entry in windows] == ["30s", "1h0m0s"]


def test_a_container_without_figures_leaves_those_of_the_others() -> None:
    bench = Bench()
    bench.api.pods = {"p": ["100m", "lots"]}
    bench.turn()
    (pod,) = bench.api.objects["a"]["status"]["podsMetric"]
    assert pod["podUsage"]["resources"] == {"cpu": "100m"}
