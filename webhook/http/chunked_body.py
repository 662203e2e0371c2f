"""Chunked bodies of reviews, on a client's connection."""

from __future__ import annotations

from typing import Final

from scheduler_core.kube.http.chunks import ChunkLimits, Unchunked
from scheduler_core.serving.stream import ClientReader, RequestUnreadable
from webhook.http.body import MAX_TAKEN, BodyTooLarge

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

        Raises BodyTooLarge and RequestUnreadable, and what the connection raises.
        """
        decoder = self._decoder
        while not decoder.ended:
            received = self._reader.receive(size)
            if not received:
                raise RequestUnreadable("the body ended before its last chunk")
            try:
                part = decoder.feed(received)
            except ValueError as error:
                raise RequestUnreadable(str(error)) from None
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
            raise RequestUnreadable(
                f"the body comes in more than {FREE_CHUNKS} chunks "
                f"of less than {LEAST_AVERAGE} bytes on average"
            )
