"""How long pods have waited, and how often they were tried."""

from __future__ import annotations

from scheduler_core.app.outcomes import Timing


class Waits:
    """Pods that wait for a node, by uid: when they were first seen and the attempts since."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[float]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def seen(self, uid: str, now: float) -> None:
        """A pod waits; only the first sight counts."""
        if uid not in self._waiting:
            self._waiting[uid] = [now, 0.0]

    def forget(self, uid: str) -> None:
        """A pod has a node, or is gone."""
        self._waiting.pop(uid, None)

    def timing(self, uid: str, now: float, algorithm: float) -> Timing:
        """An attempt was made at `now` that took `algorithm` seconds."""
        found = self._waiting.get(uid)
        if found is None:
            return Timing(now, algorithm, now)
        found[1] += 1
        return Timing(now, algorithm, found[0], int(found[1]))
