"""Progress of the loop: timing of its turns, detection of a hang, and the age of events that wait."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from traceback import extract_stack
from typing import Any, Final

from scheduler_core.app.loop.inbox import LagMark
from scheduler_core.logs import fields

# A loop without progress for this time hangs. The longest decision is far shorter.
HANG_SECONDS: Final = 60.0
# At most this time counts between two checks: after a longer gap the whole process may have been suspended.
_LOOK_SECONDS: Final = 5.0
# The loop is too late if an event waits for longer.
BEHIND_SECONDS: Final = 30.0


# Frames that are shown of a thread's stack.
_FRAMES: Final = 12


def call_stack(thread: threading.Thread) -> str:
    """The stack of a thread, the innermost call first; empty for a thread that does not run."""
    # Documented by Python, despite its name.
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001
    if frame is None:
        return ""
    calls = reversed(extract_stack(frame)[-_FRAMES:])
    return " < ".join(f"{call.name} ({Path(call.filename).name}:{call.lineno})" for call in calls)


class Heartbeat:
    """Written by the loop's thread, read by any thread: `beats` grows with every step of the loop."""

    __slots__ = ("beats", "doing")

    def __init__(self) -> None:
        self.beats = 0
        self.doing = "waiting"


class Watchdog:
    """Detects a loop that hangs: one without any progress for a minute, however slow. From any thread."""

    def __init__(self, heartbeat: Heartbeat, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._heartbeat = heartbeat
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._beats = -1
        self._looked = monotonic()
        self._still = 0.0

    def look(self) -> str:
        """The problem, or empty."""
        with self._lock:
            now, beats = self._monotonic(), self._heartbeat.beats
            self._still += min(now - self._looked, _LOOK_SECONDS)
            self._looked = now
            if beats != self._beats:
                self._beats, self._still = beats, 0.0
            if self._still <= HANG_SECONDS:
                return ""
            return f"the scheduling loop hangs for {self._still:.0f} s, {self._heartbeat.doing}"


class InboxLag:
    """The age of the oldest event in the inbox.

    When the loop leaves items in the inbox, it appends a mark with the time: items behind the mark came
    later. So the senders of events need no timestamps.
    """

    def __init__(self, inbox: SimpleQueue[Any], wall: Callable[[], float]) -> None:
        self._inbox = inbox
        self._wall = wall
        # All items before this time were applied.
        self._since = wall()

    def note_left(self) -> None:
        """The time limit was reached, and there may be more items."""
        self._inbox.put(LagMark(self._wall()))

    def reached(self, mark: LagMark) -> None:
        """The loop has reached a mark."""
        self._since = mark.at

    def note_empty(self) -> None:
        """The inbox was empty."""
        self._since = self._wall()

    def age(self) -> float:
        """At most how many seconds the oldest event has waited; 0 without events. From any thread."""
        return max(0.0, self._wall() - self._since) if self._inbox.qsize() else 0.0

    def problem(self) -> str:
        """The problem if the loop is too late, or empty."""
        age = self.age()
        return f"the oldest event has waited for {age:.0f} s" if age > BEHIND_SECONDS else ""


log = logging.getLogger(__name__)

# A normal turn applies events for at most 0.05 s and decides for at most 0.1 s.
SLOW_SECONDS: Final = 2.0


class TurnTimer:
    """Measures the parts of a turn. A slow turn is logged and reported to `on_slow`."""

    def __init__(
        self, heartbeat: Heartbeat, on_slow: Callable[[], None], monotonic: Callable[[], float]
    ) -> None:
        self.events = self.decisions = self.writes = 0
        self._heartbeat = heartbeat
        self._on_slow = on_slow
        self._monotonic = monotonic
        self._seconds: dict[str, float] = {}
        self._doing = ""
        self._began = monotonic()

    def begin(self, doing: str) -> None:
        """Start the next part."""
        self._close()
        self._doing = self._heartbeat.doing = doing

    def end(self) -> None:
        """End the turn."""
        self._close()
        self._doing = ""
        self._heartbeat.doing = "waiting"
        self._heartbeat.beats += 1
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
