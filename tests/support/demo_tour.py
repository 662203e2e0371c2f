"""How the tests start the tour of the demo."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Final

TOUR_SECONDS: Final = 300


def demo(*arguments: str) -> list[str]:
    """The command that plays chapters; all of them without arguments."""
    return [sys.executable, "-m", "sandbox", "demo", *arguments]


def played(environment: Mapping[str, str], *arguments: str) -> str:
    """What a tour shows that comes to its end; an AssertionError with its last words if it fails."""
    done = subprocess.run(
        demo(*arguments),
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TOUR_SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-3000:] + done.stderr
    return done.stdout


def titles(shown: str) -> list[str]:
    """The headings of the chapters that a tour shows."""
    return [line for line in shown.splitlines() if line.startswith("===")]


LEFT_OUT: Final = {
    2: "kubectl describe pod train-4 -n team-a | sed -n '/^Events/,$p'",
    11: "kubectl annotate --local ",
    13: 'sed "s/NOW/$(date -u +%FT%TZ)/" ',
}
"""The chapters in which something needs kubectl, and how the command begins."""
