"""The two directions of a connection, buffered.

cheroot's own go through io's pure Python classes and send the head and the body of an answer apart: two
records of TLS, two system calls, and a client that is woken twice.
"""

from __future__ import annotations

from typing import Any, Final

from webhook.body import BodyUnreadable

# Of one request. Packets hold more than LEAST_PIECE on average, those aside that somebody flushed early; a
# client that encrypts each byte by itself would cost seconds of our time for one body.
FREE_PIECES: Final = 1024
LEAST_PIECE: Final = 512
_CHUNK: Final = 1 << 16
_NEWLINE: Final = b"\n"


class Reader:
    """What the client says.

    Reads raise OSError, TimeoutError where the client is too slow, BodyUnreadable where a request comes in
    too many pieces.
    """

    def __init__(self, sock: Any) -> None:
        self._recv = sock.recv
        self._held = b""
        self._at = 0
        self._pieces = 0
        self._begun = 0
        # cheroot's statistics want it.
        self.bytes_read = 0

    def begin_request(self) -> None:
        """What comes from now on is of the next request."""
        self._pieces, self._begun = 0, self.bytes_read

    def has_data(self) -> bool:
        """Whether something was received that nobody has read yet."""
        return self._at < len(self._held)

    def readline(self, size: int = -1) -> bytes:
        """A line with its end, or `size` bytes of it, or what was left at the end of the stream."""
        while True:
            end = self._held.find(_NEWLINE, self._at) + 1
            if 0 <= size <= (end or len(self._held)) - self._at:
                return self._take(self._at + size)
            if end:
                return self._take(end)
            if not self._fill():
                return self._take(len(self._held))

    def read(self, size: int = -1) -> bytes:
        """`size` bytes, fewer only at the end of the stream; all there are if negative."""
        parts = []
        left = size if size >= 0 else float("inf")
        while left > 0 and (self.has_data() or self._fill()):
            part = self._take(min(self._at + left, len(self._held)))
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Forget what was received; the socket belongs to the connection."""
        self._held, self._at = b"", 0

    def _fill(self) -> bool:
        self._pieces += 1
        if self._pieces > FREE_PIECES + (self.bytes_read - self._begun) // LEAST_PIECE:
            raise BodyUnreadable("the request comes in too many small pieces")
        got: bytes = self._recv(_CHUNK)
        self._held, self._at = self._held[self._at :] + got, 0
        return bool(got)

    def _take(self, end: float) -> bytes:
        part = self._held[self._at : int(end)]
        self._at += len(part)
        self.bytes_read += len(part)
        return part


class Writer:
    """What the client is told. Writes raise OSError, TimeoutError where the client does not read."""

    def __init__(self, sock: Any) -> None:
        self._send = sock.sendall
        self._held = b""
        self._holding = False
        self.bytes_written = 0

    def hold(self) -> None:
        """Keep what is written next until something follows it, or until `flush`."""
        self._holding = True

    def write(self, data: bytes) -> int:
        """Send what is held back and `data`, unless this is what shall be held."""
        if self._holding:
            self._held, self._holding = data, False
        else:
            self._send(self._held + data)
            self._held = b""
        self.bytes_written += len(data)
        return len(data)

    def flush(self) -> None:
        """Send what is held back."""
        if self._held:
            self._send(self._held)
        self._held, self._holding = b"", False
