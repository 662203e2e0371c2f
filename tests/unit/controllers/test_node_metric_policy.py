"""NodeMetrics follow the nodes and the collect policy of the ConfigMap."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler_core.controllers.node_metric_policy import RETRY_SECONDS, NodeMetricPolicy
from scheduler_core.controllers.problem_events import CollectPolicyProblems
from scheduler_core.errors import ModelError
from scheduler_core.model.collect_policy import parse_collect_config
from scheduler_core.model.config_map import parse_config_map
from scheduler_core.model.node_metric import CollectPolicy, parse_node_metric
from scheduler_core.model.writes import Create, Delete, Patch, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind
from tests.support.builders import make_node
from tests.support.load_builders import make_metric

NOW = 1_000.0
DEFAULTS = {"aggregateDurationSeconds": 300, "reportIntervalSeconds": 60}
NEAR = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
OURS = {"muster.dev/reported-by": "muster-scheduler"}


def config(**cluster: Any) -> dict[str, Any]:
    """The ConfigMap as an object."""
    return config_text(json.dumps(cluster))


def config_text(text: str) -> dict[str, Any]:
    meta = {"namespace": "koordinator-system", "name": "slo-controller-config", "uid": "cm"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"colocation-config": text}}


def cluster(*nodes: str, **labels: str) -> ClusterState:
    state = ClusterState()
    for name in nodes:
        builder = make_node(name).uid(f"uid-{name}").allocatable(cpu="4")
        for key, value in labels.items():
            builder.label(key, value)
        state.put_node(builder.obj())
    return state


def configure(state: ClusterState, raw: dict[str, Any]) -> None:
    state.config_maps.put(parse_config_map(raw))


def metric(state: ClusterState, name: str, spec: dict[str, Any] | None = None, **meta: Any) -> None:
    raw = make_metric(name).uid(f"uid-{name}").dict()
    raw["metadata"] |= meta
    if spec is not None:
        raw["spec"] = {"metricCollectPolicy": spec}
    state.put_object(parse_node_metric(raw), EventKind.NODE_METRIC)


def spec_of(write: Write) -> dict[str, Any]:
    assert isinstance(write, Create | Patch)
    assert isinstance(write.body, dict)
    found: dict[str, Any] = write.body["spec"]["metricCollectPolicy"]
    return found


def test_each_node_gets_a_node_metric_with_the_defaults() -> None:
    writes = NodeMetricPolicy().reconcile(cluster("a", "b"), NOW)
    assert [type(write) for write in writes] == [Create, Create]
    body = writes[0].body  # type: ignore[union-attr]
    assert body["metadata"]["name"] == "a"
    assert (
        body["metadata"]["ownerReferences"][0] | {"uid": "uid-a", "kind": "Node"}
        == body["metadata"]["ownerReferences"][0]
    )
    assert spec_of(writes[0]) == DEFAULTS


def test_where_muster_reports_its_reporter_creates_them() -> None:
    assert NodeMetricPolicy(creates=False).reconcile(cluster("a"), NOW) == []


REPORT, WINDOW = "metricReportIntervalSeconds", "metricAggregateDurationSeconds"
GPU = {"matchLabels": {"pool": "gpu"}}
POLICIES: list[tuple[str, dict[str, Any], dict[str, str], tuple[int, int]]] = [
    ("the cluster's values", {"enable": True, REPORT: 20, WINDOW: 90}, {}, (90, 20)),
    ("what is not said is the default", {"enable": True, REPORT: 20}, {}, (300, 20)),
    ("disabled", {"enable": False, REPORT: 20}, {}, (300, 60)),
    ("not enabled", {REPORT: 20}, {}, (300, 60)),
    ("an interval of 0 is not valid", {"enable": True, REPORT: 0}, {}, (300, 60)),
    ("a negative duration is not valid", {"enable": True, WINDOW: -1}, {}, (300, 60)),
    (
        "a node's entry overlays",
        {"enable": True, WINDOW: 90, "nodeConfigs": [{"nodeSelector": GPU, REPORT: 5}]},
        {"pool": "gpu"},
        (90, 5),
    ),
    (
        "an entry of other nodes does not",
        {"enable": True, WINDOW: 90, "nodeConfigs": [{"nodeSelector": GPU, REPORT: 5}]},
        {"pool": "cpu"},
        (90, 60),
    ),
    (
        "the first that matches",
        {"enable": True, "nodeConfigs": [{"nodeSelector": GPU, REPORT: 5}, {"nodeSelector": {}, REPORT: 6}]},
        {"pool": "gpu"},
        (300, 5),
    ),
    (
        "an empty selector matches every node",
        {"enable": True, "nodeConfigs": [{"nodeSelector": {}, REPORT: 6}]},
        {},
        (300, 6),
    ),
    (
        "no selector matches none",
        {"enable": True, "nodeConfigs": [{REPORT: 6}]},
        {},
        (300, 60),
    ),
    (
        "a node's entry disables",
        {"enable": True, REPORT: 20, "nodeConfigs": [{"nodeSelector": {}, "enable": False}]},
        {},
        (300, 60),
    ),
    (
        "an entry with an interval of 0: the cluster's values hold for its nodes",
        {"enable": True, WINDOW: 90, REPORT: 20, "nodeConfigs": [{"nodeSelector": GPU, REPORT: 0}]},
        {"pool": "gpu"},
        (90, 20),
    ),
    (
        "of an entry that is not valid no value is taken",
        {
            "enable": True,
            WINDOW: 90,
            "nodeConfigs": [{"nodeSelector": GPU, WINDOW: -5, REPORT: 7, "enable": False}],
        },
        {"pool": "gpu"},
        (90, 60),
    ),
    (
        "an entry that is not valid is the first that matches all the same",
        {"enable": True, "nodeConfigs": [{"nodeSelector": GPU, REPORT: -1}, {"nodeSelector": {}, REPORT: 6}]},
        {"pool": "gpu"},
        (300, 60),
    ),
    (
        "an entry of the wrong type",
        {"enable": True, REPORT: 20, "nodeConfigs": [{"nodeSelector": GPU, REPORT: "soon"}]},
        {"pool": "gpu"},
        (300, 20),
    ),
    (
        "an entry with a negative window",
        {
            "enable": True,
            REPORT: 20,
            "nodeConfigs": [
                {"nodeSelector": GPU, REPORT: 5, "metricAggregatePolicy": {"durations": ["5m", "-10m"]}}
            ],
        },
        {"pool": "gpu"},
        (300, 20),
    ),
    (
        "an entry whose nodes nobody can tell",
        {"enable": True, "nodeConfigs": [{"nodeSelector": NEAR, REPORT: 5}, {"nodeSelector": {}, REPORT: 6}]},
        {"pool": "gpu"},
        (300, 6),
    ),
    (
        "an entry that is none",
        {"enable": True, "nodeConfigs": ["all", None, {"nodeSelector": {}, REPORT: 6}]},
        {},
        (300, 6),
    ),
    (
        "a node's entry enables",
        {REPORT: 20, "nodeConfigs": [{"nodeSelector": {}, "enable": True}]},
        {},
        (300, 20),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "labels", "expected"), [row[1:] for row in POLICIES], ids=[row[0] for row in POLICIES]
)
def test_policy_of_a_node(said: dict[str, Any], labels: dict[str, str], expected: tuple[int, int]) -> None:
    found = parse_collect_config({"colocation-config": json.dumps(said)}).policy_for(labels)
    assert (found.aggregate_duration, found.report_interval) == expected


def test_windows_of_percentiles_are_passed_on() -> None:
    said = {"enable": True, "metricAggregatePolicy": {"durations": ["5m", "30m"]}}
    found = parse_collect_config({"colocation-config": json.dumps(said)}).policy_for({})
    assert found == CollectPolicy(300, 60, ("5m", "30m"))


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({}, "data[colocation-config]"),
        ({"colocation-config": "{"}, "data[colocation-config]"),
        (
            {"colocation-config": '{"metricReportIntervalSeconds": "soon"}'},
            "data[colocation-config].metricReportIntervalSeconds",
        ),
        ({"colocation-config": '{"nodeConfigs": {}}'}, "data[colocation-config].nodeConfigs"),
        (
            {"colocation-config": json.dumps({"metricAggregatePolicy": {"durations": ["5m", "-10m"]}})},
            "data[colocation-config].metricAggregatePolicy.durations[1]",
        ),
        (
            {"colocation-config": json.dumps({"metricAggregatePolicy": {"durations": ["soon"]}})},
            "data[colocation-config].metricAggregatePolicy.durations[0]",
        ),
    ],
)  # fmt: skip
def test_an_unreadable_configuration_names_its_place(data: dict[str, str], path: str) -> None:
    with pytest.raises(ModelError) as error:
        parse_collect_config(data)
    assert error.value.path == path


def test_an_invalid_value_is_reported_once_with_its_place() -> None:
    state, controller = cluster("a"), CollectPolicyProblems()
    assert controller.reconcile(state, NOW) == []
    entries = [{"nodeSelector": {}, REPORT: 0}, {"nodeSelector": NEAR}, {"nodeSelector": GPU, REPORT: "soon"}]
    configure(state, config(enable=True, metricAggregateDurationSeconds=-1, nodeConfigs=entries))
    place = "ConfigMap koordinator-system/slo-controller-config: data[colocation-config]"
    assert [note_of(write) for write in controller.reconcile(state, NOW)] == [
        f"{place}.metricAggregateDurationSeconds: -1 must be more than 0; 300 and 60 seconds hold",
        f"{place}.nodeConfigs[0].metricReportIntervalSeconds: 0 must be more than 0; "
        "the cluster's values hold instead of this entry",
        f"{place}.nodeConfigs[1].nodeSelector.matchExpressions[0].operator: 'Near' is not a known operator; "
        "this entry is left out",
        f"{place}.nodeConfigs[2].metricReportIntervalSeconds: Expected `int | null`, got `str`; "
        "the cluster's values hold instead of this entry",
    ]
    configure(state, config(enable=True, nodeConfigs=entries[:1]))
    assert controller.reconcile(state, NOW) == []
    configure(state, config_text("{"))
    (write,) = controller.reconcile(state, NOW)
    assert note_of(write).startswith(f"{place}: Input data was truncated")
    assert note_of(write).endswith("; what was read before stays in use")
    assert controller.reconcile(state, NOW) == []


def note_of(write: Write) -> str:
    assert isinstance(write, Create)
    assert write.body["reason"] == "InvalidCollectPolicy"
    return str(write.body["note"])


def test_a_changed_configuration_reaches_every_node_metric() -> None:
    state, controller = cluster("a", "b"), NodeMetricPolicy()
    for name in ("a", "b"):
        metric(state, name, DEFAULTS)
    assert controller.reconcile(state, NOW) == []
    configure(state, config(enable=True, metricReportIntervalSeconds=20))
    writes = controller.reconcile(state, NOW)
    assert [spec_of(write)["reportIntervalSeconds"] for write in writes] == [20, 20]
    assert isinstance(writes[0], Patch)
    assert writes[0].uid == "uid-a"


@pytest.mark.parametrize("broken", ["{", "[]", '{"enable": 3}'])
def test_a_faulty_or_missing_configuration_keeps_what_was_said(broken: str) -> None:
    state, controller = cluster("a"), NodeMetricPolicy()
    metric(state, "a", {"aggregateDurationSeconds": 40, "reportIntervalSeconds": 7})
    assert controller.reconcile(state, NOW) == []
    configure(state, config_text(broken))
    assert controller.reconcile(state, NOW) == []
    state.config_maps.remove(parse_config_map(config_text(broken)))
    assert controller.reconcile(state, NOW) == []


def test_an_empty_spec_gets_the_defaults() -> None:
    state = cluster("a")
    metric(state, "a")
    (write,) = NodeMetricPolicy().reconcile(state, NOW)
    assert spec_of(write) == DEFAULTS


def test_the_last_good_configuration_survives_a_faulty_one() -> None:
    state, controller = cluster("a"), NodeMetricPolicy()
    configure(state, config(enable=True, metricReportIntervalSeconds=20))
    controller.reconcile(state, NOW)
    metric(state, "a", DEFAULTS | {"reportIntervalSeconds": 20})
    configure(state, config_text("{"))
    assert controller.reconcile(state, NOW) == []
    state.put_node(make_node("b").allocatable(cpu="1").obj())
    (write,) = controller.reconcile(state, NOW)
    assert spec_of(write)["reportIntervalSeconds"] == 20


def test_windows_that_the_configuration_does_not_name_stay() -> None:
    state, controller = cluster("a"), NodeMetricPolicy()
    metric(state, "a", DEFAULTS | {"nodeAggregatePolicy": {"durations": ["5m0s"]}})
    configure(state, config(enable=True, metricReportIntervalSeconds=20))
    (write,) = controller.reconcile(state, NOW)
    assert spec_of(write)["nodeAggregatePolicy"] == {"durations": ["5m0s"]}


def test_a_node_metric_goes_with_its_node() -> None:
    state, controller = cluster("a"), NodeMetricPolicy()
    metric(state, "a", DEFAULTS)
    controller.reconcile(state, NOW)
    state.remove_node("a")
    (write,) = controller.reconcile(state, NOW)
    assert isinstance(write, Delete)
    assert (write.name, write.uid) == ("a", "uid-a")


def test_a_node_metric_without_a_node_is_removed() -> None:
    state = cluster()
    metric(state, "ghost", DEFAULTS)
    (write,) = NodeMetricPolicy().reconcile(state, NOW)
    assert isinstance(write, Delete)
    assert write.name == "ghost"


def test_those_of_an_agent_are_left_alone_where_told_so() -> None:
    state, controller = cluster("a", "b"), NodeMetricPolicy(only_own=True)
    metric(state, "a", {"reportIntervalSeconds": 7})
    metric(state, "b", {"reportIntervalSeconds": 7}, annotations=OURS)
    metric(state, "ghost", {"reportIntervalSeconds": 7})
    configure(state, config(enable=True))
    assert [write.name for write in controller.reconcile(state, NOW) if isinstance(write, Patch)] == ["b"]


def test_a_write_that_had_no_effect_is_made_again() -> None:
    state, controller = cluster("a"), NodeMetricPolicy()
    assert len(controller.reconcile(state, NOW)) == 1
    assert controller.reconcile(state, NOW + RETRY_SECONDS - 1) == []
    assert controller.next_time(state) == NOW + RETRY_SECONDS
    assert len(controller.reconcile(state, NOW + RETRY_SECONDS)) == 1
    metric(state, "a", DEFAULTS)
    assert controller.reconcile(state, NOW + RETRY_SECONDS) == []
    assert controller.next_time(state) is None


def test_nothing_is_done_before_there_is_a_configuration_where_told_so() -> None:
    state, controller = cluster("a"), NodeMetricPolicy(needs_config=True)
    assert controller.reconcile(state, NOW) == []
    configure(state, config(enable=True))
    assert len(controller.reconcile(state, NOW)) == 1


def test_reports_alone_cause_no_work() -> None:
    state, controller = cluster("a"), NodeMetricPolicy()
    metric(state, "a", DEFAULTS)
    controller.reconcile(state, NOW)
    metric(state, "a", DEFAULTS)
    assert controller.reconcile(state, NOW) == []
    assert controller.next_time(state) is None
