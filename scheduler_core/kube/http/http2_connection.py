"""The client side of an HTTP/2 connection (RFC 9113), without a socket: encodes requests, decodes responses.

It supports small writes only: a request is one HEADERS frame and at most one DATA frame. Larger requests use
HTTP/1.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler_core.kube.http import http2_frames as f
from scheduler_core.kube.http.http2_frames import encode_frame
from scheduler_core.kube.http.http2_headers import (
    MAX_HEADER_LIST_BYTES,
    is_plain_success,
    status_and_retry_after,
)
from scheduler_core.kube.http.response_parser import (
    MAX_BODY,
    SUCCESS,
    ApiResponse,
    ProtocolError,
    RequestNotProcessed,
)

_DEFAULT_WINDOW: Final = (1 << 16) - 1
# Receive windows: of the connection, and of one stream.
_RECEIVE_WINDOW: Final = 1 << 30
STREAM_RECEIVE_WINDOW: Final = MAX_BODY
_REPLENISH: Final = 1 << 20
_SETTINGS: Final = (
    (f.HEADER_TABLE_SIZE, 0),
    (f.ENABLE_PUSH, 0),
    (f.INITIAL_WINDOW, STREAM_RECEIVE_WINDOW),
    (f.MAX_HEADER_LIST_SIZE, MAX_HEADER_LIST_BYTES),
)


class FrameWriter:
    """Frames to send, in order, within the server's flow-control windows.

    `waiting` has the request bodies that wait for a larger window, by stream.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, bytes] = {}
        self._window = _DEFAULT_WINDOW
        self._stream_window = _DEFAULT_WINDOW
        # By stream: the send window, less the size of the body.
        self._windows: dict[int, int] = {}
        self._read = 0
        self._out = [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            encode_frame(f.SETTINGS, 0, 0, b"".join([f.SETTING.pack(*setting) for setting in _SETTINGS])),
            encode_frame(f.WINDOW_UPDATE, 0, 0, (_RECEIVE_WINDOW - _DEFAULT_WINDOW).to_bytes(4, "big")),
        ]

    def data_to_send(self) -> bytes:
        """The bytes to send; each byte is returned once."""
        out = b"".join(self._out)
        self._out.clear()
        return out

    def write(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        self._out.append(encode_frame(kind, flags, stream, payload))

    def fits(self, block: bytes, body: bytes) -> bool:
        """Whether a request needs one frame for its headers and one for its body, and fits the window of its
        stream.
        """
        return len(block) <= f.MAX_FRAME and len(body) <= min(f.MAX_FRAME, self._stream_window)

    def start(self, stream: int, block: bytes, body: bytes) -> None:
        """Start a request that fits. Its body waits where the window is too small, or other bodies wait
        already.
        """
        self._windows[stream] = self._stream_window - len(body)
        if not body:
            self.write(f.HEADERS, f.END_HEADERS | f.END_STREAM, stream, block)
            return
        self.write(f.HEADERS, f.END_HEADERS, stream, block)
        if not self.waiting and len(body) <= self._window:
            self._window -= len(body)
            self.write(f.DATA, f.END_STREAM, stream, body)
        else:
            self.waiting[stream] = body

    def remove(self, stream: int) -> bool:
        """Remove a stream; True if its body was still waiting."""
        self._windows.pop(stream, None)
        return self.waiting.pop(stream, None) is not None

    def oversized(self) -> list[int]:
        """Streams whose waiting bodies are larger than the current initial window."""
        return [stream for stream, body in self.waiting.items() if len(body) > self._stream_window]

    def send_waiting(self) -> None:
        """Send waiting bodies, in order, as far as the connection's window allows."""
        for stream, body in list(self.waiting.items()):
            if len(body) > self._window:
                return
            del self.waiting[stream]
            self._window -= len(body)
            self.write(f.DATA, f.END_STREAM, stream, body)

    def increase_window(self, stream: int, by: int) -> None:
        """Increase the send window of a stream, or of the connection (0). Raises ProtocolError."""
        if stream == 0:
            self._window = _widened(self._window, by)
        elif stream in self._windows:
            self._windows[stream] = _widened(self._windows[stream], by)

    def set_initial_window(self, window: int) -> None:
        """Change the initial window, also of open streams. Raises ProtocolError."""
        change, self._stream_window = window - self._stream_window, window
        self._windows = {stream: _widened(size, change) for stream, size in self._windows.items()}

    def acknowledge(self, size: int) -> None:
        """Count received bytes, and widen the server's window by large steps."""
        self._read += size
        if self._read >= _REPLENISH:
            self.write(f.WINDOW_UPDATE, 0, 0, self._read.to_bytes(4, "big"))
            self._read = 0


def _widened(window: int, by: int) -> int:
    if window + by > f.MAX_WINDOW:
        raise ProtocolError("a window beyond all bounds")
    return window + by


# Concurrent streams; kube-apiserver allows no more by default.
MOST_STREAMS: Final = 100
# Frames between two responses that contribute to no response.
MOST_IDLE_FRAMES: Final = 1000
# DATA frames of at least this size count as progress.
_WORTHWHILE: Final = 256
# Cancelled streams that may still receive frames. Beyond this number the connection is replaced.
_MOST_CANCELLED: Final = 1000

Outcome = ApiResponse | RequestNotProcessed | ConnectionResetError


class _Stream:
    """A response in progress."""

    __slots__ = ("left", "parts", "retry_after", "status")

    def __init__(self) -> None:
        self.status = 0
        self.retry_after: float | None = None
        self.parts: list[bytes] = []
        # Bytes that the server may still send of the body.
        self.left = STREAM_RECEIVE_WINDOW


class Http2Connection:
    """One HTTP/2 connection: `send` and `cancel` requests, write `data_to_send` to the socket, and pass what
    the server sent to `receive_data`.

    After a violation of the protocol `broken` has the error. `draining` is True where no more requests can be
    sent.
    """

    def __init__(self) -> None:
        self._streams: dict[int, _Stream] = {}
        self._next = 1
        self._max_streams = MOST_STREAMS
        self._writer = FrameWriter()
        # Cancelled streams that may still receive frames.
        self._cancelled: set[int] = set()
        self._idle_frames = 0
        self._last_processed = f.LAST_STREAM
        self._ping = 0
        self._ping_outstanding = b""
        self._unparsed = b""
        self._has_settings = False
        self._partial: tuple[int, int, bytes] | None = None
        self._outcomes: list[tuple[int, Outcome]] = []
        self.broken: ProtocolError | None = None
        self.draining = False
        self._handlers: dict[int, Callable[[int, int, bytes], None]] = {
            f.DATA: self._on_data,
            f.HEADERS: self._on_headers,
            f.RST_STREAM: self._on_reset,
            f.SETTINGS: self._on_settings,
            f.PUSH_PROMISE: self._on_push,
            f.PING: self._on_ping,
            f.GOAWAY: self._on_goaway,
            f.WINDOW_UPDATE: self._on_window,
            f.CONTINUATION: self._on_continuation,
        }

    @property
    def capacity(self) -> int:
        """The number of requests that the server accepts now."""
        if self.draining or self._writer.waiting:
            return 0
        return max(0, min(self._max_streams, MOST_STREAMS) - len(self._streams))

    def fits(self, block: bytes, body: bytes) -> bool:
        """Whether this connection can carry the request."""
        return self._writer.fits(block, body)

    def send(self, block: bytes, body: bytes) -> int:
        """Start a request, which fits and for which there is capacity; returns its stream."""
        stream = self._next
        self._next += 2
        self.draining = self.draining or self._next > f.LAST_STREAM
        self._streams[stream] = _Stream()
        self._writer.start(stream, block, body)
        return stream

    def cancel(self, stream: int) -> None:
        """Stop waiting for a response."""
        if self._remove(stream):
            self._reset(stream)
            self._send_waiting()

    def ping(self) -> None:
        """Send a PING."""
        self._ping += 1
        self._ping_outstanding = self._ping.to_bytes(8, "big")
        self._writer.write(f.PING, 0, 0, self._ping_outstanding)

    @property
    def ping_outstanding(self) -> bool:
        """Whether a PING has not been acknowledged."""
        return bool(self._ping_outstanding)

    def drain(self) -> None:
        """Send no more requests; requests in flight are still answered."""
        self.draining = True

    def close(self) -> None:
        """The server closed the connection. A server that sent nothing at all does not support HTTP/2."""
        self.draining = True
        if not self._has_settings:
            self.broken = ProtocolError("the server sent nothing")

    def data_to_send(self) -> bytes:
        """The bytes to send; each byte is returned once."""
        return self._writer.data_to_send()

    def receive_data(self, data: bytes) -> list[tuple[int, Outcome]]:
        """Parse bytes of the server; returns the streams that ended, with their outcomes.

        Raises ProtocolError. Streams that ended before the violation are returned first, and the error is in
        `broken`.
        """
        try:
            if self.broken is None:
                self._parse(data)
                self._send_waiting()
        except ProtocolError as error:
            self.broken = error
        if self.broken is not None and not self._outcomes:
            raise self.broken
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def _parse(self, data: bytes) -> None:
        if self._unparsed:
            data = self._unparsed + data
        at, end = 0, len(data)
        while end - at >= f.FRAME_HEAD.size:
            high, low, kind, flags, stream = f.FRAME_HEAD.unpack_from(data, at)
            start, size = at + f.FRAME_HEAD.size, high << 16 | low
            stream &= f.LAST_STREAM
            if size > f.MAX_FRAME:
                raise ProtocolError(f"a frame of {size} bytes")
            if end - start < size:
                break
            at = start + size
            if not self._has_settings and (kind != f.SETTINGS or flags & f.ACK):
                raise ProtocolError("the first frame of the server is not SETTINGS")
            if self._partial is not None and kind != f.CONTINUATION:
                raise ProtocolError("another frame within a header block")
            f.check(kind, flags, stream, size)
            if kind != f.DATA or size < _WORTHWHILE:
                self._count_idle()
            if (handle := self._handlers.get(kind)) is not None:
                handle(flags, stream, data[start:at])
        self._unparsed = data[at:]

    def _send_waiting(self) -> None:
        """Send waiting bodies; a body that no longer fits the initial window is returned as not processed."""
        if self._writer.waiting:
            for stream in self._writer.oversized():
                self._finish(stream, RequestNotProcessed())
            self._writer.send_waiting()

    def _count_idle(self) -> None:
        """Count a frame that brings no response nearer. Raises ProtocolError for a flood of such frames."""
        self._idle_frames += 1
        if self._idle_frames > MOST_IDLE_FRAMES:
            raise ProtocolError(f"{MOST_IDLE_FRAMES} frames without an answer")

    def _reset(self, stream: int) -> None:
        self._writer.write(f.RST_STREAM, 0, stream, f.CANCEL.to_bytes(4, "big"))
        self._cancelled.add(stream)
        self.draining = self.draining or len(self._cancelled) > _MOST_CANCELLED

    def _check_cancelled(self, stream: int, flags: int) -> None:
        """A frame on a stream that is not open. Raises ProtocolError unless the stream was cancelled."""
        if stream not in self._cancelled:
            raise ProtocolError(f"a frame on stream {stream}, which is not open")
        if flags & f.END_STREAM:
            self._cancelled.discard(stream)

    def _check_opened(self, stream: int) -> None:
        """Raises ProtocolError for a stream that was never opened."""
        if not stream % 2 or stream >= self._next:
            raise ProtocolError(f"a frame on stream {stream}, which was never opened")

    def _remove(self, stream: int) -> bool:
        """Forget a stream; False if it was not open."""
        self._writer.remove(stream)
        return self._streams.pop(stream, None) is not None

    def _finish(self, stream: int, outcome: Outcome) -> None:
        """A request has ended, even if its body was not sent completely."""
        if stream in self._writer.waiting:
            self._reset(stream)
        self._remove(stream)
        self._outcomes.append((stream, outcome))

    def _on_data(self, flags: int, stream: int, payload: bytes) -> None:
        self._writer.acknowledge(len(payload))
        found = self._streams.get(stream)
        content = f.unpadded(flags, payload)
        if found is None:
            self._check_cancelled(stream, flags)
            return
        if not found.status:
            raise ProtocolError("a body without a head")
        found.left -= len(payload)
        if found.left < 0:
            raise ProtocolError(f"an answer of more than {STREAM_RECEIVE_WINDOW} bytes")
        # The body of a success is not used.
        if found.status >= 300:
            found.parts.append(content)
        if flags & f.END_STREAM:
            self._end(stream, found)

    def _on_headers(self, flags: int, stream: int, payload: bytes) -> None:
        block = f.header_block(flags, payload)
        if flags & f.END_HEADERS:
            self._on_header_block(stream, block, flags)
        else:
            self._partial = stream, flags, block

    def _on_continuation(self, flags: int, stream: int, payload: bytes) -> None:
        if self._partial is None or self._partial[0] != stream:
            raise ProtocolError("a CONTINUATION without a HEADERS frame")
        _, first_flags, block = self._partial
        block += payload
        if len(block) > MAX_HEADER_LIST_BYTES:
            raise ProtocolError("the head of an answer is too long")
        self._partial = stream, first_flags, block
        if flags & f.END_HEADERS:
            self._partial = None
            self._on_header_block(stream, block, first_flags)

    def _on_header_block(self, stream: int, block: bytes, flags: int) -> None:
        """A complete header block: of a response, of an interim response (1xx), or trailers."""
        found = self._streams.get(stream)
        if found is None:
            self._check_cancelled(stream, flags)
            return
        if found.status and not flags & f.END_STREAM:
            raise ProtocolError("a second head of an answer")
        if not found.status:
            if is_plain_success(block):
                found.status = SUCCESS.status
            else:
                status, found.retry_after = status_and_retry_after(block)
                found.status = status if status >= 200 else 0
        if flags & f.END_STREAM:
            if not found.status:
                raise ProtocolError("an answer without a status")
            self._end(stream, found)

    def _end(self, stream: int, found: _Stream) -> None:
        self._idle_frames = 0
        answer = SUCCESS
        if found.status >= 300:
            answer = ApiResponse(found.status, found.retry_after, b"".join(found.parts))
        self._finish(stream, answer)

    def _on_reset(self, flags: int, stream: int, payload: bytes) -> None:
        self._check_opened(stream)
        self._cancelled.discard(stream)
        if not self._remove(stream):
            return
        code = int.from_bytes(payload, "big")
        error: Outcome = RequestNotProcessed()
        if code not in (f.REFUSED_STREAM, f.HTTP_1_1_REQUIRED):
            error = ConnectionResetError(f"the server ended the request with HTTP/2 error {code}")
        self._outcomes.append((stream, error))

    def _on_settings(self, flags: int, stream: int, payload: bytes) -> None:
        self._has_settings = True
        if flags & f.ACK:
            return
        for name, value in f.SETTING.iter_unpack(payload):
            f.check_setting(name, value)
            if name == f.MAX_STREAMS:
                self._max_streams = value
            elif name == f.INITIAL_WINDOW:
                self._writer.set_initial_window(value)
        self._writer.write(f.SETTINGS, f.ACK, 0, b"")

    def _on_push(self, flags: int, stream: int, payload: bytes) -> None:
        raise ProtocolError("an unexpected PUSH_PROMISE")

    def _on_ping(self, flags: int, stream: int, payload: bytes) -> None:
        if not flags & f.ACK:
            self._writer.write(f.PING, f.ACK, 0, payload)
        elif payload == self._ping_outstanding:
            self._ping_outstanding = b""

    def _on_goaway(self, flags: int, stream: int, payload: bytes) -> None:
        """The server accepts no more requests; it did not process the streams after the last one it names."""
        self.draining = True
        last = int.from_bytes(payload[:4], "big") & f.LAST_STREAM
        if last > self._last_processed:
            raise ProtocolError("a GOAWAY with a higher stream than the one before it")
        self._last_processed = last
        for number in [number for number in self._streams if number > last]:
            self._remove(number)
            self._cancelled.add(number)
            self._outcomes.append((number, RequestNotProcessed()))

    def _on_window(self, flags: int, stream: int, payload: bytes) -> None:
        added = int.from_bytes(payload, "big") & f.LAST_STREAM
        if not added:
            raise ProtocolError("a WINDOW_UPDATE of 0")
        if stream != 0:
            self._check_opened(stream)
        self._writer.increase_window(stream, added)
