"""A write and the connection that carries it, in the writer's hands."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from typing import Final

from scheduler_core.errors import MusterError
from scheduler_core.kube.connection import Connection
from scheduler_core.kube.requests import Request, SingleWrite

log = logging.getLogger(__name__)

Done = Callable[[MusterError | None], None]

# The most that a TLS record holds; room for more would be got and given back for every small answer.
_CHUNK: Final = 1 << 14


class Job:
    """A write, what to tell its outcome to, and its request once it was made."""

    __slots__ = ("done", "request", "urgent", "write")

    def __init__(self, write: SingleWrite, done: Done, urgent: bool) -> None:
        self.write = write
        self.done = done
        self.urgent = urgent
        self.request: Request | None = None

    def tell(self, error: MusterError | None) -> None:
        """Tell the outcome; a consumer that fails harms nobody else."""
        try:
            self.done(error)
        except Exception:
            log.exception("the consumer of a write's outcome failed")


class Lane:
    """An open connection with the job that is under way on it, None while it rests until `deadline`."""

    __slots__ = ("buffer", "connection", "deadline", "job", "raw", "unsent")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.raw = connection.raw
        self.job: Job | None = None
        self.deadline = 0.0
        self.buffer = bytearray()
        self.unsent = b""

    def send(self) -> None:
        """Send of what is unsent as much as goes now. Raises OSError."""
        try:
            sent = self.raw.send(self.unsent)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        self.unsent = self.unsent[sent:]

    def receive(self) -> bool:
        """Take what is there; True if the server has closed the connection. Raises OSError."""
        while True:
            try:
                chunk = self.raw.recv(_CHUNK)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return False
            if not chunk:
                return True
            self.buffer += chunk
            if len(chunk) < _CHUNK and not self.connection.holds_more():
                return False
