"""A run tells what its files cost, and keeps it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.durations import (
    COLLECTION,
    COST,
    LASTING,
    Cost,
    DearFirst,
    Durations,
    Meter,
    lines_of,
    processor_seconds,
    table,
)


class Reporter:
    """The end of a run, as lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write_line(self, line: str) -> None:
        self.lines.append(line)


def report(nodeid: str, when: str, wall: float, cost: float | None = None) -> pytest.TestReport:
    made: dict[str, Any] = {"nodeid": nodeid, "when": when, "outcome": "passed", "longrepr": None}
    properties = [] if cost is None else [(COST, cost)]
    return pytest.TestReport(
        location=("", 0, ""), keywords={}, duration=wall, user_properties=properties, **made
    )


def run(file: Path, *tests: tuple[str, float, float]) -> list[str]:
    """What a run of these tests tells: name, seconds on the wall, seconds of a processor."""
    durations, reporter = Durations(file), Reporter()
    for nodeid, wall, cost in tests:
        durations.pytest_runtest_logreport(report(nodeid, "call", wall))
        durations.pytest_runtest_logreport(report(nodeid, "teardown", 0.5, cost))
    durations.pytest_terminal_summary(reporter)  # type: ignore[arg-type]
    return reporter.lines


def item(nodeid: str, long: bool = False) -> Any:
    return SimpleNamespace(nodeid=nodeid, get_closest_marker=lambda name: long and name == "long")


def test_files_with_a_reason_and_with_long_tests_are_played_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.durations.REASONS", {"d.py": "it has one"})
    items = [
        item("a.py::one"),
        item("b.py::short"),
        item("b.py::long", True),
        item("c.py::one"),
        item("d.py::one"),
    ]
    DearFirst().pytest_collection_modifyitems(items)
    assert [one.nodeid for one in items] == [
        "b.py::short",
        "b.py::long",
        "d.py::one",
        "a.py::one",
        "c.py::one",
    ]


def test_the_dearest_file_comes_first(tmp_path: Path) -> None:
    lines = run(tmp_path / "d.json", ("a.py::one", 1, 2), ("b.py::one", 9, 3), ("a.py::two", 1, 2))
    assert lines == [
        "the tests took 7 s of a processor; the dearest files:",
        "    4.0 s  a.py",
        "    3.0 s  b.py",
    ]


def test_costs_of_files_that_did_not_run_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "build" / "d.json"
    run(file, ("a.py::one", 1, 2), ("b.py::one", 1, 3))
    run(file, ("b.py::one", 2, 4))
    assert json.loads(file.read_text()) == {
        "a.py": {"tests": 1, "processor": 2, "wall": 1.5},
        "b.py": {"tests": 1, "processor": 4, "wall": 2.5},
    }


def test_a_run_without_tests_tells_and_keeps_nothing(tmp_path: Path) -> None:
    assert run(tmp_path / "d.json") == []
    assert list(tmp_path.iterdir()) == []


def test_a_dear_file_has_a_reason_or_is_asked_for_one() -> None:
    costs = {"a.py": Cost(1, 12.0, 12.0), "b.py": Cost(1, 11.0, 1.0), "c.py": Cost(1, 9.9, 1.0)}
    lines = lines_of(costs, {"a.py": "it plays all orders"})
    assert lines[1].endswith("a.py  (it plays all orders)")
    assert "mend it, or say why" in lines[2]
    assert lines[3].endswith("c.py")


def test_the_table_adds_up_folders_and_parts_of_the_unit_tests() -> None:
    costs = {
        "tests/unit/quota/test_a.py": Cost(1, 1.0, 2.0),
        "tests/unit/quota/reservations/test_b.py": Cost(2, 3.0, 4.0),
        "tests/scenarios/test_c.py": Cost(1000, 9.0, 9.0),
        "tests/e2e/test_demo.py": Cost(1, 0.5, 1.0),
    }
    assert table(costs).splitlines()[2:] == [
        "| `tests/scenarios` | 1,000 | 9 | 9 |",
        "| `tests/unit/quota` | 3 | 4 | 6 |",
        "| `tests/e2e` | 1 | 0 | 1 |",
    ]


def test_collections_are_told_by_pool(tmp_path: Path) -> None:
    durations, reporter = Durations(tmp_path / "d.json"), Reporter()
    for pool, seconds in (("waiting", 3.0), ("waiting", 4.0), ("computing", 5.0)):
        node = SimpleNamespace(workeroutput={COLLECTION: seconds}, workerinput={"pool": pool})
        durations.pytest_testnodedown(node)
    durations.pytest_testnodedown(SimpleNamespace(workerinput={"pool": "waiting"}))
    durations.pytest_runtest_logreport(report("a.py::one", "teardown", 1, 1))
    durations.pytest_terminal_summary(reporter)  # type: ignore[arg-type]
    assert reporter.lines[:2] == [
        "collection: 5.0 s of a processor in each of 1 computing workers",
        "collection: 4.0 s of a processor in each of 2 waiting workers",
    ]


def test_a_test_costs_what_it_and_its_programs_compute() -> None:
    meter = Meter()
    meter.pytest_runtest_logstart()
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    last = report("a.py::one", "teardown", 0.0)
    wrapper = meter.pytest_runtest_makereport(SimpleNamespace(when="teardown"))  # type: ignore[arg-type]
    next(wrapper)
    with pytest.raises(StopIteration):
        wrapper.send(SimpleNamespace(get_result=lambda: last))
    [(name, seconds)] = last.user_properties
    assert (name, float(str(seconds)) > 0.01) == (COST, True)


def test_a_program_that_outlives_a_test_costs_it_what_it_used_meanwhile() -> None:
    script = "sum(range(3_000_000)); print(flush=True); input()"
    before = processor_seconds()
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        LASTING.add(program.pid)
        try:
            assert program.stdout is not None
            program.stdout.readline()
            running = processor_seconds() - before
        finally:
            LASTING.remove(program.pid)
            program.communicate("\n")
    assert running > 0.01
