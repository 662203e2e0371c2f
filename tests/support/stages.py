"""The stages of `.ci/run`: their names, and the command of each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

RUN: Final = Path(__file__).parents[2] / ".ci" / "run"
STAGE: Final = re.compile(r"^(?:stage|beside) (?P<name>\S+) \d+ (?P<command>.+)$", re.M)


def stages() -> dict[str, str]:
    return {stage["name"]: stage["command"] for stage in STAGE.finditer(RUN.read_text(encoding="utf-8"))}
