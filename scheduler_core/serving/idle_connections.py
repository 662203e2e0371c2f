"""Idle connections: one thread accepts new connections and waits for requests on idle ones.

cheroot's own loop continues with descriptors that it has closed to make room, and spins if the process may
open no more of them. Here idle connections are served before new ones are accepted, and new ones wait in the
kernel's backlog while there is no descriptor for them.
"""

from __future__ import annotations

import errno
import selectors
import time
from contextlib import suppress
from typing import Any, Final

from cheroot.connections import ConnectionManager

# API servers close an idle connection after 90 s. They should close it, not the server.
IDLE_SECONDS: Final = 120.0
# How long accepting stops when there is no descriptor for a new connection.
PAUSE_SECONDS: Final = 0.05
_SHORTAGE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class IdleConnections(ConnectionManager):
    """Connections without a worker. They expire by the monotonic clock."""

    _selector: Any
    _from_server_socket: Any
    _remove_invalid_sockets: Any
    _stop_requested: bool
    _accepts_from = 0.0
    _warned_at = -60.0

    def put(self, conn: Any) -> None:
        """Keep a connection until its client sends something. Also called by workers."""
        conn.idle_until = time.monotonic() + (IDLE_SECONDS if conn.asked else self.server.timeout)
        try:
            super().put(conn)
        except (OSError, ValueError, KeyError) as error:
            # It was closed meanwhile, or the kernel accepts no more of them: a worker must survive that.
            self.server.log.debug("a client's connection cannot be kept idle: %s", error)
            _close(conn)

    def make_room(self, limit: int) -> None:
        """Close the oldest connection without a request if there are more than `limit`.

        Runs on the selector's thread.
        """
        if len(self._selector) > limit:
            self._give_way(asked=False)

    def _run(self, expiration_interval: float) -> None:
        expired = time.monotonic()
        while not self._stop_requested:
            self._poll(PAUSE_SECONDS if self._accepts_from else expiration_interval)
            now = time.monotonic()
            if self._accepts_from and now >= self._accepts_from:
                self._accepts_from = 0.0
                self._selector.register(self.server.socket.fileno(), selectors.EVENT_READ, self.server)
            if now - expired > expiration_interval:
                expired = now
                self.expire(now)

    def _poll(self, seconds: float) -> None:
        """Hand connections with requests to workers after at most `seconds`; accept one new one."""
        new = False
        try:
            ready = list(self._selector.select(timeout=seconds))
        except OSError:
            self._remove_invalid_sockets()
            return
        for descriptor, conn in ready:
            if conn is self.server:
                new = True
            else:
                self._selector.unregister(descriptor)
                self.server.process_conn(conn)
        # Last, because it closes connections to make room, which must not be among the ready ones.
        if new:
            self._accept()

    def _accept(self) -> None:
        """Accept one connection, or pause accepting."""
        try:
            conn = self._from_server_socket(self.server.socket)
        except OSError as error:
            if error.errno not in _SHORTAGE:
                self.server.log.debug("a client was lost before its first request: %s", error)
            elif not self._give_way(asked=False) and not self._give_way(asked=True):
                self._pause(time.monotonic(), error)
            return
        if conn is not None:
            self.server.process_conn(conn)

    def _pause(self, now: float, error: OSError) -> None:
        """Stop accepting for a moment: workers hold all descriptors until one of them is done."""
        self._accepts_from = now + PAUSE_SECONDS
        self._selector.unregister(self.server.socket.fileno())
        if now - self._warned_at >= 1.0:
            self._warned_at = now
            self.server.log.warning("no descriptor for another client: %s", error.strerror)

    def _give_way(self, *, asked: bool) -> bool:
        """Close the connection that is idle longest, among those with or without a request (`asked`)."""
        found = [entry for entry in self._idle() if entry[1].asked is asked]
        if not found:
            return False
        self._end(*min(found, key=lambda entry: entry[1].last_used))
        return True

    def _idle(self) -> list[tuple[int, Any]]:
        return [found for found in self._selector.connections if found[1] is not self.server]

    def expire(self, threshold: float) -> None:
        """Close the connections that had expired at `threshold` (monotonic)."""
        for descriptor, conn in self._idle():
            if conn.idle_until < threshold:
                self._end(descriptor, conn)

    def _end(self, descriptor: int, conn: Any) -> None:
        self._selector.unregister(descriptor)
        _close(conn)


def _close(conn: Any) -> None:
    with suppress(OSError):
        conn.close()
