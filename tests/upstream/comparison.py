"""The outcomes of one suite with several programs side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.upstream.suite import Outcome, Spec


@dataclass(frozen=True)
class Comparison:
    """What became of every spec with each program; the first program is ours."""

    title: str
    programs: Mapping[str, Mapping[str, Spec]]

    @property
    def ours(self) -> str:
        """The name of the program that is judged."""
        return next(iter(self.programs))

    def names(self) -> list[str]:
        """Every spec that ran with any of them."""
        return sorted({name for specs in self.programs.values() for name in specs})

    def outcome(self, program: str, name: str) -> str:
        """One cell; a spec that did not run with this program says so."""
        spec = self.programs[program].get(name)
        return spec.outcome.value if spec else "did not run"

    def regressions(self) -> list[str]:
        """Specs that pass with another program and not with ours."""
        others = [program for program in self.programs if program != self.ours]
        passed = Outcome.PASSED.value
        return [
            name
            for name in self.names()
            if self.outcome(self.ours, name) != passed
            and any(self.outcome(other, name) == passed for other in others)
        ]

    def counts(self, program: str) -> str:
        """`26 passed, 1 failed, 1 skipped`."""
        outcomes = [spec.outcome for spec in self.programs[program].values()]
        return ", ".join(f"{outcomes.count(kind)} {kind.value.lower()}" for kind in Outcome)

    def text(self) -> str:
        """A heading with the counts, a Markdown table, and why specs did not pass with our program."""
        heads = ["spec", *self.programs]
        lines = [[name, *(self.outcome(program, name) for program in self.programs)] for name in self.names()]
        widths = [max(len(line[i]) for line in [heads, *lines]) for i in range(len(heads))]
        shown = [_row(heads, widths), "|" + "|".join("-" * (width + 2) for width in widths) + "|"]
        shown += [_row(line, widths) for line in lines]
        counts = "; ".join(f"{program}: {self.counts(program)}" for program in self.programs)
        reasons = [
            f"- {spec.outcome.value}: {spec.name}: {spec.why}"
            for spec in self.programs[self.ours].values()
            if spec.outcome is not Outcome.PASSED
        ]
        return "\n".join([f"{self.title}: {counts}", "", *shown, *([""] if reasons else []), *reasons])


def _row(cells: list[str], widths: list[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"
