"""The time by which the loop decides: the wall clock's, except that it never jumps.

Backoffs, time-outs and the age of reports are reckoned in seconds since the epoch. If an operator or a time
daemon steps the wall clock back by ten minutes, a pod in its backoff would wait ten minutes longer; if it is
stepped forward, the loop would look as if it had hung.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from scheduler_core.kube.lease import boot_clock

# A wall clock that is off by no more is followed at once: that is how a time daemon corrects it.
_FOLLOWED_SECONDS: Final = 1.0
# After a step ours goes at half to one and a half of its pace, until both clocks agree.
_SLEW: Final = 0.5


class SteadyClock:
    """Seconds since the epoch, from any thread. A step of the wall clock is made up for little by little."""

    def __init__(
        self, monotonic: Callable[[], float] = boot_clock, wall: Callable[[], float] = time.time
    ) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._lock = threading.Lock()
        self._at = monotonic()
        self._offset = wall() - self._at

    def __call__(self) -> float:
        with self._lock:
            now = self._monotonic()
            ahead = self._wall() - now - self._offset
            if abs(ahead) > _FOLLOWED_SECONDS:
                most = (now - self._at) * _SLEW
                ahead = max(-most, min(most, ahead))
            self._offset += ahead
            self._at = now
            return now + self._offset
