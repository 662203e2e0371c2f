"""All connections to one server: where one is found silent, others that say nothing are doubted too.

A load balancer or a firewall that loses a connection loses its neighbours as well, and most of them could not
tell: a watch may be quiet for good reasons, and HTTP/1.1 has no way to ask.
"""

from __future__ import annotations

import threading
from weakref import WeakSet

from scheduler_core.kube.connection import Connection, Use


class Contacts:
    """Connections of one or more sessions. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: WeakSet[Connection] = WeakSet()

    def add(self, connection: Connection) -> None:
        """Remember one for as long as somebody uses it."""
        with self._lock:
            self._known.add(connection)

    def doubt(self, since: float, *uses: Use) -> int:
        """One connection gave nothing since that time: give up others of such use that did not; how many.

        Idle ones and streams lose little by it. For requests that wait for an answer there should be proof.
        """
        with self._lock:
            known = list(self._known)
        silent = [one for one in known if one.opened and one.use in uses and one.heard < since]
        for connection in silent:
            connection.give_up()
        return len(silent)
