"""Do the tests notice? Sets faults into modules, one at a time, and runs the tests that reach them.

    python -m tests.tools.mutants                       60 faults in each of the five packages
    python -m tests.tools.mutants --package quota --count 0 --module policy.py     all faults of one module
    python -m tests.tools.mutants --again               those that survived the last time

Prints those that no test noticed and a table; build/mutants.json has all. docs/testing.md explains it.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from tests.tools.mutants_faults import Fault, compiled, faults
from tests.tools.mutants_pool import Pool
from tests.tools.mutants_reach import OPTIONS, Reached, cache_file, reached

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "mutants"
RESULT = ROOT / "build" / "mutants.json"
# A package, and its tests: those of its units first.
PACKAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "engine": (
        "scheduler_core/engine",
        (
            "tests/unit/engine/test_*.py",
            "tests/scenarios/test_*.py",
            "tests/property/test_gang*.py",
            "tests/property/test_groups_property.py",
            "tests/property/test_equal_pods_together.py",
            "tests/property/test_restart_equivalence.py",
        ),
    ),
    "preemption": (
        "scheduler_core/framework/preemption",
        (
            "tests/unit/framework/test_*.py",
            "tests/property/test_search_oracle.py",
            "tests/property/test_victims_oracle.py",
            "tests/property/test_preemption_*.py",
            "tests/property/test_restart_equivalence.py",
            "tests/scenarios/test_capacity*.py",
            "tests/scenarios/test_coscheduling.py",
        ),
    ),
    "quota": ("scheduler_core/quota", ("tests/unit/quota/test_*.py", "tests/scenarios/test_capacity*.py")),
    "state": (
        "scheduler_core/state",
        (
            "tests/unit/state/test_*.py",
            "tests/property/test_state_histories.py",
            "tests/property/test_load_oracle.py",
            "tests/property/test_cluster_plugins_oracle.py",
        ),
    ),
    "webhook": ("webhook", ("tests/unit/webhook/test_*.py",)),
}
# Tests that take long are left out for a fault once the others have taken so many seconds; these are seconds
# under the tracer, several times what the tests take without it.
TEST_SECONDS = 180.0
REACH_SECONDS = 1200.0
# Imported once, before any fault: nothing of ours.
WARM = (
    "numpy msgspec yaml flask cheroot.server cryptography.x509 kubernetes.client aiohttp prometheus_client "
    "jsonpatch hypothesis hypothesis.strategies hypothesis.stateful h2.connection trustme click.testing"
)


@dataclass(frozen=True)
class Place:
    """A fault of one module, `path` relative to the repository."""

    package: str
    path: str
    fault: Fault

    def __str__(self) -> str:
        fault = self.fault
        return f"{self.path}:{fault.first}  {fault.kind}:  {fault.before}  ->  {fault.after}"


@dataclass(frozen=True)
class Outcome:
    """What became of a fault: `caught` by a test, `unreached` by all of them, or `survived` so many tests."""

    place: Place
    verdict: str
    by: str
    tests: int
    seconds: float


def places(package: str, module: str = "") -> list[Place]:
    """Every fault that can be set into a package, or into one of its modules."""
    folder = ROOT / PACKAGES[package][0]
    found = []
    for path in sorted(folder.glob("*.py")):
        if module in ("", path.name):
            name = str(path.relative_to(ROOT))
            found += [Place(package, name, fault) for fault in faults(path.read_text())]
    return found


def test_files(package: str) -> list[str]:
    """The test files of a package, in the order in which they are asked."""
    return [
        str(path.relative_to(ROOT)) for pattern in PACKAGES[package][1] for path in sorted(ROOT.glob(pattern))
    ]


# Reach


def reach_of(files: Sequence[str], pool: Pool) -> dict[str, Reached]:
    """What each test file reaches; files that are not in the cache are run."""
    BUILD.mkdir(parents=True, exist_ok=True)
    folders = [folder for folder, _ in PACKAGES.values()]
    caches = {file: cache_file(ROOT, BUILD, file) for file in files}
    missing = [file for file, cache in caches.items() if not cache.exists()]
    for number, file in enumerate(missing, 1):
        print(f"\rwhat tests reach: {number}/{len(missing)}", end="", file=sys.stderr)
        pool.run(partial(reached, ROOT, file, folders, caches[file]), REACH_SECONDS, lambda ended: None)
    pool.finish()
    if missing:
        print(file=sys.stderr)
    return {
        file: Reached.load(cache) if cache.exists() else Reached({}, {}) for file, cache in caches.items()
    }


def chosen(place: Place, files: Sequence[str], reach: dict[str, Reached]) -> list[tuple[str, float]]:
    """Tests that reach the lines of a fault, with seconds: those of the module first, then the quick ones.

    What runs when a module is imported is judged by the tests that reach anything in that module.
    """
    wanted = set(range(place.fault.first, place.fault.last + 1))
    inside = _in_function(place)
    found = []
    for order, file in enumerate(files):
        known = reach[file]
        for test, lines in known.tests.items():
            here = lines.get(place.path)
            if here and (not inside or not wanted.isdisjoint(here)):
                nearest = 0 if f"_{Path(place.path).stem}.py" in file else 1
                found.append(((nearest, order), test, known.seconds.get(test, 0.0)))
    cost: dict[tuple[int, int], float] = {}
    for key, _, seconds in found:
        cost[key] = cost.get(key, 0.0) + seconds
    found.sort(key=lambda entry: (entry[0][0], cost[entry[0]], entry[0][1]))
    spent = 0.0
    kept: list[tuple[str, float]] = []
    for _, test, seconds in found:
        if not kept or spent + seconds <= TEST_SECONDS:
            spent += seconds
            kept.append((test, seconds))
    return kept


def _in_function(place: Place) -> bool:
    """Whether a fault stands in the body of a function, and not in what runs at import."""

    tree = ast.parse((ROOT / place.path).read_text())
    return any(
        isinstance(node, ast.FunctionDef)
        and node.body[0].lineno <= place.fault.first <= (node.end_lineno or 0)
        for node in ast.walk(tree)
    )


# One fault


class _Faulty(SourceFileLoader):
    """Loads one module with a fault; all others are imported as always."""

    def __init__(self, place: Place) -> None:
        path = ROOT / place.path
        name = place.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        super().__init__(name, str(path))
        self._index = place.fault.index

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return (
            importlib.util.spec_from_file_location(fullname, self.path, loader=self)
            if fullname == self.name
            else None
        )

    def get_code(self, fullname: str) -> CodeType:
        return compiled(Path(self.path).read_text(), self.path, self._index)


class _Only:
    """A plugin of pytest: runs the chosen tests in their order, and writes down the first that fails."""

    def __init__(self, tests: Sequence[str], answer: Path) -> None:
        self._rank = {test: rank for rank, test in enumerate(tests)}
        self._answer = answer

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        known = [item for item in items if item.nodeid in self._rank]
        items[:] = sorted(known, key=lambda item: self._rank[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._answer.write_text(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._answer.write_text(report.nodeid)


def judge(place: Place, tests: Sequence[str], answer: Path) -> None:
    """Run the tests with the fault; the first that fails is written to `answer`. For a process of its own."""
    sys.meta_path.insert(0, _Faulty(place))
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    code = pytest.main([*OPTIONS, "-x", *files], plugins=[_Only(tests, answer)])
    answer.touch()
    if code and not answer.read_text():
        answer.write_text("pytest")


def run(wanted: Sequence[Place], pool: Pool) -> Iterator[Outcome]:
    """What becomes of each fault, in the order in which it is known."""
    files = {package: test_files(package) for package in {place.package for place in wanted}}
    reach = reach_of(sorted({file for found in files.values() for file in found}), pool)
    outcomes: list[Outcome] = []
    for number, place in enumerate(wanted):
        tests = chosen(place, files[place.package], reach)
        if not tests:
            yield Outcome(place, "unreached", "", 0, 0.0)
            continue
        answer = BUILD / f"answer-{os.getpid()}-{number}"
        names = [test for test, _ in tests]
        seconds = 15 + sum(cost for _, cost in tests)
        done = partial(_note, outcomes, place, answer, len(tests), time.monotonic())
        pool.run(partial(judge, place, names, answer), seconds, done)
        while outcomes:
            yield outcomes.pop(0)
    pool.finish()
    yield from outcomes


def _note(
    outcomes: list[Outcome], place: Place, answer: Path, count: int, started: float, ended: bool
) -> None:
    """Note what became of a fault: what `judge` wrote, or that it came to no end."""
    if ended and not answer.exists():
        raise RuntimeError(f"{place}: cannot be set")
    by = answer.read_text() if ended else "no end"
    answer.unlink(missing_ok=True)
    seconds = round(time.monotonic() - started, 1)
    outcomes.append(Outcome(place, "caught" if by else "survived", by, count, seconds))


def sample(packages: Sequence[str], count: int, seed: int, module: str) -> list[Place]:
    """`count` faults of each package, or all of them for 0; the same for the same seed and sources."""
    found: list[Place] = []
    for package in packages:
        every = places(package, module)
        drawn = random.Random(f"{seed} {package}").sample(every, min(count, len(every))) if count else every
        found += sorted(drawn, key=lambda place: (place.path, place.fault.index))
    return found


def again(result: Path, packages: Sequence[str]) -> list[Place]:
    """What was not caught the last time in some packages, as far as it stands there still."""
    last = [entry["place"] for entry in json.loads(result.read_text()) if entry["verdict"] != "caught"]
    wanted = {
        (e["path"], e["fault"]["kind"], e["fault"]["before"], e["fault"]["after"], e["fault"]["first"])
        for e in last
    }
    return [
        place
        for package in packages
        for place in places(package)
        if (place.path, place.fault.kind, place.fault.before, place.fault.after, place.fault.first) in wanted
    ]


def table(outcomes: Sequence[Outcome]) -> str:
    """Per package: faults, caught, what no test reaches, what survived, and the share that is caught."""
    rows = [("package", "faults", "caught", "unreached", "survived", "share")]
    for name in [*PACKAGES, "all"]:
        mine = [outcome for outcome in outcomes if name in ("all", outcome.place.package)]
        if mine:
            counts = [sum(o.verdict == v for o in mine) for v in ("caught", "unreached", "survived")]
            found, unreached, survived = map(str, counts)
            rows.append((name, str(len(mine)), found, unreached, survived, f"{counts[0] / len(mine):.1%}"))
    return "\n".join(f"{row[0]:<12}" + "".join(f"{cell:>11}" for cell in row[1:]) for row in rows)


def main() -> int:
    """Sample, run, print; 1 where less than `--floor` is caught."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--package", choices=PACKAGES, action="append", help="only this one (may be repeated)"
    )
    options.add_argument("--module", default="", help="only this module of the package")
    options.add_argument("--count", type=int, default=60, help="faults per package, 0 for all (%(default)s)")
    options.add_argument("--seed", type=int, default=1, help="of the sample (%(default)s)")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (%(default)s)")
    options.add_argument(
        "--floor", type=float, default=0.0, help="exit code 1 where a smaller share is caught"
    )
    options.add_argument("--again", action="store_true", help="what was not caught in the last run")
    options.add_argument("--result", type=Path, default=RESULT, help="where all outcomes go (%(default)s)")
    given = options.parse_args()
    os.chdir(ROOT)
    for name in WARM.split():
        importlib.import_module(name)
    packages = given.package or [*PACKAGES]
    if given.again:
        wanted = again(given.result, packages)
    else:
        wanted = sample(packages, given.count, given.seed, given.module)
    pool, outcomes, started = Pool(given.jobs), [], time.monotonic()
    interrupted = False
    try:
        for outcome in run(wanted, pool):
            outcomes.append(outcome)
            print(f"\r{len(outcomes)}/{len(wanted)} ", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        pool.stop()
    outcomes.sort(key=lambda outcome: wanted.index(outcome.place))
    given.result.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    for outcome in outcomes:
        if outcome.verdict != "caught":
            print(f"{outcome.verdict:<9} {outcome.place}")
    print(table(outcomes))
    print(f"{time.monotonic() - started:.0f} s{', interrupted' if interrupted else ''}")
    caught = sum(outcome.verdict == "caught" for outcome in outcomes)
    return int(interrupted or caught < given.floor * len(outcomes))


if __name__ == "__main__":
    sys.exit(main())
