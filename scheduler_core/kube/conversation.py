"""The client's side of one HTTP/2 connection (RFC 9113): requests to bytes, bytes to answers. Pure.

It knows what small writes need: a request is one HEADERS and one DATA frame. What does not fit there is for
another connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler_core.kube import frames as f
from scheduler_core.kube.answers import SUCCESS, Answer, BrokenAnswer, NotBegun
from scheduler_core.kube.fields import MAX_FIELDS, is_plain_success, status_and_retry_after
from scheduler_core.kube.sending import STREAM_RECEIVE_WINDOW, Sending

# Requests under way at once; kube-apiserver takes no more by default.
MOST_STREAMS: Final = 100
# Frames that a server may send from one answer to the next and that bring none nearer.
MOST_IDLE_FRAMES: Final = 1000
# Pieces of a body that are not shorter count as progress.
_WORTHWHILE: Final = 256
# Requests given up whose late answers may still come; beyond that a new connection is better.
_MOST_CANCELLED: Final = 1000

Outcome = Answer | NotBegun | ConnectionResetError


class _Stream:
    """An answer that is on its way."""

    __slots__ = ("left", "parts", "retry_after", "status")

    def __init__(self) -> None:
        self.status = 0
        self.retry_after: float | None = None
        self.parts: list[bytes] = []
        # What the server may still send of the body.
        self.left = STREAM_RECEIVE_WINDOW


class Conversation:
    """`send` requests and `cancel` them, give `take_out` to the server, and `feed` what it says."""

    def __init__(self) -> None:
        self._streams: dict[int, _Stream] = {}
        self._next = 1
        self._most = MOST_STREAMS
        self._sending = Sending()
        # Streams that we gave up, of which frames may still come.
        self._cancelled: set[int] = set()
        self._idle_frames = 0
        self._last_taken = f.LAST_STREAM
        self._ping = 0
        self._ping_due = b""
        self._rest = b""
        self._greeted = False
        self._partial: tuple[int, int, bytes] | None = None
        self._outcomes: list[tuple[int, Outcome]] = []
        self.broken: BrokenAnswer | None = None
        self.retired = False
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
    def room(self) -> int:
        """How many more requests the server takes now."""
        if self.retired or self._sending.waiting:
            return 0
        return max(0, min(self._most, MOST_STREAMS) - len(self._streams))

    def fits(self, block: bytes, body: bytes) -> bool:
        """Whether such a request can be carried here."""
        return self._sending.fits(block, body)

    def send(self, block: bytes, body: bytes) -> int:
        """Begin a request, for which there is room and which fits; the stream that stands for it."""
        stream = self._next
        self._next += 2
        self.retired = self.retired or self._next > f.LAST_STREAM
        self._streams[stream] = _Stream()
        self._sending.begin(stream, block, body)
        return stream

    def cancel(self, stream: int) -> None:
        """Wait no longer for an answer."""
        if self._forget(stream):
            self._reset(stream)
            self._release()

    def ping(self) -> None:
        """Ask the server for a sign of life."""
        self._ping += 1
        self._ping_due = self._ping.to_bytes(8, "big")
        self._sending.say(f.PING, 0, 0, self._ping_due)

    @property
    def ping_due(self) -> bool:
        """Whether the server was asked for a sign of life, and has given none."""
        return bool(self._ping_due)

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
        return self._sending.take_out()

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
        while end - at >= f.FRAME_HEAD.size:
            high, low, kind, flags, stream = f.FRAME_HEAD.unpack_from(data, at)
            start, size = at + f.FRAME_HEAD.size, high << 16 | low
            stream &= f.LAST_STREAM
            if size > f.MAX_FRAME:
                raise BrokenAnswer(f"a frame of {size} bytes")
            if end - start < size:
                break
            at = start + size
            if not self._greeted and (kind != f.SETTINGS or flags & f.ACK):
                raise BrokenAnswer("the server does not begin with its settings")
            if self._partial is not None and kind != f.CONTINUATION:
                raise BrokenAnswer("something in the middle of header fields")
            f.check(kind, flags, stream, size)
            if kind != f.DATA or size < _WORTHWHILE:
                self._count_idle()
            if (handle := self._handlers.get(kind)) is not None:
                handle(flags, stream, data[start:at])
        self._rest = data[at:]

    def _release(self) -> None:
        """Bodies that have waited go, or turn out to be too long for what the server takes now."""
        if self._sending.waiting:
            for stream in self._sending.hopeless():
                self._settle(stream, NotBegun())
            self._sending.release()

    def _count_idle(self) -> None:
        """A flood of frames that cost us more than the server; every answer makes good for some."""
        self._idle_frames += 1
        if self._idle_frames > MOST_IDLE_FRAMES:
            raise BrokenAnswer(f"{MOST_IDLE_FRAMES} frames without an answer")

    def _reset(self, stream: int) -> None:
        self._sending.say(f.RST_STREAM, 0, stream, f.CANCEL.to_bytes(4, "big"))
        self._cancelled.add(stream)
        self.retired = self.retired or len(self._cancelled) > _MOST_CANCELLED

    def _passed(self, stream: int, flags: int) -> None:
        """Something came on a stream that we do not listen to. Raises BrokenAnswer where that may not be."""
        if stream not in self._cancelled:
            raise BrokenAnswer(f"something on stream {stream}, which is not open")
        if flags & f.END_STREAM:
            self._cancelled.discard(stream)

    def _check_begun(self, stream: int) -> None:
        """Raises BrokenAnswer for a stream that was never begun."""
        if not stream % 2 or stream >= self._next:
            raise BrokenAnswer(f"something on stream {stream}, which was never begun")

    def _forget(self, stream: int) -> bool:
        """Nothing more is sent or expected; False if it was so before."""
        self._sending.forget(stream)
        return self._streams.pop(stream, None) is not None

    def _settle(self, stream: int, outcome: Outcome) -> None:
        """A request has ended, even if not all of it was sent."""
        if stream in self._sending.waiting:
            self._reset(stream)
        self._forget(stream)
        self._outcomes.append((stream, outcome))

    def _on_data(self, flags: int, stream: int, payload: bytes) -> None:
        self._sending.note_read(len(payload))
        found = self._streams.get(stream)
        content = f.unpadded(flags, payload)
        if found is None:
            self._passed(stream, flags)
            return
        if not found.status:
            raise BrokenAnswer("a body without a head")
        found.left -= len(payload)
        if found.left < 0:
            raise BrokenAnswer(f"an answer of more than {STREAM_RECEIVE_WINDOW} bytes")
        # Nobody reads what a success says.
        if found.status >= 300:
            found.parts.append(content)
        if flags & f.END_STREAM:
            self._end(stream, found)

    def _on_headers(self, flags: int, stream: int, payload: bytes) -> None:
        block = f.header_block(flags, payload)
        if flags & f.END_HEADERS:
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
        if flags & f.END_HEADERS:
            self._partial = None
            self._fields(stream, block, first_flags)

    def _fields(self, stream: int, block: bytes, flags: int) -> None:
        """A whole header block: of an answer, of one before it (1xx), or behind it."""
        found = self._streams.get(stream)
        if found is None:
            self._passed(stream, flags)
            return
        if found.status and not flags & f.END_STREAM:
            raise BrokenAnswer("a second head of an answer")
        if not found.status:
            if is_plain_success(block):
                found.status = SUCCESS.status
            else:
                status, found.retry_after = status_and_retry_after(block)
                found.status = status if status >= 200 else 0
        if flags & f.END_STREAM:
            if not found.status:
                raise BrokenAnswer("an answer without a status")
            self._end(stream, found)

    def _end(self, stream: int, found: _Stream) -> None:
        self._idle_frames = 0
        answer = SUCCESS
        if found.status >= 300:
            answer = Answer(found.status, found.retry_after, b"".join(found.parts))
        self._settle(stream, answer)

    def _on_reset(self, flags: int, stream: int, payload: bytes) -> None:
        self._check_begun(stream)
        self._cancelled.discard(stream)
        if not self._forget(stream):
            return
        code = int.from_bytes(payload, "big")
        error: Outcome = NotBegun()
        if code not in (f.REFUSED_STREAM, f.HTTP_1_1_REQUIRED):
            error = ConnectionResetError(f"the server ended the request with HTTP/2 error {code}")
        self._outcomes.append((stream, error))

    def _on_settings(self, flags: int, stream: int, payload: bytes) -> None:
        self._greeted = True
        if flags & f.ACK:
            return
        for name, value in f.SETTING.iter_unpack(payload):
            f.check_setting(name, value)
            if name == f.MAX_STREAMS:
                self._most = value
            elif name == f.INITIAL_WINDOW:
                self._sending.resize(value)
        self._sending.say(f.SETTINGS, f.ACK, 0, b"")

    def _on_push(self, flags: int, stream: int, payload: bytes) -> None:
        raise BrokenAnswer("a push that nobody wants")

    def _on_ping(self, flags: int, stream: int, payload: bytes) -> None:
        if not flags & f.ACK:
            self._sending.say(f.PING, f.ACK, 0, payload)
        elif payload == self._ping_due:
            self._ping_due = b""

    def _on_goaway(self, flags: int, stream: int, payload: bytes) -> None:
        """The server takes no more requests, and has done nothing about those behind the last it names."""
        self.retired = True
        last = int.from_bytes(payload[:4], "big") & f.LAST_STREAM
        if last > self._last_taken:
            raise BrokenAnswer("a GOAWAY that takes more than the one before it")
        self._last_taken = last
        for number in [number for number in self._streams if number > last]:
            self._forget(number)
            self._cancelled.add(number)
            self._outcomes.append((number, NotBegun()))

    def _on_window(self, flags: int, stream: int, payload: bytes) -> None:
        added = int.from_bytes(payload, "big") & f.LAST_STREAM
        if not added:
            raise BrokenAnswer("a window that is widened by nothing")
        if stream != 0:
            self._check_begun(stream)
        self._sending.widen(stream, added)
