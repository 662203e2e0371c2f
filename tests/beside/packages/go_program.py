"""The programs around packages (tests/tools/*-packages): lines of JSON in, a line of JSON out for each."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from tests.tools.build import have

SECONDS: Final = 300.0


class ProgramFailed(Exception):
    """The program ended with an error; the message ends with what it wrote."""


def answers(name: str, subject: str, questions: Iterable[Any]) -> list[Any]:
    """The answers of a program, a tool of that name, in the order of the questions.

    `subject` is a word that the program knows. A refusal is `{"error": text}`. Raises ProgramFailed,
    ToolMissing.
    """
    asked = [msgspec.json.encode(question) for question in questions]
    program = have(name).path
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
