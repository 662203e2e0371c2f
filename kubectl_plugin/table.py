"""Tables as kubectl prints them: upper-case headers, columns three spaces apart, colour only on request."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import IO, Final, Literal

import msgspec

from kubectl_plugin.get_options import ColorChoice
from scheduler_core.model.printable import visible as visible

Style = Literal["", "yellow", "red", "dim"]

_GAP: Final = "   "
# One endless text in a column does not make every other row as long.
_WIDEST: Final = 256
_CODES: Final[dict[str, str]] = {"yellow": "\x1b[33m", "red": "\x1b[31m", "dim": "\x1b[2m"}
_RESET: Final = "\x1b[0m"


class Cell(msgspec.Struct, frozen=True):
    """Text of one cell, and how it is drawn where colour is on."""

    text: str
    style: Style = ""


def use_color(choice: ColorChoice, stream: IO[str], environment: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour: as told, else only on a terminal that can, and not where NO_COLOR is set."""
    if choice != "auto":
        return choice == "always"
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return False
    return stream.isatty()


class TablePrinter:
    """Lines of a table. Column widths never shrink, so that rows printed later stay under their headers."""

    def __init__(self, headers: Sequence[str], *, show_headers: bool = True, color: bool = False) -> None:
        self._headers = [visible(header) for header in headers]
        self._pending = show_headers
        self._widths = [len(header) if show_headers else 0 for header in self._headers]
        self._color = color

    def lines(self, rows: Sequence[Sequence[Cell]]) -> list[str]:
        """The rows as lines, with the headers in front the first time that there are any rows."""
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
