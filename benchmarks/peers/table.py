"""Table of both schedulers' figures with bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.peers.programs import MUSTER, PEER


@dataclass(frozen=True)
class Line:
    """One figure of both schedulers. `floor` is the minimum ratio, `least` and `most` bound Muster's figure.

    A `failed` line has no figures; its `figure` is the error.
    """

    work: str
    figure: str
    ours: float = math.nan
    theirs: float = math.nan
    ratio: float | None = None
    floor: float | None = None
    least: float | None = None
    most: float | None = None
    failed: bool = False

    @property
    def holds(self) -> bool:
        """True if all bounds hold."""
        kept = self.floor is None or (self.ratio is not None and self.ratio >= self.floor)
        kept = kept and (self.least is None or self.ours >= self.least)
        return kept and (self.most is None or self.ours <= self.most) and not self.failed

    @property
    def cells(self) -> tuple[str, ...]:
        """The printed cells."""
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        limits = (("ratio >=", self.floor), (">=", self.least), ("<=", self.most))
        bound = ", ".join(f"{sign} {limit:g}" for sign, limit in limits if limit is not None)
        verdict = "" if not bound and not self.failed else "ok" if self.holds else "MISSED"
        if self.failed:
            verdict = "FAILED"
        return (self.work, self.figure, _number(self.ours), _number(self.theirs), ratio, bound, verdict)


def _number(value: float) -> str:
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "never"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(lines: Iterable[Line]) -> str:
    """A Markdown table, figures aligned to the right."""
    rows = [("work", "figure", MUSTER, PEER, "ratio", "bound", ""), *(line.cells for line in lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    shown = [
        "| "
        + " | ".join(c.rjust(w) if i in (2, 3, 4) else c.ljust(w) for i, (c, w) in enumerate(pairs))
        + " |"
        for pairs in (list(zip(row, widths, strict=True)) for row in rows)
    ]
    shown.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(shown)
