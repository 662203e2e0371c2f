"""Tells those who wait what happened, in the cluster and by our own decisions."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler_core.engine.aftermath import placements, surplus
from scheduler_core.engine.decisions import Decision
from scheduler_core.engine.listeners import Listeners
from scheduler_core.engine.loans import with_loans
from scheduler_core.engine.queue import SchedulingQueue
from scheduler_core.engine.reviews import Reviews
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.config_maps import Changed
from scheduler_core.state.events import ClusterEvent, Happened


class Herald:
    """Finds out whom an event concerns, and lets the queue wake whom it may help."""

    def __init__(
        self, state: ClusterState, queue: SchedulingQueue, listeners: Listeners, reviews: Reviews
    ) -> None:
        self._state = state
        self._queue = queue
        self._listeners = listeners
        self._reviews = reviews

    def tell(self, events: Iterable[ClusterEvent], now: float) -> None:
        """Let cluster events wake what they may help."""
        for event in events if self._queue.anybody_waits else ():
            self._reviews.changed()
            concerns = self._listeners.concerns(self._state, event, self._queue.is_refused_by)
            if concerns:
                self._queue.on_event(event, now, concerns)

    def tell_config_map(self, changed: Changed, now: float) -> None:
        """A new tree may help many; pods of a ConfigMap without its label have something else to say."""
        if changed.topology:
            self.tell([ClusterEvent(Happened.TOPOLOGY)], now)
        if changed.bare in self._queue.units:
            self._reviews.changed()

    def tell_freed(self, now: float) -> None:
        """Let those know who may use it that room is not kept for a nominated pod any more."""
        if self._state.nominations.freed:
            self._state.nominations.freed = False
            self.tell([ClusterEvent(Happened.NOMINATION)], now)

    def tell_decided(self, decisions: Iterable[Decision], before: set[str], now: float) -> None:
        """What was placed may be what others want to be near, and is borrowed; what leaves helps others.

        `before` are uids of pods that were nominated before.
        """
        placed = placements(decisions)
        if placed:
            self.tell(with_loans(self._state, placed), now)
        self.tell(surplus(self._state, decisions, before), now)
