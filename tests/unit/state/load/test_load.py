"""Reports of nodes: which columns follow which change, what is told once, what is forgotten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler_core.load.problems import AnnotationProblem
from scheduler_core.load.spec import Estimation, LoadSpec, Percentile, Thresholds
from scheduler_core.load.usage import UNLIMITED
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind
from scheduler_core.state.load import load
from scheduler_core.state.load.assigned import AssignedPods, estimated_alike
from scheduler_core.state.load.load import LoadIndex
from tests.support.builders import PodBuilder, make_node
from tests.support.kept import entries
from tests.support.load_builders import NOW, MetricBuilder, condition, make_metric, running

SPEC = LoadSpec(("cpu", "memory"), Estimation((100, 100)), Thresholds((50, 0), (0, 0)))


def cluster(*objects: Any) -> ClusterState:
    """Nodes m and n of 10 CPUs, and reports and pods."""
    state = ClusterState()
    for name in ("m", "n"):
        state.put_node(make_node(name).allocatable(cpu=10, memory=1000).obj())
    for obj in objects:
        tell(state, obj)
    return state


def tell(state: ClusterState, obj: Any) -> None:
    if isinstance(obj, PodBuilder):
        state.put_pod(obj.obj(), NOW)
    else:
        state.put_object(obj.obj(), EventKind.NODE_METRIC)


def column(state: ClusterState, name: str, spec: LoadSpec = SPEC) -> list[int]:
    """CPU of m and n, or the value of each."""
    values = getattr(state.load.columns(spec), name)
    found: list[int] = (values[0] if values.ndim == 2 else values)[:2].tolist()
    return found


# What columns say


def test_use_is_what_is_reported_and_what_is_estimated_on_top() -> None:
    state = cluster(make_metric("m").usage(cpu="2"), running("a/old", "m", NOW - 900, cpu=1))
    assert (column(state, "usage"), column(state, "load")) == ([2000, 0], [3000, 0])
    state.put_object(make_metric("m").usage(cpu="2").pod("a/old", cpu="1").obj(), EventKind.NODE_METRIC)
    assert column(state, "load") == [2000, 0], "its use is in the node's"
    tell(state, running("a/new", "m", NOW + 5, cpu=3))
    assert column(state, "load") == [5000, 0]
    state.remove_pod("a/new")
    assert column(state, "load") == [2000, 0]


def test_room_is_under_the_threshold_where_anything_was_measured() -> None:
    state = cluster(make_metric("m").usage(cpu="2", memory="100"), make_metric("n").unmeasured())
    room = state.load.columns(SPEC).room[:, :2].tolist()
    assert room == [[3049, UNLIMITED], [UNLIMITED, UNLIMITED]]


def test_the_systems_use_counts_as_prod_where_it_is_asked_for() -> None:
    state = cluster(
        make_metric("m").usage(cpu="4").system(cpu="1", memory="7"), make_metric("n").usage(cpu="1")
    )
    with_system = LoadSpec(
        ("cpu", "memory"), Estimation((100, 100)), Thresholds((50, 0), (50, 0)), None, True
    )
    assert column(state, "prod_usage") == [0, 0]
    assert column(state, "prod_usage", with_system) == [1000, 0]
    assert state.load.columns(with_system).prod_usage[1, :2].tolist() == [7, 0]


def test_a_percentile_stands_for_the_average_and_estimates_for_a_percentile_that_is_missing() -> None:
    metric = make_metric("m").usage(cpu="1").percentile("5m", "p95", cpu="4")
    other = make_metric("n").usage(cpu="1").percentile("5m", "p50", cpu="4")
    state = cluster(metric, other, running("a/p", "n", NOW - 900, cpu=2))
    p95 = Thresholds((0, 0), (0, 0), (50, 0), Percentile("p95", 300.0))
    spec = LoadSpec(("cpu", "memory"), Estimation((100, 100)), p95, Percentile("p95", 300.0))
    assert column(state, "usage", spec) == [4000, 0]
    assert column(state, "base_missing", spec) == [False, True]
    assert column(state, "load", spec) == [4000, 2000]
    assert column(state, "threshold", spec) == [50, 50]


def test_a_report_expires_where_a_threshold_could_refuse_by_it() -> None:
    state = cluster(make_metric("m").usage(cpu="1").updated(NOW - 10))
    assert column(state, "expires") == [NOW - 10 + 180, np.inf]
    assert column(state, "scored_until") == [NOW - 10 + 180, -np.inf]
    free = LoadSpec(("cpu", "memory"), Estimation((100, 100)), Thresholds((0, 0), (0, 0)))
    assert column(state, "expires", free) == [np.inf, np.inf]
    state.put_object(make_metric("n").updated(None).obj(), EventKind.NODE_METRIC)
    assert column(state, "expires")[1] == -np.inf, "a report of nobody knows when is too old"


def test_thresholds_of_a_node_are_its_own() -> None:
    state = cluster(make_metric("m").usage(cpu="1"))
    own = make_node("m").allocatable(cpu=10, memory=1000)
    own.meta["annotations"] = {
        "scheduling.koordinator.sh/usage-thresholds": '{"usageThresholds": {"cpu": 80}}'
    }
    assert column(state, "threshold") == [50, 50]
    state.put_node(own.obj())
    assert column(state, "threshold") == [80, 50]
    state.remove_node("m")
    assert column(state, "capacity") == [0, 10_000]
    assert column(state, "threshold") == [50, 50]


def test_a_report_expires_for_prod_pods_only_on_nodes_with_a_threshold_for_them() -> None:
    state = cluster(*(make_metric(name).usage(cpu="1").updated(NOW) for name in ("m", "n")))
    own = make_node("m").allocatable(cpu=10, memory=1000)
    own.meta["annotations"] = {
        "scheduling.koordinator.sh/usage-thresholds": '{"prodUsageThresholds": {"cpu": 80}}'
    }
    state.put_node(own.obj())
    free = LoadSpec(("cpu", "memory"), Estimation((100, 100)), Thresholds((0, 0), (0, 0)))
    assert column(state, "prod_expires", free) == [NOW + 180, np.inf]
    assert column(state, "prod_expires") == [NOW + 180, NOW + 180], "without one, that of all pods counts"


# What they follow


def test_columns_follow_reports_nodes_and_pods_one_by_one() -> None:
    state = cluster()
    assert column(state, "load") == [0, 0]
    tell(state, make_metric("n").usage(cpu="1"))
    assert column(state, "load") == [0, 1000]
    tell(state, make_metric("n").usage(cpu="2"))
    assert column(state, "load") == [0, 2000]
    state.put_node(make_node("n").allocatable(cpu=20, memory=1000).obj())
    assert column(state, "capacity") == [10_000, 20_000]
    state.remove_object(make_metric("n").obj(), EventKind.NODE_METRIC)
    assert column(state, "load") == [0, 0]
    assert state.check() == []


def test_a_report_that_comes_before_its_node_waits_for_it() -> None:
    state = cluster(make_metric("later").usage(cpu="3"))
    state.load.columns(SPEC)
    state.put_node(make_node("later").allocatable(cpu=10).obj())
    assert state.load.columns(SPEC).load[0, 2] == 3000


def test_nothing_is_kept_of_pods_before_somebody_asks() -> None:
    state = cluster(make_metric("m").usage(cpu="1"), running("a/p", "m", NOW + 5, cpu=1))
    state.put_pod(running("a/p", "m", NOW + 5, cpu=1).labels(x="y").obj())
    assert entries(state.load.assigned) == 0
    assert column(state, "load") == [2000, 0]


def test_a_pod_in_a_newer_form_is_estimated_anew_where_it_matters() -> None:
    state = cluster(make_metric("m").usage(cpu="1"), running("a/p", "m", NOW - 900, cpu=1))
    assert column(state, "load") == [2000, 0]
    position = state.load.changes.position
    state.put_pod(running("a/p", "m", NOW - 900, cpu=1).labels(x="y").obj())
    assert state.load.changes.position == position
    state.put_pod(running("a/p", "m", NOW + 5, cpu=1).obj())
    assert state.load.changes.position > position
    assert state.check() == []


ALIKE: list[tuple[str, PodBuilder, bool]] = [
    ("labels", running("a/p", "m", cpu=1).labels(x="y"), True),
    ("requests", running("a/p", "m", cpu=2), False),
    ("priority", running("a/p", "m", cpu=1).priority(5), False),
    ("when it was scheduled", running("a/p", "m", NOW - 11, cpu=1), False),
    (
        "when it was initialized",
        running("a/p", "m", cpu=1).status(
            conditions=[condition("PodScheduled", NOW - 10), condition("Initialized", NOW)]
        ),
        False,
    ),
    (
        "limits",
        running("a/p", "m").containers(
            {
                "name": "main",
                "image": "pause",
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
            }
        ),
        False,
    ),
]


@pytest.mark.parametrize(("newer", "alike"), [a[1:] for a in ALIKE], ids=[a[0] for a in ALIKE])
def test_what_an_estimate_is_made_again_for(newer: PodBuilder, alike: bool) -> None:
    assert estimated_alike(running("a/p", "m", cpu=1).obj(), newer.obj()) is alike


def test_a_large_cluster_has_columns_for_all() -> None:
    state = cluster()
    state.load.columns(SPEC)
    for number in range(150):
        state.put_node(make_node(f"x{number}").allocatable(cpu=10, memory=9).obj())
        state.put_object(make_metric(f"x{number}").usage(cpu=str(number % 10)).obj(), EventKind.NODE_METRIC)
        state.put_pod(running(f"a/p{number}", f"x{number}", NOW + 5, cpu=1).obj(), NOW)
    assert state.load.columns(SPEC).load[0, 2:152].tolist() == [
        1000 * (number % 10 + 1) for number in range(150)
    ]
    assert state.check() == []
    assert state.load.columns(SPEC).nbytes > 0


def test_more_pods_than_a_table_begins_with_are_all_estimated() -> None:
    state = cluster(make_metric("m").usage(cpu="1"), make_metric("n").usage(cpu="1"))
    spec = LoadSpec(("cpu", "memory"), Estimation((100, 100)), Thresholds((50, 0), (50, 0)))
    for number in range(200):
        node = "m" if number % 3 else "n"
        tell(state, running(f"a/p{number}", node, NOW + 5, cpu="10m"))
        if number % 50 == 49:
            on_m = number + 1 - (number // 3 + 1)
            assert column(state, "load", spec) == [1000 + 10 * on_m, 1000 + 10 * (number + 1 - on_m)]
    assert state.check() == []


def test_layouts_hold_until_pods_or_the_report_change() -> None:
    state = cluster(running("a/p", "m", cpu=1), running("a/q", "m", cpu=1))
    assigned = AssignedPods()
    for placement in state.placed.values():
        assigned.add(placement)
    both = make_metric("m").pod("a/q", cpu="1").pod("a/x", cpu="1").obj().pods
    layout = assigned.layout(0, both)
    assert ([item.key for item in layout.items], layout.positions.tolist()) == (["a/p", "a/q"], [-1, 0])
    assert assigned.layout(0, both) is layout
    assert assigned.layout(0, make_metric("m").pod("a/p", cpu="1").obj().pods).positions.tolist() == [0, -1]
    assigned.remove(state.placed["a/p"])
    assert [item.key for item in assigned.layout(0, both).items] == ["a/q"]
    assigned.remove(state.placed["a/q"])
    assert list(assigned.layout(0, both).items) == []


# What is told


def test_nodes_that_are_told_to_measure_otherwise_are_told_once() -> None:
    state = cluster(make_metric("m"))

    def told() -> set[str]:
        return state.load.take_respecified()

    assert (told(), told()) == ({"m"}, set())
    tell(state, make_metric("m").usage(cpu="9"))
    assert told() == set(), "its report alone"
    other: MetricBuilder = make_metric("m").interval(7)
    tell(state, other)
    assert told() == {"m"}
    state.remove_object(other.obj(), EventKind.NODE_METRIC)
    assert told() == {"m"}


def problem(name: str, value: str = "x") -> AnnotationProblem:
    return AnnotationProblem("Node", "", name, "some", value, "is wrong")


def test_a_problem_is_told_once_and_again_with_another_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_KNOWN_PROBLEMS", 2)
    state = ClusterState()
    index = LoadIndex(state.nodes, state.placed)
    for found in (problem("a"), problem("a"), problem("a", "y"), problem("b")):
        index.report(found)
    assert index.take_problems() == [problem("a"), problem("a", "y"), problem("b")]
    assert index.take_problems() == []
    index.report(problem("c"))
    index.report(problem("b"))
    assert index.take_problems() == [problem("c")]
    index.report(problem("a", "y"))
    assert index.take_problems() == [problem("a", "y")], "the oldest was forgotten"


def test_the_checker_computes_the_columns_anew() -> None:
    state = cluster(make_metric("m").usage(cpu="1"))
    state.load.columns(SPEC).load[0, 0] += 1
    assert state.load.check() == ["load column load is not what reports and pods say"]
    state.remove_node("m")
    assert state.load.check() == [], "nobody asks about a node that is gone"
