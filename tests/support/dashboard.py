"""The chart's Grafana dashboard as tests read it: panels, variables, and what their expressions name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).parents[2] / "charts" / "muster" / "files" / "dashboard.json"
# Labels that a scrape adds; with the Prometheus operator also `pod`.
OF_TARGETS: Final = frozenset({"job", "instance", "pod"})
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_METRIC: Final = re.compile(r"\b(?:muster|scheduler)_\w+")
_GROUPING: Final = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_MATCHERS: Final = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
_LEGEND: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True)
class Query:
    """One target of a panel. `instant`: a value of now, in place of a series."""

    row: str
    panel: str
    ref: str
    expr: str
    legend: str
    instant: bool

    @property
    def name(self) -> str:
        """Row, panel and letter: unique in a dashboard."""
        return f"{self.row} / {self.panel} / {self.ref}"


def board() -> dict[str, Any]:
    """The dashboard."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def panels(dashboard: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(title of its row, panel) of every panel that is no row."""
    row = ""
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            row = panel["title"]
        else:
            yield row, panel


def queries(dashboard: Mapping[str, Any]) -> list[Query]:
    """Every query of every panel."""
    return [
        Query(
            row,
            panel["title"],
            target["refId"],
            target["expr"],
            target.get("legendFormat", ""),
            target.get("instant", False),
        )
        for row, panel in panels(dashboard)
        for target in panel["targets"]
    ]


def variables(dashboard: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The template variables by name."""
    return {variable["name"]: variable for variable in dashboard["templating"]["list"]}


def label_values(definition: str) -> tuple[str, str]:
    """(metric, label) of a variable's `label_values(metric, label)`."""
    found = re.fullmatch(r"label_values\((\w+), (\w+)\)", definition)
    assert found, definition
    return found[1], found[2]


def metrics_of(expression: str) -> set[str]:
    """The series of Muster that an expression names."""
    return set(_METRIC.findall(_STRING.sub('""', expression)))


def labels_of(expression: str) -> set[str]:
    """The labels by which an expression selects, groups and joins."""
    found = set(_MATCHERS.findall(expression))
    for group in _GROUPING.findall(_STRING.sub('""', expression)):
        found |= {label.strip() for label in group.split(",") if label.strip()}
    return found


def legend_labels(legend: str) -> set[str]:
    """The labels that a legend shows."""
    return set(_LEGEND.findall(legend))


def variables_of(text: str) -> set[str]:
    """The variables that a text names."""
    return {braced or bare for braced, bare in _VARIABLE.findall(text)}


def substituted(expression: str, values: Mapping[str, str]) -> str:
    """An expression as Grafana sends it. Raises KeyError for a variable without a value."""
    return _VARIABLE.sub(lambda found: values[found[1] or found[2]], expression)


def several(values: list[str]) -> str:
    """The text that Grafana puts in place of a variable of which several values can be chosen, for `=~`.

    As `interpolateQueryExpr` of Grafana's data source for Prometheus, for names of Kubernetes objects.
    """
    escaped = [re.sub(r"[$^*{}\[\]'+?.()|]", lambda sign: "\\\\" + sign[0], value) for value in values]
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"
