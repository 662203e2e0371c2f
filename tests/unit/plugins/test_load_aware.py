"""LoadAwareScheduling in the engine: what changes with time, with placements and with reports."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from scheduler_core.config import load_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.controllers.problem_events import AnnotationProblems
from scheduler_core.engine.decisions import Placed, Rejected
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.interface import POINTS
from scheduler_core.framework.registry import build_profiles
from scheduler_core.framework.status import Code
from scheduler_core.framework.view import NodeView
from scheduler_core.load.estimate import estimate_pod
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.writes import Create
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.load import estimates as pod_estimates
from tests.support.asking import cycle_for
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.cost import measured
from tests.support.load_builders import NOW, load_aware_plugin, make_metric, running

THRESHOLDS = "scheduling.koordinator.sh/usage-thresholds"


def scheduler(*objects: Any, **args: Any) -> Scheduler:
    """A scheduler where load alone decides between nodes that fit."""
    alone = {"disabled": [{"name": "*"}], "enabled": [{"name": "LoadAwareScheduling"}]}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "muster-scheduler",
                "plugins": {"multiPoint": {"enabled": [{"name": "LoadAwareScheduling"}]}, "score": alone},
                "pluginConfig": [{"name": "LoadAwareScheduling", "args": args}],
            }
        ],
    }
    profiles = build_profiles(load_config(json.dumps(document)), FACTORIES, KNOWN_PLUGINS)
    made = Scheduler(ClusterState(), profiles, initial_backoff=0.0, max_backoff=0.0, clock=lambda: 0.0)
    for obj in objects:
        made.put(obj, NOW)
    return made


def nodes(*names: str) -> list[Any]:
    return [make_node(name).allocatable(cpu="16", memory="64Gi").obj() for name in names]


def small(name: str) -> PodBuilder:
    return make_pod(f"ns/{name}").uid(name).requests(cpu="2", memory="1Gi")


def outcome(made: Scheduler, now: float = NOW) -> dict[str, str]:
    """Pod name to node, or to why not."""
    found = {}
    for decision in made.step(now):
        if isinstance(decision, Placed):
            found[decision.pod.name] = decision.node
        elif isinstance(decision, Rejected):
            found[decision.pod.name] = decision.message
    assert made.state.check() == []
    return found


@pytest.mark.parametrize("point", ["preFilter", "filter", "score", "reserve"])
def test_it_is_there_at_every_point_of_its_own(point: str) -> None:
    assert isinstance(load_aware_plugin(), POINTS[point])
    assert point in KNOWN_PLUGINS["LoadAwareScheduling"]


def test_pods_go_to_the_cold_node() -> None:
    hot, cold = make_metric("hot").usage(cpu="9"), make_metric("cold").usage(cpu="1")
    made = scheduler(*nodes("hot", "cold"), hot.obj(), cold.obj(), small("p").obj())
    assert outcome(made) == {"p": "cold"}


def test_a_burst_does_not_pile_up_on_the_cold_node() -> None:
    hot, cold = make_metric("hot").usage(cpu="5"), make_metric("cold").usage(cpu="1")
    pods = [small(f"p{i}").obj() for i in range(8)]
    made = scheduler(*nodes("hot", "cold"), hot.obj(), cold.obj(), *pods, usageThresholds={"cpu": 90})
    placed = list(outcome(made).values())
    # 1.7 cores each: 1 + 5 * 1.7 = 9.5 against 5 + 3 * 1.7 = 10.1 in the end.
    assert (placed.count("cold"), placed.count("hot")) == (5, 3)


def test_a_full_cold_node_takes_no_more() -> None:
    made = scheduler(*nodes("a"), make_metric("a").obj(), *(small(f"p{i}").obj() for i in range(8)))
    found = outcome(made)
    # Six of them are estimated at 10.2 of 16 cores, 64%; a seventh would make 74%.
    assert [found[f"p{i}"] for i in range(6)] == ["a"] * 6
    assert "1 node(s) cpu usage exceed threshold" in found["p6"]


def test_a_pod_that_is_forgotten_counts_no_more() -> None:
    made = scheduler(*nodes("a"), make_metric("a").obj(), *(small(f"p{i}").obj() for i in range(6)))
    outcome(made)
    made.bind_failed(made.state.pods["p0"], NOW)
    made.queue.remove("p0")
    made.put(small("late").obj(), NOW)
    assert outcome(made) == {"late": "a"}


def test_a_report_expires_with_the_clock_alone() -> None:
    made = scheduler(*nodes("a"), make_metric("a").obj(), small("p").obj(), small("q").obj())
    assert made.step(NOW + 179, 1)[0].pod.name == "p"
    assert "1 node(s) nodeMetric expired" in outcome(made, NOW + 180)["q"]


def test_a_new_report_wakes_the_pod() -> None:
    made = scheduler(*nodes("a"), make_metric("a").usage(cpu="15").obj(), small("p").obj())
    assert "cpu usage exceed threshold" in outcome(made)["p"]
    assert outcome(made) == {}
    made.put(make_metric("a").usage(cpu="1").obj(), NOW)
    assert outcome(made) == {"p": "a"}


# cpu that the waiting pod asks for, its priority, what a running one of priority 0 holds, the reported use.
REPORTS = [
    ("the node is below its threshold now", "1", 0, "8", "1", True),
    ("it still is above", "1", 0, "8", "15", False),
    ("it has no room for the pod anyhow", "9", 0, "8", "1", False),
    ("it has after an eviction", "9", 5, "8", "1", True),
    ("an eviction may bring it below", "1", 5, "8", "15", True),
]


@pytest.mark.parametrize(
    ("asked", "priority", "held", "used", "tried"), [c[1:] for c in REPORTS], ids=[c[0] for c in REPORTS]
)
def test_a_new_report_concerns_whom_its_node_may_take(
    asked: str, priority: int, held: str, used: str, tried: bool
) -> None:
    waits = make_pod("ns/p").uid("p").requests(cpu=asked).priority(priority)
    runs = running("ns/r", "a", NOW, cpu=held).never()
    made = scheduler(*nodes("a"), make_metric("a").usage(cpu="16").obj(), runs.obj(), waits.obj())
    assert outcome(made)["p"] != "a"
    made.put(make_metric("a").usage(cpu=used).obj(), NOW + 20)
    made.queue.flush(NOW + 20)
    assert made.queue.has_active() is tried


def test_a_removed_report_wakes_the_pod() -> None:
    metric = make_metric("a").usage(cpu="15").obj()
    made = scheduler(*nodes("a"), metric, small("p").obj())
    outcome(made)
    made.remove(metric, NOW)
    assert outcome(made) == {"p": "a"}


def test_where_nodes_without_a_report_are_avoided_the_first_report_wakes_the_pod() -> None:
    gone = running("ns/r", "a", NOW, cpu="1").obj()
    asked = {"enableScheduleWhenNodeMetricsMissing": False}
    made = scheduler(*nodes("a"), gone, small("p").obj(), **asked)
    assert "1 node(s) nodeMetric missing" in outcome(made)["p"]
    made.remove(gone, NOW)
    assert not made.queue.has_active()
    made.put(make_metric("a").usage(cpu="1").obj(), NOW)
    assert outcome(made) == {"p": "a"}


def test_a_pod_that_ends_wakes_the_pod() -> None:
    placed = [running(f"ns/r{i}", "a", NOW, cpu="2").obj() for i in range(6)]
    made = scheduler(*nodes("a"), make_metric("a").obj(), *placed, small("p").obj())
    assert "cpu usage exceed threshold" in outcome(made)["p"]
    made.remove(placed[0], NOW)
    assert outcome(made) == {"p": "a"}


def test_other_thresholds_of_the_node_wake_the_pod() -> None:
    made = scheduler(*nodes("a"), make_metric("a").usage(cpu="12").obj(), small("p").obj())
    assert "cpu usage exceed threshold" in outcome(made)["p"]
    raised = make_node("a").allocatable(cpu="16", memory="64Gi")
    raised.meta["annotations"] = {THRESHOLDS: '{"usageThresholds": {"cpu": 99}}'}
    made.put(raised.obj(), NOW)
    assert outcome(made) == {"p": "a"}


def test_a_report_that_came_before_its_node_counts() -> None:
    made = scheduler(make_metric("a").usage(cpu="15").obj(), make_metric("ghost").obj())
    for node in nodes("a"):
        made.put(node, NOW)
    made.put(small("p").obj(), NOW)
    assert "cpu usage exceed threshold" in outcome(made)["p"]


def test_pods_that_differ_in_limits_alone_are_judged_apart() -> None:
    limits = {"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "14"}}}
    greedy = make_pod("ns/greedy").uid("greedy").containers(limits).obj()
    modest = make_pod("ns/modest").uid("modest").requests(cpu="1").obj()
    made = scheduler(*nodes("a"), make_metric("a").obj(), modest, greedy)
    found = outcome(made)
    assert found["modest"] == "a"
    assert "cpu usage exceed threshold" in found["greedy"]


def test_pods_of_a_daemon_set_are_not_kept_off() -> None:
    pod = small("p")
    pod.meta["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}]
    made = scheduler(*nodes("a"), make_metric("a").usage(cpu="16").obj(), pod.obj())
    assert outcome(made) == {"p": "a"}


def test_a_report_that_is_expired_or_missing_is_no_matter_of_eviction() -> None:
    plugin = load_aware_plugin()
    reasons = plugin.reasons(cycle_for(ClusterState(), small("p").obj()))
    assert [reason.text for reason in reasons if not reason.resolvable] == [
        "node(s) nodeMetric expired",
        "node(s) nodeMetric missing",
    ]


def test_preemption_counts_the_estimates_that_an_eviction_frees() -> None:
    placed = [running(f"ns/r{i}", "a", NOW, cpu="2").priority(1).obj() for i in range(6)]
    important = small("p").priority(100).obj()
    made = scheduler(*nodes("a"), make_metric("a").obj(), *placed, important)
    decisions = made.step(NOW)
    assert [type(decision).__name__ for decision in decisions] == ["Evicted", "Rejected"]
    assert made.state.check() == []


def test_preemption_evicts_nobody_for_what_was_measured() -> None:
    metric = make_metric("a").usage(cpu="15").pod("ns/r", cpu="15")
    placed = running("ns/r", "a", NOW - 900, cpu="2").priority(1).obj()
    made = scheduler(*nodes("a"), metric.obj(), placed, small("p").priority(100).obj())
    assert [type(decision).__name__ for decision in made.step(NOW)] == ["Rejected"]


def test_a_bad_annotation_is_reported_once_and_blocks_no_pod() -> None:
    broken = make_node("a").allocatable(cpu="16", memory="64Gi")
    broken.meta["annotations"] = {THRESHOLDS: "{", "node.koordinator.sh/raw-allocatable": '{"cpu": "x"}'}
    made = scheduler(broken.obj(), make_metric("a").obj(), small("p").obj(), small("q").obj())
    assert outcome(made) == {"p": "a", "q": "a"}
    events = AnnotationProblems().reconcile(made.state, NOW)
    assert len(events) == 2
    first = events[0]
    assert isinstance(first, Create)
    assert first.body["reason"] == "InvalidAnnotation"
    assert first.body["regarding"] == {"apiVersion": "v1", "kind": "Node", "namespace": "", "name": "a"}
    made.put(broken.obj(), NOW)
    made.put(small("r").obj(), NOW)
    outcome(made)
    assert AnnotationProblems().reconcile(made.state, NOW) == []


def test_a_new_bad_value_is_told_again() -> None:
    made = scheduler(make_metric("a").obj())
    told = []
    for text in ("{", "{", "[", "{"):
        broken = make_node("a").allocatable(cpu="16")
        broken.meta["annotations"] = {THRESHOLDS: text}
        made.put(broken.obj(), NOW)
        made.put(small(f"p{len(told)}").obj(), NOW)
        outcome(made)
        told.append(len(made.state.load.take_problems()))
    assert told == [1, 0, 1, 1]


def test_metadata_alone_does_not_change_an_estimate() -> None:
    made = scheduler(*nodes("a"), make_metric("a").obj(), running("ns/r", "a", NOW, cpu="4").obj())
    columns = made.state.load.columns(load_aware_plugin().spec)
    assert columns.delta[0, 0] == 3400
    labelled = running("ns/r", "a", NOW, cpu="4").label("koordinator.sh/priority-class", "koord-free")
    made.put(labelled.obj(), NOW)
    assert made.state.load.columns(load_aware_plugin().spec).delta[0, 0] == 3400
    moved = running("ns/r", "a", NOW - 1, cpu="4").label("koordinator.sh/priority-class", "koord-free")
    made.put(moved.obj(), NOW)
    assert made.state.load.columns(load_aware_plugin().spec).delta[0, 0] == 0


def test_profiles_that_say_the_same_share_their_columns() -> None:
    state = ClusterState()
    same = [load_aware_plugin(nodeMetricExpirationSeconds=60) for _ in range(2)]
    assert state.load.columns(same[0].spec) is state.load.columns(same[1].spec)
    other = load_aware_plugin(nodeMetricExpirationSeconds=61)
    assert state.load.columns(same[0].spec) is not state.load.columns(other.spec)


def test_nothing_is_recomputed_for_nodes_that_did_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scheduler(*nodes("a", "b", "c"), *(make_metric(name).obj() for name in "abc"))
    columns = made.state.load.columns(load_aware_plugin().spec)
    seen: list[list[int]] = []
    whole = columns.derive
    monkeypatch.setattr(columns, "derive", lambda slots: (seen.append(slots.tolist()), whole(slots)))
    made.state.load.columns(columns.spec)
    made.put(make_metric("b").usage(cpu="1").obj(), NOW)
    made.put(running("ns/r", "c", NOW, cpu="4").obj(), NOW)
    made.state.load.columns(columns.spec)
    made.state.load.columns(columns.spec)
    assert seen == [[1, 2]]


def test_a_second_pod_estimates_nobody_again(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = [running(f"ns/r{i}", "abc"[i % 3], NOW, cpu="1").obj() for i in range(9)]
    made = scheduler(*nodes("a", "b", "c"), *(make_metric(name).obj() for name in "abc"), *placed)
    asked: list[str] = []

    def noted(pod: Pod, *rest: Any) -> tuple[int, ...]:
        asked.append(pod.name)
        return estimate_pod(pod, *rest)

    monkeypatch.setattr(pod_estimates, "estimate_pod", noted)
    made.put(small("first").obj(), NOW)
    assert isinstance(made.step(NOW)[0], Placed)
    assert sorted(set(asked) - {"first"}) == sorted(pod.name for pod in placed)
    assert len(asked) <= len(placed) + 1
    asked.clear()
    made.put(make_pod("ns/second").uid("second").requests(cpu="1").obj(), NOW)
    assert isinstance(made.step(NOW)[0], Placed)
    assert set(asked) <= {"first", "second"}


def test_a_second_pod_costs_a_fraction_of_the_first() -> None:
    names = [f"n{i}" for i in range(400)]
    placed = [running(f"ns/r{i}", names[i % 400], NOW, cpu="1").obj() for i in range(4000)]
    made = scheduler(*nodes(*names), *(make_metric(name).obj() for name in names), *placed)
    plugin = load_aware_plugin()

    def judge(name: str) -> float:
        cycle, view = cycle_for(made.state, small(name).obj()), NodeView.all(made.state.nodes)
        plugin.pre_filter(cycle)
        return measured(lambda: (plugin.filter(cycle, view), plugin.score(cycle, view)))[1]

    first = judge("first")
    assert min(judge(f"p{number}") for number in range(5)) < first / 10


def test_an_empty_cluster_has_empty_answers() -> None:
    plugin, state = load_aware_plugin(), ClusterState()
    cycle = cycle_for(state, small("p").obj())
    assert plugin.pre_filter(cycle).code is Code.SUCCESS
    columns = state.load.columns(plugin.spec)
    assert np.array_equal(columns.updated[: state.nodes.size], [])
