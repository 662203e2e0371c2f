"""CompositePodGroups as scenarios: every file plays without a mismatch, and every step keeps the domains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduler_core.simulate import load_scenarios, run_scenario
from scheduler_core.simulate.scenario import Scenario
from tests.support.approved import compare_report

FOLDER = Path(__file__).parent
FILES = sorted((FOLDER / "composite").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_scenario(file: Path) -> None:
    for scenario in load_scenarios(file.read_text(encoding="utf-8"), file.name):
        report = run_scenario(scenario)
        compare_report(FOLDER / "reports.txt", f"composite/{file.name}", report)
        mismatches = [(step["step"], text) for step in report["steps"] for text in step["mismatches"]]
        assert mismatches == []
        before = {
            f"lab/{obj['metadata']['name']}": obj["spec"]["nodeName"]
            for obj in scenario.objects
            if obj["kind"] == "Pod"
        }
        for step in report["steps"]:
            assert spread_groups(scenario, step["bound"]) == spread_groups(scenario, before)


def spread_groups(scenario: Scenario, bound: Mapping[str, str]) -> list[str]:
    """Groups whose pods are in more than one domain of their topology key; `bound`: node by pod."""
    given = [*scenario.objects, *(obj for step in scenario.steps for obj in step.create)]
    labels = {
        obj["metadata"]["name"]: obj["metadata"].get("labels", {}) for obj in given if obj["kind"] == "Node"
    }
    above = {
        obj["metadata"]["name"]: obj["spec"].get("parentCompositePodGroupName", "")
        for obj in given
        if obj["kind"] in ("PodGroup", "CompositePodGroup")
    }
    keys = {
        obj["metadata"]["name"]: obj["spec"]["schedulingConstraints"]["topology"][0]["key"]
        for obj in given
        if obj["kind"] in ("PodGroup", "CompositePodGroup") and "schedulingConstraints" in obj["spec"]
    }
    found: dict[str, set[Any]] = {}
    for obj in given:
        node = bound.get(f"lab/{obj['metadata']['name']}") if obj["kind"] == "Pod" else None
        group = obj["spec"].get("schedulingGroup", {}).get("podGroupName", "") if node else ""
        for name in _path(above, group):
            if node is not None and name in keys:
                found.setdefault(name, set()).add(labels[node].get(keys[name]))
    return sorted(name for name, domains in found.items() if len(domains) > 1)


def _path(above: Mapping[str, str], name: str) -> Iterable[str]:
    while name:
        yield name
        name = above.get(name, "")


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 32
