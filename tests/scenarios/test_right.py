"""Small worlds in which the scheduling core was once wrong: who waited or was evicted in vain."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_core.simulate import load_scenarios, run_scenario

FILES = sorted((Path(__file__).parent / "right").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_nobody_waits_and_nobody_is_evicted_in_vain(file: Path) -> None:
    for scenario in load_scenarios(file.read_text(encoding="utf-8"), file.name):
        for step in run_scenario(scenario)["steps"]:
            assert step["mismatches"] == [], f"step {step['step']}"
