"""One turn of the loop in figures: what it did, and where its time went."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from scheduler_core.app.pulse import Pulse
from scheduler_core.logs import fields

log = logging.getLogger(__name__)

# A turn takes events for a twentieth of a second and decides for a tenth.
SLOW_SECONDS: Final = 2.0


class Turn:
    """Times the parts of a turn, one after the other. A slow one is logged, and told to `on_slow`."""

    def __init__(self, pulse: Pulse, on_slow: Callable[[], None], monotonic: Callable[[], float]) -> None:
        self.events = self.decisions = self.writes = 0
        self._pulse = pulse
        self._on_slow = on_slow
        self._monotonic = monotonic
        self._seconds: dict[str, float] = {}
        self._doing = ""
        self._began = monotonic()

    def begin(self, doing: str) -> None:
        """The next part."""
        self._close()
        self._doing = self._pulse.doing = doing

    def end(self) -> None:
        """The turn is over."""
        self._close()
        self._doing = ""
        self._pulse.doing = "waiting"
        self._pulse.beats += 1
        total = sum(self._seconds.values())
        if total > SLOW_SECONDS:
            self._on_slow()
            parts = {name.replace(" ", "_"): round(seconds, 3) for name, seconds in self._seconds.items()}
            counts = {"events": self.events, "decisions": self.decisions, "writes": self.writes}
            log.warning("a slow turn of the loop: %.1f s", total, extra=fields(**counts, **parts))
        self._seconds.clear()
        self.events = self.decisions = self.writes = 0

    def _close(self) -> None:
        now = self._monotonic()
        if self._doing:
            self._seconds[self._doing] = self._seconds.get(self._doing, 0.0) + now - self._began
        self._began = now
