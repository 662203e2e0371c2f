"""Every query of the dashboard and every alert, asked of a real Prometheus that scrapes the real programs."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

from tests.dashboards.conftest import SCRAPE_SECONDS, Observed, rule_groups
from tests.support.dashboard import (
    Query,
    board,
    label_values,
    legend_labels,
    metrics_of,
    queries,
    several,
    substituted,
    variables,
)
from tests.support.eventually import eventually
from tests.support.exposed_metrics import exposed, labels_in

WAIT = 30.0
BOARD = board()
QUERIES = {query.name: query for query in queries(BOARD)}
# Grafana takes four scrapes; here some may be lost on a busy machine, and the work is done once.
RATE_INTERVAL = f"{15 * SCRAPE_SECONDS}s"
# Queries without a series, as nothing happened; the scrape tells of their metrics all the same.
EMPTY = {
    "Scheduler / Refused and lost writes / A": "no write to the API server failed",
    "Scheduler / Unreadable objects / A": "every object could be read",
}


def values() -> dict[str, str]:
    """The variables as Grafana puts them into a query at first: all namespaces, and CPU."""
    chosen = variables(BOARD)
    every, resource = chosen["namespace"]["allValue"], chosen["resource"]["current"]["value"]
    return {"__rate_interval": RATE_INTERVAL, "namespace": every, "resource": resource}


def series_of(observed: Observed, query: Query) -> list[dict[str, Any]]:
    """What the panel shows: values of now, or since the beginning of the work."""
    expression = substituted(query.expr, values())
    if query.instant:
        return observed.prometheus.query(expression)
    return observed.prometheus.query_range(expression, observed.since, time.time(), SCRAPE_SECONDS)


def shown(series: dict[str, Any]) -> bool:
    """Whether a panel shows a point of it."""
    points = series.get("values") or [series["value"]]
    return any(math.isfinite(float(value)) for _, value in points)


@pytest.mark.parametrize("name", [name for name in QUERIES if name not in EMPTY])
def test_a_panel_shows_what_happened(observed: Observed, name: str) -> None:
    query = QUERIES[name]

    def there() -> list[dict[str, Any]]:
        return [series for series in series_of(observed, query) if shown(series)]

    for series in eventually(there, WAIT):
        assert legend_labels(query.legend) <= series["metric"].keys()


@pytest.mark.parametrize("name", EMPTY)
def test_a_panel_of_what_did_not_happen_asks_for_metrics_that_are_told(observed: Observed, name: str) -> None:
    assert series_of(observed, QUERIES[name]) == [], f"no longer true: {EMPTY[name]}"
    told = "\n".join(observed.pages)
    for metric in metrics_of(QUERIES[name].expr):
        assert any(f"# TYPE {form} " in told for form in (metric, metric.removesuffix("_bucket")))


def test_variables_offer_the_teams_and_their_resources(observed: Observed) -> None:
    offered = {}
    for name, variable in variables(BOARD).items():
        if variable["type"] == "query":
            metric, label = label_values(variable["query"]["query"])
            offered[name] = set(observed.prometheus.label_values(label, metric))
    teams = {observed.teams.lender, observed.teams.borrower, observed.teams.gangs}
    assert offered == {"namespace": teams, "resource": {"cpu"}}


def test_namespaces_can_be_chosen(observed: Observed) -> None:
    query = QUERIES["Quotas / Used / A"]
    for chosen in ([observed.teams.lender], [observed.teams.lender, observed.teams.gangs]):
        expression = substituted(query.expr, {**values(), "namespace": several(chosen)})

        def shown_alone(asked: str = expression, wanted: frozenset[str] = frozenset(chosen)) -> bool:
            found = observed.prometheus.query(asked)
            return {series["metric"]["namespace"] for series in found} == wanted

        # After a scrape that was lost there is nothing to show for a moment.
        eventually(shown_alone, WAIT)


# A busy machine may be slow; what these alerts tell is in the tests of the rules.
OF_THE_MACHINE = {"MusterWebhookSlow", "MusterDecisionsSlow"}
ALERTS = {rule["alert"]: rule for group in rule_groups() for rule in group["rules"]}


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_is_accepted_and_silent_while_all_is_well(observed: Observed, name: str) -> None:
    def evaluated() -> bool:
        return bool(observed.prometheus.rules()[name]["health"] == "ok")

    eventually(evaluated, WAIT)
    if name not in OF_THE_MACHINE:
        # A scrape that was lost is no fault of the programs; only what lasts would fire.
        eventually(lambda: observed.prometheus.query(ALERTS[name]["expr"]) == [], WAIT)


def test_every_target_is_up_and_every_rule_is_evaluated(observed: Observed) -> None:
    eventually(lambda: {target["health"] for target in observed.prometheus.targets()} == {"up"}, WAIT)
    assert observed.prometheus.rules().keys() == ALERTS.keys()


def test_the_programs_expose_what_their_metrics_say(observed: Observed) -> None:
    """What tests without a Prometheus compare with (tests/chart/test_chart_dashboard.py) is what there is."""
    known = exposed()
    for page in observed.pages:
        found = {name: labels for name, labels in labels_in(page).items() if name in known}
        assert found
        assert found == {name: known[name] for name in found}
        ours = {name for name in labels_in(page) if name.startswith(("muster_", "scheduler_"))}
        assert ours == found.keys()
