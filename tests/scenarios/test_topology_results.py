"""What groups on the topology say of themselves: times, results and events, from topology-results/."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_core.simulate import load_scenarios, run_scenario

FILES = sorted((Path(__file__).parent / "topology-results").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_group_says_what_is_true(file: Path) -> None:
    for scenario in load_scenarios(file.read_text(encoding="utf-8"), file.name):
        for step in run_scenario(scenario)["steps"]:
            assert step["mismatches"] == [], f"step {step['step']}"
