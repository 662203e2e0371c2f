"""What the demo prints: titles, captions, commands and their output, and what it waits for."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

_BOLD, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_ERASE: Final = "\r\x1b[2K"
# Seconds until the first line about a wait, and between two of them.
TERMINAL_SECONDS: Final = 1.0
PIPE_SECONDS: Final = 4.0

Style = Literal["title", "caption", "command", "output"]
_CODES: Final[dict[Style, str]] = {"title": _BOLD, "caption": _DIM, "command": _BOLD, "output": ""}


@dataclass(frozen=True)
class Row:
    """One printed line and what it is."""

    style: Style
    text: str


class Screen:
    """Standard output. `rows` has everything that was printed; `quiet` suppresses all but waits."""

    def __init__(self) -> None:
        self.quiet = False
        self.rows: list[Row] = []
        self._terminal = sys.stdout.isatty()
        self._color = self._terminal and not os.environ.get("NO_COLOR")

    def show(self, style: Style, text: str, *, gap: bool = False) -> None:
        """Print lines of one style; with `gap`, after an empty line."""
        if self.quiet:
            return
        lines = [Row("output", "")] if gap else []
        lines += [Row(style, line) for line in text.splitlines()]
        self.rows += lines
        print("\n".join(self._styled(_CODES[row.style], row.text) for row in lines), flush=True)

    def tell(self, text: str) -> None:
        """Print a line that is no part of the story."""
        print(text, flush=True)

    def _styled(self, code: str, text: str) -> str:
        return f"{code}{text}{_RESET}" if code and self._color else text

    @contextlib.contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Say what the demo waits for while the context lasts long: no wait is silent for five seconds."""
        over = threading.Event()
        reporter = threading.Thread(target=self._report, args=(what, over), name="demo-wait", daemon=True)
        reporter.start()
        try:
            yield
        finally:
            over.set()
            reporter.join()

    def _report(self, what: str, over: threading.Event) -> None:
        begin = time.monotonic()
        pause = TERMINAL_SECONDS if self._terminal else PIPE_SECONDS
        said = False
        while not over.wait(pause):
            said = True
            text = f"... {time.monotonic() - begin:.0f} s: {what}"
            if self._terminal:
                width = shutil.get_terminal_size().columns
                text = _ERASE + self._styled(_DIM, text[: width - 1])
            print(text, end="" if self._terminal else "\n", flush=True)
        if said and self._terminal:
            print(_ERASE, end="", flush=True)
