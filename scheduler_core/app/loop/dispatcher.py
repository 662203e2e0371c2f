"""Interface between the loop and the dispatcher of its decisions."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from scheduler_core.app.loop.inbox import Timing
from scheduler_core.engine.decisions import Decision, Placed
from scheduler_core.model.writes import Write


class Dispatcher(Protocol):
    """Carries decisions out."""

    accepted: deque[tuple[float, Placed]]

    @property
    def backlog(self) -> int:
        """Writes without a response."""
        ...

    def submit(self, decision: Decision, timing: Timing) -> None:
        """Carry a decision out."""
        ...

    def review(self, decision: Decision, timing: Timing) -> None:
        """Carry the result of a review of a waiting pod out, if it changed."""
        ...

    def submit_write(self, write: Write) -> None:
        """Carry a controller's write out."""
        ...

    def flush_reports(self, now: float) -> None:
        """Write the pending conditions and events of waiting pods, within the rate limits."""
        ...

    def next_time(self) -> float | None:
        """When `flush_reports` is due, or None."""
        ...

    def verify(self, decision: Placed) -> None:
        """Read a pod whose binding was accepted, and report BindRead."""
        ...
