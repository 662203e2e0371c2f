"""Options of the whole test run: which API servers, and what this machine has to leave out."""

from __future__ import annotations

import gc
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import tls_socket
from tests.support.clusters.server import NEWEST, SERVERS
from tests.support.extent import LeftOut, left_out
from tests.support.run_progress import RunProgress, own_console
from tests.support.searches import PART, cases

END_TO_END = "tests/e2e/"
# Tests of these folders wait for other processes, for clients and for certificates.
WAITING = (END_TO_END, "tests/bare/", "tests/contract/", "tests/unit/webhook/")
WAITING_PART = 0.8
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LEFT_OUT = pytest.StashKey[list[LeftOut]]()

tls_socket.install()

# The machine's speed says nothing about the code: no deadlines, and the same examples for everybody.
settings.register_profile(
    "muster",
    deadline=None,
    derandomize=True,
    max_examples=cases(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("muster")


# A shell's background jobs ignore Ctrl-C, and what they start does too: programs under test shall not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--server",
        choices=(*SERVERS, NEWEST, "both", "all"),
        default=None,
        help="API server for end-to-end tests (default: sandbox); one asked for by name must be there",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = left_out(config.getoption("--server"))
    if hasattr(config, "workerinput") or config.getoption("collectonly"):
        return
    lines = [f"{item.what}: {item.why}" for item in config.stash[LEFT_OUT]]
    if PART > 1:
        lines.append(
            f"all but one case in {PART} of the random searches: they take minutes (make test-searches)"
        )
    if config.getoption("markexpr") == "not long":
        lines.append("tests marked as long: each takes many seconds (make test-searches)")
    if "tests/faults" in (config.getoption("ignore") or ()):
        lines.append("tests/faults: it takes minutes, and stops and kills programs (make test-faults)")
    if "tests/dashboards" in (config.getoption("ignore") or ()):
        lines.append("tests/dashboards: it needs Prometheus, from Debian (make test-dashboards)")
    if "tests/browser" in (config.getoption("ignore") or ()):
        lines.append("tests/browser: it needs Chromium, from Debian (make test-browser)")
    console = own_console()
    config.add_cleanup(console.file.close)
    config.pluginmanager.register(RunProgress(console, lines), "run-progress")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what this machine or this run has no program for, without importing it."""
    return any(collection_path in item.paths for item in config.stash[LEFT_OUT]) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(END_TO_END):
            item.add_marker(pytest.mark.e2e)
    items[:] = mixed(items)


@pytest.fixture(autouse=True)
def process_is_restored() -> Iterator[None]:
    """A program's main function, run by a test, sets up logs, hooks and signals of the whole process.

    Programs that a later test starts would ignore Ctrl-C where this process does.
    """
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    hooks = sys.excepthook, sys.unraisablehook, threading.excepthook
    handlers_of = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in handlers_of.items():
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)
    if root.level != level:
        root.setLevel(level)
    if root.handlers != handlers:
        root.handlers[:] = handlers
    sys.excepthook, sys.unraisablehook, threading.excepthook = hooks


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep the collector off the half million objects of the tests: it stops every thread to look at them."""
    gc.collect()
    gc.freeze()


def mixed(items: list[pytest.Item]) -> list[pytest.Item]:
    """The same items, with the files whose tests wait much between the others.

    While one worker waits, the others keep the processors at work. The last part of the order is without such
    files, so that no worker waits at the end.
    """
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    waiting = [name for name in files if name.startswith(WAITING)]
    working = [name for name in files if not name.startswith(WAITING)]
    place = {name: at / len(waiting) * WAITING_PART for at, name in enumerate(waiting)}
    place |= {name: at / len(working) for at, name in enumerate(working)}
    return [item for name in sorted(files, key=place.__getitem__) for item in files[name]]
