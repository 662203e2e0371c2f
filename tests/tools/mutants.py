"""Do the tests notice? Sets faults into modules, one at a time, and runs the tests that reach them.

    python -m tests.tools.mutants                       300 faults in all rooms
    python -m tests.tools.mutants --room quota --count 0 --module policy.py        all faults of one module
    python -m tests.tools.mutants --again               those that survived the last time

Prints those that no test noticed, and a table by room; build/mutants.json has all. docs/testing.md
explains it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import marshal
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path

import pytest

from tests.tools.mutants_faults import compiled
from tests.tools.mutants_pool import Pool
from tests.tools.mutants_probes import blocks, module_name
from tests.tools.mutants_reach import OPTIONS, SEARCH_PART, Reach, Run, files_of_tests, reach_of
from tests.tools.mutants_rooms import ROOMS, ROOT, Place, places, sample
from tests.tools.mutants_site.sitecustomize import start

BUILD = ROOT / "build" / "mutants"
RESULT = ROOT / "build" / "mutants.json"
COUNT = 300
# Of a processor. Of the tests near a fault, of the others and of the stories, those that take longer in sum
# are left out.
TEST_SECONDS = 60.0
ENDLESS_SECONDS = 10.0
ANSWER = "answer"
# Imported once, before any fault: nothing of ours.
WARM = (
    "numpy msgspec yaml flask cheroot.server cryptography.x509 kubernetes.client aiohttp prometheus_client "
    "jsonpatch hypothesis hypothesis.strategies hypothesis.stateful h2.connection trustme click.testing "
    "_hypothesis_pytestplugin xdist.plugin pytest_timeout anyio.pytest_plugin"
)


@dataclass(frozen=True)
class Outcome:
    """What became of a fault: `caught` by a test, `unreached` by all of them, or `survived` so many tests."""

    place: Place
    verdict: str
    by: str
    tests: int
    seconds: float


# The tests of a fault


@dataclass(frozen=True)
class Candidate:
    """A test that reaches a fault: how far its file is from the module, and how long it takes."""

    distance: int
    file: str
    test: str
    seconds: float


def chosen(place: Place, reach: Mapping[str, Reach], most: float = TEST_SECONDS) -> list[Candidate]:
    """Tests that reach the block of a fault: those near the module first, stories last, quick files first.

    What runs when a module is imported is judged by the tests that reach anything in that module, and so is
    a module that has changed since the tests ran with probes.
    """
    candidates = [
        Candidate(_distance(place.path, file), file, name, test.seconds)
        for file, found in reach.items()
        for name, test in _reaching(place, found)
    ]
    cost: dict[str, float] = {}
    for one in candidates:
        cost[one.file] = cost.get(one.file, 0.0) + one.seconds
    candidates.sort(key=lambda one: (one.distance, cost[one.file], one.file))
    spent: Counter[str] = Counter()
    kept: list[Candidate] = []
    for one in candidates:
        group = {FAR: "others", STORY: "stories"}.get(one.distance, "near")
        if not kept or spent[group] + one.seconds <= most:
            spent[group] += one.seconds
            kept.append(one)
    return kept


def _reaching(place: Place, reach: Reach) -> Iterator[tuple[str, Run]]:
    """The tests of one file that reach a fault."""
    every = reach.blocks(place.path)
    if every is None:
        return
    at_import = bytes.fromhex(reach.at_import)
    of_line = _blocks(place.path)
    lines = range(place.fault.first, place.fault.last + 1)
    exact = [every.start + of_line[line] for line in lines if line in of_line]
    if not exact or not reach.is_current(place.path) or any(_bit(at_import, at) for at in exact):
        exact = list(every)
    for name, test in reach.tests.items():
        ran = bytes.fromhex(test.reached)
        if not test.failed and any(_bit(ran, at) for at in exact):
            yield name, test


def _bit(bits: bytes, at: int) -> bool:
    return at // 8 < len(bits) and bool(bits[at // 8] & (128 >> at % 8))


@cache
def _blocks(path: str) -> dict[int, int]:
    return blocks((ROOT / path).read_text())


FAR = 3
STORY = 4
# End-to-end tests: they start programs, which takes long.
STORIES = "tests/e2e/"


def _distance(path: str, file: str) -> int:
    """0 for tests of the module by its name, 1 for those of its folder, 2 of its room, FAR for all others."""
    if file.startswith(STORIES):
        return STORY
    module = Path(path.removeprefix("scheduler_core/"))
    tests = Path(file.removeprefix("tests/unit/"))
    if module.parts[0] != tests.parts[0]:
        return FAR
    if f"_{module.stem}" in f"_{tests.stem.removeprefix('test_')}":
        return 0
    return 1 if module.parent == tests.parent else 2


# One fault


class _Only:
    """A plugin of pytest: runs the chosen tests in their order, and writes down the first that fails.

    A test that takes several times its processor seconds ends the process: the fault has made it endless.
    """

    def __init__(self, tests: Sequence[Candidate], answer: Path, endless: float) -> None:
        self._endless = endless
        self._rank = {one.test: rank for rank, one in enumerate(tests)}
        self._seconds = {one.test: one.seconds for one in tests}
        self._answer = answer

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        wanted = [item for item in items if item.nodeid in self._rank]
        items[:] = sorted(wanted, key=lambda item: self._rank[item.nodeid])

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, None, None]:
        signal.setitimer(signal.ITIMER_PROF, self._endless + 5 * self._seconds[item.nodeid])
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._answer.write_text(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._answer.write_text(report.nodeid)


def judge(place: Place, tests: Sequence[Candidate], folder: Path, endless: float) -> None:
    """Run the tests with the fault; the first that fails is written into `folder`. For a process of its own.

    The near ones run first and alone: most faults are caught before the files of the others are read.
    """
    code, answer = folder / "code", folder / ANSWER
    source = ROOT / place.path
    code.write_bytes(marshal.dumps(compiled(source.read_text(), str(source), place.fault.index)))
    start(str(folder / "plan"), {module_name(place.path): (str(source), str(code), 0, 0)})
    for distance in sorted({one.distance for one in tests}):
        stage = [one for one in tests if one.distance == distance]
        while stage and (failed := _first_failed(stage, answer, endless)):
            at = next((at for at, one in enumerate(stage) if one.test == failed), None)
            # As in `make test`: what waits for programs on a busy machine has a second attempt.
            if distance < STORY or at is None or _first_failed([stage[at]], answer, endless):
                answer.write_text(failed)
                return
            stage = stage[at + 1 :]
    answer.touch()


def _first_failed(tests: Sequence[Candidate], answer: Path, endless: float) -> str:
    """The first of these tests that fails."""
    files = list(dict.fromkeys(one.file for one in tests))
    code = pytest.main([*OPTIONS, "-x", *files], plugins=[_Only(tests, answer, endless)])
    failed = answer.read_text() if answer.exists() else "pytest" if code else ""
    answer.unlink(missing_ok=True)
    return failed


def run(
    wanted: Sequence[Place], files: Sequence[str], pool: Pool, most: float, endless: float
) -> Iterator[Outcome]:
    """What becomes of each fault by the tests of these files, in the order in which it is known.

    `most` are the seconds of tests near a fault, of others and of stories; `endless` those after which a
    quick test has no end.
    """
    reach = reach_of(ROOT, BUILD, files, pool)
    outcomes: list[Outcome] = []
    for place in wanted:
        tests = chosen(place, reach, most)
        if not tests:
            yield Outcome(place, "unreached", "", 0, 0.0)
            continue
        folder = Path(tempfile.mkdtemp(prefix="fault-", dir=BUILD))
        seconds = 60 + 4 * sum(one.seconds for one in tests)
        # The fault's seconds begin with its process.
        pool.make_room()
        done = partial(_note, outcomes, place, folder, len(tests), time.monotonic())
        pool.run(partial(judge, place, tests, folder, endless), seconds, done)
        while outcomes:
            yield outcomes.pop(0)
    pool.finish()
    yield from outcomes


def _note(
    outcomes: list[Outcome], place: Place, folder: Path, count: int, started: float, ended: bool
) -> None:
    """Note what became of a fault: what `judge` wrote, or that it came to no end."""
    answer = folder / ANSWER
    if ended and not answer.exists():
        raise RuntimeError(f"{place}: cannot be set")
    by = answer.read_text() if ended else "no end"
    shutil.rmtree(folder)
    seconds = round(time.monotonic() - started, 1)
    outcomes.append(Outcome(place, "caught" if by else "survived", by, count, seconds))


def again(result: Path, rooms: Sequence[str]) -> list[Place]:
    """What was not caught the last time in some rooms, as far as it stands there still."""
    last = [entry["place"] for entry in json.loads(result.read_text()) if entry["verdict"] != "caught"]
    wanted = {
        (e["path"], e["fault"]["kind"], e["fault"]["before"], e["fault"]["after"], e["fault"]["first"])
        for e in last
    }
    return [
        place
        for room in rooms
        for place in places(room)
        if (place.path, place.fault.kind, place.fault.before, place.fault.after, place.fault.first) in wanted
    ]


def table(outcomes: Sequence[Outcome]) -> str:
    """Per room: faults, caught, what no test reaches, what survived, and the share that is caught."""
    rows = [("room", "faults", "caught", "unreached", "survived", "share")]
    for name in [*ROOMS, "all"]:
        mine = [outcome for outcome in outcomes if name in ("all", outcome.place.room)]
        if mine:
            counts = [sum(o.verdict == v for o in mine) for v in ("caught", "unreached", "survived")]
            rows.append((name, str(len(mine)), *map(str, counts), f"{counts[0] / len(mine):.1%}"))
    return "\n".join(f"{row[0]:<15}" + "".join(f"{cell:>11}" for cell in row[1:]) for row in rows)


def main() -> int:
    """Sample, run, print; 1 where less than `--floor` is caught, or less than `--room-floor` in a room."""
    given = _options().parse_args()
    os.chdir(ROOT)
    os.environ["MUSTER_SEARCH_PART"] = SEARCH_PART
    # Every fault has processes of its own: what one has compiled the next one reads.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for name in WARM.split():
        importlib.import_module(name)
    rooms = given.room or [*ROOMS]
    if given.again:
        wanted = again(given.result, rooms)
    else:
        wanted = sample(rooms, given.count, given.seed, given.module)
    # So what is known when the run is interrupted is a fair sample, too.
    random.Random(given.seed).shuffle(wanted)
    files = [file for file in files_of_tests(ROOT) if file.startswith(tuple(given.tests or [""]))]
    pool, outcomes, started = Pool(given.jobs), [], time.monotonic()
    interrupted = False
    try:
        for outcome in run(wanted, files, pool, given.seconds, given.endless):
            outcomes.append(outcome)
            print(f"\r{len(outcomes)}/{len(wanted)} ", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        pool.stop()
    outcomes.sort(key=lambda o: ([*ROOMS].index(o.place.room), o.place.path, o.place.fault.index))
    given.result.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    for outcome in outcomes:
        if outcome.verdict != "caught":
            print(f"{outcome.verdict:<9} {outcome.place}")
    print(table(outcomes))
    print(f"{time.monotonic() - started:.0f} s{', interrupted' if interrupted else ''}")
    return int(interrupted or below(outcomes, given.floor, given.room_floor))


def below(outcomes: Sequence[Outcome], floor: float, room_floor: float) -> bool:
    """Whether less than a floor is caught, of all or of one room."""
    rooms = {outcome.place.room for outcome in outcomes}
    groups = [(floor, list(outcomes))]
    groups += [(room_floor, [o for o in outcomes if o.place.room == room]) for room in rooms]
    return any(sum(o.verdict == "caught" for o in group) < least * len(group) for least, group in groups)


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--room", choices=ROOMS, action="append", help="only this one (may be repeated)")
    options.add_argument("--module", default="", help="only this module: the end of its path")
    options.add_argument(
        "--tests", action="append", metavar="PATH", help="ask only tests below this folder (may be repeated)"
    )
    options.add_argument("--count", type=int, default=COUNT, help="faults, 0 for all (%(default)s)")
    options.add_argument("--seed", type=int, default=1, help="of the sample (%(default)s)")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (%(default)s)")
    for name, what in (("--floor", "of all"), ("--room-floor", "of one room")):
        options.add_argument(
            name, type=float, default=0.0, help=f"exit code 1 where a smaller share {what} is caught"
        )
    options.add_argument(
        "--seconds",
        type=float,
        default=TEST_SECONDS,
        help="of a processor for the tests near a fault, for others and for stories (%(default)s)",
    )
    options.add_argument(
        "--endless",
        type=float,
        default=ENDLESS_SECONDS,
        help="processor seconds beyond its usual ones after which a test has no end (%(default)s)",
    )
    options.add_argument("--again", action="store_true", help="what was not caught in the last run")
    options.add_argument("--result", type=Path, default=RESULT, help="where all outcomes go (%(default)s)")
    return options


if __name__ == "__main__":
    sys.exit(main())
