"""Wherever memory ends, so does the process; any other error is logged."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

import pytest

from scheduler_core.logs.out_of_memory import OUT_OF_MEMORY, end_if_out_of_memory

HEAD = """
import logging, sys, threading, time
from scheduler_core.logs import set_up
set_up(1, "text")
log = logging.getLogger("muster")

def bad(*_):
    raise KIND("made up")
"""
# A process whose memory ends does not come to its end here.
END = """
time.sleep(SECONDS)
sys.exit(7)
"""
PLACES = {
    "a thread that ends of it": "threading.Thread(target=bad).start()",
    "an error that is logged": """
try:
    bad()
except Exception:
    log.exception("broken")
""",
    "the cause of one that is logged": """
try:
    try:
        bad()
    except KIND as error:
        raise RuntimeError("another") from error
except Exception:
    log.exception("broken")
""",
    "an error that nobody can catch": """
class Thing:
    def __del__(self):
        bad()
del Thing
Thing = type("Thing", (), {"__del__": bad})
Thing()
""",
    "a page of the port of health": """
import contextlib, urllib.request
from scheduler_core.health import HealthServer
door = HealthServer("127.0.0.1", 0, {}, {"/page": bad})
door.start()
with contextlib.suppress(OSError):
    urllib.request.urlopen(door.url + "/page", timeout=30)
""",
    "the formatting of a line": """
class Text:
    __str__ = bad
log.info("%s", Text())
""",
    "an error that is its own cause": """
try:
    bad()
except KIND as error:
    try:
        raise error from error
    except KIND:
        log.exception("broken")
""",
}


def ended(body: str, kind: str, seconds: float) -> subprocess.CompletedProcess[str]:
    text = f"{HEAD.replace('KIND', kind)}{body.replace('KIND', kind)}{END.replace('SECONDS', str(seconds))}"
    command = [sys.executable, "-c", text]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("body", PLACES.values(), ids=PLACES)
def test_no_memory_is_the_end(body: str) -> None:
    done = ended(body, "MemoryError", 40.0)
    assert done.returncode == OUT_OF_MEMORY, done.stderr
    assert "out of memory: the process ends" in done.stderr


@pytest.mark.parametrize("body", PLACES.values(), ids=PLACES)
def test_another_error_is_not(body: str) -> None:
    done = ended(body, "OverflowError", 1.0)
    assert done.returncode == 7, done.stderr
    assert "made up" in done.stderr or "cannot be written" in done.stderr


class Ended(Exception):
    """Instead of the end of this process."""


def raised(error: Exception, cause: Exception | None = None, context: Exception | None = None) -> Exception:
    error.__cause__, error.__context__ = cause, context
    return error


MEMORY = MemoryError("made up")
ERRORS: list[tuple[str, Exception | None, bool]] = [
    ("no error", None, False),
    ("memory", MEMORY, True),
    ("another error", ValueError(), False),
    ("memory is the cause", raised(ValueError(), cause=MEMORY), True),
    ("it was raised while memory ended", raised(ValueError(), context=MEMORY), True),
    ("the cause says more", raised(ValueError(), cause=OSError(), context=MEMORY), False),
    ("the cause of the cause", raised(ValueError(), cause=raised(OSError(), context=MEMORY)), True),
]


@pytest.mark.parametrize(("error", "ends"), [e[1:] for e in ERRORS], ids=[e[0] for e in ERRORS])
def test_what_ends_a_process(monkeypatch: pytest.MonkeyPatch, error: Exception | None, ends: bool) -> None:
    codes: list[int] = []

    def end(code: int) -> None:
        codes.append(code)
        raise Ended

    with monkeypatch.context() as patched, suppress(Ended):
        patched.setattr("os._exit", end)
        patched.setattr("os.write", lambda descriptor, data: len(data))
        end_if_out_of_memory(error)
    assert codes == [OUT_OF_MEMORY] * ends


def test_an_error_that_is_its_own_cause_is_looked_at_to_an_end() -> None:
    error = ValueError()
    error.__cause__ = error
    end_if_out_of_memory(error)
