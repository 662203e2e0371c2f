"""What is kept for gangs has an end: after the limit, or as soon as it can come to nothing any more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Protocol

from scheduler_core.engine.queue import SchedulingQueue
from scheduler_core.engine.unit import Part, QueuedUnit
from scheduler_core.framework.profile import Profile
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.keeping import DEFAULT_LIMIT_SECONDS

# How often it is asked whether kept nodes can still come to anything.
EXAMINED_EVERY_SECONDS: Final = 5.0


class Reservations(Protocol):
    """Who keeps nodes."""

    def in_vain(self, unit: QueuedUnit) -> bool:
        """Whether a gang cannot start on what is kept for it, even if all else ended."""
        ...

    def let_go(self, group: str) -> None:
        """Nothing is kept for the gang any more."""
        ...


class GangLimits:
    """Ends what `reservations` keep. The shortest limit of the profiles is that of all."""

    def __init__(
        self,
        state: ClusterState,
        queue: SchedulingQueue,
        reservations: Reservations,
        profiles: Mapping[str, Profile],
    ) -> None:
        self._state = state
        self._queue = queue
        self._reservations = reservations
        self._examined = -math.inf
        self._keeping = state.gangs.keeping
        self._keeping.limit = min(map(limit, profiles.values()), default=DEFAULT_LIMIT_SECONDS)

    def look(self, now: float) -> None:
        """To be called before anything is decided: takes over nominations of an earlier process, too."""
        self._state.inherited.resolve()
        self.observe(now)
        for group in self._keeping.overdue(now):
            self._keeping.end(group, now)
            self._end(group, now)
        if self._keeping.kept and now >= self._examined + EXAMINED_EVERY_SECONDS:
            self._examined = now
            self._examine(now)

    def observe(self, now: float) -> None:
        """Something may have been nominated, or not be any more."""
        self._keeping.observe(self._state.nominations, self._state.placed.keys(), now)

    def _examine(self, now: float) -> None:
        for group, kept in list(self._keeping.kept.items()):
            unit = self._queue.units.get(group)
            if unit is None or unit.part is not Part.UNSCHEDULABLE or not self._reservations.in_vain(unit):
                continue
            if kept.evicts:
                # It looks anew, and says itself what of that it still needs.
                self._queue.activate(unit, now)
            else:
                self._end(group, now)

    def _end(self, group: str, now: float) -> None:
        self._state.nominations.remove_group(group)
        self._reservations.let_go(group)
        unit = self._queue.units.get(group)
        if unit is None:
            return
        # It has to wait as long as before until nodes are kept for it anew.
        unit.since = now
        if unit.part is Part.UNSCHEDULABLE:
            self._queue.activate(unit, now)


def limit(profile: Profile) -> float:
    """Seconds for which nodes are kept for a gang of this profile at most."""
    seconds = [getattr(plugin, "reservation_limit", None) for plugin in profile.plugins]
    return min((float(value) for value in seconds if value is not None), default=DEFAULT_LIMIT_SECONDS)
