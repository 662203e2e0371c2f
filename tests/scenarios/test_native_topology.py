"""Native groups with a topology key: every file plays without a mismatch, also under a quota.

The worlds named after their outcome alone are those of kube-scheduler's own tests of topology-aware
scheduling. A header `# within:` lists pods and the label value that the nodes of all of them have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler_core.simulate import load_scenarios, run_scenario
from scheduler_core.simulate.scenario import Scenario
from tests.support.approved import compare_report
from tests.support.expectations import expectation

FOLDER = Path(__file__).parent
FILES = sorted((FOLDER / "native-topology").glob("*.yaml"))


def quota(namespace: str, least: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": namespace},
        "spec": {"min": {"cpu": least}, "max": {"cpu": "100"}},
    }


def scenarios(file: Path) -> list[Scenario]:
    return load_scenarios(file.read_text(encoding="utf-8"), file.name)


def under_a_quota(scenario: Scenario) -> Scenario:
    """The same where the namespace borrows what an idle one does not use."""
    quotas = (quota("lab", "1"), quota("idle", "100"))
    return msgspec.structs.replace(scenario, objects=(*scenario.objects, *quotas))


def labels_of_nodes(scenario: Scenario) -> dict[str, dict[str, str]]:
    objects = [*scenario.objects, *(obj for step in scenario.steps for obj in step.create)]
    nodes = (obj["metadata"] for obj in objects if obj["kind"] == "Node")
    return {meta["name"]: meta.get("labels", {}) for meta in nodes}


def played(scenario: Scenario, approved: str) -> dict[str, Any]:
    """The last step of a scenario without a mismatch; `approved` is the name of its kept report, if any."""
    report = run_scenario(scenario)
    if approved:
        compare_report(FOLDER / "reports.txt", approved, report)
    steps = report["steps"]
    assert [(step["step"], text) for step in steps for text in step["mismatches"]] == []
    last: dict[str, Any] = steps[-1]
    return last


@pytest.mark.parametrize("borrows", [False, True], ids=["no quota", "under a quota"])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_scenario(file: Path, borrows: bool) -> None:
    rules = expectation(file.read_text(), "within") if "# within:" in file.read_text() else []
    for number, scenario in enumerate(scenarios(file)):
        name = "" if borrows else f"native-topology/{file.name}" + (f"#{number}" if number else "")
        bound = played(under_a_quota(scenario) if borrows else scenario, name)["bound"]
        labels = labels_of_nodes(scenario)
        for rule in rules:
            (key,) = set(rule) - {"pods"}
            values = {labels[bound[f"lab/{pod}"]][key] for pod in rule["pods"]}
            assert len(values) == 1
            assert rule[key] in ("any", *values)


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 50
