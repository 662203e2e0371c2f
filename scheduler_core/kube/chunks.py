"""Chunked bodies of HTTP/1.1 (RFC 9112, section 7.1). Pure."""

from __future__ import annotations

from typing import Final

_MAX_SIZE_DIGITS: Final = 16
# Of a chunk's size with its extensions, or of one trailer.
_MAX_LINE: Final = 1 << 13


class Unchunked:
    """Takes the framing out of bytes that come in any portions.

    `ended`: the whole body was there, with its trailers. `rest`: bytes behind it, from then on.
    """

    def __init__(self) -> None:
        self.ended = False
        self.rest = b""
        # Bytes of the present chunk that are to come, with the line end behind them.
        self._due = 0
        self._trailers = False

    def feed(self, data: bytes) -> bytes:
        """What `data` holds of the body. Raises ValueError."""
        parts: list[bytes] = []
        position = 0
        if self.rest:
            data, self.rest = self.rest + data, b""
        while position < len(data) and not self.ended:
            if self._due:
                content = max(0, self._due - 2)
                taken = data[position : position + self._due]
                parts.append(taken[:content])
                self._due -= len(taken)
                position += len(taken)
                continue
            end = data.find(b"\r\n", position)
            if end < 0:
                break
            self._on_line(data[position:end])
            position = end + 2
        self.rest = data[position:]
        if not self.ended:
            self._check_unfinished()
        return b"".join(parts)

    def _on_line(self, line: bytes) -> None:
        if self._trailers:
            # API servers send none; nobody reads them.
            self.ended = not line
            return
        size = _size(line)
        self._trailers = size == 0
        self._due = size + 2 if size else 0

    def _check_unfinished(self) -> None:
        """A line without an end is not waited for without end."""
        digits = 0 if self._trailers else len(self.rest.partition(b";")[0])
        if digits > _MAX_SIZE_DIGITS or len(self.rest) > _MAX_LINE:
            raise ValueError(f"chunk size {self.rest[:20]!r}")


def _size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits.isalnum() or len(digits) > _MAX_SIZE_DIGITS:
        raise ValueError(f"chunk size {line[:20]!r}")
    return int(digits, 16)
