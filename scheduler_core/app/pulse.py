"""How far the loop is: what tells a slow one from one that hangs, and how far it is behind."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from traceback import extract_stack
from typing import Any, Final

from scheduler_core.app.outcomes import Mark

# Nothing was done for so long: it hangs. The longest decision is far shorter.
HANG_SECONDS: Final = 60.0
# Between two looks so much counts: where nobody looked for longer, perhaps the whole process stood still.
_LOOK_SECONDS: Final = 5.0
# An event that has waited for so long is old news to decide on.
BEHIND_SECONDS: Final = 30.0


# What is shown of a thread's stack.
_FRAMES: Final = 12


def where(thread: threading.Thread) -> str:
    """What a thread is at, the innermost call first; empty for one that does not run."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return ""
    calls = reversed(extract_stack(frame)[-_FRAMES:])
    return " < ".join(f"{call.name} ({Path(call.filename).name}:{call.lineno})" for call in calls)


class Pulse:
    """Written by the loop's thread, read by any: `beats` grows with everything that it has done."""

    __slots__ = ("beats", "doing")

    def __init__(self) -> None:
        self.beats = 0
        self.doing = "waiting"


class Watchdog:
    """Says that a loop hangs: one that did nothing for a minute, never one that is slow. From any thread."""

    def __init__(self, pulse: Pulse, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._pulse = pulse
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._beats = -1
        self._looked = monotonic()
        self._still = 0.0

    def look(self) -> str:
        """What is wrong, or empty."""
        with self._lock:
            now, beats = self._monotonic(), self._pulse.beats
            self._still += min(now - self._looked, _LOOK_SECONDS)
            self._looked = now
            if beats != self._beats:
                self._beats, self._still = beats, 0.0
            if self._still <= HANG_SECONDS:
                return ""
            return f"the scheduling loop hangs for {self._still:.0f} s, {self._pulse.doing}"


class Lag:
    """How long the oldest event waits for the loop.

    Where not all could be taken, a mark goes behind the rest: whatever comes after it came later. So those
    who put events in pay nothing.
    """

    def __init__(self, inbox: SimpleQueue[Any], wall: Callable[[], float]) -> None:
        self._inbox = inbox
        self._wall = wall
        # All that came before was taken.
        self._since = wall()

    def left(self) -> None:
        """Time was up, and there may be more."""
        self._inbox.put(Mark(self._wall()))

    def reached(self, mark: Mark) -> None:
        """The loop has come to a mark."""
        self._since = mark.at

    def emptied(self) -> None:
        """Everything was taken."""
        self._since = self._wall()

    def age(self) -> float:
        """Seconds that the oldest event may have waited, 0 where none does; from any thread."""
        return max(0.0, self._wall() - self._since) if self._inbox.qsize() else 0.0

    def problem(self) -> str:
        """That the loop is too far behind, or empty."""
        age = self.age()
        return f"the oldest event has waited for {age:.0f} s" if age > BEHIND_SECONDS else ""
