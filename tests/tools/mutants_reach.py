"""Which test reaches which lines: found out by running the tests once under a tracer, and kept in a cache.

Lines of a function are followed in its first calls of each test only: that is where nearly all lines show,
and it keeps the run at a few times its normal length.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

FOLLOWED_CALLS = 30
# By path, the lines that ran; by test, what it reached and how many seconds it took.
Lines = dict[str, set[int]]


class Reached:
    """What one test file reaches. `modules` are paths that ran while it was imported."""

    def __init__(self, tests: dict[str, Lines], seconds: dict[str, float]) -> None:
        self.tests = tests
        self.seconds = seconds

    def dump(self, path: Path) -> None:
        """Write it to `path`, at once or not at all."""
        data = {
            test: [self.seconds.get(test, 0.0), {file: sorted(found) for file, found in lines.items()}]
            for test, lines in self.tests.items()
        }
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(data))
        part.rename(path)

    @classmethod
    def load(cls, path: Path) -> Reached:
        """What `dump` has written."""
        data = json.loads(path.read_text())
        tests = {
            test: {file: set(found) for file, found in lines.items()} for test, (_, lines) in data.items()
        }
        return cls(tests, {test: seconds for test, (seconds, _) in data.items()})


class Tracer:
    """A plugin of pytest that notes the lines of files under `folders` (absolute) for each test."""

    def __init__(self, root: Path, folders: list[str]) -> None:
        self._root = f"{root}/"
        self._folders = tuple(f"{root}/{folder}/" for folder in folders)
        self._watched: dict[str, str | None] = {}
        self._lines: Lines = {}
        self._calls: dict[tuple[str, int], int] = {}
        self.tests: dict[str, Lines] = {}
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def start(self) -> None:
        threading.settrace(self._call)
        sys.settrace(self._call)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, None, None]:
        self._lines = self.tests[item.nodeid] = {}
        self._calls = {}
        sys.settrace(self._call)
        yield

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.add(report.nodeid)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        name = code.co_filename
        watched = self._watched.get(name, "")
        if watched == "":
            watched = name[len(self._root) :] if name.startswith(self._folders) else None
            self._watched[name] = watched
        if watched is None:
            return None
        lines = self._lines.setdefault(watched, set())
        lines.add(frame.f_lineno)
        place = (name, code.co_firstlineno)
        calls = self._calls[place] = self._calls.get(place, 0) + 1
        if calls > FOLLOWED_CALLS:
            return None

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            lines.add(frame.f_lineno)
            return line

        return line


def reached(root: Path, file: str, folders: list[str], cache: Path) -> None:
    """Run a test file under the tracer and write what it reaches to `cache`. For a process of its own."""
    tracer = Tracer(root, folders)
    tracer.start()
    pytest.main([*OPTIONS, file], plugins=[tracer])
    sys.settrace(None)
    threading.settrace(None)
    # A test that fails without a fault says nothing about one.
    passed = {test: lines for test, lines in tracer.tests.items() if test not in tracer.failed}
    Reached(passed, tracer.seconds).dump(cache)


# Warnings: what is imported before the fork cannot be rewritten by pytest, and need not.
OPTIONS = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]


def cache_file(root: Path, build: Path, file: str) -> Path:
    """Where the reach of a test file is kept: a name that changes with all that it may depend on."""
    digest = hashlib.sha256()
    sources = [
        path
        for folder in ("scheduler_core", "webhook", "tests/support")
        for path in (root / folder).rglob("*.py")
    ]
    beside = [
        path
        for path in (root / file).parent.rglob("*")
        if path.is_file() and not path.name.startswith("test_")
    ]
    for path in [*sorted(sources), *sorted(path for path in beside if path.suffix != ".pyc"), root / file]:
        digest.update(f"{path.relative_to(root)}\0".encode())
        digest.update(path.read_bytes())
    return build / f"{Path(file).stem}-{digest.hexdigest()[:16]}.json"
