"""A chunked body (RFC 9112, section 7.1), in bounded memory and time whatever the chunks are like.

cheroot's own decoder reads the line of a chunk however long it is, copies what is left of a chunk at every
read, and takes any number of chunks of one byte.
"""

from __future__ import annotations

from typing import Final

from webhook.body import MAX_TAKEN, BodyTooLarge, BodyUnreadable
from webhook.stream import Reader

# Size and extensions of a chunk, or a trailer; with its end.
MAX_LINE: Final = 256
MAX_TRAILERS: Final = 16
# Whoever sends in chunks sends KiBs in each; these are for whoever flushes often.
FREE_CHUNKS: Final = 1024
LEAST_AVERAGE: Final = 1024
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")
_MOST_DIGITS: Final = 8
_END: Final = b"\r\n"


class Chunks:
    """The body as a WSGI input. Raises BodyTooLarge and BodyUnreadable, and what the connection raises."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._left = 0
        self._chunks = 0
        self._size = 0
        self._ended = False

    @property
    def remaining(self) -> int:
        """Whether something of the body is still to be read: 1 or 0."""
        return int(not self._ended)

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes, of one chunk; empty at the end of the body."""
        if not self._left and not self._ended:
            self._begin()
        part = self._reader.read(min(size, self._left))
        if not part and self._left:
            raise BodyUnreadable("the body ended within a chunk")
        self._left -= len(part)
        if self._chunks and not self._left and not self._ended and self._reader.read(2) != _END:
            raise BodyUnreadable("a chunk is longer than it says")
        return part

    def _begin(self) -> None:
        """The line of the next chunk; after the last one the trailers, which nobody reads."""
        size = _size(self._line())
        self._chunks += 1
        self._size += size
        if self._size > MAX_TAKEN:
            raise BodyTooLarge
        if self._chunks > FREE_CHUNKS + self._size // LEAST_AVERAGE:
            raise BodyUnreadable(
                f"the body comes in more than {FREE_CHUNKS} chunks "
                f"of less than {LEAST_AVERAGE} bytes on average"
            )
        self._left = size
        if not size:
            self._ended = True
            self._skip_trailers()

    def _skip_trailers(self) -> None:
        for _ in range(MAX_TRAILERS + 1):
            if not self._line():
                return
        raise BodyUnreadable(f"the body has more than {MAX_TRAILERS} trailers")

    def _line(self) -> bytes:
        line = self._reader.readline(MAX_LINE)
        if not line.endswith(_END):
            raise BodyUnreadable(f"a line of the body's chunks is not ended within {MAX_LINE} bytes")
        return line[:-2]


def _size(line: bytes) -> int:
    digits = line.partition(b";")[0].rstrip(b" \t")
    if not 0 < len(digits) <= _MOST_DIGITS or not _HEX.issuperset(digits):
        raise BodyUnreadable("the size of a chunk is no hexadecimal number")
    return int(digits, 16)
