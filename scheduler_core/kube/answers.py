"""Answers from a growing buffer: the least of HTTP/1.1 that an API server says to a write. Pure.

Reading the same through buffered files and `http.client` costs several times the processor time.
"""

from __future__ import annotations

import re
from http.client import HTTPException
from typing import Final

MAX_HEAD = 1 << 16
MAX_BODY = 64 << 20
_MOST_DIGITS: Final = 8
_HEAD_END: Final = b"\r\n\r\n"
_SUCCESS_HEADS: Final = (b"HTTP/1.1 200 ", b"HTTP/1.1 201 ")
# As Go spells it; other spellings take the long way.
_LENGTH: Final = b"\r\nContent-Length: "
_FIELDS = re.compile(
    rb"\r\n(content-length|transfer-encoding|connection|retry-after)[ \t]*:([^\r\n]*)", re.IGNORECASE
)


class Answer:
    """A complete answer: HTTP status, Retry-After in seconds, body."""

    __slots__ = ("body", "retry_after", "status")

    def __init__(self, status: int, retry_after: float | None, body: bytes) -> None:
        self.status = status
        self.retry_after = retry_after
        self.body = body


# Whose body nobody reads.
SUCCESS: Final = Answer(200, None, b"")


class NotBegun(Exception):
    """The server has done nothing about a request, which is safe to repeat."""


class BrokenAnswer(HTTPException):
    """Bytes that are no answer."""


def plain_success(buffer: bytearray) -> int:
    """Bytes of the first answer in `buffer` if it is a whole success and its connection stays usable, else 0.

    This is a look at what API servers nearly always send, without taking it apart; where it says 0,
    `read_answer` has to find out.
    """
    end = buffer.find(_HEAD_END)
    if end < 0 or not buffer.startswith(_SUCCESS_HEADS):
        return 0
    at = buffer.find(_LENGTH, 0, end)
    if at < 0 or buffer.find(b"\r\nConnection:", 0, end) >= 0:
        return 0
    digits = buffer[at + len(_LENGTH) : buffer.find(b"\r\n", at + 2)]
    if not digits.isdigit() or len(digits) > _MOST_DIGITS:
        return 0
    size = end + len(_HEAD_END) + int(digits)
    return size if len(buffer) >= size else 0


def read_answer(buffer: bytearray, *, ended: bool = False) -> tuple[Answer, bool] | None:
    """The first answer in `buffer` and whether its connection can be used again; None if bytes miss.

    `ended` says that the server has closed the connection, so that nothing more comes. The answer and those
    of the 100 class before it are cut from the buffer. Raises BrokenAnswer.
    """
    while True:
        end = buffer.find(_HEAD_END)
        if end < 0:
            if len(buffer) > MAX_HEAD:
                raise BrokenAnswer("the head of an answer is too long")
            if ended:
                raise BrokenAnswer("the connection ended within the head of the answer")
            return None
        head = bytes(buffer[:end])
        status = _status(head)
        if status >= 200:
            break
        del buffer[: end + 4]
    fields = _fields(head)
    keep = head.startswith(b"HTTP/1.1") and b"close" not in fields.get(b"connection", b"").lower()
    body = _body(buffer, end + 4, status, fields, ended)
    if body is None:
        return None
    content, size, sized = body
    del buffer[:size]
    text = fields.get(b"retry-after", b"")
    retry_after = float(text) if text.isdigit() and len(text) < 7 else None
    return Answer(status, retry_after, content), keep and sized and not ended


def _status(head: bytes) -> int:
    code = head[9:12]
    if not head.startswith(b"HTTP/1.") or not code.isdigit() or len(code) < 3:
        raise BrokenAnswer(f"not an HTTP answer: {head[:80]!r}")
    return int(code)


def _fields(head: bytes) -> dict[bytes, bytes]:
    """The header fields that matter here, by lower-case name."""
    return {name.lower(): value.strip() for name, value in _FIELDS.findall(head)}


def _body(
    buffer: bytearray, start: int, status: int, fields: dict[bytes, bytes], ended: bool
) -> tuple[bytes, int, bool] | None:
    """The body, where it ends in `buffer`, and whether its length was told; None if bytes miss."""
    if status in (204, 304):
        return b"", start, True
    if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
        found = _chunks(buffer, start)
        if found is None and ended:
            raise BrokenAnswer("the connection ended within the answer")
        return None if found is None else (*found, True)
    length = fields.get(b"content-length", b"")
    if not length:
        return (bytes(buffer[start:]), len(buffer), False) if ended else None
    if not length.isdigit() or int(length) > MAX_BODY:
        raise BrokenAnswer(f"Content-Length {length[:20]!r}")
    size = int(length)
    if len(buffer) - start < size:
        if ended:
            raise BrokenAnswer("the connection ended within the answer")
        return None
    return bytes(buffer[start : start + size]), start + size, True


def _chunks(buffer: bytearray, position: int) -> tuple[bytes, int] | None:
    """The chunks from `position` put together, and where they end; None if bytes miss."""
    parts: list[bytes] = []
    while True:
        line_end = buffer.find(b"\r\n", position)
        if line_end < 0:
            return None
        digits = bytes(buffer[position:line_end]).partition(b";")[0].strip()
        try:
            size = int(digits, 16)
        except ValueError:
            raise BrokenAnswer(f"chunk size {digits[:20]!r}") from None
        if not 0 <= size <= MAX_BODY:
            raise BrokenAnswer(f"chunk size {digits[:20]!r}")
        position = line_end + 2
        if size == 0:
            # Trailers end with an empty line; API servers send none.
            end = buffer.find(b"\r\n", position)
            return (b"".join(parts), end + 2) if end >= 0 else None
        if len(buffer) < position + size + 2:
            return None
        parts.append(bytes(buffer[position : position + size]))
        position += size + 2
