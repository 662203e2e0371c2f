"""What make says about the Makefile."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def make(*arguments: str) -> str:
    """The output of make, asked as from a new shell.

    The tests themselves often run under make, which hands its own flags and variables to every make below it:
    under `make test-searches PART=2` each answer would be about `PART=2`.
    """
    environ = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    asked = ["make", "--no-print-directory", *arguments]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True, env=environ).stdout


def commands(target: str) -> str:
    """What make would run for a target, once `.venv` is there."""
    return make("--dry-run", "--old-file", ".venv/.ready", target)
