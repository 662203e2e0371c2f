"""A shell into which a test pastes what a document shows, and the comparison with the shown output."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PASTE_SECONDS = 240.0
_END = "@@end-of-paste"
_FAILED = "@@failed"
_TELL_FAILURES = f"""
tell_failure() {{ printf '\\n{_FAILED} %s\\n' "${{1%%$'\\n'*}}"; }}
trap 'tell_failure "$BASH_COMMAND"' ERR
"""


@dataclass(frozen=True)
class Pasted:
    """What the terminal showed after one paste, and the commands that failed."""

    output: str
    failed: tuple[str, ...]


class Terminal:
    """A shell that reads pasted text, as a reader's terminal does; standard error is shown, too."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=dict(variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._send(_TELL_FAILURES)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        """Ctrl-C for what runs, and the end of the shell."""
        assert self._shell.stdin is not None
        os.killpg(self._shell.pid, signal.SIGINT)
        self._shell.stdin.close()
        try:
            self._shell.wait(60)
        finally:
            if self._shell.poll() is None:
                os.killpg(self._shell.pid, signal.SIGKILL)
                self._shell.wait(60)
            self._reader.join(60)

    def paste(self, *texts: str) -> list[Pasted]:
        """Paste all of these texts at once; what each of them made the terminal show."""
        start = len(self._lines)
        self._send("\n".join(f"{text.rstrip()}\nprintf '\\n{_END}\\n'" for text in texts))
        self._await(lambda: self._lines[start:].count(_END) == len(texts), texts[0])
        parts = "\n".join(self._lines[start:]).split(_END)
        return [_pasted(part) for part in parts[: len(texts)]]

    def paste_and_watch(self, text: str, *signs: str) -> str:
        """Paste a text whose last command goes on; returns when the terminal has shown all of the signs."""
        start = len(self._lines)
        self._send(text.rstrip())

        def shown() -> bool:
            seen = "\n".join(self._lines[start:])
            return all(sign in seen for sign in signs)

        self._await(shown, text)
        return "\n".join(self._lines[start:])

    def _send(self, text: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(text + "\n")
        self._shell.stdin.flush()

    def _read(self) -> None:
        assert self._shell.stdout is not None
        with self._shell.stdout as shown:
            for line in shown:
                with self._changed:
                    self._lines.append(line.rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _await(self, reached: Callable[[], bool], what: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: reached() or self._ended, PASTE_SECONDS)
            assert reached(), f"{what.strip()}: did not come to its end:\n" + "\n".join(self._lines[-30:])


def _pasted(part: str) -> Pasted:
    lines = part.strip("\n").split("\n")
    failed = tuple(line.removeprefix(_FAILED).strip() for line in lines if line.startswith(_FAILED))
    shown = [line for line in lines if line and not line.startswith(_FAILED)]
    return Pasted("\n".join(shown), failed)


# What differs from run to run. Kubernetes generates names without vowels and without 0, 1 and 3.
_AGE = r"\d+(?:ms|[smhd])(?:\d+[smhd])*"
_SUFFIX = "[b-df-hj-np-tv-z2456789]"
_VARIES = re.compile(
    rf"(?P<any>\.\.\.)|(?P<age>(?<![\w.-]){_AGE}(?![\w.-]))"
    r"|(?P<time>\d{4}-\d\d-\d\dT[\d:.]+Z)|(?P<uid>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"|(?P<address>\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b)"
    rf"|(?P<name>(?:-{_SUFFIX}{{8,10}})?-{_SUFFIX}{{5}}(?![\w-]))"
)
_MATCHES = {
    "any": r".*?",
    # A repeated event has a count behind its age.
    "age": rf"{_AGE}(?:\s\(x\d+\sover\s{_AGE}\))?",
    "time": r"\d{4}-\d\d-\d\dT[\d:.]+Z",
    "uid": r"[0-9a-f-]{36}",
    "address": r"\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?",
    "name": rf"(?:-{_SUFFIX}{{8,10}})?-{_SUFFIX}{{5}}",
}
# Newer versions of kubectl say from which namespace an object was deleted.
_DELETED_FROM = re.compile(r'(" (?:force )?deleted) from \S+ namespace$')


def _pattern(shown: str) -> re.Pattern[str]:
    """A line of a document as a pattern, whatever the widths of its columns."""
    words = []
    for word in shown.split():
        pieces, at = [], 0
        for match in _VARIES.finditer(word):
            assert match.lastgroup is not None
            pieces += [re.escape(word[at : match.start()]), _MATCHES[match.lastgroup]]
            at = match.end()
        words.append("".join([*pieces, re.escape(word[at:])]))
    return re.compile(" ".join(words))


def difference(shown: str, printed: str, *, only_end: bool = False) -> str:
    """In what the output differs from the one in the document; "" if it does not.

    Ages, times, addresses, uids and generated ends of names may differ. `...` in the document stands for text
    that is left out; a line of it alone for any number of lines. `only_end`: more lines may come before.
    A document shows no namespace behind `deleted`, as older versions of kubectl print none.
    """
    wanted = [line for line in shown.splitlines() if line.strip()]
    got = [_DELETED_FROM.sub(r"\1", " ".join(line.split())) for line in printed.splitlines() if line.strip()]
    if _same(["...", *wanted] if only_end else wanted, got):
        return ""
    return f"the document shows\n{shown.rstrip()}\nand this was printed\n{printed.rstrip()}"


def _same(wanted: Sequence[str], got: Sequence[str]) -> bool:
    if not wanted:
        return not got
    if wanted[0].strip() == "...":
        return any(_same(wanted[1:], got[skipped:]) for skipped in range(len(got) + 1))
    return bool(got) and bool(_pattern(wanted[0]).fullmatch(got[0])) and _same(wanted[1:], got[1:])


def first_missing(shown: str, printed: str) -> str:
    """The first line of an excerpt that does not come in the output, in the order of the excerpt; or ""."""
    got = iter([" ".join(line.split()) for line in printed.splitlines()])
    for line in shown.splitlines():
        wanted = _pattern(line)
        if line.strip() and not any(wanted.fullmatch(found) for found in got):
            return line
    return ""
