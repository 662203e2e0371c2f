"""Buffered input and output of a client's connection, and chunked bodies on it.

cheroot's own streams go through the pure Python classes of `io` and send the head and the body of a response
separately: two TLS records, two system calls, and a client that is woken twice.
"""

from __future__ import annotations

from typing import Any, Final

from scheduler_core.kube.http.chunks import ChunkLimits, Unchunked
from webhook.http.body import MAX_TAKEN, BodyTooLarge, BodyUnreadable

# Bounds for one request: TLS records hold more than LEAST_PIECE bytes on average, apart from the free ones. A
# client that encrypts each byte separately would otherwise cost seconds of processor time for one body.
FREE_PIECES: Final = 1024
LEAST_PIECE: Final = 512
_CHUNK: Final = 1 << 16
_NEWLINE: Final = b"\n"


class ClientReader:
    """Buffered input from the client.

    Reads raise OSError, TimeoutError if the client is too slow, and BodyUnreadable if a request arrives in
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
            raise BodyUnreadable("the request comes in too many small pieces")
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


# API servers send none of these: a chunk extension, a trailer.
CHUNK_LIMITS: Final = ChunkLimits(line=256, digits=8, trailers=16)
# Clients send KiBs in a chunk; the free chunks are for clients that flush often.
FREE_CHUNKS: Final = 1024
LEAST_AVERAGE: Final = 1024


class ChunkedBody:
    """A chunked body as a WSGI input, in bounded memory and time however it is cut into chunks.

    cheroot's decoder reads the line before a chunk however long it is, copies what is left of a chunk at
    every read, and accepts any number of chunks of one byte.
    """

    def __init__(self, reader: ClientReader) -> None:
        self._reader = reader
        self._decoder = Unchunked(CHUNK_LIMITS)

    @property
    def remaining(self) -> int:
        """1 while some of the body is still to be read, then 0."""
        return int(not self._decoder.ended)

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; empty at the end of the body.

        Raises BodyTooLarge and BodyUnreadable, and what the connection raises.
        """
        decoder = self._decoder
        while not decoder.ended:
            received = self._reader.receive(size)
            if not received:
                raise BodyUnreadable("the body ended before its last chunk")
            try:
                part = decoder.feed(received)
            except ValueError as error:
                raise BodyUnreadable(str(error)) from None
            self._check_bounds()
            if decoder.ended:
                self._reader.unread(len(decoder.rest))
            if part:
                return part
        return b""

    def _check_bounds(self) -> None:
        decoder = self._decoder
        if decoder.size > MAX_TAKEN:
            raise BodyTooLarge
        if decoder.chunks > FREE_CHUNKS + decoder.size // LEAST_AVERAGE:
            raise BodyUnreadable(
                f"the body comes in more than {FREE_CHUNKS} chunks "
                f"of less than {LEAST_AVERAGE} bytes on average"
            )
