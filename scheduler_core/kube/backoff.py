"""Growing, jittered delays between attempts."""

from __future__ import annotations

from collections.abc import Callable


class Backoff:
    """Delays that double from `initial` and never exceed `cap` seconds.

    Each is a base plus up to as much again at random, so that many clients do not come back together.
    `random` returns numbers in [0, 1).
    """

    def __init__(self, initial: float, cap: float, random: Callable[[], float]) -> None:
        self._initial = initial
        self._cap = cap
        self._random = random
        self._base = initial

    def next(self, at_least: float | None = None) -> float:
        """The next delay; longer than the backoff's own where the server asked for `at_least` seconds."""
        base = min(self._base, self._cap / 2)
        self._base = base * 2
        delay = base * (1 + self._random())
        # Jitter on top of what the server asked: everybody else was told the same number.
        return delay if at_least is None else max(delay, at_least * (1 + self._random() / 10))

    def reset(self) -> None:
        """Start again from `initial`: the last attempt was a success."""
        self._base = self._initial
