"""Faults planted in a small product: the tool sees them at any depth, and says what became of them."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import durations
from tests.tools.mutants import Outcome, below, chosen, table
from tests.tools.mutants_probes import blocks
from tests.tools.mutants_reach import Reach, Run
from tests.tools.mutants_rooms import ROOT, Place, places
from tests.tools.mutants_site import sitecustomize

INNER = """
def is_full(used: int, limit: int):
    return used >= limit


def at_most(used: int, limit: int):
    return used if used < limit else limit


def nobody_asks(used: int):
    return used + 1


def last(count: int):
    while count:
        count -= 1
    return count


def from_a_program(used: int):
    return used * 2


def from_a_story(used: int):
    return used // 2


def from_an_unstable_story(used: int):
    return used + 3
"""
PROGRAM = """
import sys
from scheduler_core.quota.deep import limits

print(getattr(limits, sys.argv[1])(3), flush=True)
"""
NEAR = """
import subprocess
import sys

from scheduler_core.quota.deep.limits import at_most, is_full, last


def test_a_program() -> None:
    command = [sys.executable, "-m", "scheduler_core.program", "from_a_program"]
    assert subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout == b"6\\n"


def test_a_limit_is_reached() -> None:
    assert is_full(2, 2)
    assert not is_full(1, 2)


def test_counting_ends() -> None:
    assert at_most(3, 2) == 2
    assert last(3) == 0
"""
FAR_TEST = "tests/scenarios/test_far.py::test_less_than_the_limit"
FAR = """
from scheduler_core.quota.deep.limits import at_most


def test_less_than_the_limit() -> None:
    assert at_most(1, 2) == 1
"""
STORY_TEST = "tests/e2e/test_story.py::test_a_program_of_the_session"
STORY = """
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def told():
    command = [sys.executable, "-m", "scheduler_core.program", "from_a_story"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        yield program.stdout.readline()
        program.kill()


def test_a_program_of_the_session(told) -> None:
    assert told == b"1\\n"


def test_that_fails_once(told) -> None:
    from scheduler_core.quota.deep.limits import from_an_unstable_story

    mark = Path("failed-once")
    if from_an_unstable_story(1) != 4 and not mark.exists():
        mark.touch()
        raise AssertionError


def test_that_make_test_leaves_out() -> None:
    from scheduler_core.quota.deep.limits import nobody_asks

    assert nobody_asks(1) == 2
"""
INI = """
[pytest]
pythonpath = .
addopts = --import-mode=importlib
markers = long
"""
CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--smoke", action="store_true")


def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "that_make_test_leaves_out" not in item.nodeid]
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What became of every fault of a product with one module, by what stands there instead."""
    root = tmp_path_factory.mktemp("product")
    files = {
        "scheduler_core/__init__.py": "",
        "scheduler_core/quota/deep/limits.py": INNER,
        "tests/unit/quota/deep/test_limits.py": NEAR,
        "scheduler_core/program.py": PROGRAM,
        "tests/scenarios/test_far.py": FAR,
        "tests/e2e/test_story.py": STORY,
        "tests/conftest.py": CONFTEST,
        "pytest.ini": INI,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    tools = [*(ROOT / "tests/tools").rglob("mutants*.py"), Path(sitecustomize.__file__)]
    for tool in [*tools, Path(durations.__file__)]:
        copy = root / tool.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tool, copy)
    options = ["--count", "0", "--room", "quota", "--jobs", "2", "--endless", "0.5"]
    command = [sys.executable, "-m", "tests.tools.mutants", *options]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    answers = json.loads((root / "build/mutants.json").read_text())
    return {f"{a['place']['fault']['before']} -> {a['place']['fault']['after']}": a for a in answers}


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        pytest.param("used >= limit -> used > limit", "caught", id="a test notices it"),
        pytest.param("used >= limit -> used < limit", "caught", id="a test notices the opposite"),
        pytest.param("used < limit -> used <= limit", "survived", id="no test can notice it"),
        pytest.param("used + 1 -> used - 1", "unreached", id="no test comes there"),
        pytest.param("count -= 1 -> count += 1", "caught", id="the tests come to no end"),
        pytest.param("used * 2 -> used + 2", "caught", id="a program of a test has it"),
        pytest.param("used // 2 -> used * 2", "caught", id="a program of a story has it"),
        pytest.param("used + 3 -> used - 3", "survived", id="a story passes at its second attempt"),
    ],
)
def test_a_planted_fault_is_judged(outcomes: dict[str, dict[str, Any]], fault: str, verdict: str) -> None:
    assert outcomes[fault]["verdict"] == verdict


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_fault_is_caught_by_the_test_of_its_module(outcomes: dict[str, dict[str, Any]]) -> None:
    assert outcomes["used >= limit -> used > limit"]["by"].endswith("test_limits.py::test_a_limit_is_reached")
    assert outcomes["count -= 1 -> count += 1"]["by"] == "no end"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_far_test_is_asked_after_the_near_ones(outcomes: dict[str, dict[str, Any]]) -> None:
    assert outcomes["used if used < limit else limit -> limit"]["by"] == FAR_TEST


@pytest.mark.long
@pytest.mark.timeout(900)
def test_what_only_a_fixture_of_the_session_reaches_is_judged_by_its_stories(
    outcomes: dict[str, dict[str, Any]],
) -> None:
    assert outcomes["used // 2 -> used * 2"]["by"] == STORY_TEST


@pytest.mark.long
@pytest.mark.timeout(900)
def test_all_tests_that_reach_a_survivor_were_asked(outcomes: dict[str, dict[str, Any]]) -> None:
    assert outcomes["used < limit -> used <= limit"]["tests"] == 2


# Which tests are asked

PATH = "scheduler_core/quota/reservations/usage.py"
SOURCE = (ROOT / PATH).read_text()
SIZE = 1 + max(blocks(SOURCE).values())
BYTES = SIZE // 8 + 1
CURRENT = {PATH: hashlib.sha256(SOURCE.encode()).hexdigest()[:16]}


def reach(file: str, *reaching: float) -> dict[str, Reach]:
    """Tests of one file that run all of the module, by their seconds."""
    every = "ff" * BYTES
    tests = {f"{file}::{number}": Run(seconds, False, every) for number, seconds in enumerate(reaching)}
    tests[f"{file}::elsewhere"] = Run(1.0, False, "00" * BYTES)
    tests[f"{file}::failed without a fault"] = Run(1.0, True, every)
    return {file: Reach(tests, "00" * BYTES, {PATH: 0}, CURRENT)}


def a_place() -> Place:
    of_line = blocks(SOURCE)
    return next(place for place in places("quota", "reservations/usage.py") if place.fault.first in of_line)


def test_near_tests_come_first_then_quick_files_and_stories_last() -> None:
    known = {
        **reach("tests/e2e/test_story.py", 0.1),
        **reach("tests/property/test_any.py", 1.0),
        **reach("tests/scenarios/test_quick.py", 0.5),
        **reach("tests/unit/quota/test_policy.py", 1.0),
        **reach("tests/unit/quota/reservations/test_reconcile.py", 9.0),
        **reach("tests/unit/quota/reservations/test_usage_of_groups.py", 9.0, 1.0),
    }
    assert [(one.distance, one.test) for one in chosen(a_place(), known)] == [
        (0, "tests/unit/quota/reservations/test_usage_of_groups.py::0"),
        (0, "tests/unit/quota/reservations/test_usage_of_groups.py::1"),
        (1, "tests/unit/quota/reservations/test_reconcile.py::0"),
        (2, "tests/unit/quota/test_policy.py::0"),
        (3, "tests/scenarios/test_quick.py::0"),
        (3, "tests/property/test_any.py::0"),
        (4, "tests/e2e/test_story.py::0"),
    ]


def test_tests_beyond_the_seconds_are_left_out_of_the_near_ones_of_others_and_of_stories() -> None:
    known = {
        **reach("tests/unit/quota/test_policy.py", 50.0, 50.0, 5.0),
        **reach("tests/scenarios/test_slow.py", 50.0, 50.0),
        **reach("tests/e2e/test_story.py", 50.0, 50.0),
    }
    assert [one.test for one in chosen(a_place(), known)] == [
        "tests/unit/quota/test_policy.py::0",
        "tests/unit/quota/test_policy.py::2",
        "tests/scenarios/test_slow.py::0",
        "tests/e2e/test_story.py::0",
    ]


def test_fewer_seconds_leave_out_more_tests_and_never_the_first() -> None:
    known = reach("tests/unit/quota/test_policy.py", 9.0, 2.0, 1.0)
    for most, asked in ((12.0, "012"), (10.0, "02"), (0.0, "0")):
        assert "".join(one.test[-1] for one in chosen(a_place(), known, most)) == asked


@pytest.mark.parametrize(
    ("at_import", "digests", "asked"),
    [
        pytest.param("00", CURRENT, False, id="it does not reach the fault"),
        pytest.param("ff", CURRENT, True, id="the place of the fault runs at import, too"),
        pytest.param("00", {PATH: "older"}, True, id="the module has changed since"),
    ],
)
def test_a_test_that_reaches_another_place_of_the_module(
    at_import: str, digests: dict[str, str], asked: bool
) -> None:
    other = blocks(SOURCE)[a_place().fault.first] ^ 1
    ran = bytes(128 >> other % 8 if at == other // 8 else 0 for at in range(BYTES)).hex()
    known = {
        "tests/unit/test_any.py": Reach({"t": Run(1.0, False, ran)}, at_import * BYTES, {PATH: 0}, digests)
    }
    assert [one.test for one in chosen(a_place(), known)] == (["t"] if asked else [])


def test_a_module_that_no_test_imports_is_not_reached() -> None:
    assert chosen(a_place(), {"tests/unit/test_any.py": Reach({"t": Run(1.0, False, "ff")}, "00", {})}) == []


# Figures


def outcome(room: str, verdict: str) -> Outcome:
    place = a_place()
    return Outcome(Place(room, place.path, place.fault), verdict, "", 1, 1.0)


FIGURES = [
    *(outcome("quota", verdict) for verdict in ("caught", "caught", "caught", "survived")),
    *(outcome("state", verdict) for verdict in ("caught", "unreached")),
]


def test_the_table_has_a_row_for_each_room_and_one_for_all() -> None:
    rows = [line.split() for line in table(FIGURES).splitlines()]
    assert rows == [
        ["room", "faults", "caught", "unreached", "survived", "share"],
        ["quota", "4", "3", "0", "1", "75.0%"],
        ["state", "2", "1", "1", "0", "50.0%"],
        ["all", "6", "4", "1", "1", "66.7%"],
    ]


@pytest.mark.parametrize(
    ("floor", "room_floor", "is_below"),
    [
        pytest.param(0.6, 0.5, False, id="enough in all and in each room"),
        pytest.param(0.7, 0.5, True, id="too little in all"),
        pytest.param(0.6, 0.6, True, id="too little in one room"),
    ],
)
def test_floors_of_all_and_of_each_room(floor: float, room_floor: float, is_below: bool) -> None:
    assert below(FIGURES, floor, room_floor) is is_below
