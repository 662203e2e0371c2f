"""The tool that sets faults sees every module of the product, and its samples are fair."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.extent import left_out
from tests.support.makefile import commands
from tests.tools.mutants_faults import faults
from tests.tools.mutants_reach import IGNORED, OF_TESTS, SEARCH_PART, SELECTION, files_of_tests
from tests.tools.mutants_rooms import PACKAGES, ROOMS, ROOT, modules, places, room_of, sample, shares

SIZES = {"large": 8000, "middle": 3000, "small": 1000}


def tracked(*patterns: str) -> list[str]:
    """The files that git has, and new ones: what the tool walks over is not asked."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return sorted(file for file in listed if (ROOT / file).exists())


def test_every_module_of_the_product_is_in_one_room() -> None:
    seen = Counter(path for room in modules().values() for path in room)
    assert sorted(seen) == tracked(*(f"{package}/*.py" for package in PACKAGES))
    assert set(seen.values()) == {1}


def test_the_packages_are_those_that_are_shipped_without_the_sandbox() -> None:
    shipped = re.search(r"^include = \[(.*)\]", (ROOT / "pyproject.toml").read_text(), re.M)
    assert shipped is not None
    assert {*PACKAGES, "sandbox"} == set(re.findall(r'"(\w+)\*"', shipped[1]))


@pytest.mark.parametrize(
    ("path", "room"),
    [
        pytest.param("scheduler_core/quota/ledger.py", "quota", id="a module of a room"),
        pytest.param("webhook/policy/pods.py", "webhook", id="a module in a folder of a room"),
        pytest.param("scheduler_core/framework/preemption/lanes.py", "preemption", id="a room in a room"),
        pytest.param("scheduler_core/framework/cycle.py", "framework", id="beside a room in a room"),
        pytest.param("scheduler_core/printing/age.py", "base", id="a small room"),
        pytest.param("scheduler_core/errors.py", "base", id="a module in no folder"),
        pytest.param("sandbox/cli.py", None, id="a tool"),
    ],
)
def test_a_module_is_in_the_nearest_room(path: str, room: str | None) -> None:
    assert room_of(path) == room


def test_no_room_is_empty() -> None:
    assert [room for room in ROOMS if not modules()[room]] == []


def test_every_fault_of_every_module_of_a_room_is_a_place() -> None:
    expected = {
        (path, fault)
        for path in tracked("scheduler_core/simulate/*.py")
        for fault in faults((ROOT / path).read_text())
    }
    assert {(place.path, place.fault) for place in places("simulate")} == expected
    assert len(expected) > 500


def test_a_module_is_named_by_the_end_of_its_path() -> None:
    assert {place.path for place in places("quota", "policy.py")} == {"scheduler_core/quota/policy.py"}
    assert {place.path for place in places("quota", "reservations/usage.py")} == {
        "scheduler_core/quota/reservations/usage.py"
    }


# Samples


@pytest.mark.parametrize(
    ("count", "sizes", "parts"),
    [
        pytest.param(60, SIZES, {"large": 30, "middle": 18, "small": 12}, id="half equally, half by size"),
        pytest.param(9, {"tiny": 2, "large": 1000}, {"tiny": 2, "large": 7}, id="no more than there are"),
        pytest.param(99, {"one": 3, "two": 4}, {"one": 3, "two": 4}, id="all that there are"),
        pytest.param(
            5, {"one": 10, "two": 10, "none": 0}, {"one": 3, "two": 2, "none": 0}, id="none of none"
        ),
        pytest.param(0, SIZES, {"large": 0, "middle": 0, "small": 0}, id="none"),
    ],
)
def test_each_room_gets_its_share(count: int, sizes: Mapping[str, int], parts: Mapping[str, int]) -> None:
    assert shares(count, sizes) == parts


def test_shares_sum_to_the_count_and_a_larger_room_gets_no_less() -> None:
    for count in range(320):
        parts = shares(count, SIZES | {"tiny": 5})
        assert sum(parts.values()) == count, parts
        assert parts["large"] >= parts["middle"] >= parts["small"] >= min(parts["tiny"], 5), count


def test_the_same_seed_draws_the_same_faults_and_another_seed_others() -> None:
    first, again, other = (sample(["quota"], 20, seed, "policy.py") for seed in (1, 1, 2))
    assert first == again
    assert len(set(first)) == 20
    assert first != other


def test_every_fault_can_be_drawn() -> None:
    every = places("quota", "flavor_room.py")
    drawn = {place for seed in range(60) for place in sample(["quota"], 5, seed, "flavor_room.py")}
    assert len(every) > 10
    assert drawn == set(every)


# What judges


def test_faults_are_judged_by_tests_that_make_test_runs() -> None:
    run = commands("test")
    assert f"MUSTER_SEARCH_PART={SEARCH_PART} " in run
    smoke, flag, expression = SELECTION
    assert f' {smoke} {flag} "{expression}"' in run
    ignored = {ROOT / folder for folder in re.findall(r"--ignore=(\S+)", run)}
    needs_a_real_server = {path for item in left_out(None, lambda _: True) for path in item.paths}
    assert {ROOT / folder for folder in IGNORED} == ignored | needs_a_real_server


def test_all_test_files_of_the_product_are_asked() -> None:
    every = [file for file in tracked("tests/**test_*.py") if Path(file).name.startswith("test_")]
    assert files_of_tests(ROOT) == [file for file in every if not file.startswith((*IGNORED, *OF_TESTS))]
    assert len(every) > 300
