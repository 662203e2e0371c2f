"""Plays every file of fair/ through the simulation; nothing may differ from what it expects."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_core.simulate import load_scenarios, run_scenario

FILES = sorted((Path(__file__).parent / "fair").glob("*.yaml"))


@pytest.mark.parametrize("file", [pytest.param(file, id=file.stem) for file in FILES])
def test_scenario(file: Path) -> None:
    scenarios = load_scenarios(file.read_text(encoding="utf-8"), file.name)
    assert scenarios
    for scenario in scenarios:
        steps = run_scenario(scenario)["steps"]
        assert steps
        assert [step["mismatches"] for step in steps] == [[] for _ in steps]
