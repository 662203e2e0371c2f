"""Runner of all benchmarks: prints one table; the exit code is 1 if a benchmark fails or misses a bound.

A benchmark is a module `benchmarks/bench_<name>.py` with `main(small: bool = False) -> list[Row]`. Names as
arguments select benchmarks: `python -m benchmarks.run engine`. `--small` runs the same code on a cluster of a
few nodes, some of them side by side and without bounds, because such figures say nothing about speed.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import platform
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

from benchmarks.support.row import FAILED, LEFT_OUT, Missing, NotHere, Row

FOLDER = Path(__file__).parent
SHOWN_VERSIONS = ("muster", "numpy", "msgspec", "kubernetes")
LONGEST_ERROR = 160
# Most of the time, small forms wait for the programs that they start.
SIDE_BY_SIDE = 4


def names() -> list[str]:
    """Names of all benchmarks in this folder."""
    return sorted(path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py"))


def measured(name: str, small: bool) -> Sequence[Row | Missing]:
    """The rows of a benchmark, or one row with its error."""
    try:
        rows: list[Row] = importlib.import_module(f"benchmarks.bench_{name}").main(small=small)
    except NotHere as reason:
        return [Missing(str(reason), LEFT_OUT)]
    except Exception as error:
        traceback.print_exc()
        return [Missing(one_line(error), FAILED)]
    if not rows:
        return [Missing("it gave no rows", FAILED)]
    return [replace(row, floor=None, ceiling=None) for row in rows] if small else rows


def timed(name: str, small: bool = False) -> Sequence[Row | Missing]:
    """The rows of a benchmark; says how long it took."""
    # What an earlier benchmark left must not be scanned again and again on this one's account.
    gc.collect()
    gc.freeze()
    started = time.perf_counter()
    rows = measured(name, small)
    print(f"{name}: {time.perf_counter() - started:.1f} s", file=sys.stderr)
    return rows


def small_forms(chosen: Sequence[str]) -> Iterator[Sequence[Row | Missing]]:
    """The rows of the small form of each benchmark, run in processes side by side."""
    pool = ProcessPoolExecutor(SIDE_BY_SIDE, mp_context=get_context("fork"))
    try:
        yield from pool.map(partial(timed, small=True), chosen)
    finally:
        pool.shutdown(cancel_futures=True)


def machine() -> str:
    """Machine and versions of the figures on one line."""
    packages = ", ".join(f"{name} {version(name)}" for name in SHOWN_VERSIONS)
    return (
        f"{_processor()}, {os.cpu_count()} CPUs, {_memory_gib():.0f} GiB, {platform.system()} "
        f"{platform.release()}, Python {platform.python_version()}, {packages}"
    )


def one_line(error: Exception) -> str:
    """The exception on one line without `|`, which would start a table column."""
    text = " ".join(f"{type(error).__name__}: {error}".split()).replace("|", "/")
    return text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}..."


def table(rows: Iterable[tuple[str, Row | Missing]]) -> str:
    """The rows as a Markdown table, figures aligned."""
    cells = [("benchmark", "figure", "value", "unit", "bound", "")]
    cells += [(bench, row.name, row.figure, row.unit, row.bound, row.verdict) for bench, row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    lines = ["| " + " | ".join(_fit(line, widths)) + " |" for line in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Run the named benchmarks, or all; returns 1 after a failure or missed bound, 2 for an unknown name."""
    known = names()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="the small form of each, held to no bound")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    given = parser.parse_args(argv)
    if unknown := set(given.names) - set(known):
        print(f"no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    rows: list[tuple[str, Row | Missing]] = []
    chosen = given.names or known
    for name, found in zip(chosen, small_forms(chosen) if given.small else map(timed, chosen), strict=True):
        rows += [(name, row) for row in found]
    print(f"{machine()}\n\n{table(rows)}")
    return int(not all(row.holds for _, row in rows))


def _fit(line: tuple[str, ...], widths: list[int]) -> list[str]:
    return [
        cell.rjust(width) if column == 2 else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
