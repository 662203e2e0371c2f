"""Options of the whole test run: which API servers, and what this machine has to leave out."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import searches, smoke, tls_socket
from tests.support.case_ids import case_id, nameless
from tests.support.clusters.server import NEWEST, SERVERS
from tests.support.day_seeds import NewFindings
from tests.support.durations import DearFirst, Durations, Meter
from tests.support.extent import LeftOut, left_out
from tests.support.interrupted import Interruption
from tests.support.left_behind import LeftBehind
from tests.support.pools import OwnPool, Pools
from tests.support.run_progress import RunProgress, own_console
from tests.support.time_limits import TimeLimits

END_TO_END = "tests/e2e/"
# A test marked as long has more time than others, unless it says how much it needs.
LONG_SECONDS = 600
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LEFT_OUT = pytest.StashKey[list[LeftOut]]()
NAMELESS = pytest.StashKey[str]()

tls_socket.install()
# Go programs of tests (kube-apiserver, etcd, kubectl, Helm) end soon: memory is cheaper than its collection.
os.environ.setdefault("GOGC", "400")

# The machine's speed says nothing about the code: no deadlines, and the same examples for everybody.
settings.register_profile(
    "muster",
    deadline=None,
    derandomize=True,
    max_examples=searches.cases(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("muster")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--server",
        choices=(*SERVERS, NEWEST, "both", "all"),
        default=None,
        help="API server for end-to-end tests (default: sandbox); one asked for by name must be there",
    )
    parser.addoption(
        smoke.OPTION,
        action="store_true",
        help="of a file that has tests marked as smoke, play only these",
    )
    parser.addoption(
        searches.OPTION,
        action="store_true",
        help="play only what make test shortens or leaves out: searches and long tests",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = left_out(config.getoption("--server"))
    config.pluginmanager.register(DearFirst(), "dear-first")
    if config.getoption("collectonly"):
        return
    worker: dict[str, str] | None = getattr(config, "workerinput", None)
    has_workers = config.getoption("dist", "no") != "no"
    if worker is not None or not has_workers:
        # This process collects, and what is collected stays: the end of this file lets the collector go on.
        gc.disable()
    # A shell's background jobs ignore Ctrl-C, and what they start does too: programs under test shall not.
    Interruption(worker=worker is not None, has_workers=has_workers).install()
    config.pluginmanager.register(Meter(), "meter")
    config.pluginmanager.register(LeftBehind(), "left-behind")
    config.pluginmanager.register(TimeLimits(), "time-limits")
    if worker is None:
        _configure_run(config)
    elif pool := worker.get("pool"):
        mark = worker.get("collect_after")
        config.pluginmanager.register(OwnPool(pool, Path(mark) if mark else None), "own-pool")


def _configure_run(config: pytest.Config) -> None:
    """The process that starts the run, with or without workers: it shows the progress and the costs."""
    console = own_console()
    config.add_cleanup(console.file.close)
    config.pluginmanager.register(RunProgress(console, list(_left_out_lines(config))), "run-progress")
    config.pluginmanager.register(NewFindings(console), "new-findings")
    config.pluginmanager.register(Durations(), "durations")
    config.pluginmanager.register(Pools(), "pools")


def _left_out_lines(config: pytest.Config) -> Iterator[str]:
    for item in config.stash[LEFT_OUT]:
        yield f"{item.what}: {item.why}"
    if searches.PART > 1:
        part = f"all but one case in {searches.PART}"
        yield f"{part} of the random searches: they take minutes (make test-searches)"
    if config.getoption("markexpr") == "not long":
        yield "tests marked as long: each takes many seconds (make test-searches, make test-sandbox)"
    if config.getoption(smoke.OPTION):
        yield smoke.LEFT_OUT
    if config.getoption(searches.OPTION):
        yield searches.LEFT_OUT
    ignored = config.getoption("ignore") or ()
    if "tests/faults" in ignored:
        yield "tests/faults: it takes minutes, and stops and kills programs (make test-faults)"
    if "tests/dashboards" in ignored:
        yield "tests/dashboards: it needs Prometheus, from Debian (make test-dashboards)"
    if "tests/browser" in ignored:
        yield "tests/browser: it needs Chromium, from Debian (make test-browser)"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what this machine or this run has no program for, without importing it."""
    return any(collection_path in item.paths for item in config.stash[LEFT_OUT]) or None


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    return case_id(val, argname)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for selection in (smoke, searches):
        if config.getoption(selection.OPTION):
            items[:], others = selection.choose(items)
            config.hook.pytest_deselected(items=others)
    faults = nameless(items)
    for item in items:
        if item.nodeid in faults:
            item.stash[NAMELESS] = faults[item.nodeid]
        if item.nodeid.startswith(END_TO_END):
            item.add_marker(pytest.mark.e2e)
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if fault := item.stash.get(NAMELESS, ""):
        pytest.fail(fault, pytrace=False)


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
    # Rarely, too: few objects of a test are in cycles, and most of them end with it.
    gc.set_threshold(20_000)
    gc.enable()
