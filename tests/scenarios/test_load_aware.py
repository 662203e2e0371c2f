"""Every file in load-aware/ carries what is right in its header: verdicts, scores, estimates and sums.

`filter` and `score` are per node, `reason` is part of what a refused node says, `estimated_pod` what the pod
is estimated to use, `node_capacity_used` and `cache_state` the numbers behind the answer.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from scheduler_core.model.quantity import parse_resource
from scheduler_core.simulate import load_scenarios, run_scenario
from tests.support.approved import compare_report
from tests.support.expectations import expectation

FOLDER = Path(__file__).parent
FILES = sorted((FOLDER / "load-aware").glob("*.yaml"))
TITLE = re.compile(r"^# (expected for (\S+) with --explain):$", re.MULTILINE)
PLUGIN = "LoadAwareScheduling"
KNOWN = {"filter", "reason", "score", "estimated_pod", "node_capacity_used", "cache_state"}


def explained(path: Path, pod: str) -> dict[str, Any]:
    """What is said of each node in the first step, as JSON has it."""
    (scenario,) = load_scenarios(path.read_text(), str(path))
    report = json.loads(json.dumps(run_scenario(scenario, pod)))
    compare_report(FOLDER / "reports.txt", f"load-aware/{path.name}", report)
    assert [step["mismatches"] for step in report["steps"]] == [[] for _ in report["steps"]]
    found: dict[str, Any] = report["steps"][0]["explain"]
    return found


def test_the_example_does_what_it_says() -> None:
    path = Path(__file__).parents[2] / "examples" / "load-aware" / "hot-and-cold.yaml"
    (scenario,) = load_scenarios(path.read_text(), str(path))
    assert [step["mismatches"] for step in run_scenario(scenario)["steps"]] == [[], []]


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 60


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    text = path.read_text()
    match = TITLE.search(text)
    assert match is not None, f"{path.name} has no expectation"
    expected = expectation(text, match[1])
    assert expected.keys() <= KNOWN
    nodes = explained(path, match[2])
    for name, verdict in expected.get("filter", {}).items():
        said = nodes[name]["filters"][PLUGIN]
        assert (said == "pass") == (verdict == "pass"), said
        if verdict != "pass":
            assert expected.get("reason", "") in said
    for name, points in expected.get("score", {}).items():
        assert nodes[name]["scores"][PLUGIN] == points
    details = {name: node["details"][PLUGIN] for name, node in nodes.items()}
    for numbers in details.values():
        assert numbers["estimated"] == expected.get("estimated_pod", numbers["estimated"])
        for resource, text in expected.get("node_capacity_used", {}).items():
            assert numbers["capacity"][resource] == parse_resource(resource, text)
    for name, sums in expected.get("cache_state", {}).items():
        assert details[name]["cacheState"] == sums
