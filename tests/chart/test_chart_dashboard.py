"""The Grafana dashboard asks for metrics and labels that the programs expose, and the chart delivers it.

`tests/dashboards` asks a real Prometheus the same queries.
"""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.chart.rendering import CHART, NAMESPACE, objects, of_kind, one
from tests.support.dashboard import (
    FILE,
    OF_TARGETS,
    Query,
    board,
    label_values,
    labels_of,
    legend_labels,
    metrics_of,
    panels,
    queries,
    several,
    substituted,
    variables,
    variables_of,
)
from tests.support.every import every_case
from tests.support.exposed_metrics import exposed

BOARD = board()
QUERIES = queries(BOARD)
PANELS = [panel for _, panel in panels(BOARD)]
EXPOSED = exposed()
ALERTS = (CHART / "files" / "alerts.yaml").read_text()
OPERATIONS = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
# What Grafana itself puts in.
BUILT_IN = {"__rate_interval"}
COLUMNS = 24


def names(query: Query) -> str:
    return f"{query.name}: {query.expr}"


@every_case("query", QUERIES, names)
def test_a_query_asks_for_series_that_are_exposed(query: Query) -> None:
    asked = metrics_of(query.expr)
    assert asked
    assert asked <= EXPOSED.keys()


@every_case("query", QUERIES, names)
def test_a_query_and_its_legend_name_labels_that_the_series_have(query: Query) -> None:
    known = OF_TARGETS.union(*(EXPOSED[metric] for metric in metrics_of(query.expr)))
    assert labels_of(query.expr) | legend_labels(query.legend) <= known


@every_case("query", QUERIES, names)
def test_a_query_adds_up_what_replicas_say(query: Query) -> None:
    """Each replica has series of its own: a panel shows one line per quota, not per quota and replica."""
    added = r"(clamp_min\(|histogram_quantile\([\d.]+, )?(sum|min|max)\b"
    assert re.match(rf"\(*{added}", query.expr)


@every_case("query", QUERIES, names)
def test_series_of_kube_scheduler_are_left_out(query: Query) -> None:
    """Names that begin with scheduler_ are kube-scheduler's, too: what has no muster_leader is not ours."""
    shared = [metric for metric in metrics_of(query.expr) if metric.startswith("scheduler_")]
    assert query.expr.count("and on (job, instance)") >= len(shared)


@every_case("query", QUERIES, names)
def test_a_query_uses_variables_that_there_are(query: Query) -> None:
    asked = variables_of(query.expr) | variables_of(query.legend)
    assert asked <= variables(BOARD).keys() | BUILT_IN
    assert "$" not in substituted(query.expr, dict.fromkeys(asked, "x"))


@every_case("query", QUERIES, names)
def test_a_query_of_quotas_follows_the_variables(query: Query) -> None:
    """Whatever has a namespace can be chosen by it; the two totals of lending are of all quotas."""
    by_namespace = any("namespace" in EXPOSED[metric] for metric in metrics_of(query.expr))
    total = query.panel == "Lent and unused, in total"
    assert ('namespace=~"$namespace"' in query.expr) == (by_namespace and not total)


@pytest.mark.parametrize("name", ["namespace", "resource"])
def test_a_variable_offers_values_of_a_label_that_is_exposed(name: str) -> None:
    variable = variables(BOARD)[name]
    metric, label = label_values(variable["query"]["query"])
    assert label == name
    assert label in EXPOSED[metric]
    assert variable["definition"] == variable["query"]["query"]
    assert variable["datasource"]["uid"] == "${datasource}"


def test_namespaces_are_chosen_together_and_all_at_first() -> None:
    variable = variables(BOARD)["namespace"]
    assert (variable["multi"], variable["includeAll"]) == (True, True)
    assert variable["current"]["value"] == ["$__all"]
    assert variables(BOARD)["datasource"]["query"] == "prometheus"


def test_every_variable_is_used() -> None:
    text = json.dumps(BOARD["panels"])
    assert variables(BOARD).keys() <= variables_of(text)


@every_case("panel", PANELS, lambda panel: panel["title"])
def test_a_panel_says_what_it_shows_and_asks_the_chosen_source(panel: dict[str, Any]) -> None:
    assert len(panel["description"].split()) >= 3
    assert panel["fieldConfig"]["defaults"]["unit"]
    sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
    assert {(source["type"], source["uid"]) for source in sources} == {("prometheus", "${datasource}")}
    letters = [target["refId"] for target in panel["targets"]]
    assert letters == sorted(set(letters))


def test_no_two_panels_have_one_number_title_or_place() -> None:
    everything = BOARD["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    assert len({query.name for query in QUERIES}) == len(QUERIES)
    for panel in everything:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= COLUMNS
    for one_place, other in combinations([panel["gridPos"] for panel in everything], 2):
        beside = one_place["x"] + one_place["w"] <= other["x"] or other["x"] + other["w"] <= one_place["x"]
        above = one_place["y"] + one_place["h"] <= other["y"] or other["y"] + other["h"] <= one_place["y"]
        assert beside or above


def test_the_document_explains_every_row() -> None:
    section = OPERATIONS.partition("\n## The dashboard\n")[2].partition("\n## ")[0]
    told = re.findall(r"^\| ([A-Z]\w+) \|", section, re.M)[1:]
    assert told == [panel["title"] for panel in BOARD["panels"] if panel["type"] == "row"]


def test_what_an_alert_or_the_dashboard_leaves_unseen_is_known() -> None:
    """A metric that is exposed is shown or watched, but for these."""
    seen = {metric for query in QUERIES for metric in metrics_of(query.expr)} | metrics_of(ALERTS)
    families = {re.sub(r"_(bucket|count|sum)$", "", metric) for metric in seen}
    unseen = {re.sub(r"_(bucket|count|sum)$", "", metric) for metric in EXPOSED} - families
    assert unseen == {
        "muster_build_info",
        "muster_webhook_ca_bundle_writes_total",
        # Attempts with their bindings; the parts are shown.
        "scheduler_e2e_scheduling_duration_seconds",
        "scheduler_scheduling_attempt_duration_seconds",
        "scheduler_scheduling_algorithm_preemption_evaluation_seconds",
    }


def test_the_chart_delivers_the_file_to_the_sidecar() -> None:
    found = one(objects("everything"), "ConfigMap", "muster-dashboard")
    assert found["metadata"]["namespace"] == NAMESPACE
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["metadata"]["annotations"] == {"grafana_folder": "Batch"}
    assert json.loads(found["data"]["muster.json"]) == json.loads(FILE.read_text())


def test_without_the_value_there_is_no_dashboard() -> None:
    named = {item["metadata"]["name"] for item in of_kind(objects("default"), "ConfigMap")}
    assert "muster-dashboard" not in named


def test_label_and_folder_are_those_of_another_sidecar() -> None:
    settings = ["enabled=true", "label=example.com/board", "labelValue=yes"]
    flags = [part for setting in settings for part in ("--set", f"grafanaDashboard.{setting}")]
    found = one(objects("default", NAMESPACE, *flags), "ConfigMap", "muster-dashboard")
    assert found["metadata"]["labels"]["example.com/board"] == "yes"
    assert "annotations" not in found["metadata"]


def test_a_scrape_keeps_the_namespace_of_the_quota() -> None:
    """Otherwise the operator's label, the namespace of the pod that is scraped, takes its place."""
    for monitor in of_kind(objects("everything"), "ServiceMonitor"):
        assert [endpoint["honorLabels"] for endpoint in monitor["spec"]["endpoints"]] == [True]


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        (["a"], "a"),
        (["a", "b"], "(a|b)"),
        (["a.b"], r"a\\.b"),
        (["a-1", "b"], "(a-1|b)"),
    ],
)
def test_chosen_values_become_an_expression(chosen: list[str], text: str) -> None:
    assert several(chosen) == text
