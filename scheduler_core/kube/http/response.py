"""HTTP/1.1 response with a fast parser of header fields.

`http.client` parses headers with the e-mail parser, which takes half of the processor time of a small
request. It still reads bodies with a length, and bodies that end with the connection.
"""

from __future__ import annotations

import zlib
from http.client import (
    BadStatusLine,
    HTTPException,
    HTTPResponse,
    IncompleteRead,
    LineTooLong,
    RemoteDisconnected,
)
from typing import BinaryIO

from scheduler_core.kube.http.chunks import Unchunked

_CHUNK = 1 << 16
_MAX_LINE = 1 << 16
_MAX_FIELDS = 200
# No limit on the bytes of a response.
ANY_SIZE = 1 << 62


class ResponseBodyTooLarge(Exception):
    """The body has more bytes than the caller accepts."""


class Response(HTTPResponse):
    """`status`, `fields` (lower-case names; of repeated fields the last), and the body as in HTTPResponse."""

    fields: dict[str, str]

    def begin(self) -> None:
        """Read the head. Raises HTTPException, and RemoteDisconnected (an OSError) if nothing came at all."""
        version, status = _read_status(self.fp)
        fields = _read_fields(self.fp)
        while 100 <= status < 200 and status != 101:
            version, status = _read_status(self.fp)
            fields = _read_fields(self.fp)
        self.fields = fields
        self.code = self.status = status
        self.version = version
        self.chunked = fields.get("transfer-encoding", "").lower() == "chunked"
        self.chunk_left = None
        self.length = self._body_length(fields)
        self.will_close = (
            version < 11
            or "close" in fields.get("connection", "").lower()
            or (self.length is None and not self.chunked)
        )

    def whole(self, most: int) -> bytes:
        """The whole body. Raises ResponseBodyTooLarge beyond `most` bytes; OSError, HTTPException."""
        if not self.chunked:
            if self.length is not None and self.length > most:
                raise ResponseBodyTooLarge
            # Without a Content-Length, only reading on shows whether the body is longer.
            ends = self.length is not None or most == ANY_SIZE
            body = self.read() if ends else self.read(most + 1)
            return _within(body, most)
        unchunked = Unchunked()
        parts: list[bytes] = []
        size = 0
        while not unchunked.ended:
            data = self.fp.read1(_CHUNK)
            if not data:
                raise IncompleteRead(b"".join(parts))
            try:
                parts.append(_within(unchunked.feed(data), most - size))
            except ValueError as error:
                raise HTTPException(str(error)) from None
            size += len(parts[-1])
        self.will_close = self.will_close or bool(unchunked.rest)
        self.close()
        return b"".join(parts)

    def _body_length(self, fields: dict[str, str]) -> int | None:
        """Bytes of the body; None for a chunked body, or a body that ends with the connection."""
        if self.status in (204, 304):
            return 0
        text = fields.get("content-length", "")
        return int(text) if text.isascii() and text.isdigit() and not self.chunked else None


def _within(data: bytes, most: int) -> bytes:
    if len(data) > most:
        raise ResponseBodyTooLarge
    return data


def gunzip(body: bytes, most: int) -> bytes:
    """The content of a body with `Content-Encoding: gzip`. Raises ResponseBodyTooLarge, zlib.error."""
    inflating = zlib.decompressobj(zlib.MAX_WBITS | 16)
    found = _within(inflating.decompress(body, most + 1), most)
    if not inflating.eof:
        raise zlib.error("the compressed answer is not complete")
    return found


def _read_line(stream: BinaryIO) -> bytes:
    line = stream.readline(_MAX_LINE + 1)
    if len(line) > _MAX_LINE:
        raise LineTooLong("header line")
    return line


def _read_status(stream: BinaryIO) -> tuple[int, int]:
    """HTTP version (10 or 11) and status code."""
    line = _read_line(stream)
    if not line:
        raise RemoteDisconnected("the server closed the connection without an answer")
    protocol, _, rest = line.partition(b" ")
    code = rest[:3]
    if not protocol.startswith(b"HTTP/1.") or not code.isdigit() or len(code) < 3:
        raise BadStatusLine(repr(line[:80]))
    return (10 if protocol == b"HTTP/1.0" else 11), int(code)


def _read_fields(stream: BinaryIO) -> dict[str, str]:
    fields: dict[str, str] = {}
    for _ in range(_MAX_FIELDS):
        line = _read_line(stream)
        if line in (b"\r\n", b"\n"):
            return fields
        if not line:
            raise RemoteDisconnected("the connection ended within the head of the answer")
        name, _, value = line.decode("latin-1").partition(":")
        fields[name.strip().lower()] = value.strip()
    raise HTTPException(f"more than {_MAX_FIELDS} header fields")
