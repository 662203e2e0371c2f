"""Quota by the type of node as scenarios: every file must play without a mismatch."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_core.simulate import load_scenarios, run_scenario

FILES = sorted((Path(__file__).parent / "flavors").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_scenario(file: Path) -> None:
    for scenario in load_scenarios(file.read_text(encoding="utf-8"), file.name):
        report = run_scenario(scenario)
        mismatches = [(step["step"], text) for step in report["steps"] for text in step["mismatches"]]
        assert mismatches == []


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 3
