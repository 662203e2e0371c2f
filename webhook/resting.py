"""Connections that no worker has: one thread accepts newcomers and waits for whoever has something to say.

cheroot's own loop goes on with descriptors that it has closed to make room, and turns without end where the
process may open no more of them. Here those that rest are served before newcomers are let in, and newcomers
wait in the kernel's queue while there is no descriptor for them.
"""

from __future__ import annotations

import errno
import logging
import selectors
import time
from contextlib import suppress
from typing import Any, Final

from cheroot.connections import ConnectionManager

# API servers give up an idle connection after 90 s; they shall be the ones to do it.
REST_SECONDS: Final = 120.0
# How long newcomers wait where there is no descriptor for one, before it is tried again.
PAUSE_SECONDS: Final = 0.05
_SHORTAGE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

log = logging.getLogger("muster.webhook")


class Resting(ConnectionManager):
    """Connections without a worker. They end by the monotonic clock: steps of the other end none."""

    _selector: Any
    _from_server_socket: Any
    _remove_invalid_sockets: Any
    _stop_requested: bool
    _accepts_from = 0.0
    _warned_at = -60.0

    def put(self, conn: Any) -> None:
        """Let a connection rest until its client says something. Called by workers, too."""
        conn.rests_until = time.monotonic() + (REST_SECONDS if conn.asked else self.server.timeout)
        try:
            super().put(conn)
        except (OSError, ValueError, KeyError) as error:
            # It was closed meanwhile, or the kernel takes no more of them: a worker must not die of that.
            log.debug("a client's connection cannot rest: %s", error)
            _close(conn)

    def make_room(self, limit: int) -> None:
        """Close the oldest that never asked, while there are more than `limit`. On the selector's thread."""
        if len(self._selector) > limit:
            self._give_way(asked=False)

    def _run(self, expiration_interval: float) -> None:
        expired = time.monotonic()
        while not self._stop_requested:
            self._turn(PAUSE_SECONDS if self._accepts_from else expiration_interval)
            now = time.monotonic()
            if self._accepts_from and now >= self._accepts_from:
                self._accepts_from = 0.0
                self._selector.register(self.server.socket.fileno(), selectors.EVENT_READ, self.server)
            if now - expired > expiration_interval:
                expired = now
                self._expire(now)

    def _turn(self, seconds: float) -> None:
        """Give workers what clients have said, wait so long for it at the most, and let one newcomer in."""
        newcomers = False
        try:
            ready = list(self._selector.select(timeout=seconds))
        except OSError:
            self._remove_invalid_sockets()
            return
        for descriptor, conn in ready:
            if conn is self.server:
                newcomers = True
            else:
                self._selector.unregister(descriptor)
                self.server.process_conn(conn)
        # Last: to make room it closes connections, which must not be among those at hand.
        if newcomers:
            self._accept()

    def _accept(self) -> None:
        """Let one newcomer in, or none for a moment."""
        try:
            conn = self._from_server_socket(self.server.socket)
        except OSError as error:
            if error.errno not in _SHORTAGE:
                log.debug("a client was lost before it said anything: %s", error)
            elif not self._give_way(asked=False) and not self._give_way(asked=True):
                self._pause(time.monotonic(), error)
            return
        if conn is not None:
            self.server.process_conn(conn)

    def _pause(self, now: float, error: OSError) -> None:
        """Workers have all there are: the next that is done makes room."""
        self._accepts_from = now + PAUSE_SECONDS
        self._selector.unregister(self.server.socket.fileno())
        if now - self._warned_at >= 1.0:
            self._warned_at = now
            log.warning("no descriptor for another client: %s", error.strerror)

    def _give_way(self, *, asked: bool) -> bool:
        """Close the one that has rested longest, of those that asked before or of those that never did."""
        found = [entry for entry in self._resting() if entry[1].asked is asked]
        if not found:
            return False
        self._end(*min(found, key=lambda entry: entry[1].last_used))
        return True

    def _resting(self) -> list[tuple[int, Any]]:
        return [found for found in self._selector.connections if found[1] is not self.server]

    def _expire(self, threshold: float) -> None:
        """End those whose time was over then, on the monotonic clock."""
        for descriptor, conn in self._resting():
            if conn.rests_until < threshold:
                self._end(descriptor, conn)

    def _end(self, descriptor: int, conn: Any) -> None:
        self._selector.unregister(descriptor)
        _close(conn)


def _close(conn: Any) -> None:
    with suppress(OSError):
        conn.close()
