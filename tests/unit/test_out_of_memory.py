"""Wherever memory ends, so does the process; any other error is logged."""

from __future__ import annotations

import subprocess
import sys

import pytest

from scheduler_core.logs.out_of_memory import OUT_OF_MEMORY

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
