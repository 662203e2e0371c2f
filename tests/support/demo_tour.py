"""How the tests start the tour of the demo."""

from __future__ import annotations

import sys
from typing import Final

TOUR_SECONDS: Final = 300


def demo(*arguments: str) -> list[str]:
    """The command that plays chapters; all of them without arguments."""
    return [sys.executable, "-m", "sandbox", "demo", *arguments]


LEFT_OUT: Final = {
    2: "kubectl describe pod train-4 -n team-a | sed -n '/^Events/,$p'",
    11: "kubectl annotate --local ",
    13: 'sed "s/NOW/$(date -u +%FT%TZ)/" ',
}
"""The chapters in which something needs kubectl, and how the command begins."""
