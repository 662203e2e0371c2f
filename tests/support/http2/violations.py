"""What a server must not say on an HTTP/2 connection (RFC 9113), each behind its settings.

Stream 1 is a request under way, whose answer has not begun; 3 is another, and no more were begun.
"""

from __future__ import annotations

from hpack import Encoder

from scheduler_core.kube.http.http2_connection import MOST_IDLE_FRAMES
from scheduler_core.kube.http.http2_headers import MAX_HEADER_LIST_BYTES

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
ACK, LAST, WHOLE, PADDED, WITH_PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
_ENABLE_PUSH, _WINDOW_SIZE, _FRAME_SIZE = 2, 4, 5
_MANY = MOST_IDLE_FRAMES + 1
_FULL = bytes(1 << 14)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def settings(*pairs: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(name.to_bytes(2, "big") + number(value) for name, value in pairs))


def block(status: object, *others: tuple[str, str]) -> bytes:
    """A header block that stands on its own."""
    encoder = Encoder()
    encoder.header_table_size = 0
    # The coder of Huffman's code takes a second for the longest value.
    short = sum(len(value) for _, value in others) < len(_FULL)
    return encoder.encode([(":status", str(status)), *others], huffman=short)


def head(stream: int, status: int, flags: int = WHOLE) -> bytes:
    return frame(HEADERS, flags, stream, block(status))


def _in_pieces(whole: bytes) -> bytes:
    """A header block on stream 1 in frames that are not too long."""
    size = len(_FULL)
    *parts, last = [whole[start : start + size] for start in range(0, len(whole), size)]
    kinds = [HEADERS, *[CONTINUATION] * len(parts)]
    return b"".join(map(frame, kinds, [0] * len(parts), [1] * len(parts), parts)) + frame(
        kinds[-1], WHOLE, 1, last
    )


_ANSWERED = head(1, 409) + frame(DATA, LAST, 1, b"{}")
_WIDE = (1 << 31) - 1

VIOLATIONS: dict[str, bytes] = {
    "DATA on stream 0": frame(DATA, LAST, 0, b"{}"),
    "HEADERS on stream 0": frame(HEADERS, WHOLE, 0, block(200)),
    "PRIORITY on stream 0": frame(PRIORITY, 0, 0, bytes(5)),
    "RST_STREAM on stream 0": frame(RESET, 0, 0, number(8)),
    "CONTINUATION on stream 0": frame(HEADERS, 0, 1, b"") + frame(CONTINUATION, WHOLE, 0, block(200)),
    "SETTINGS on a stream": frame(SETTINGS, 0, 1),
    "PING on a stream": frame(PING, 0, 1, bytes(8)),
    "GOAWAY on a stream": frame(GOAWAY, 0, 1, bytes(8)),
    "DATA on a stream of the server's": frame(DATA, LAST, 2, b"{}"),
    "HEADERS on a stream of the server's": frame(HEADERS, WHOLE, 2, block(200)),
    "RST_STREAM on a stream of the server's": frame(RESET, 0, 2, number(8)),
    "WINDOW_UPDATE on a stream of the server's": frame(WINDOW, 0, 2, number(1)),
    "DATA on an idle stream": frame(DATA, LAST, 99, b"{}"),
    "HEADERS on an idle stream": head(99, 200),
    "RST_STREAM on an idle stream": frame(RESET, 0, 99, number(8)),
    "WINDOW_UPDATE on an idle stream": frame(WINDOW, 0, 99, number(1)),
    "DATA behind END_STREAM": _ANSWERED + frame(DATA, 0, 1, b"{}"),
    "HEADERS behind END_STREAM": _ANSWERED + head(1, 200),
    "DATA behind a reset of the server's": frame(RESET, 0, 1, number(2)) + frame(DATA, LAST, 1, b"{}"),
    "DATA before HEADERS": frame(DATA, LAST, 1, b"{}"),
    "a second head": head(1, 409) + head(1, 200),
    "a push": frame(PUSH, WHOLE, 1, number(2) + block(200)),
    "SETTINGS of 5 bytes": frame(SETTINGS, 0, 0, bytes(5)),
    "an acknowledgement with SETTINGS": frame(SETTINGS, ACK, 0, bytes(6)),
    "push switched on": settings((_ENABLE_PUSH, 1)),
    "a window of 2^31": settings((_WINDOW_SIZE, 1 << 31)),
    "frames of 2^14 - 1": settings((_FRAME_SIZE, (1 << 14) - 1)),
    "frames of 2^24": settings((_FRAME_SIZE, 1 << 24)),
    "PING of 7 bytes": frame(PING, 0, 0, bytes(7)),
    "PING of 9 bytes": frame(PING, ACK, 0, bytes(9)),
    "PRIORITY of 4 bytes": frame(PRIORITY, 0, 1, bytes(4)),
    "RST_STREAM of 3 bytes": frame(RESET, 0, 1, bytes(3)),
    "RST_STREAM of 5 bytes": frame(RESET, 0, 1, bytes(5)),
    "GOAWAY of 7 bytes": frame(GOAWAY, 0, 0, bytes(7)),
    "GOAWAY that takes more than before": frame(GOAWAY, 0, 0, number(1) + number(0))
    + frame(GOAWAY, 0, 0, number(3) + number(0)),
    "WINDOW_UPDATE of 3 bytes": frame(WINDOW, 0, 0, bytes(3)),
    "WINDOW_UPDATE of 5 bytes": frame(WINDOW, 0, 0, bytes(5)),
    "WINDOW_UPDATE by nothing": frame(WINDOW, 0, 0, number(0)),
    "WINDOW_UPDATE of a stream by nothing": frame(WINDOW, 0, 1, number(0)),
    "a connection's window beyond 2^31 - 1": frame(WINDOW, 0, 0, number(_WIDE)),
    "a stream's window beyond 2^31 - 1": frame(WINDOW, 0, 1, number(_WIDE)),
    "a stream's window beyond it by settings": frame(WINDOW, 0, 1, number(_WIDE - 70_000))
    + settings((_WINDOW_SIZE, 1 << 20)),
    "padding longer than DATA": head(1, 200) + frame(DATA, PADDED, 1, b"\x04abc"),
    "padding longer than HEADERS": frame(HEADERS, WHOLE | PADDED, 1, b"\x01"),
    "padding without its length": head(1, 409) + frame(DATA, PADDED, 1),
    "a priority that is cut off": frame(HEADERS, WHOLE | WITH_PRIORITY, 1, bytes(4)),
    "CONTINUATION of nothing": frame(CONTINUATION, WHOLE, 1, block(200)),
    "CONTINUATION of another stream": frame(HEADERS, 0, 1, b"") + frame(CONTINUATION, WHOLE, 3, block(200)),
    "PING within a head": frame(HEADERS, 0, 1, b"") + frame(PING, 0, 0, bytes(8)),
    "an unknown frame within a head": frame(HEADERS, 0, 1, b"") + frame(250, 0, 0),
    "a head without an end": frame(HEADERS, 0, 1, _FULL) + 4 * frame(CONTINUATION, 0, 1, _FULL),
    "a list of fields beyond all bounds": _in_pieces(block(409, ("x", "a" * MAX_HEADER_LIST_BYTES))),
    "fields that are cut off": frame(HEADERS, WHOLE, 1, b"\x8c\xff\xff"),
    "a frame that is too long": (len(_FULL) + 1).to_bytes(3, "big") + bytes([DATA, 0]) + number(1) + _FULL,
    "an interim answer at the end": head(1, 103, WHOLE | LAST),
    "a flood of SETTINGS": _MANY * settings(),
    "a flood of acknowledgements": _MANY * frame(SETTINGS, ACK, 0),
    "a flood of PING": _MANY * frame(PING, 0, 0, bytes(8)),
    "a flood of PING that nobody asked for": _MANY * frame(PING, ACK, 0, bytes(8)),
    "a flood of RST_STREAM": _MANY * frame(RESET, 0, 1, number(8)),
    "a flood of PRIORITY": _MANY * frame(PRIORITY, 0, 1, bytes(5)),
    "a flood of WINDOW_UPDATE": _MANY * frame(WINDOW, 0, 0, number(1)),
    "a flood of empty DATA": head(1, 409) + _MANY * frame(DATA, 0, 1),
    "a flood of padding": head(1, 409) + _MANY * frame(DATA, PADDED, 1, b"\xc8" + bytes(200)),
    "a flood of empty CONTINUATION": frame(HEADERS, 0, 1, b"") + _MANY * frame(CONTINUATION, 0, 1),
    "a flood of interim answers": _MANY * head(1, 103),
    "a flood of frames that nobody knows": _MANY * frame(250, 0, 0),
}
