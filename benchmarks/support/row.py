"""Rows of benchmark tables: a figure with its bounds, or the reason why it is missing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of a benchmark.

    `value`, the minimum `floor` and the maximum `ceiling` are in `unit`.
    """

    name: str
    value: float
    unit: str
    floor: float | None = None
    ceiling: float | None = None

    @property
    def holds(self) -> bool:
        """True if the figure is within its bounds."""
        above = self.floor is None or self.value >= self.floor
        return above and (self.ceiling is None or self.value <= self.ceiling)

    @property
    def verdict(self) -> str:
        """The text of the last column."""
        return "ok" if self.holds else "MISSED"

    @property
    def figure(self) -> str:
        """The printed value."""
        return f"{self.value:,.0f}" if self.value >= 100 else f"{self.value:,.3g}"

    @property
    def bound(self) -> str:
        """The bounds as text: `>= 500`, `<= 2`, both, or ""."""
        parts = [
            f"{sign} {limit:,g}"
            for sign, limit in ((">=", self.floor), ("<=", self.ceiling))
            if limit is not None
        ]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Missing:
    """Replaces all rows of a benchmark without figures; `name` is the reason on one line."""

    name: str
    verdict: str
    figure: str = ""
    unit: str = ""
    bound: str = ""

    @property
    def holds(self) -> bool:
        """False for a failed benchmark; a skipped benchmark is not a failure."""
        return self.verdict == LEFT_OUT


FAILED, LEFT_OUT = "FAILED", "left out"


class NotHere(Exception):
    """A program that a benchmark needs is missing; the message is one line."""
