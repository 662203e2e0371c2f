"""A write and the connection that carries it, in the writer's hands."""

from __future__ import annotations

import logging
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final

from scheduler_core.errors import MusterError
from scheduler_core.kube.answers import plain_success, read_answer
from scheduler_core.kube.connection import Connection
from scheduler_core.kube.requests import Request, SingleWrite
from scheduler_core.kube.session import Answer

log = logging.getLogger(__name__)

Done = Callable[[MusterError | None], None]

# Whose body nobody reads.
_SUCCESS: Final = Answer(200, None, b"")
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
    """An open connection with the jobs that are under way on it, none while it rests until `deadline`.

    Answers come in the order of the jobs. `carried` jobs of `size` bytes were given to it at once; `blocked`:
    the rest of what is `unsent` waits until the socket takes more.
    """

    __slots__ = (
        "blocked",
        "buffer",
        "carried",
        "connection",
        "deadline",
        "jobs",
        "raw",
        "size",
        "unsent",
        "urgent",
    )

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.raw = connection.raw
        self.jobs: deque[Job] = deque()
        self.carried = 0
        self.size = 0
        self.urgent = True
        self.deadline = 0.0
        self.buffer = bytearray()
        self.unsent = b""
        self.blocked = False

    def send(self) -> None:
        """Send of what is unsent as much as goes now. Raises OSError."""
        try:
            sent = self.raw.send(self.unsent)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        self.unsent = self.unsent[sent:]

    def receive(self) -> bool | None:
        """Take a part of what is there, an answer as a rule; None if there is nothing.

        True if the server has closed the connection. Raises OSError.
        """
        try:
            chunk = self.raw.recv(_CHUNK)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        self.buffer += chunk
        return not chunk

    def take_answer(self, *, ended: bool) -> tuple[Answer, bool] | None:
        """The answer to the first job, cut from the buffer, and whether the lane can be used again.

        None if bytes of it miss. Raises BrokenAnswer, ConnectionResetError.
        """
        if not self.buffer:
            if ended:
                raise ConnectionResetError("the server closed the connection without an answer")
            return None
        size = plain_success(self.buffer)
        if not size:
            return read_answer(self.buffer, ended=ended)
        del self.buffer[:size]
        return _SUCCESS, not ended
