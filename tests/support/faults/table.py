"""The table of faults: what was injected how often, and what was lost, counted by the tests themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.support.faults.burst import Losses

PROPERTY = "fault"
HEADINGS = ("FAULT", "SERVER", "REPETITIONS", "PODS", "BOUND TWICE", "ABOVE QUOTA", "LOST", "LEAKED")


def row(fault: str, server: str, repetitions: int, losses: Losses) -> dict[str, Any]:
    """One test's line, as plain values that travel between processes."""
    counts = (losses.pods, losses.bound_twice, losses.above_quota, losses.lost, losses.leaked)
    numbers = [item if isinstance(item, int) else len(item) for item in counts]
    return {"fault": fault, "server": server, "repetitions": repetitions, "numbers": numbers}


def rows_of(reports: Iterable[Any]) -> list[dict[str, Any]]:
    """The lines that finished tests left in their reports."""
    return [
        value
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == PROPERTY
    ]


def lost(rows: Sequence[Mapping[str, Any]]) -> int:
    """Everything that went wrong, in all lines together."""
    return sum(sum(item["numbers"][1:]) for item in rows)


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines to print: the headings, a line per test, and the sum."""
    ordered = sorted(rows, key=lambda item: (item["fault"], item["server"]))
    cells = [HEADINGS, *([i["fault"], i["server"], i["repetitions"], *i["numbers"]] for i in ordered)]
    sums = [sum(item["numbers"][place] for item in rows) for place in range(5)]
    cells.append(["all", "", sum(item["repetitions"] for item in rows), *sums])
    texts = [[str(cell) for cell in line] for line in cells]
    widths = [max(len(line[place]) for line in texts) for place in range(len(HEADINGS))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in texts
    ]
