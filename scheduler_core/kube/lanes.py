"""The writer's connections: which are under way, which rest, and how many requests each carries."""

from __future__ import annotations

import selectors
from collections import deque
from collections.abc import Callable
from typing import Final

from scheduler_core.kube.connection import MAX_IDLE_SECONDS
from scheduler_core.kube.exchange import Job, Lane
from scheduler_core.kube.session import Session

# Events may never hold up a binding: they use at most so many connections.
LATER_CONNECTIONS: Final = 8
# Requests that go out in one piece, one behind the other on one connection, where more wait than there are
# connections: the second costs a third of the first.
TOGETHER: Final = 4
# After a connection that left some of them without an answer, each goes alone for so long: there may be
# something between us and the server that knows only one request at a time.
_ALONE_SECONDS: Final = 60.0


class Lanes:
    """At most `most` connections, registered for reading with `selector`; for the writer's thread alone."""

    def __init__(
        self,
        session: Session,
        selector: selectors.BaseSelector,
        most: int,
        monotonic: Callable[[], float],
    ) -> None:
        self._session = session
        self._selector = selector
        self._most = most
        self._monotonic = monotonic
        self._busy: set[Lane] = set()
        self._idle: list[Lane] = []
        self._later_busy = 0
        self._alone_until = 0.0

    @property
    def busy(self) -> int:
        """Connections that wait for answers."""
        return len(self._busy)

    def room(self, urgent: bool) -> int:
        """How many more connections may be under way with such writes."""
        free = self._most - len(self._busy)
        return free if urgent else min(free, LATER_CONNECTIONS - self._later_busy)

    def share(self, waiting: int, urgent: bool) -> int:
        """How many of so many waiting writes the next connection takes."""
        each = -(-waiting // self.room(urgent))
        if each > 1 and self._monotonic() < self._alone_until:
            return 1
        return min(TOGETHER, each)

    def take(self) -> Lane:
        """A connection at rest or a new one. Raises OSError, KubeconfigError."""
        if self._idle:
            return self._idle.pop()
        connection = self._session.new_connection()
        try:
            connection.open()
            connection.unblock()
        except BaseException:
            connection.close()
            raise
        lane = Lane(connection)
        self._selector.register(lane.raw, selectors.EVENT_READ, lane)
        return lane

    def begin(self, lane: Lane, jobs: list[Job], payload: bytes) -> None:
        """The lane is to carry these jobs, all urgent or none."""
        lane.jobs = deque(jobs)
        lane.carried = len(jobs)
        lane.urgent = jobs[0].urgent
        lane.unsent = payload
        lane.size = len(payload)
        lane.deadline = self._monotonic() + self._session.limits.read * len(jobs)
        self._busy.add(lane)
        self._later_busy += not lane.urgent

    def send(self, lane: Lane) -> None:
        """Send as much as goes now; the rest goes when the selector says so. Raises OSError."""
        lane.send()
        if lane.blocked != bool(lane.unsent):
            lane.blocked = not lane.blocked
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if lane.blocked else 0)
            self._selector.modify(lane.raw, events, lane)

    def rest(self, lane: Lane) -> bool:
        """Keep a lane without jobs for later; False if it is of no more use."""
        if lane.jobs or lane.unsent or lane.buffer:
            return False
        self._leave(lane)
        lane.deadline = self._monotonic() + MAX_IDLE_SECONDS
        self._idle.append(lane)
        return True

    def drop(self, lane: Lane) -> list[Job]:
        """Close a connection; the jobs that it leaves without an answer."""
        if lane in self._idle:
            self._idle.remove(lane)
        self._leave(lane)
        left, lane.jobs = list(lane.jobs), deque()
        if left and lane.carried > 1:
            self._alone_until = self._monotonic() + _ALONE_SECONDS
        self._selector.unregister(lane.raw)
        lane.connection.close()
        return left

    def overdue(self) -> list[Lane]:
        """Lanes whose answers do not come, and those that rested for long: they go before the server does."""
        now = self._monotonic()
        return [lane for lane in self.all() if lane.deadline < now]

    def all(self) -> list[Lane]:
        """Every open lane."""
        return [*self._busy, *self._idle]

    def _leave(self, lane: Lane) -> None:
        if lane in self._busy:
            self._busy.remove(lane)
            self._later_busy -= not lane.urgent
