"""An interrupted run of tests leaves no program behind, however stubborn."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.interrupted import PROGRAMS_SECONDS, WORKERS_SECONDS

ROOT = Path(__file__).parents[3]
CONFTEST = """
from tests.support.interrupted import Interruption

def pytest_configure(config):
    worker = hasattr(config, "workerinput")
    Interruption(worker=worker, has_workers=config.getoption("dist") != "no").install()
"""
# A program that ends at no request, in a session of its own, and another one, whose parent has ended.
STUBBORN = """
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(600)
"""
STORY = """
import pathlib, subprocess, sys, pytest

@pytest.fixture(scope="session")
def program():
    command = [sys.executable, "stubborn.py", "programs"]
    with subprocess.Popen(command, start_new_session=True) as running:
        yield running
        running.wait()
    with pathlib.Path("ended").open("a") as file:
        file.write("ended\\n")

@pytest.mark.parametrize("number", range(2))
def test_story(program, number):
    program.wait()
"""
INTERRUPTIONS = {
    "Ctrl-C in a terminal": (signal.SIGINT, os.killpg, 0),
    "Ctrl-C in a terminal, with workers": (signal.SIGINT, os.killpg, 2),
    "a signal to the run alone, with workers": (signal.SIGINT, os.kill, 2),
    "the limit of a stage, with workers": (signal.SIGTERM, os.killpg, 2),
}
# Each has to start pytest, and workers.
pytestmark = pytest.mark.long


@contextmanager
def run(folder: Path, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """pytest on such a story, as a group of its own."""
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    for name, text in (("conftest", CONFTEST), ("stubborn", STUBBORN), ("test_story", STORY)):
        (folder / f"{name}.py").write_text(text)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    # What the story does not need would be loaded by each of its processes.
    environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "xdist", *flags]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def started(folder: Path, count: int) -> list[int]:
    programs = [int(line) for line in (folder / "programs").read_text().splitlines()]
    assert len(programs) == count
    return programs


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="programs are found in /proc")
@pytest.mark.parametrize(("number", "send", "workers"), INTERRUPTIONS.values(), ids=INTERRUPTIONS)
def test_an_interrupted_run_leaves_no_program_behind(
    tmp_path: Path, number: signal.Signals, send: Callable[[int, int], None], workers: int
) -> None:
    (tmp_path / "programs").touch()
    with run(tmp_path, "-n", str(workers)) as process:
        programs = eventually(lambda: started(tmp_path, 2 * max(1, workers)), 60.0)
        send(process.pid, number)
        said, _ = process.communicate(timeout=60)
        eventually(lambda: not any(map(is_running, programs)))
    assert process.returncode == pytest.ExitCode.INTERRUPTED, said
    assert "KeyboardInterrupt" in said
    # On a busy machine, workers may not come to it in time.
    assert workers or (tmp_path / "ended").read_text() == "ended\n", "the ends of fixtures run"


def test_two_seconds_are_enough() -> None:
    assert PROGRAMS_SECONDS < WORKERS_SECONDS < 2.0
