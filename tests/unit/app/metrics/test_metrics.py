from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from scheduler_core.app.extenders.metrics import ExtenderMetrics
from scheduler_core.app.loop.event_handlers import WaitingTimes, waits_for
from scheduler_core.app.loop.inbox import Timing
from scheduler_core.app.metrics.metrics import SampledMetrics, SchedulerMetrics, WatchMetrics
from scheduler_core.app.metrics.quota_seconds import QuotaSecondsMetrics
from scheduler_core.app.metrics.sample import Sample
from scheduler_core.engine.decisions import Evicted, Noticed, Placed, Rejected
from scheduler_core.model.pods.pod import parse_pod
from scheduler_core.model.writes import Bind

DOCUMENT = Path(__file__).parents[4] / "docs" / "operations.md"
POD = parse_pod({"metadata": {"name": "p", "namespace": "a", "uid": "u"}, "spec": {"containers": []}})
PLACED = Placed(POD, "n", "own", Bind("a", "p", "u", "n"))
SAMPLE = Sample(
    {"active": 2.0},
    {"nodes": 3.0},
    {("active", "PodAdd"): 4.0},
    {"used": {("team", "cpu"): 1.5}},
    1,
    {("team", "quota"): 0.25},
    {("team", "quota", "cpu"): 2.5},
    {"Running": 6.0},
    {"used": {("dept", "cpu"): 3.5}},
    {("team", "gang"): 7.5},
)


def with_everything() -> SchedulerMetrics:
    metrics = SchedulerMetrics("1.2.3")
    metrics.add(SampledMetrics(lambda: SAMPLE))
    metrics.add(QuotaSecondsMetrics(lambda: {("a", "cpu", "used"): 1}))
    metrics.add(WatchMetrics([], lambda: True))
    ExtenderMetrics(metrics.registry)
    return metrics


def text(metrics: SchedulerMetrics) -> str:
    return generate_latest(metrics.registry).decode()


def test_the_document_lists_exactly_the_metrics_that_there_are() -> None:
    rows = re.findall(r"^\| `([a-z0-9_]+)` \| (counter|gauge|histogram) \|", DOCUMENT.read_text(), re.M)
    quotas = {(f"muster_quota_{name}", "gauge") for name in ("min", "max", "borrowed")}
    quotas |= {(f"muster_quota_group_{name}", "gauge") for name in ("min", "max")}
    found = set(re.findall(r"^# TYPE ([a-z0-9_]+) (\w+)", text(with_everything()), re.M))
    told = {(name, kind) for name, kind in found if not name.endswith("_created")} | quotas
    assert set(rows) == told


def test_a_binding_counts_as_scheduled_under_its_profile_and_attempts() -> None:
    metrics = with_everything()
    metrics.bound(PLACED, Timing(decided=10.0, algorithm=0.5, since=4.0, attempts=20), 11.0)
    said = text(metrics)
    assert 'scheduler_schedule_attempts_total{profile="own",result="scheduled"} 1.0' in said
    labels = 'profile="own",result="scheduled"'
    assert f"scheduler_scheduling_attempt_duration_seconds_sum{{{labels}}} 1.5" in said
    assert 'scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="16+"} 7.0' in said
    assert 'scheduler_binding_duration_seconds_sum{profile="own"} 1.0' in said


def test_a_clock_that_goes_back_gives_no_negative_duration() -> None:
    metrics = with_everything()
    metrics.bound(PLACED, Timing(decided=10.0, algorithm=0.0, since=10.0), 5.0)
    assert 'scheduler_binding_duration_seconds_sum{profile="own"} 0.0' in text(metrics)


def test_a_refusal_with_victims_counts_a_preemption() -> None:
    metrics = with_everything()
    victims = [Evicted(POD, POD, "own", "") for _ in range(3)]
    metrics.decided([*victims, Rejected(POD, "own", "Unschedulable", "no room")], 0.1)
    metrics.decided([Rejected(POD, "own", "SchedulerError", "broken plugin")], 0.1)
    said = text(metrics)
    assert 'scheduler_schedule_attempts_total{profile="own",result="unschedulable"} 1.0' in said
    assert 'scheduler_schedule_attempts_total{profile="own",result="error"} 1.0' in said
    assert "scheduler_preemption_attempts_total 1.0" in said
    assert "scheduler_preemption_victims_sum 3.0" in said


def test_evictions_count_by_the_namespace_that_lost_the_pod_and_the_rule() -> None:
    metrics = with_everything()
    victims = [Evicted(POD, POD, "own", "", why) for why in ("reclaim", "fair", "fair")]
    metrics.decided([*victims, Rejected(POD, "own", "Unschedulable", "no room")], 0.1)
    said = text(metrics)
    assert f'muster_quota_evictions_total{{namespace="{POD.namespace}",reason="fair"}} 2.0' in said
    assert f'muster_quota_evictions_total{{namespace="{POD.namespace}",reason="reclaim"}} 1.0' in said


def test_waits_are_told_by_what_the_pod_waited_for_and_for_quotas_only() -> None:
    metrics = with_everything()
    for waited_for in ("quota", "quota", ""):
        metrics.bound(PLACED, Timing(since=4.0, waited_for=waited_for), 24.0)
    said = text(metrics)
    assert f'muster_quota_wait_seconds_sum{{namespace="{POD.namespace}",reason="quota"}} 40.0' in said
    assert said.count("muster_quota_wait_seconds_count") == 1


def test_what_may_happen_to_a_quota_is_told_with_zeros_before_it_happens() -> None:
    """A series that begins with 1 does not rise in the eyes of Prometheus: the first event would be lost."""
    metrics = with_everything()
    metrics.quota_seen("team")
    metrics.wait_begins("team", "gang")
    said = text(metrics)
    for rule in ("reclaim", "fair", "priority"):
        assert f'muster_quota_evictions_total{{namespace="team",reason="{rule}"}} 0.0' in said
    assert 'muster_quota_wait_seconds_count{namespace="team",reason="gang"} 0.0' in said


@pytest.mark.parametrize(
    ("refused_by", "waited_for"),
    [
        ({"CapacityScheduling", "SumOfMin", "NodeResourcesFit"}, "quota"),
        ({"ClusterTopologyPlacementGroup", "NodeResourcesFit"}, "topology"),
        ({"Coscheduling"}, "gang"),
        ({"Coscheduling", "NodeResourcesFit"}, "nodes"),
        ({"NodeResourcesFit"}, "nodes"),
    ],
)
def test_what_a_pod_waits_for(refused_by: set[str], waited_for: str) -> None:
    times = WaitingTimes()
    times.seen("u", 1.0)
    assert times.timing("u", 2.0, 0.0, quota=True).waited_for == "turn"
    times.refused("u", waits_for(frozenset(refused_by)))
    assert times.timing("u", 3.0, 0.0, quota=True) == Timing(3.0, 0.0, 1.0, 2, waited_for)
    assert times.timing("u", 3.0, 0.0).waited_for == ""


def test_every_profile_has_series_of_its_own() -> None:
    """The five measurements that Kubernetes' KEP on profiles names."""
    metrics = with_everything()
    metrics.decided([PLACED], 0.25)
    metrics.bound(PLACED, Timing(decided=1.0, algorithm=0.25, since=1.0), 1.5)
    # Words about others come first and do not decide whose attempt it was.
    notice = Noticed("v1", "Node", "", "n", "", "own", "Told", "")
    metrics.decided([notice, Rejected(POD, "other", "Unschedulable", "no room")], 0.5)
    own, other = 'profile="own"', 'profile="other"'
    lines = (
        f'scheduler_schedule_attempts_total{{{own},result="scheduled"}} 1.0',
        f'scheduler_schedule_attempts_total{{{other},result="unschedulable"}} 1.0',
        f'scheduler_e2e_scheduling_duration_seconds_sum{{{own},result="scheduled"}} 0.75',
        f'scheduler_e2e_scheduling_duration_seconds_sum{{{other},result="unschedulable"}} 0.5',
        f"scheduler_scheduling_algorithm_duration_seconds_sum{{{own}}} 0.25",
        f"scheduler_scheduling_algorithm_duration_seconds_sum{{{other}}} 0.5",
        f"scheduler_scheduling_algorithm_preemption_evaluation_seconds_count{{{own}}} 0.0",
        f"scheduler_scheduling_algorithm_preemption_evaluation_seconds_sum{{{other}}} 0.5",
        f"scheduler_binding_duration_seconds_sum{{{own}}} 0.5",
        f"scheduler_binding_duration_seconds_count{{{other}}} 0.0",
    )
    said = text(metrics).splitlines()
    assert [line for line in lines if line not in said] == []


def test_profiles_of_the_configuration_show_before_their_first_pod() -> None:
    said = text(SchedulerMetrics("1", ["quiet"]))
    for result in ("scheduled", "unschedulable", "error"):
        assert f'scheduler_schedule_attempts_total{{profile="quiet",result="{result}"}} 0.0' in said
    assert 'scheduler_binding_duration_seconds_count{profile="quiet"} 0.0' in said


def test_gauges_come_from_a_sample_and_are_missing_without_one() -> None:
    said = text(with_everything())
    assert 'scheduler_pending_pods{queue="active"} 2.0' in said
    assert 'scheduler_queue_incoming_pods_total{event="PodAdd",queue="active"} 4.0' in said
    assert 'muster_quota_used{namespace="team",resource="cpu"} 1.5' in said
    assert 'muster_quota_share{namespace="team",quota="quota"} 0.25' in said
    assert 'muster_quota_entitled{namespace="team",quota="quota",resource="cpu"} 2.5' in said
    assert 'muster_quota_group_used{group="dept",resource="cpu"} 3.5' in said
    assert 'muster_gangs{phase="Running"} 6.0' in said
    assert 'muster_longest_wait_seconds{namespace="team",unit="gang"} 7.5' in said
    assert "muster_nodes_without_allocatable 1.0" in said
    silent = SchedulerMetrics("1")
    silent.add(SampledMetrics(lambda: None))
    assert "scheduler_pending_pods" not in text(silent)


def test_every_family_says_what_it_is() -> None:
    found = dict(re.findall(r"^# HELP ([a-z0-9_]+) (.*)$", text(with_everything()), re.M))
    told = {
        name: what
        for name, what in found.items()
        if name.startswith("muster_") and not name.endswith("_created")
    }
    assert all(told.values())
    assert sorted(set(told.values())) == sorted(told.values()), "each says something else"


def test_objects_that_could_not_be_parsed_count_by_kind() -> None:
    metrics = with_everything()
    for kind in ("Pod", "", "Pod"):
        metrics.malformed(kind)
    found = re.findall(r'^(muster_malformed\w+_total)\{kind="(\w+)"\} (\S+)$', text(metrics), re.M)
    assert sorted((kind, count) for _, kind, count in found) == [("Pod", "2.0"), ("unknown", "1.0")]
