"""Run every benchmark and print one table; the exit code is 1 if a figure misses its bound.

A benchmark is a module `benchmarks/bench_<name>.py` with `main() -> list[Row]`. Names given as arguments
select some: `python -m benchmarks.run engine`.
"""

from __future__ import annotations

import gc
import importlib
import os
import platform
import sys
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from benchmarks.row import Row

FOLDER = Path(__file__).parent
SHOWN_VERSIONS = ("muster", "numpy", "msgspec", "kubernetes")


def names() -> list[str]:
    """Every benchmark of this folder: the modules that say they return rows."""
    return sorted(
        path.stem.removeprefix("bench_")
        for path in FOLDER.glob("bench_*.py")
        if "def main() -> list[Row]:" in path.read_text()
    )


def machine() -> str:
    """The machine and the versions that the figures hold for, on one line."""
    packages = ", ".join(f"{name} {version(name)}" for name in SHOWN_VERSIONS)
    return (
        f"{_processor()}, {os.cpu_count()} CPUs, {_memory_gib():.0f} GiB, {platform.system()} "
        f"{platform.release()}, Python {platform.python_version()}, {packages}"
    )


def table(rows: Iterable[tuple[str, Row]]) -> str:
    """The rows as a Markdown table, figures aligned."""
    cells = [("benchmark", "figure", "value", "unit", "bound", "")]
    for bench, row in rows:
        figure = f"{row.value:,.0f}" if row.value >= 100 else f"{row.value:,.3g}"
        cells.append((bench, row.name, figure, row.unit, row.bound, "ok" if row.holds else "MISSED"))
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    lines = ["| " + " | ".join(_fit(line, widths)) + " |" for line in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Run the named benchmarks, or all; 0 if every figure keeps its bounds, 2 for an unknown name."""
    known = names()
    if unknown := set(argv) - set(known):
        print(f"no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    rows: list[tuple[str, Row]] = []
    for name in argv or known:
        # What an earlier benchmark left must not be scanned again and again on this one's account.
        gc.collect()
        gc.freeze()
        started = time.perf_counter()
        rows += [(name, row) for row in importlib.import_module(f"benchmarks.bench_{name}").main()]
        print(f"{name}: {time.perf_counter() - started:.1f} s", file=sys.stderr)
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
