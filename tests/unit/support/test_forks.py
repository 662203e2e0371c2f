"""A program that is forked is to its test as one that was started."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters.forks import Forked, Parent
from tests.support.eventually import eventually

SLEEP = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture(scope="module")
def parent() -> Iterator[Parent]:
    made = Parent("timeit")
    yield made
    made.close()


def run(parent: Parent, log: Path, statement: str) -> Forked:
    with log.open("ab") as output:
        return parent.start(["-n1", "-r1", statement], output.fileno())


def sleeping(parent: Parent, log: Path) -> Forked:
    program = run(parent, log, SLEEP)
    eventually(lambda: "up" in log.read_text())
    return program


def test_it_has_the_environment_and_the_folder_of_the_test(
    parent: Parent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THIS_TEST", "its value")
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "log"
    assert run(parent, log, "import os; print(os.environ['OF_THIS_TEST'], os.getcwd())").wait(60) == 0
    assert f"its value {tmp_path}\n" in log.read_text()


def test_what_it_raises_is_in_its_log_and_in_its_code(parent: Parent, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert run(parent, log, "1 / 0").wait(60) == 1
    assert "ZeroDivisionError" in log.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_a_signal_ends_it(parent: Parent, tmp_path: Path, number: signal.Signals) -> None:
    program = sleeping(parent, tmp_path / "log")
    assert program.poll() is None
    program.send_signal(number)
    assert (program.wait(60), program.poll()) == (-number, -number)
    # As with `Popen`, a signal to one that has ended reaches nobody.
    program.kill()


def test_ctrl_c_interrupts_it(parent: Parent, tmp_path: Path) -> None:
    program = sleeping(parent, tmp_path / "log")
    program.send_signal(signal.SIGINT)
    assert program.wait(60) == 1
    assert "KeyboardInterrupt" in (tmp_path / "log").read_text()


def test_who_waits_too_short_is_told(parent: Parent, tmp_path: Path) -> None:
    program = sleeping(parent, tmp_path / "log")
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(0.01)
    program.kill()
    assert program.wait(60) == -signal.SIGKILL


def test_none_outlives_the_process_that_forks(tmp_path: Path) -> None:
    parent = Parent("timeit")
    program = sleeping(parent, tmp_path / "log")
    parent.close()
    assert program.wait(60) == -signal.SIGKILL
