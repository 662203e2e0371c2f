"""Stories of the document on profiles, played: which profile puts its pods where."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_core.simulate import load_scenarios, run_scenario

FILES = sorted((Path(__file__).parent / "profile-stories").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_profile_places_its_pods_as_it_says(file: Path) -> None:
    for scenario in load_scenarios(file.read_text(encoding="utf-8"), file.name):
        for step in run_scenario(scenario)["steps"]:
            assert step["mismatches"] == [], f"{scenario.name}, step {step['step']}"
