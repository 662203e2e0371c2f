"""A run of the tests says what it leaves out, how many tests there are, and how far it is."""

from __future__ import annotations

import ast
import contextlib
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tests.support.eventually import eventually
from tests.support.extent import ROOT, SANDBOX_ONLY, left_out
from tests.support.run_progress import RunProgress, own_console
from tests.support.searches import cases


def report(nodeid: str, when: str, outcome: str = "passed") -> pytest.TestReport:
    made: dict[str, Any] = {"nodeid": nodeid, "when": when, "outcome": outcome, "longrepr": None}
    return pytest.TestReport(location=("", 0, ""), keywords={}, **made)


def worker(pool: str) -> Any:
    return SimpleNamespace(workerinput={"pool": pool})


def test_a_run_in_a_pipe_is_told_in_lines() -> None:
    out = io.StringIO()
    progress = RunProgress(Console(file=out), ["tests/far: no road"], every=0.01)
    progress.pytest_sessionstart()
    try:
        assert eventually(lambda: "collecting tests, 0 s" in out.getvalue())
        for _worker in range(2):
            progress.pytest_xdist_node_collection_finished(worker(""), ["a", "b", "c"])
        for when in ("setup", "call", "teardown"):
            progress.pytest_runtest_logreport(report("a", when))
        progress.pytest_runtest_logreport(report("b", "call", "failed"))
        progress.pytest_runtest_logreport(report("b", "teardown", "failed"))
        assert eventually(lambda: "2 of 3 tests, 1 failed, 0 s" in out.getvalue())
    finally:
        progress.pytest_sessionfinish()
    told = out.getvalue().splitlines()
    assert told[0] == "left out: tests/far: no road"
    assert [line for line in told if "collected" in line] == ["3 tests, collected in 0 s"]
    assert [line for line in told if "FAILED" in line] == ["FAILED b (call)"]


def test_pools_are_told_apart_and_added_up() -> None:
    out = io.StringIO()
    progress = RunProgress(Console(file=out), [], every=0.01)
    progress.pytest_sessionstart()
    try:
        for pool, tests in (("computing", ["a", "b"]), ("waiting", ["c"]), ("computing", ["a", "b"])):
            progress.pytest_xdist_node_collection_finished(worker(pool), tests)
        progress.pytest_runtest_logreport(report("c", "teardown"))
        assert eventually(lambda: "1 of 3 tests, 0 failed" in out.getvalue())
    finally:
        progress.pytest_sessionfinish()
    told = [line for line in out.getvalue().splitlines() if "collected" in line]
    assert told == ["2 computing tests, collected in 0 s", "1 waiting tests, collected in 0 s"]


def test_a_run_that_ends_early_names_the_tests_that_were_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.run_progress.LONG_SECONDS", 0.0)
    out = io.StringIO()
    progress = RunProgress(Console(file=out), [], every=0.01)
    progress.pytest_sessionstart()
    try:
        for name in ("a", "b"):
            progress.pytest_runtest_logstart(name)
        progress.pytest_runtest_logreport(report("a", "teardown"))
        assert eventually(lambda: "; b runs for 0 s" in out.getvalue())
        progress.pytest_keyboard_interrupt()
    finally:
        progress.pytest_sessionfinish()
    assert "interrupted: b, 0 s" in out.getvalue().splitlines()


def test_a_test_that_takes_standard_output_gets_none_of_the_lines(
    capfd: pytest.CaptureFixture[str],
) -> None:
    console = own_console()
    with contextlib.redirect_stdout(io.StringIO()) as taken:
        console.print("3 of 4 tests")
    console.file.close()
    assert (taken.getvalue(), capfd.readouterr().out) == ("", "3 of 4 tests\n")


STATUSES = {
    "a test that passes": ("call", "passed", ("passed", "", "")),
    "a fixture that passes": ("setup", "passed", ("", "", "")),
    "a test that fails": ("call", "failed", ("failed", "", "FAILED")),
    "a fixture that fails": ("teardown", "failed", ("error", "", "ERROR")),
    "a test that is skipped": ("setup", "skipped", ("skipped", "", "SKIPPED")),
}


@pytest.mark.parametrize(("when", "outcome", "wanted"), STATUSES.values(), ids=STATUSES)
def test_no_letter_stands_for_a_test(when: str, outcome: str, wanted: Any) -> None:
    progress = RunProgress(Console(file=io.StringIO()), ())
    assert progress.pytest_report_teststatus(report("a", when, outcome)) == wanted


REAL = ["tests/e2e/owners", "tests/e2e/console_users", "tests/chart/live"]
CHART = "tests/chart without test_crds.py and test_image.py"
EXTENTS = {
    "all programs are there": (None, {"kubectl", "helm"}, REAL),
    "no kubectl": (None, {"helm"}, ["tests/e2e", "tests/chart/live"]),
    "no helm": (None, {"kubectl"}, [*REAL[:2], CHART]),
    "no kubectl, but a server is asked for": ("sandbox", {"helm"}, REAL),
    "a real server": ("kube-apiserver", {"kubectl", "helm"}, ["tests of the sandbox and of the demo"]),
    "both servers": ("both", {"kubectl", "helm"}, []),
}


@pytest.mark.parametrize(("server", "programs", "wanted"), EXTENTS.values(), ids=EXTENTS)
def test_what_is_left_out(server: str | None, programs: set[str], wanted: list[str]) -> None:
    found = left_out(server, programs.__contains__)
    assert [item.what for item in found] == wanted
    assert all(path.exists() for item in found for path in item.paths)


@pytest.mark.parametrize("name", SANDBOX_ONLY)
def test_what_a_real_server_leaves_out_takes_no_server_of_the_run(name: str) -> None:
    place = ROOT / "tests" / "e2e" / name
    trees = [ast.parse(path.read_text("utf-8")) for path in ([*place.glob("*.py")] or [place])]
    functions = [node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)]
    taken = {argument.arg for function in functions for argument in function.args.args}
    assert functions
    assert not taken & {"server", "served_by", "cluster"}


def test_a_search_plays_what_the_environment_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.searches.PART", 4)
    assert (cases(100), cases(3), cases(100, least=40)) == (25, 1, 40)
    monkeypatch.setenv("MUSTER_TRIALS", "7")
    assert (cases(100, "MUSTER_TRIALS"), cases(100)) == (7, 25)


def test_what_is_left_out_is_not_even_imported(pytestconfig: pytest.Config) -> None:
    from tests.conftest import LEFT_OUT, pytest_ignore_collect

    folder = Path("tests/nowhere").resolve()
    assert pytest_ignore_collect(folder, pytestconfig) is None
    for item in pytestconfig.stash[LEFT_OUT]:
        assert all(pytest_ignore_collect(path, pytestconfig) for path in item.paths)
