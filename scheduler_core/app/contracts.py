"""What the loop asks of its parts: controllers, and the carrier of what was decided."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from scheduler_core.app.outcomes import Timing
from scheduler_core.engine.decisions import Decision, Placed
from scheduler_core.model.writes import Write
from scheduler_core.state.cluster import ClusterState


class Controller(Protocol):
    """A reconciler as the loop runs it."""

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """Writes that are due."""
        ...

    def next_time(self, state: ClusterState) -> float | None:
        """When to come back without an event, or None."""
        ...


class Carrier(Protocol):
    """Where decisions go."""

    accepted: deque[tuple[float, Placed]]

    @property
    def backlog(self) -> int:
        """Writes that have no answer yet."""
        ...

    def submit(self, decision: Decision, timing: Timing) -> None:
        """Carry a decision out."""
        ...

    def review(self, decision: Decision, timing: Timing) -> None:
        """Carry a decision out that came of looking again at a waiting pod, where it is news."""
        ...

    def submit_write(self, write: Write) -> None:
        """Carry a controller's write out."""
        ...

    def catch_up(self, now: float) -> None:
        """Write what waiting pods have to say, as much of it as may go now."""
        ...

    def next_time(self) -> float | None:
        """When `catch_up` has something to do next, or None."""
        ...

    def verify(self, decision: Placed) -> None:
        """Read a pod whose binding was accepted, and report BindRead."""
        ...
