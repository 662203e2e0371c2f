"""One measured figure and what it must not fall below or exceed."""

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
    def bound(self) -> str:
        """`>= 500`, `<= 2`, both, or nothing."""
        parts = [
            f"{sign} {limit:,g}"
            for sign, limit in ((">=", self.floor), ("<=", self.ceiling))
            if limit is not None
        ]
        return ", ".join(parts)
