"""A test that hangs is named with its stack after its limit, and the others run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SECONDS = 300
# Two workers that import pytest's plugins, and a third one in the place of one that was ended.
pytestmark = [pytest.mark.long, pytest.mark.timeout(SECONDS + 30)]
CONFTEST = """
import time

import pytest
from tests.support.pools import Pools
from tests.support.time_limits import TimeLimits

def pytest_configure(config):
    config.pluginmanager.register(Pools())
    config.pluginmanager.register(TimeLimits(again=2.0, last=15.0))

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    if "reported_late" in item.name and call.when == "call":
        time.sleep(2)
    yield
"""
HEAD = """
import ctypes, pytest, signal, socket, subprocess, threading
from tests.support.eventually import eventually

limited = pytest.mark.timeout(1)
"""
TAIL = """
def test_another():
    pass
"""
LATE_REPORT = """
@limited
def test_reported_late():
    pass
"""
HANGS = {
    "a thread that is waited for": """
def in_a_thread():
    threading.Event().wait()

@limited
def test_one():
    thread = threading.Thread(target=in_a_thread, daemon=True)
    thread.start()
    thread.join()
""",
    "a fixture": """
def in_a_fixture():
    one, other = socket.socketpair()
    with one, other:
        one.recv(1)

@pytest.fixture
def server():
    in_a_fixture()

@limited
def test_one(server):
    pass
""",
    "the end of a fixture": """
def in_the_end_of_a_fixture():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

@pytest.fixture
def server():
    yield
    in_the_end_of_a_fixture()

@limited
def test_one(server):
    pass
""",
    "a program, also after the limit": """
def in_a_program():
    with subprocess.Popen(["sleep", "100"]) as program:
        program.wait()

@limited
def test_one():
    in_a_program()
""",
    "a condition that is asked for": """
def in_a_condition():
    assert threading.Event().wait()

@limited
def test_one():
    eventually(in_a_condition, 100.0)
""",
    "a random search": """
from hypothesis import given, strategies

def in_a_search():
    threading.Event().wait()

@limited
@given(strategies.integers())
def test_one(number):
    in_a_search()
""",
    "code of C that no signal ends": """
def in_code_of_c():
    # As a library that waits with the interpreter's lock, and looks at no signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    ctypes.PyDLL(None).sleep(100)

@limited
def test_one():
    in_code_of_c()
""",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines of a run of all of them."""
    folder = tmp_path_factory.mktemp("hangs")
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    (folder / "conftest.py").write_text(CONFTEST)
    for number, text in enumerate([*HANGS.values(), LATE_REPORT]):
        (folder / f"test_{number}.py").write_text(f"{HEAD}{text}{TAIL}")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile"]
    command += ["-p", "no:cacheprovider", "-rfEp"]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 1, done.stdout + done.stderr
    return (done.stdout + done.stderr).splitlines()


@pytest.mark.parametrize("hang", HANGS)
def test_a_test_that_hangs_is_named_with_its_stack_and_the_run_goes_on(said: list[str], hang: str) -> None:
    file = f"test_{list(HANGS).index(hang)}.py"
    function = HANGS[hang].partition("def ")[2].partition("(")[0]
    ends = [line.split(" - ")[0] for line in said if line.startswith(("FAILED", "ERROR", "PASSED"))]
    named = [line for line in ends if f"{file}::test_one" in line and not line.startswith("PASSED")]
    assert len(named) == 1, ends
    assert f"PASSED {file}::test_another" in ends
    assert any(line.endswith((f"in {function}", f"def {function}():")) for line in said), said


def test_a_limit_that_is_reached_while_a_report_is_made_ends_no_run(said: list[str]) -> None:
    assert not [line for line in said if "INTERNALERROR" in line]
    assert [line for line in said if line.startswith(("PASSED", "ERROR")) and "::test_reported_late" in line]
