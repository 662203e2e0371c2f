"""HTTP/2 header blocks (HPACK, RFC 7541). Pure.

Requests use no dynamic table, so each block stands alone. Responses use none either, because the client sends
`SETTINGS_HEADER_TABLE_SIZE` 0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hpack import Decoder, HPACKError

from scheduler_core.kube.http.response_parser import ProtocolError, retry_after_seconds

MAX_HEADER_LIST_BYTES = 1 << 16
# Indices of the static table (RFC 7541, appendix A), and the mark of a field that no intermediary may index.
_POST: Final = b"\x83"
_METHOD: Final = b"\x02"
_SCHEME_HTTPS: Final = b"\x87"
_AUTHORITY: Final = b"\x01"
_PATH: Final = b"\x04"
_ACCEPT: Final = b"\x0f\x04"
_CONTENT_LENGTH: Final = b"\x0f\x0d"
_CONTENT_TYPE: Final = b"\x0f\x10"
_NEVER_INDEXED: Final = b"\x10"
# `:status` 200 or 201 as servers encode it, after table size updates to 0. It precedes all other fields (RFC
# 9113, section 8.3).
_SUCCESS: Final = re.compile(rb"\x20*(?:\x88|[\x08-\x0e\x18-\x1e\x48-\x4e](?:\x03201|\x82\x10\x03))")


def encode_string(text: str) -> bytes:
    """A string literal with its length prefix, not Huffman-coded."""
    data = text.encode("latin-1")
    rest = len(data) - 127
    if rest < 0:
        return bytes((len(data),)) + data
    size = bytearray(b"\x7f")
    while rest >= 128:
        size.append(rest % 128 + 128)
        rest //= 128
    size.append(rest)
    return bytes(size) + data


class RequestHeaders:
    """Encoder of the header blocks of requests over TLS; encodes the fields that all requests share once."""

    def __init__(self, authority: str, identity: Sequence[tuple[str, str]]) -> None:
        self._where = _SCHEME_HTTPS + _AUTHORITY + encode_string(authority) + _PATH
        own = [
            _NEVER_INDEXED + encode_string(name.lower()) + encode_string(value) for name, value in identity
        ]
        self._about = _ACCEPT + encode_string("application/json") + b"".join(own)
        self._around: dict[tuple[str, str], tuple[bytes, bytes]] = {}

    def block(self, method: str, path: str, content_type: str, length: int) -> bytes:
        """The header block of a request with a body of `length` bytes."""
        around = self._around.get((method, content_type))
        if around is None:
            verb = _POST if method == "POST" else _METHOD + encode_string(method)
            tail = self._about + _CONTENT_TYPE + encode_string(content_type) + _CONTENT_LENGTH
            around = self._around[method, content_type] = verb + self._where, tail
        return around[0] + encode_string(path) + around[1] + encode_string(str(length))


def is_plain_success(block: bytes) -> bool:
    """Whether a response is 200 or 201, without decoding; False means that the block must be decoded."""
    return _SUCCESS.match(block) is not None


def status_and_retry_after(block: bytes) -> tuple[int, float | None]:
    """The status of a response and its Retry-After in seconds. Raises ProtocolError."""
    decoder = Decoder(max_header_list_size=MAX_HEADER_LIST_BYTES)
    decoder.header_table_size = decoder.max_allowed_table_size = 0
    try:
        # Of repeated fields the first one counts.
        fields = {bytes(name): bytes(value) for name, value in reversed([*decoder.decode(block, raw=True)])}
    except HPACKError as error:
        raise ProtocolError(f"header fields: {error}") from None
    status = fields.get(b":status", b"")
    if not (status.isdigit() and len(status) == 3 and status >= b"100"):
        raise ProtocolError(f"status {status[:20]!r}")
    return int(status), retry_after_seconds(fields.get(b"retry-after", b""))
