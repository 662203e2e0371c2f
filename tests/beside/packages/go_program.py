"""The program `kubernetes-packages` (tests/tools): lines of JSON in, a line of JSON out for each."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from tests.beside.minors import tool
from tests.tools.build import have

SECONDS: Final = 300.0


class ProgramFailed(Exception):
    """The program ended with an error; the message ends with what it wrote."""


def answers(minor: str, subject: str, questions: Iterable[Any]) -> list[Any]:
    """The answers of the packages of one minor version, in the order of the questions.

    `subject` is `pods`, `quotas`, `quantities`, `configurations` or `rules`. A refusal is
    `{"error": text}`. Raises ProgramFailed, ToolMissing.
    """
    asked = [msgspec.json.encode(question) for question in questions]
    program = have(tool("kubernetes-packages", minor)).path
    try:
        done = subprocess.run(
            [str(program), subject],
            input=b"\n".join(asked) + b"\n",
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        answered = len((late.output or b"").splitlines())
        # Answers are written in blocks: the question is one of the next thousands.
        raise ProgramFailed(
            f"{program.name} {subject}: {answered} of {len(asked)} answers in {SECONDS:g} s"
        ) from None
    found = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    if done.returncode or len(found) != len(asked):
        said = done.stderr.decode(errors="replace")[-1500:]
        raise ProgramFailed(f"{program.name} {subject}: {len(found)} of {len(asked)} answers; {said}")
    return found
