"""Clock of the scheduling loop: the wall clock without steps.

Backoffs, timeouts and the age of reports are computed in seconds since the epoch. If the wall clock was
stepped back by ten minutes, a pod in its backoff would wait ten minutes longer; after a step forward the loop
would seem to hang.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from scheduler_core.kube.lease import boot_clock

# Smaller differences to the wall clock are followed at once: time daemons correct the clock this way.
_FOLLOWED_SECONDS: Final = 1.0
# After a step this clock runs at half to one and a half of its rate, until both clocks agree.
_SLEW: Final = 0.5


class SteadyClock:
    """Seconds since the epoch, from any thread. Follows a step of the wall clock gradually."""

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
