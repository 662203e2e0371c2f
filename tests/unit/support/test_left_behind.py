"""A process that outlives its test: who is told, and who is not."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.durations import LASTING
from tests.support.left_behind import LeftBehind, works

UNIT, STORY = "tests/unit/test_it.py::test_it", "tests/e2e/test_it.py::test_it"
COPY = "a copy of the test process"
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def forked() -> int:
    child = os.fork()
    if not child:
        time.sleep(600)
        os._exit(0)
    return child


def forked_and_busy() -> int:
    child = os.fork()
    while not child:
        pass
    return child


def ended_soon() -> int:
    child = os.fork()
    if not child:
        time.sleep(0.1)
        os._exit(0)
    return child


def program() -> int:
    return os.posix_spawn(sys.executable, SLEEP, os.environ)


def lasting() -> int:
    child = program()
    LASTING.add(child)
    return child


@contextlib.contextmanager
def played(nodeid: str, start: Callable[[], int], patience: float = 60.0) -> Iterator[tuple[int, str]]:
    """A test that starts a process: its number, and what the end of the test tells."""
    plugin, item, child = LeftBehind(patience), SimpleNamespace(nodeid=nodeid), 0
    plugin.pytest_runtest_call()
    try:
        child = start()
        told = ""
        end: Any = plugin.pytest_runtest_teardown(item)  # type: ignore[arg-type]
        next(end)
        try:
            with contextlib.suppress(StopIteration):
                end.send(None)
        except pytest.fail.Exception as failure:
            told = str(failure)
        yield child, told
    finally:
        LASTING.discard(child)
        with contextlib.suppress(OSError):
            os.kill(child, 9)
        os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("nodeid", "start", "what"),
    [
        (UNIT, forked, COPY),
        (STORY, forked, COPY),
        (UNIT, program, " ".join(SLEEP)),
        (UNIT, forked_and_busy, COPY),
    ],
    ids=["a fork", "a fork in a story", "a program", "a fork that works"],
)
def test_a_test_that_leaves_a_process_behind_fails(nodeid: str, start: Callable[[], int], what: str) -> None:
    # One that works is not waited for.
    with played(nodeid, start, patience=600.0 if start is forked_and_busy else 0.2) as (child, told):
        assert told == f"the test leaves processes behind: {child} ({what})"
        until = time.monotonic() + 60
        while works(child):
            assert time.monotonic() < until


@pytest.mark.parametrize(
    ("nodeid", "start"),
    [(UNIT, ended_soon), (UNIT, lasting), (STORY, program)],
    ids=["one that ends", "one that serves many tests", "a program of a story"],
)
def test_others_pass(nodeid: str, start: Callable[[], int]) -> None:
    with played(nodeid, start, patience=60.0 if start is ended_soon else 0.0) as (_, told):
        assert told == ""
