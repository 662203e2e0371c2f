"""Header fields as HTTP/2 carries them (HPACK, RFC 7541). Pure.

Requests name no field by its place in a table that client and server would have to keep in step: every block
stands on its own. Answers do not either, since `SETTINGS_HEADER_TABLE_SIZE` 0 is what the server is told.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hpack import Decoder, HPACKError

from scheduler_core.kube.answers import BrokenAnswer

MAX_FIELDS = 1 << 16
# Fields named by the static table (RFC 7541, appendix A), and those with a name of their own, which nobody on
# the way may keep.
_POST: Final = b"\x83"
_METHOD: Final = b"\x02"
_SCHEME_HTTPS: Final = b"\x87"
_AUTHORITY: Final = b"\x01"
_PATH: Final = b"\x04"
_ACCEPT: Final = b"\x0f\x04"
_CONTENT_LENGTH: Final = b"\x0f\x0d"
_CONTENT_TYPE: Final = b"\x0f\x10"
_NEVER_INDEXED: Final = b"\x10"
# `:status` 200 or 201 as servers write it, after changes of the table's size to 0; it comes before all other
# fields (RFC 9113, section 8.3).
_SUCCESS: Final = re.compile(rb"\x20*(?:\x88|[\x08-\x0e\x18-\x1e\x48-\x4e](?:\x03201|\x82\x10\x03))")


def said(text: str) -> bytes:
    """A string with its length in front, in clear."""
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


class RequestFields:
    """Header blocks of requests over TLS; what all of them say is put together once."""

    def __init__(self, authority: str, identity: Sequence[tuple[str, str]]) -> None:
        self._where = _SCHEME_HTTPS + _AUTHORITY + said(authority) + _PATH
        own = [_NEVER_INDEXED + said(name.lower()) + said(value) for name, value in identity]
        self._about = _ACCEPT + said("application/json") + b"".join(own)
        self._around: dict[tuple[str, str], tuple[bytes, bytes]] = {}

    def block(self, method: str, path: str, content_type: str, length: int) -> bytes:
        """The block of a request with a body of `length` bytes."""
        around = self._around.get((method, content_type))
        if around is None:
            verb = _POST if method == "POST" else _METHOD + said(method)
            tail = self._about + _CONTENT_TYPE + said(content_type) + _CONTENT_LENGTH
            around = self._around[method, content_type] = verb + self._where, tail
        return around[0] + said(path) + around[1] + said(str(length))


def is_plain_success(block: bytes) -> bool:
    """Whether an answer is 200 or 201, told without decoding it; False if that has to be found out."""
    return _SUCCESS.match(block) is not None


def status_and_retry_after(block: bytes) -> tuple[int, float | None]:
    """The status of an answer, and its Retry-After in seconds. Raises BrokenAnswer."""
    decoder = Decoder(max_header_list_size=MAX_FIELDS)
    decoder.header_table_size = decoder.max_allowed_table_size = 0
    try:
        # Of repeated fields the first.
        fields = {bytes(name): bytes(value) for name, value in reversed([*decoder.decode(block, raw=True)])}
    except HPACKError as error:
        raise BrokenAnswer(f"header fields: {error}") from None
    status = fields.get(b":status", b"")
    if not (status.isdigit() and len(status) == 3 and status >= b"100"):
        raise BrokenAnswer(f"status {status[:20]!r}")
    retry_after = fields.get(b"retry-after", b"")
    return int(status), float(retry_after) if retry_after.isdigit() and len(retry_after) < 7 else None
