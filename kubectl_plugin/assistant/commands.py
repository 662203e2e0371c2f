"""Runs a command of the plugins for a tool, and reads its answer: JSON, or one line about what is wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

from scheduler_core.errors import MusterError

# What names of objects, namespaces and resources consist of; nothing of it begins a flag.
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/=-]*")
_LONGEST_WORD: Final = 400
_SECONDS: Final = 120.0
# A longer answer helps no reader; the tool then asks for a smaller question.
_MOST_BYTES: Final = 400_000
_MOST_MANIFEST: Final = 200_000


class ToolFailed(MusterError):
    """A tool that has no answer: one line that says why."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)

    def __str__(self) -> str:
        return self.problem


class PluginRunner:
    """Runs the plugins in processes of their own, with the same flags of kubectl (`given`) for every call."""

    def __init__(self, given: Sequence[str] = ()) -> None:
        self.given = tuple(given)

    def answer(self, plugin: str, words: Sequence[str], manifest: str = "") -> Any:
        """The JSON that a command prints. `manifest` is its standard input. Raises ToolFailed.

        An exit code of 1 beside an answer is an answer, as of a doctor that finds something.
        """
        if len(manifest) > _MOST_MANIFEST:
            raise ToolFailed(
                f"the manifest has {len(manifest)} characters, at most {_MOST_MANIFEST} are read"
            )
        start = f"from kubectl_plugin.{plugin} import main; main()"
        command = [sys.executable, "-c", start, *words, "-o", "json", *self.given]
        try:
            done = subprocess.run(
                command, input=manifest, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise ToolFailed(f"no answer within {_SECONDS:.0f} s") from None
        if not done.stdout.strip():
            raise ToolFailed(_last_line(done.stderr) or f"the command ended with code {done.returncode}")
        if len(done.stdout) > _MOST_BYTES:
            raise ToolFailed(
                f"the answer has {len(done.stdout)} characters, at most {_MOST_BYTES} are given; "
                "ask about one namespace or one object"
            )
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise ToolFailed("the answer is not JSON") from None


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return " ".join(lines[-1].split()) if lines else ""


def checked(what: str, word: str) -> str:
    """A word of a command line that came from an assistant. Raises ToolFailed if it is none."""
    if len(word) > _LONGEST_WORD or not _WORD.fullmatch(word):
        raise ToolFailed(f"{what} {word[:80]!r} is not a name of letters, digits and ._:/=-")
    return word
