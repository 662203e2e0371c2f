"""Which test reaches which parts of the product: found out by running the tests once with probes, and kept.

What is kept of a test file holds while that file and what stands beside it are as they were. Where a module
has changed since, only that a test reaches something in it is known: so a change at the bottom of the product
does not cost the run of all tests.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.durations import processor_seconds
from tests.tools.mutants_pool import Pool
from tests.tools.mutants_probes import Probed, Reached
from tests.tools.mutants_rooms import PACKAGES

# As in `make test`: what it ignores, what needs a real kube-apiserver, and what it selects of all others.
IGNORED = (
    "tests/faults/",
    "tests/dashboards/",
    "tests/browser/",
    "tests/chart/live/",
    "tests/e2e/console_users/",
    "tests/e2e/owners/",
)
SELECTION = ("--smoke", "-m", "not long")
# Tests of how tests are run: they start some, or have others stopped.
OF_TESTS = ("tests/bare/", "tests/unit/support/", "tests/unit/tools/")
SEARCH_PART = "32"
# Warnings: what is imported before the fork cannot be rewritten by pytest, and need not.
OPTIONS = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning", *SELECTION]
BATCH = 12
BATCH_SECONDS = 1800.0
# Another one wherever `Run` or `Reach` means something else: what was kept is then no longer read.
FORM = "seconds of a processor, programs included"


@dataclass
class Run:
    """What one test took of a processor, and the blocks that ran in it and in the programs that it started:
    a bit for each, in the order of the modules.
    """

    seconds: float = 0.0
    failed: bool = False
    reached: str = ""

    def ran(self) -> np.ndarray:
        return np.unpackbits(np.frombuffer(bytes.fromhex(self.reached), np.uint8))


@dataclass
class Reach:
    """What the tests of one file reach; `at_import` is what ran while the files were imported.

    `offsets` are the first blocks of the modules, `digests` what they were.
    """

    tests: dict[str, Run] = field(default_factory=dict)
    at_import: str = ""
    offsets: dict[str, int] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)

    def dump(self, path: Path) -> None:
        """Write it to `path`, at once or not at all."""
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(asdict(self)))
        part.rename(path)

    @classmethod
    def load(cls, path: Path) -> Reach | None:
        """What `dump` has written, if anything."""
        if not path.exists():
            return None
        data = json.loads(path.read_text())
        data["tests"] = {name: Run(**test) for name, test in data["tests"].items()}
        return cls(**data)

    def blocks(self, module: str) -> range | None:
        """The places of a module's blocks in what a test ran; None where it was not imported."""
        first = self.offsets.get(module)
        if first is None:
            return None
        after = min((offset for offset in self.offsets.values() if offset > first), default=None)
        return range(first, 4 * len(self.at_import) if after is None else after)

    def is_current(self, module: str) -> bool:
        """Whether a module is what it was."""
        return self.digests.get(module) == _digest(module)


class Watch:
    """A plugin of pytest that notes for each test what it reaches, and writes it down file by file."""

    def __init__(self, probed: Probed, reached: Reached, kept: dict[str, Path]) -> None:
        self._offsets = probed.offsets
        self._reached = reached
        self._kept = kept
        self._at_import = self._none = np.zeros(probed.size, np.bool_)
        self._reach = Reach()
        # By fixtures of the session, by those of the file, and by the test itself so far.
        self._of_session = self._shared = self._before = self._none

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._at_import = self._reached.taken()
        for file in self._kept.keys() - {_file(item) for item in session.items}:
            self._write(file)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, None, None]:
        self._before = self._reached.taken()
        began = processor_seconds()
        yield
        test = self._test(item.nodeid)
        test.seconds = round(processor_seconds() - began, 3)
        test.reached = _hex(self._before | self._reached.taken() | self._shared | self._of_session)
        if nextitem is None or _file(nextitem) != _file(item):
            self._write(_file(item))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, None, None]:
        """What a fixture of more than one test reaches is reached by all tests that come after."""
        if fixturedef.scope == "function":
            yield
            return
        self._before = self._before | self._reached.taken()
        yield
        ran = self._reached.taken()
        if fixturedef.scope in ("session", "package"):
            self._of_session = self._of_session | ran
        else:
            self._shared = self._shared | ran

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self._test(report.nodeid)
        test.failed = test.failed or report.failed

    def _test(self, name: str) -> Run:
        return self._reach.tests.setdefault(name, Run())

    def _write(self, file: str) -> None:
        reach, self._reach, self._shared = self._reach, Reach(), self._none
        reach.at_import = _hex(self._at_import)
        reach.offsets = self._offsets
        reach.digests = {module: _digest(module) for module in reach.offsets}
        reach.dump(self._kept[file])


def _hex(ran: np.ndarray) -> str:
    return np.packbits(ran).tobytes().hex()


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


@cache
def _digest(name: str) -> str:
    path = Path(name)
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""


def files_of_tests(root: Path) -> list[str]:
    """The test files that are asked, by their paths in the repository."""
    found = sorted(path.relative_to(root).as_posix() for path in (root / "tests").rglob("test_*.py"))
    return [file for file in found if not file.startswith((*IGNORED, *OF_TESTS))]


def kept_file(root: Path, build: Path, file: str) -> Path:
    """Where the reach of a test file is kept: a name that changes with the file and what stands beside it."""
    beside = [
        path
        for path in (root / file).parent.rglob("*")
        if path.is_file() and not path.name.startswith("test_") and path.suffix != ".pyc"
    ]
    digest = hashlib.sha256(FORM.encode())
    for path in [*sorted(beside), root / file]:
        digest.update(f"{path.relative_to(root)}\0".encode())
        digest.update(path.read_bytes())
    return build / f"{Path(file).stem}-{digest.hexdigest()[:16]}.json"


def reach_of(root: Path, build: Path, files: Sequence[str], pool: Pool) -> dict[str, Reach]:
    """What each test file reaches; those of which nothing is kept are run, a few in each process."""
    build.mkdir(parents=True, exist_ok=True)
    kept = {file: kept_file(root, build, file) for file in files}
    known = {file: reach for file, path in kept.items() if (reach := Reach.load(path)) is not None}
    missing = [file for file in files if file not in known]
    if missing:
        _find_out(root, build, {file: kept[file] for file in missing}, pool)
    for file in missing:
        reach = Reach.load(kept[file])
        if reach is None:
            print(f"\n{file}: its run came to no end", file=sys.stderr)
        known[file] = reach or Reach()
    return known


def _find_out(root: Path, build: Path, kept: dict[str, Path], pool: Pool) -> None:
    """Run test files, a few in each process, so that what they reach is kept."""
    probed = Probed(root, PACKAGES, build)
    for number, batch in enumerate(_batches([*kept]), 1):
        print(f"\rwhat tests reach: {number}, {len(kept)} files", end="", file=sys.stderr)
        folder = Path(tempfile.mkdtemp(prefix="reach-", dir=build))
        work = partial(_run, probed, folder, {file: kept[file] for file in batch})
        pool.run(work, BATCH_SECONDS, partial(_clean, folder))
    pool.finish()


def _batches(files: Sequence[str]) -> Iterator[Sequence[str]]:
    return (files[at : at + BATCH] for at in range(0, len(files), BATCH))


def _run(probed: Probed, folder: Path, kept: dict[str, Path]) -> None:
    """Run test files with probes in the product and write what they reach. For a process of its own."""
    reached = probed.start(folder)
    pytest.main([*OPTIONS, *kept], plugins=[Watch(probed, reached, kept)])


def _clean(folder: Path, ended: bool) -> None:
    shutil.rmtree(folder)
