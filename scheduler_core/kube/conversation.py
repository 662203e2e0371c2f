"""The client's side of one HTTP/2 connection (RFC 9113): requests to bytes, bytes to answers. Pure.

It knows what small writes need: a request is one HEADERS and one DATA frame. What does not fit there is for
another connection.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from scheduler_core.kube.answers import MAX_BODY, SUCCESS, Answer, BrokenAnswer, NotBegun
from scheduler_core.kube.fields import MAX_FIELDS, is_plain_success, status_and_retry_after

# Requests under way at once; kube-apiserver takes no more by default.
MOST_STREAMS: Final = 100
# The longest frame that every peer takes.
MAX_FRAME: Final = 1 << 14
_LAST_STREAM: Final = (1 << 31) - 1

DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0, 1, 3, 4, 5, 6, 7, 8, 9,
)  # fmt: skip
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
_HEADER_TABLE_SIZE, _ENABLE_PUSH, _MAX_STREAMS, _INITIAL_WINDOW = 1, 2, 3, 4
_REFUSED_STREAM, _CANCEL, _HTTP_1_1_REQUIRED = 0x7, 0x8, 0xD
_FRAME_HEAD: Final = struct.Struct(">BHBBI")
_SETTING: Final = struct.Struct(">HI")
_DEFAULT_WINDOW: Final = (1 << 16) - 1
# What the server may send without being asked to go on: on the connection, and of one answer.
_RECEIVE_WINDOW: Final = 1 << 30
_REPLENISH: Final = 1 << 20

Outcome = Answer | NotBegun | ConnectionResetError


class _Stream:
    """An answer that is on its way."""

    __slots__ = ("parts", "retry_after", "size", "status")

    def __init__(self) -> None:
        self.status = 0
        self.retry_after: float | None = None
        self.parts: list[bytes] = []
        self.size = 0


class Conversation:
    """`send` requests and `cancel` them, give `take_out` to the server, and `feed` what it says."""

    def __init__(self) -> None:
        self._streams: dict[int, _Stream] = {}
        self._next = 1
        self._most = MOST_STREAMS
        self._window = _DEFAULT_WINDOW
        self._stream_window = _DEFAULT_WINDOW
        # Bodies that the server has no room for yet.
        self._held: dict[int, bytes] = {}
        self._unread = 0
        self._rest = b""
        self._greeted = False
        self._partial: tuple[int, int, bytes] | None = None
        self._outcomes: list[tuple[int, Outcome]] = []
        self.broken: BrokenAnswer | None = None
        self.retired = False
        settings = ((_HEADER_TABLE_SIZE, 0), (_ENABLE_PUSH, 0), (_INITIAL_WINDOW, MAX_BODY))
        self._out = [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            _frame(SETTINGS, 0, 0, b"".join([_SETTING.pack(*setting) for setting in settings])),
            _frame(WINDOW_UPDATE, 0, 0, (_RECEIVE_WINDOW - _DEFAULT_WINDOW).to_bytes(4, "big")),
        ]
        self._handlers: dict[int, Callable[[int, int, bytes], None]] = {
            DATA: self._on_data,
            HEADERS: self._on_headers,
            RST_STREAM: self._on_reset,
            SETTINGS: self._on_settings,
            PUSH_PROMISE: self._on_push,
            PING: self._on_ping,
            GOAWAY: self._on_goaway,
            WINDOW_UPDATE: self._on_window,
            CONTINUATION: self._on_continuation,
        }

    @property
    def room(self) -> int:
        """How many more requests the server takes now."""
        if self.retired or self._held:
            return 0
        return max(0, min(self._most, MOST_STREAMS) - len(self._streams))

    def fits(self, block: bytes, body: bytes) -> bool:
        """Whether such a request can be carried here."""
        return len(block) <= MAX_FRAME and len(body) <= min(MAX_FRAME, self._stream_window)

    def send(self, block: bytes, body: bytes) -> int:
        """Begin a request, for which there is room and which fits; the stream that stands for it."""
        stream = self._next
        self._next += 2
        self.retired = self.retired or self._next > _LAST_STREAM
        self._streams[stream] = _Stream()
        if not body:
            self._out.append(_frame(HEADERS, _END_HEADERS | _END_STREAM, stream, block))
            return stream
        self._out.append(_frame(HEADERS, _END_HEADERS, stream, block))
        if not self._held and len(body) <= self._window:
            self._window -= len(body)
            self._out.append(_frame(DATA, _END_STREAM, stream, body))
        else:
            self._held[stream] = body
        return stream

    def cancel(self, stream: int) -> None:
        """Wait no longer for an answer."""
        if self._forget(stream):
            self._reset(stream)
            self._release()

    def retire(self) -> None:
        """No more requests; those that are under way are answered."""
        self.retired = True

    def close(self) -> None:
        """The server has closed the connection; if it never said a word, it does not speak HTTP/2."""
        self.retired = True
        if not self._greeted:
            self.broken = BrokenAnswer("the server said nothing")

    def take_out(self) -> bytes:
        """Bytes for the server that nobody has taken yet."""
        out = b"".join(self._out)
        self._out.clear()
        return out

    def feed(self, data: bytes) -> list[tuple[int, Outcome]]:
        """Streams that have ended with these bytes of the server.

        Raises BrokenAnswer, but what has ended before the fault is told first, and the fault is in `broken`.
        """
        try:
            if self.broken is None:
                self._take(data)
                self._release()
        except BrokenAnswer as error:
            self.broken = error
        if self.broken is not None and not self._outcomes:
            raise self.broken
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def _take(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        while end - at >= _FRAME_HEAD.size:
            high, low, kind, flags, stream = _FRAME_HEAD.unpack_from(data, at)
            start, size = at + _FRAME_HEAD.size, high << 16 | low
            if size > MAX_FRAME:
                raise BrokenAnswer(f"a frame of {size} bytes")
            if end - start < size:
                break
            at = start + size
            if not self._greeted and (kind, flags & _ACK) != (SETTINGS, 0):
                raise BrokenAnswer("the server does not begin with its settings")
            if self._partial is not None and kind != CONTINUATION:
                raise BrokenAnswer("something in the middle of header fields")
            handle = self._handlers.get(kind)
            if handle is not None:
                handle(flags, stream & _LAST_STREAM, data[start:at])
        self._rest = data[at:]

    def _release(self) -> None:
        """Bodies that have waited go, as far as there is room."""
        for stream, body in list(self._held.items()):
            if len(body) > self._stream_window:
                # The server made it smaller in the meantime.
                self._settle(stream, NotBegun())
                continue
            if len(body) > self._window:
                return
            del self._held[stream]
            self._window -= len(body)
            self._out.append(_frame(DATA, _END_STREAM, stream, body))

    def _reset(self, stream: int) -> None:
        self._out.append(_frame(RST_STREAM, 0, stream, _CANCEL.to_bytes(4, "big")))

    def _forget(self, stream: int) -> bool:
        """Nothing more is sent or expected; False if it was so before."""
        self._held.pop(stream, None)
        return self._streams.pop(stream, None) is not None

    def _settle(self, stream: int, outcome: Outcome) -> None:
        """A request has ended, even if not all of it was sent."""
        if stream in self._held:
            self._reset(stream)
        self._forget(stream)
        self._outcomes.append((stream, outcome))

    def _on_data(self, flags: int, stream: int, payload: bytes) -> None:
        self._unread += len(payload)
        if self._unread >= _REPLENISH:
            self._out.append(_frame(WINDOW_UPDATE, 0, 0, self._unread.to_bytes(4, "big")))
            self._unread = 0
        found = self._streams.get(stream)
        if found is None:
            return
        if not found.status:
            raise BrokenAnswer("a body without a head")
        # Nobody reads what a success says.
        if found.status >= 300:
            found.parts.append(_unpadded(flags, payload))
            found.size += len(payload)
            if found.size > MAX_BODY:
                raise BrokenAnswer(f"an answer of more than {MAX_BODY} bytes")
        if flags & _END_STREAM:
            self._end(stream, found)

    def _on_headers(self, flags: int, stream: int, payload: bytes) -> None:
        block = _unpadded(flags, payload)
        if flags & _PRIORITY:
            block = block[5:]
        if flags & _END_HEADERS:
            self._fields(stream, block, flags)
        else:
            self._partial = stream, flags, block

    def _on_continuation(self, flags: int, stream: int, payload: bytes) -> None:
        if self._partial is None or self._partial[0] != stream:
            raise BrokenAnswer("header fields that continue nothing")
        _, first_flags, block = self._partial
        block += payload
        if len(block) > MAX_FIELDS:
            raise BrokenAnswer("the head of an answer is too long")
        self._partial = stream, first_flags, block
        if flags & _END_HEADERS:
            self._partial = None
            self._fields(stream, block, first_flags)

    def _fields(self, stream: int, block: bytes, flags: int) -> None:
        """A whole header block: of an answer, of one before it (1xx), or behind it."""
        found = self._streams.get(stream)
        if found is None:
            return
        if not found.status:
            if is_plain_success(block):
                found.status = SUCCESS.status
            else:
                status, found.retry_after = status_and_retry_after(block)
                found.status = status if status >= 200 else 0
        if flags & _END_STREAM:
            if not found.status:
                raise BrokenAnswer("an answer without a status")
            self._end(stream, found)

    def _end(self, stream: int, found: _Stream) -> None:
        answer = SUCCESS
        if found.status >= 300:
            answer = Answer(found.status, found.retry_after, b"".join(found.parts))
        self._settle(stream, answer)

    def _on_reset(self, flags: int, stream: int, payload: bytes) -> None:
        if not self._forget(stream):
            return
        code = int.from_bytes(payload, "big")
        if code in (_REFUSED_STREAM, _HTTP_1_1_REQUIRED):
            self._outcomes.append((stream, NotBegun()))
        else:
            error = ConnectionResetError(f"the server ended the request with HTTP/2 error {code}")
            self._outcomes.append((stream, error))

    def _on_settings(self, flags: int, stream: int, payload: bytes) -> None:
        self._greeted = True
        if flags & _ACK:
            return
        if len(payload) % _SETTING.size:
            raise BrokenAnswer("settings that are cut off")
        for name, value in _SETTING.iter_unpack(payload):
            if name == _MAX_STREAMS:
                self._most = value
            elif name == _INITIAL_WINDOW:
                self._stream_window = value
        self._out.append(_frame(SETTINGS, _ACK, 0, b""))

    def _on_push(self, flags: int, stream: int, payload: bytes) -> None:
        raise BrokenAnswer("a push that nobody wants")

    def _on_ping(self, flags: int, stream: int, payload: bytes) -> None:
        if not flags & _ACK:
            self._out.append(_frame(PING, _ACK, 0, payload))

    def _on_goaway(self, flags: int, stream: int, payload: bytes) -> None:
        """The server takes no more requests, and has done nothing about those behind the last it names."""
        self.retired = True
        last = int.from_bytes(payload[:4], "big") & _LAST_STREAM
        for number in [number for number in self._streams if number > last]:
            self._forget(number)
            self._outcomes.append((number, NotBegun()))

    def _on_window(self, flags: int, stream: int, payload: bytes) -> None:
        # A stream's own window is never used up: a body is sent at once and fits.
        if stream == 0:
            self._window += int.from_bytes(payload, "big") & _LAST_STREAM


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return _FRAME_HEAD.pack(0, len(payload), kind, flags, stream) + payload


def _unpadded(flags: int, payload: bytes) -> bytes:
    if not flags & _PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise BrokenAnswer("padding longer than its frame")
    return payload[1 : len(payload) - payload[0]]
