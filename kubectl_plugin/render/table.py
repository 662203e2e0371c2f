"""Tables in kubectl's layout: upper-case headers, columns three spaces apart, optional colour."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import IO, Final, Literal, NamedTuple

from kubectl_plugin.cli.get_flags import ColorChoice
from scheduler_core.model.printable import visible

Style = Literal["", "yellow", "red", "dim"]

ABSENT: Final = "-"
UNKNOWN: Final = "?"
_GAP: Final = "   "
# Longest text that widens a column; longer texts overflow their own row only.
_WIDEST: Final = 256
_CODES: Final[dict[str, str]] = {"yellow": "\x1b[33m", "red": "\x1b[31m", "dim": "\x1b[2m"}
_RESET: Final = "\x1b[0m"


class Cell(NamedTuple):
    """The text of one cell, and its style where colour is on."""

    text: str
    style: Style = ""


def use_color(choice: ColorChoice, stream: IO[str], environment: Mapping[str, str] = os.environ) -> bool:
    """Whether to print colours. `auto`: on a terminal, unless NO_COLOR is set or TERM is dumb."""
    if choice != "auto":
        return choice == "always"
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return False
    return stream.isatty()


class TablePrinter:
    """Formats rows as lines. Column widths never shrink, so that later rows stay under their headers."""

    def __init__(self, headers: Sequence[str], *, show_headers: bool = True, color: bool = False) -> None:
        self._headers = [visible(header) for header in headers]
        self._pending = show_headers
        self._widths = [len(header) if show_headers else 0 for header in self._headers]
        self._color = color

    def lines(self, rows: Sequence[Sequence[Cell]]) -> list[str]:
        """The rows as lines; the header line precedes the first row."""
        if not rows:
            return []
        safe = [[Cell(visible(cell.text), cell.style) for cell in row] for row in rows]
        for row in safe:
            for column, cell in enumerate(row):
                self._widths[column] = max(self._widths[column], min(len(cell.text), _WIDEST))
        out = []
        if self._pending:
            self._pending = False
            out.append(self._line([Cell(header) for header in self._headers]))
        return out + [self._line(row) for row in safe]

    def _line(self, cells: Sequence[Cell]) -> str:
        padded = []
        for column, cell in enumerate(cells):
            # The last column is not padded: kubectl's lines end with their text.
            blanks = "" if column == len(cells) - 1 else " " * (self._widths[column] - len(cell.text))
            padded.append(self._drawn(cell) + blanks)
        return _GAP.join(padded)

    def _drawn(self, cell: Cell) -> str:
        if not self._color or not cell.style:
            return cell.text
        return f"{_CODES[cell.style]}{cell.text}{_RESET}"


def label_text(labels: Mapping[str, str]) -> str:
    """`a=b,c=d`, or `<none>`, as kubectl's --show-labels prints it."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or "<none>"


def label_headers(keys: Sequence[str]) -> list[str]:
    """Headers of the columns of labels, as kubectl prints them: `TEAM` for `example.com/team`."""
    return [key.rpartition("/")[2].upper() for key in keys]


def label_cells(labels: Mapping[str, str], keys: Sequence[str]) -> list[Cell]:
    """The values of these labels; an object without one has an empty cell, as in kubectl."""
    return [Cell(labels.get(key, "")) for key in keys]
