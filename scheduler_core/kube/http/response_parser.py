"""Incremental parser of HTTP/1.1 responses to writes. Pure.

Buffered files and `http.client` take several times the processor time.
"""

from __future__ import annotations

import re
from http.client import HTTPException
from typing import Final, NamedTuple

from scheduler_core.kube.http.chunks import Unchunked

MAX_HEAD = 1 << 16
MAX_BODY = 64 << 20
_MOST_DIGITS: Final = 8
_HEAD_END: Final = b"\r\n\r\n"
_SUCCESS_HEADS: Final = (b"HTTP/1.1 200 ", b"HTTP/1.1 201 ")
# As Go writes it; responses with another spelling are parsed completely.
_LENGTH: Final = b"\r\nContent-Length: "
_FIELDS = re.compile(
    rb"\r\n(content-length|transfer-encoding|connection|retry-after)[ \t]*:([^\r\n]*)", re.IGNORECASE
)


class ApiResponse:
    """A complete response: HTTP status, Retry-After in seconds, body."""

    __slots__ = ("body", "retry_after", "status")

    def __init__(self, status: int, retry_after: float | None, body: bytes) -> None:
        self.status = status
        self.retry_after = retry_after
        self.body = body


# A success without its body, which no caller reads.
SUCCESS: Final = ApiResponse(200, None, b"")


class RequestNotProcessed(Exception):
    """The server did not process a request, which is safe to repeat."""


class ProtocolError(HTTPException):
    """The peer violated HTTP."""


def plain_success(buffer: bytearray) -> int:
    """The size of the first response in `buffer` if it is a complete success and the connection can be used
    again, else 0.

    This check covers nearly all responses of API servers. After 0 the response must be parsed.
    """
    end = buffer.find(_HEAD_END)
    if end < 0 or not buffer.startswith(_SUCCESS_HEADS):
        return 0
    at = buffer.find(_LENGTH, 0, end)
    if at < 0 or buffer[:end].lower().find(b"\r\nconnection:") >= 0:
        return 0
    digits = buffer[at + len(_LENGTH) : buffer.find(b"\r\n", at + 2)]
    if not digits.isdigit() or len(digits) > _MOST_DIGITS:
        return 0
    size = end + len(_HEAD_END) + int(digits)
    return size if len(buffer) >= size else 0


def retry_after_seconds(text: str | bytes) -> float | None:
    """The seconds of a Retry-After. API servers send whole seconds; a date is ignored."""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else None


class ResponseParser:
    """Parses one response from bytes in portions of any size; no bytes may follow it."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: _Head | None = None
        self._chunks: Unchunked | None = None
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> tuple[ApiResponse, bool] | None:
        """The response and whether the connection can be used again; None if it is incomplete. Raises
        ProtocolError.
        """
        buffer = self._buffer
        buffer += data
        head = self._head
        if head is None:
            if size := plain_success(buffer):
                return SUCCESS, size == len(buffer)
            head = self._head = _cut_head(buffer)
            if head is None:
                return None
            self._chunks = Unchunked() if head.chunked else None
        if self._chunks is not None:
            return self._from_chunks(head, self._chunks)
        if head.length is None or len(buffer) < head.length:
            if len(buffer) > MAX_BODY:
                raise ProtocolError(f"an answer of more than {MAX_BODY} bytes")
            return None
        body = bytes(buffer[: head.length])
        return head.answer(body), head.keep and len(buffer) == head.length

    def end(self) -> ApiResponse:
        """The response, where the connection has ended. Raises ConnectionResetError, ProtocolError."""
        head = self._head
        if head is None:
            if not self._buffer:
                raise ConnectionResetError("the server closed the connection without an answer")
            raise ProtocolError("the connection ended within the head of the answer")
        if head.chunked or head.length is not None:
            raise ProtocolError("the connection ended within the answer")
        return head.answer(bytes(self._buffer))

    def _from_chunks(self, head: _Head, chunks: Unchunked) -> tuple[ApiResponse, bool] | None:
        try:
            part = chunks.feed(bytes(self._buffer))
        except ValueError as error:
            raise ProtocolError(str(error)) from None
        self._buffer.clear()
        self._parts.append(part)
        self._size += len(part)
        if self._size > MAX_BODY:
            raise ProtocolError(f"an answer of more than {MAX_BODY} bytes")
        if not chunks.ended:
            return None
        return head.answer(b"".join(self._parts)), head.keep and not chunks.rest


class _Head(NamedTuple):
    """The parts of a head that the parser needs; `length` is None without a Content-Length."""

    status: int
    retry_after: float | None
    keep: bool
    chunked: bool
    length: int | None

    def answer(self, body: bytes) -> ApiResponse:
        return ApiResponse(self.status, self.retry_after, body)


def _cut_head(buffer: bytearray) -> _Head | None:
    """The head of the response, cut from the buffer with interim responses; None if it is incomplete."""
    while True:
        end = buffer.find(_HEAD_END)
        if end < 0:
            if len(buffer) > MAX_HEAD:
                raise ProtocolError("the head of an answer is too long")
            return None
        head = bytes(buffer[:end])
        status = _status(head)
        del buffer[: end + len(_HEAD_END)]
        if status >= 200:
            break
    fields = _fields(head)
    keep = head.startswith(b"HTTP/1.1") and b"close" not in fields.get(b"connection", b"").lower()
    retry_after = retry_after_seconds(fields.get(b"retry-after", b""))
    chunked = fields.get(b"transfer-encoding", b"").lower() == b"chunked"
    return _Head(status, retry_after, keep, chunked, None if chunked else _length(status, fields))


def _length(status: int, fields: dict[bytes, bytes]) -> int | None:
    if status in (204, 304):
        return 0
    length = fields.get(b"content-length", b"")
    if length and (not length.isdigit() or len(length) > _MOST_DIGITS or int(length) > MAX_BODY):
        raise ProtocolError(f"Content-Length {length[:20]!r}")
    return int(length) if length else None


def _status(head: bytes) -> int:
    code = head[9:12]
    if not head.startswith(b"HTTP/1.") or not code.isdigit() or len(code) < 3:
        raise ProtocolError(f"not an HTTP answer: {head[:80]!r}")
    return int(code)


def _fields(head: bytes) -> dict[bytes, bytes]:
    """The header fields that the parser needs, by lower-case name."""
    return {name.lower(): value.strip() for name, value in _FIELDS.findall(head)}
