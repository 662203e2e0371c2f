"""How long to wait for more, where much comes one by one.

To wake up costs more than to take one thing in, most of all on a machine that is busy with other programs.
Where little happens nothing waits; that is for the caller to tell.
"""

from __future__ import annotations

from typing import Final

SHORT_SECONDS: Final = 0.005
LONG_SECONDS: Final = 0.025
# 800 things a second make breaths long, less than 400 make them short again.
_MANY: Final = 4
_FEW: Final = 10


class Breath:
    """The time until the next look, which follows how much the last one found."""

    def __init__(self) -> None:
        self._long = False

    def after(self, found: int) -> float:
        """Seconds to wait now."""
        self._long = found >= (_FEW if self._long else _MANY)
        return LONG_SECONDS if self._long else SHORT_SECONDS
