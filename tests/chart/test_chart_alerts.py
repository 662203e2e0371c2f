"""Alerts ask for metrics that exist, and each has a runbook."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.chart.rendering import CHART, objects, of_kind
from tests.support.dashboard import OF_TARGETS, labels_of, metrics_of
from tests.support.every import every_case
from tests.support.exposed_metrics import exposed

ROOT = Path(__file__).parents[2]
TEXT = (CHART / "files" / "alerts.yaml").read_text()
ALERTS: list[dict[str, Any]] = yaml.load(TEXT, yaml.CSafeLoader)["alerts"]
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
EXPOSED = exposed()
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text()
DOCUMENTED = set(
    re.findall(
        r"^\| `((?:muster|scheduler)_\w+)`",
        "\n".join((ROOT / "docs" / f"{name}.md").read_text() for name in ("operations", "webhook")),
        re.M,
    )
)
SUFFIX = re.compile(r"_(bucket|count|sum)$")


def metrics(expression: str) -> set[str]:
    """The metrics of ours in an expression, by the name that they are documented with."""
    return {SUFFIX.sub("", name) for name in re.findall(r"\b(?:muster|scheduler)_\w+", expression)}


@every_case("alert", ALERTS, lambda alert: alert["alert"])
def test_alert_asks_for_metrics_that_exist(alert: dict[str, Any]) -> None:
    found = metrics(alert["expr"])
    assert found
    assert found - DOCUMENTED == set()


@every_case("alert", ALERTS, lambda alert: alert["alert"])
def test_alert_does_not_depend_on_the_number_of_replicas(alert: dict[str, Any]) -> None:
    """Each replica has series of its own: comparing them unaggregated matches many with many."""
    for side in re.split(r"\s(?:[<>]=?|==|-|or|and(?! on))\s", alert["expr"]):
        # What decides between the replicas stands inside of the sum: `muster_leader == 1`.
        assert not metrics(side) or re.match(r"\(*(sum|min|max|histogram_quantile)\b", side), side


@every_case("alert", ALERTS, lambda alert: alert["alert"])
def test_alert_leaves_out_kube_scheduler(alert: dict[str, Any]) -> None:
    """It exposes metrics of the same names; it has no muster_leader."""
    shared = [name for name in metrics(alert["expr"]) if name.startswith("scheduler_")]
    assert alert["expr"].count("and on (job, instance)") >= len(shared)


@every_case("alert", ALERTS, lambda alert: alert["alert"])
def test_alert_selects_and_tells_by_labels_that_exist(alert: dict[str, Any]) -> None:
    known = OF_TARGETS.union(*(EXPOSED[name] for name in metrics_of(alert["expr"])))
    assert labels_of(alert["expr"]) <= known
    told = set(re.findall(r"\$labels\.(\w+)", alert["summary"] + alert["description"]))
    kept = re.search(r"\bby \(([^)]*)\)", alert["expr"])
    assert told <= ({label.strip() for label in kept[1].split(",")} if kept else set())


@every_case("alert", ALERTS, lambda alert: alert["alert"])
def test_alert_says_what_happens_and_what_follows(alert: dict[str, Any]) -> None:
    assert alert["summary"].endswith(".")
    assert len(alert["description"].split()) > 5
    assert alert["description"] != alert["summary"]


def test_the_document_lists_every_alert_with_its_severity() -> None:
    section = OPERATIONS.partition("\n## Alerts\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| \[(\w+)\]\(runbooks\.md#(\w+)\) \| (\w+) \|", section, re.M)
    assert rows == [(alert["alert"], alert["alert"].lower(), alert["severity"]) for alert in ALERTS]


@every_case("alert", ALERTS, lambda alert: alert["alert"])
def test_alert_has_a_runbook_that_says_what_to_do(alert: dict[str, Any]) -> None:
    section = RUNBOOKS.partition(f"\n## {alert['alert']}\n")[2].partition("\n## ")[0]
    assert len(section.split()) > 20


def test_runbooks_are_of_alerts_that_exist() -> None:
    titles = re.findall(r"^## (Muster\w+)$", RUNBOOKS, re.M)
    assert titles == [alert["alert"] for alert in ALERTS]


def test_the_rule_holds_every_alert_with_its_severity() -> None:
    (rule,) = of_kind(objects("everything"), "PrometheusRule")
    (group,) = rule["spec"]["groups"]
    assert [found["alert"] for found in group["rules"]] == [alert["alert"] for alert in ALERTS]
    assert {found["labels"]["severity"] for found in group["rules"]} <= {"critical", "warning", "info"}
    for found in group["rules"]:
        anchor = found["annotations"]["runbook"].partition("#")[2]
        assert f"\n## {found['alert']}\n".lower() in RUNBOOKS.lower()
        assert anchor == found["alert"].lower()


def test_braces_of_prometheus_survive_helm() -> None:
    (rule,) = of_kind(objects("everything"), "PrometheusRule")
    summaries = [found["annotations"]["summary"] for found in rule["spec"]["groups"][0]["rules"]]
    assert [text for text in summaries if "{{ $labels.kind }}" in text]
