"""HTTP/2 frames (RFC 9113, sections 4 and 6): numbers, encoding and validity. Pure."""

from __future__ import annotations

import struct
from typing import Final

from scheduler_core.kube.http.response_parser import ProtocolError

# The frame size that every peer accepts.
MAX_FRAME: Final = 1 << 14
LAST_STREAM: Final = (1 << 31) - 1
MAX_WINDOW: Final = (1 << 31) - 1

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_STREAMS, INITIAL_WINDOW, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = range(
    1, 7
)
REFUSED_STREAM, CANCEL, HTTP_1_1_REQUIRED = 0x7, 0x8, 0xD
FRAME_HEAD: Final = struct.Struct(">BHBBI")
SETTING: Final = struct.Struct(">HI")
_PRIORITY_SIZE: Final = 5
_GOAWAY_SIZE: Final = 8
_OF_STREAMS: Final = frozenset((DATA, HEADERS, PRIORITY, RST_STREAM, PUSH_PROMISE, CONTINUATION))
_OF_CONNECTION: Final = frozenset((SETTINGS, PING, GOAWAY))
_SIZES: Final = {PRIORITY: _PRIORITY_SIZE, RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}
_FRAME_SIZES: Final = range(MAX_FRAME, 1 << 24)


def encode_frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """The bytes of a frame."""
    return FRAME_HEAD.pack(0, len(payload), kind, flags, stream) + payload


def check(kind: int, flags: int, stream: int, size: int) -> None:
    """Raises ProtocolError for a frame on the wrong stream, or of a size that its type does not allow."""
    if kind in _OF_STREAMS if stream == 0 else kind in _OF_CONNECTION:
        raise ProtocolError(f"a frame of type {kind} on stream {stream}")
    wanted = _SIZES.get(kind)
    if wanted is not None and size != wanted:
        raise ProtocolError(f"a frame of type {kind} with {size} bytes instead of {wanted}")
    if kind == GOAWAY and size < _GOAWAY_SIZE:
        raise ProtocolError("a GOAWAY that is cut off")
    if kind == SETTINGS and (size if flags & ACK else size % SETTING.size):
        raise ProtocolError(f"settings of {size} bytes")


def check_setting(name: int, value: int) -> None:
    """Raises ProtocolError for a value that a server must not send."""
    if (
        (name == ENABLE_PUSH and value)
        or (name == INITIAL_WINDOW and value > MAX_WINDOW)
        or (name == MAX_FRAME_SIZE and value not in _FRAME_SIZES)
    ):
        raise ProtocolError(f"setting {name} is {value}")


def unpadded(flags: int, payload: bytes) -> bytes:
    """The payload without its padding. Raises ProtocolError."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise ProtocolError("padding longer than its frame")
    return payload[1 : len(payload) - payload[0]]


def header_block(flags: int, payload: bytes) -> bytes:
    """The part of a header block in a HEADERS frame. Raises ProtocolError."""
    block = unpadded(flags, payload)
    if not flags & WITH_PRIORITY:
        return block
    if len(block) < _PRIORITY_SIZE:
        raise ProtocolError("a priority that is cut off")
    return block[_PRIORITY_SIZE:]
