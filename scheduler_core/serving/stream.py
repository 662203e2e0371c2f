"""Buffered input and output of a client's connection.

cheroot's own streams go through the pure Python classes of `io` and send the head and the body of a response
separately: two TLS records, two system calls, and a client that is woken twice.
"""

from __future__ import annotations

from typing import Any, Final

# Bounds for one request: TLS records hold more than LEAST_PIECE bytes on average, apart from the free ones. A
# client that encrypts each byte separately would otherwise cost seconds of processor time for one body.
FREE_PIECES: Final = 1024
LEAST_PIECE: Final = 512
_CHUNK: Final = 1 << 16
_NEWLINE: Final = b"\n"


class RequestUnreadable(Exception):
    """A request did not arrive in time, or cannot be read as what it says it is; holds the reason."""


class ClientReader:
    """Buffered input from the client.

    Reads raise OSError, TimeoutError if the client is too slow, and RequestUnreadable if a request arrives in
    too many pieces.
    """

    def __init__(self, sock: Any) -> None:
        self._recv = sock.recv
        self._held = b""
        self._at = 0
        self._pieces = 0
        self._begun = 0
        # Read by cheroot's statistics.
        self.bytes_read = 0

    def begin_request(self) -> None:
        """Count bytes and pieces from here on for the next request."""
        self._pieces, self._begun = 0, self.bytes_read

    def has_data(self) -> bool:
        """Whether received bytes are still to be read."""
        return self._at < len(self._held)

    def readline(self, size: int = -1) -> bytes:
        """A line with its line end, at most `size` bytes of it; at the end of the stream what is left."""
        while True:
            end = self._held.find(_NEWLINE, self._at) + 1
            if 0 <= size <= (end or len(self._held)) - self._at:
                return self._take(self._at + size)
            if end:
                return self._take(end)
            if not self._fill():
                return self._take(len(self._held))

    def read(self, size: int = -1) -> bytes:
        """`size` bytes, fewer only at the end of the stream; everything if `size` is negative."""
        parts = []
        left = size if size >= 0 else float("inf")
        while left > 0 and (self.has_data() or self._fill()):
            part = self._take(min(self._at + left, len(self._held)))
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def receive(self, size: int) -> bytes:
        """Received bytes, `size` at most; waits until there are some. Empty at the end of the stream."""
        if not self.has_data() and not self._fill():
            return b""
        return self._take(min(self._at + size, len(self._held)))

    def unread(self, count: int) -> None:
        """Give back the last `count` bytes of the last `receive`."""
        self._at -= count
        self.bytes_read -= count

    def close(self) -> None:
        """Drop the buffered bytes; the connection closes the socket."""
        self._held, self._at = b"", 0

    def _fill(self) -> bool:
        self._pieces += 1
        if self._pieces > FREE_PIECES + (self.bytes_read - self._begun) // LEAST_PIECE:
            raise RequestUnreadable("the request comes in too many small pieces")
        got: bytes = self._recv(_CHUNK)
        self._held, self._at = self._held[self._at :] + got, 0
        return bool(got)

    def _take(self, end: float) -> bytes:
        part = self._held[self._at : int(end)]
        self._at += len(part)
        self.bytes_read += len(part)
        return part


class ClientWriter:
    """Buffered output to the client. Writes raise OSError, and TimeoutError if the client does not read."""

    def __init__(self, sock: Any) -> None:
        self._send = sock.sendall
        self._held = b""
        self._holding = False
        self.bytes_written = 0

    def hold(self) -> None:
        """Keep the next write in the buffer until another write or `flush` follows."""
        self._holding = True

    def write(self, data: bytes) -> int:
        """Send the buffer and `data`; after `hold`, keep `data` in the buffer instead."""
        if self._holding:
            self._held, self._holding = data, False
        else:
            self._send(self._held + data)
            self._held = b""
        self.bytes_written += len(data)
        return len(data)

    def flush(self) -> None:
        """Send the buffer."""
        if self._held:
            self._send(self._held)
        self._held, self._holding = b"", False
