"""One measured figure and what it must not fall below or exceed, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of a benchmark.

    `value` is in `unit`; `floor` is the least and `ceiling` the most that is accepted, in the same unit.
    """

    name: str
    value: float
    unit: str
    floor: float | None = None
    ceiling: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the figure keeps its bounds."""
        above = self.floor is None or self.value >= self.floor
        return above and (self.ceiling is None or self.value <= self.ceiling)

    @property
    def verdict(self) -> str:
        """The last column."""
        return "ok" if self.holds else "MISSED"

    @property
    def figure(self) -> str:
        """The value as it is printed."""
        return f"{self.value:,.0f}" if self.value >= 100 else f"{self.value:,.3g}"

    @property
    def bound(self) -> str:
        """`>= 500`, `<= 2`, both, or nothing."""
        parts = [
            f"{sign} {limit:,g}"
            for sign, limit in ((">=", self.floor), ("<=", self.ceiling))
            if limit is not None
        ]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Missing:
    """Stands for all rows of a benchmark that gave none; `name` says why, in one line."""

    name: str
    verdict: str
    figure: str = ""
    unit: str = ""
    bound: str = ""

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong: a benchmark may be left out where it cannot run, and may not fail."""
        return self.verdict == LEFT_OUT


FAILED, LEFT_OUT = "FAILED", "left out"


class NotHere(Exception):
    """This machine lacks what a benchmark needs; the message is one line."""
