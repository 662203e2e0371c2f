"""Plays every scenario file of these folders: nothing may differ from what it expects."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from scheduler_core.simulate import load_scenarios, run_scenario
from tests.support.approved import compare_report, reported

FOLDER: Final = Path(__file__).parent
# A folder, what its files tell, and how many there are at least.
FOLDERS: Final = {
    "beside": ("what kube-scheduler and kube-apiserver were seen to do", 7),
    "capacity": ("elastic quotas: stories and examples of the proposal, borrowing, preemption", 80),
    "coscheduling": ("gangs", 55),
    "fair": ("fair shares of what is lent", 29),
    "flavors": ("quota by the type of node", 3),
    "group-quota": ("quota of groups", 8),
    "native": ("native groups of scheduling.k8s.io", 45),
    "native-preemption": ("preemption by and of native groups", 47),
    "native-status": ("the status of groups and quotas", 3),
    "profile-stories": ("the document on profiles: which profile puts its pods where", 4),
    "quota-tree": ("trees of quotas", 3),
    "right": ("small worlds in which the core was once wrong: who waited or was evicted in vain", 27),
    "topology-results": ("what groups on the topology say of themselves: times, results and events", 8),
}
FILES: Final = {name: sorted((FOLDER / name).glob("*.yaml")) for name in FOLDERS}


def faults(file: Path) -> list[str]:
    """What differs from what a file expects."""
    scenarios = load_scenarios(file.read_text(encoding="utf-8"), file.name)
    found = [] if scenarios else ["it holds no scenario"]
    for number, scenario in enumerate(scenarios):
        report = run_scenario(scenario)
        name = f"{file.parent.name}/{file.name}" + (f"#{number}" if number else "")
        compare_report(FOLDER / "reports.txt", name, report)
        steps: list[dict[str, Any]] = report["steps"]
        found += [] if steps else [f"{scenario.name}: no step"]
        found += [
            f"{scenario.name}, step {step['step']}: {text}" for step in steps for text in step["mismatches"]
        ]
    return found


@pytest.mark.parametrize(
    "file", [pytest.param(file, id=f"{name}/{file.stem}") for name, files in FILES.items() for file in files]
)
def test_scenario(file: Path) -> None:
    assert faults(file) == []


def test_no_scenario_is_lost() -> None:
    assert {name: len(FILES[name]) for name, (_, least) in FOLDERS.items() if len(FILES[name]) < least} == {}


def test_the_digests_are_those_of_scenarios() -> None:
    names = {file.relative_to(FOLDER).as_posix() for file in FOLDER.rglob("*.yaml")}
    assert {name.partition("#")[0] for name in reported(FOLDER / "reports.txt")} <= names


def test_every_folder_is_played_by_a_test() -> None:
    others = {file.stem.removeprefix("test_").replace("_", "-") for file in FOLDER.glob("test_*.py")}
    assert {folder.name for folder in FOLDER.iterdir() if any(folder.glob("*.yaml"))} - others == set(FOLDERS)


def test_there_is_a_scenario_for_each_story_and_example_of_the_proposal() -> None:
    assert {
        "seed-story-1",
        "seed-story-2",
        "seed-example-no-wild-preemption",
        "seed-example-across-nodes",
    } <= {file.stem for file in FILES["capacity"]}
