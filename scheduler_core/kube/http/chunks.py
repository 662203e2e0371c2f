"""Decodes chunked bodies of HTTP/1.1 (RFC 9112, section 7.1). Pure.

The client decodes responses of API servers with it, the webhook requests of its clients.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_END: Final = b"\r\n"
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")


class ChunkLimits(NamedTuple):
    """Bounds on what surrounds the content. The content itself is bounded by the caller (`Unchunked.size`).

    `line`: bytes of the line before a chunk or of one trailer, with the CRLF. `digits`: of a chunk's size.
    `trailers`: trailers after the last chunk.
    """

    line: int = 1 << 13
    digits: int = 16
    trailers: int = 1 << 10


class Unchunked:
    """Decodes a body from bytes that arrive in any portions.

    `ended`: the whole body was decoded, with its trailers. `rest`: bytes that are not decoded yet; once the
    body has ended, the bytes after it. `chunks`, `size`: the chunks that have begun, and the bytes of content
    that they announce together.
    """

    def __init__(self, limits: ChunkLimits | None = None) -> None:
        self.ended = False
        self.rest = b""
        self.chunks = 0
        self.size = 0
        self._limits = limits or ChunkLimits()
        # Bytes of content that the present chunk still lacks, and whether its CRLF is still to come.
        self._left = 0
        self._unclosed = False
        # How many more lines may follow the last chunk; None before it.
        self._trailers: int | None = None

    def feed(self, data: bytes) -> bytes:
        """The content in `data`. Raises ValueError for a broken encoding and for what exceeds the limits."""
        parts: list[bytes] = []
        position = 0
        if self.rest:
            data, self.rest = self.rest + data, b""
        while position < len(data) and not self.ended:
            if self._left:
                part = data[position : position + self._left]
                parts.append(part)
                self._left -= len(part)
                position += len(part)
                continue
            if self._unclosed:
                if not data.startswith(_END, position):
                    self._check_end(data[position : position + 2])
                    break
                self._unclosed = False
                position += 2
                continue
            end = data.find(_END, position, position + self._limits.line)
            if end < 0:
                self._check_unfinished(data[position : position + self._limits.line])
                break
            self._on_line(data[position:end])
            position = end + 2
        self.rest = data[position:]
        return b"".join(parts)

    def _on_line(self, line: bytes) -> None:
        """Take the line before a chunk, or one trailer, which is ignored."""
        if self._trailers is not None:
            self._trailers -= 1
            if b"\n" in line or (line and self._trailers < 0):
                raise ValueError(f"the body has more than {self._limits.trailers} trailers, or a broken one")
            self.ended = not line
            return
        size = self._size_in(line)
        self.chunks += 1
        self.size += size
        self._left, self._unclosed = size, size > 0
        if not size:
            self._trailers = self._limits.trailers

    def _check_end(self, found: bytes) -> None:
        if not _END.startswith(found):
            raise ValueError("a chunk is longer than its chunk size")

    def _check_unfinished(self, line: bytes) -> None:
        """Reject an unfinished line that cannot become a valid one, so that nobody waits for its end."""
        if len(line) >= self._limits.line:
            raise ValueError(f"a line of the body's chunks does not end within {self._limits.line} bytes")
        if b"\n" in line:
            raise ValueError("a line of the body's chunks does not end in CRLF")
        if self._trailers is None and len(line.partition(b";")[0]) > self._limits.digits + len(_END):
            raise ValueError(f"chunk size {line[:20]!r} is too long")

    def _size_in(self, line: bytes) -> int:
        digits = line.partition(b";")[0].rstrip(b" \t")
        if not 0 < len(digits) <= self._limits.digits or not _HEX.issuperset(digits):
            raise ValueError(f"chunk size {line[:20]!r} is not a hexadecimal number")
        return int(digits, 16)
