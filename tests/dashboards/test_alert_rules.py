"""Every alert of the chart fires when it must, after its `for`, and not just below: played by promtool."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.dashboards.conftest import rule_groups
from tests.support.dashboard import OF_TARGETS, labels_of, metrics_of
from tests.support.exposed_metrics import exposed
from tests.support.prometheus import program

STEP = 30
SECONDS = 60
CASES: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "alerts.yaml").read_text(encoding="utf-8")
)
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in rule_groups() for rule in group["rules"] if "alert" in rule
}


class Played(NamedTuple):
    alert: str
    case: dict[str, Any]


PLAYED = [Played(alert, case) for alert, cases in CASES.items() for case in cases]


def seconds(text: str) -> int:
    """`1h2m30s` in seconds."""
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    assert found, text
    hours, minutes, rest = (int(part or 0) for part in found.groups())
    return (hours * 60 + minutes) * 60 + rest


def told(alert: str, case: dict[str, Any]) -> dict[str, str]:
    """The annotations of an alert that fires, with the labels and the value of the case."""
    labels = case.get("labels", {})

    def fill(text: str) -> str:
        text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)
        return re.sub(r"\{\{ \$value[^}]*\}\}", lambda found: str(case["value"]), text)

    return {name: fill(text) for name, text in RULES[alert]["annotations"].items()}


def checks(alert: str, case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What promtool has to find, moment by moment."""
    if "fires" in case:
        at = seconds(case["fires"])
        labels = {"severity": RULES[alert]["labels"]["severity"], **case.get("labels", {})}
        firing = {"exp_labels": labels, "exp_annotations": told(alert, case)}
        if at:
            yield {"eval_time": f"{at - STEP}s", "alertname": alert, "exp_alerts": []}
        yield {"eval_time": f"{at}s", "alertname": alert, "exp_alerts": [firing]}
    else:
        start, _, end = f"{case['silent']}".rpartition("..")
        for moment in range(seconds(start) if start else 0, seconds(end) + 1, STEP):
            yield {"eval_time": f"{moment}s", "alertname": alert, "exp_alerts": []}


def play(folder: Path, alert: str, case: dict[str, Any]) -> str:
    """What promtool says against the case; empty where everything is as it must be."""
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": rule_groups()}))
    series = [{"series": name, "values": values} for name, values in case["series"].items()]
    test = {"interval": f"{STEP}s", "input_series": series, "alert_rule_test": list(checks(alert, case))}
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": f"{STEP}s", "tests": [test]}
    path = folder / "test.yaml"
    path.write_text(yaml.safe_dump(document))
    done = subprocess.run(
        [program("promtool"), "test", "rules", str(path)], capture_output=True, text=True, timeout=SECONDS
    )
    return "" if done.returncode == 0 else f"{done.stdout}{done.stderr}"


@pytest.mark.parametrize("played", PLAYED, ids=lambda played: f"{played.alert}: {played.case['name']}")
def test_an_alert_fires_when_it_must_and_not_else(played: Played, tmp_path: Path) -> None:
    assert play(tmp_path, *played) == ""


@pytest.mark.parametrize("alert", RULES)
def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(alert: str) -> None:
    found = CASES.get(alert, [])
    assert {"fires", "silent"} <= {word for case in found for word in case}
    # It fires no earlier than it may: the moment before is part of each such case.
    assert all(seconds(case["fires"]) >= seconds(RULES[alert]["for"]) for case in found if "fires" in case)


def test_cases_are_of_alerts_that_exist() -> None:
    assert CASES.keys() == RULES.keys()


@pytest.mark.parametrize("played", PLAYED, ids=lambda played: f"{played.alert}: {played.case['name']}")
def test_a_case_plays_series_that_are_exposed(played: Played) -> None:
    known = exposed()
    for series, values in played.case["series"].items():
        assert isinstance(values, str), "YAML reads 0x20 as a number: quote it"
        (metric,) = metrics_of(series)
        assert metric in known
        assert labels_of(series) <= known[metric] | OF_TARGETS


def test_promtool_finds_a_rule_that_is_wrong(tmp_path: Path) -> None:
    """A case that expects too much, too early, or another text fails: the cases can fail."""
    (case,) = (case for case in CASES["MusterTwoLeaders"] if case["name"] == "both lead")
    for wrong in ({"fires": "30s"}, {"fires": "1m30s"}, {"labels": {"pod": "a"}}, {"value": 3}):
        assert "FAILED" in play(tmp_path, "MusterTwoLeaders", {**case, **wrong})


def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": rule_groups()}))
    done = subprocess.run(
        [program("promtool"), "check", "rules", str(path)], capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
