"""The writer's connections: which are under way, which rest, and how many requests each carries.

A server that speaks HTTP/2 gets one connection for all requests, any other gets several of HTTP/1.1.
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from typing import Final

from scheduler_core.kube.connection import Use
from scheduler_core.kube.endpoint import HTTP_1, HTTP_2
from scheduler_core.kube.exchange import Encoded, Job, Lane, SerialLane
from scheduler_core.kube.session import Session
from scheduler_core.kube.shared_lane import SharedLane

# Events may never hold up a binding: they use at most so many connections.
LATER_CONNECTIONS: Final = 8
# After a connection that broke the rules of HTTP/2 the others are of HTTP/1.1 for so long: there may be
# something between us and the server that knows no better.
_PLAIN_SECONDS: Final = 60.0
# What client-go's programs are told by to stay with HTTP/1.1.
_WITHOUT_HTTP_2: Final = "DISABLE_HTTP2"


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
        self._open: set[Lane] = set()
        self._idle: list[SerialLane] = []
        self._shared: SharedLane | None = None
        self._protocols = (HTTP_1,) if os.environ.get(_WITHOUT_HTTP_2) else (HTTP_2, HTTP_1)
        self._later_busy = 0
        self._plain_until = 0.0

    @property
    def crowd(self) -> int:
        """How many answers may come, at least: of every connection of HTTP/1.1 one counts."""
        shared = self._shared.under_way if self._shared is not None else 0
        return shared + self._busy

    @property
    def _busy(self) -> int:
        """Connections that wait for answers and take nothing more until then."""
        return len(self._open) - len(self._idle) - (self._shared is not None)

    def room(self, urgent: bool) -> int:
        """How many more such writes may be sent now, if not more."""
        if self._shared is not None:
            return self._shared.room(urgent)
        free = self._most - self._busy
        return free if urgent else min(free, LATER_CONNECTIONS - self._later_busy)

    def share(self, waiting: int, urgent: bool) -> int:
        """How many of so many waiting writes the next connection takes; there is room."""
        return min(waiting, self._shared.room(urgent)) if self._shared is not None else 1

    def take(self) -> Lane:
        """The connection for the next jobs, a new one if need be. Raises OSError, KubeconfigError."""
        if self._shared is not None:
            return self._shared
        return self._idle[-1] if self._idle else self._opened()

    def begin(self, lane: Lane, encoded: list[tuple[Job, Encoded]]) -> None:
        """The lane that was taken carries these jobs, all urgent or none. Raises OSError."""
        if isinstance(lane, SerialLane):
            self._idle.remove(lane)
            self._later_busy += not encoded[0][0].urgent
        lane.begin(encoded, self._monotonic())
        self.mind(lane)

    def mind(self, lane: Lane) -> None:
        """Have the selector tell when the socket takes what is unsent."""
        if lane.blocked != bool(lane.wire.unsent):
            lane.blocked = not lane.blocked
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if lane.blocked else 0)
            self._selector.modify(lane.wire, events, lane)

    def settle(self, lane: Lane) -> None:
        """Some answers were taken: the lane rests, or goes, or waits for others."""
        if lane is self._shared and not lane.usable:
            self._shared = None
        if lane.under_way:
            return
        if not lane.usable:
            self.drop(lane)
            return
        lane.rest(self._monotonic())
        if isinstance(lane, SerialLane) and lane not in self._idle:
            self._idle.append(lane)
            self._later_busy -= not lane.urgent

    def drop(self, lane: Lane) -> list[Job]:
        """Close a connection; the jobs that it leaves without an answer."""
        left = lane.abandon()
        self._open.remove(lane)
        if isinstance(lane, SharedLane):
            self._shared = None if lane is self._shared else self._shared
            if lane.broken:
                self._plain_until = self._monotonic() + _PLAIN_SECONDS
        else:
            assert isinstance(lane, SerialLane)
            if lane in self._idle:
                self._idle.remove(lane)
            else:
                self._later_busy -= not lane.urgent
        self._selector.unregister(lane.wire)
        lane.connection.close()
        return left

    def overdue(self) -> list[Job]:
        """Jobs whose answers do not come, given up; those that rested for long go before the server does."""
        now = self._monotonic()
        jobs: list[Job] = []
        for lane in self.all():
            jobs += lane.expire(now)
            if lane.deadline < now:
                self._doubt_others(lane, now)
                jobs += self.drop(lane)
            else:
                self.mind(lane)
        return jobs

    def _doubt_others(self, lane: Lane, now: float) -> None:
        """Where a lane gave no sign of life, what else was open before may be as dead."""
        if lane.asked is not None:
            since = time.monotonic() - (now - lane.asked)
            self._session.contacts.doubt(since, Use.IDLE, Use.STREAM, Use.EXCHANGE)
        elif lane.under_way:
            self._session.suspect(time.monotonic() - self._session.limits.silence)

    def all(self) -> list[Lane]:
        """Every open lane."""
        return list(self._open)

    def _opened(self) -> Lane:
        """A new connection, at rest."""
        plain = self._monotonic() < self._plain_until
        connection = self._session.new_connection((HTTP_1,) if plain else self._protocols)
        try:
            connection.open()
            connection.wire.wait(0)
            lane: Lane
            if connection.wire.protocol == HTTP_2:
                lane = shared = SharedLane(connection, self._session)
                shared.greet()
                self._shared = shared
            else:
                lane = serial = SerialLane(connection, self._session)
                self._idle.append(serial)
        except BaseException:
            connection.close()
            raise
        lane.rest(self._monotonic())
        self._open.add(lane)
        self._selector.register(lane.wire, selectors.EVENT_READ, lane)
        return lane
