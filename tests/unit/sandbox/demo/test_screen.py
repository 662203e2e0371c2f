"""What is printed is kept as rows, and a long wait is told."""

from __future__ import annotations

import io
import threading

import pytest

from sandbox.demo import screen as module
from sandbox.demo.screen import Row, Screen


class Terminal(io.StringIO):
    """A terminal that notices the first line about a wait."""

    def __init__(self) -> None:
        super().__init__()
        self.told = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "waiting" in text:
            self.told.set()
        return super().write(text)


class Pipe(Terminal):
    def isatty(self) -> bool:
        return False


def test_rows_are_what_was_printed(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.show("caption", "# one\n# two", gap=True)
    screen.tell("no part of the story")
    screen.quiet = True
    screen.show("output", "unseen")
    assert screen.rows == [Row("output", ""), Row("caption", "# one"), Row("caption", "# two")]
    assert capsys.readouterr().out == "\n# one\n# two\nno part of the story\n"


@pytest.mark.parametrize(
    ("out", "begins", "ends"),
    [(Pipe(), "... 0 s: waiting for pods\n", "pods\n"), (Terminal(), "\r\x1b[2K", "\r\x1b[2K")],
    ids=["lines in a pipe", "one line on a terminal, which is erased"],
)
def test_a_long_wait_is_told(monkeypatch: pytest.MonkeyPatch, out: Terminal, begins: str, ends: str) -> None:
    monkeypatch.setattr(module, "PIPE_SECONDS", 0.01)
    monkeypatch.setattr(module, "TERMINAL_SECONDS", 0.01)
    monkeypatch.setattr(module.sys, "stdout", out)
    with Screen().waiting("waiting for pods"):
        assert out.told.wait(60)
    assert out.getvalue().startswith(begins)
    assert out.getvalue().endswith(ends)


def test_a_short_wait_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    with Screen().waiting("waiting for nothing"):
        pass
    assert capsys.readouterr().out == ""
