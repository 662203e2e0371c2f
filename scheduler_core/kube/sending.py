"""What a client says on an HTTP/2 connection, within the windows that the server gives. Pure."""

from __future__ import annotations

from typing import Final

from scheduler_core.kube import frames as f
from scheduler_core.kube.answers import MAX_BODY, BrokenAnswer
from scheduler_core.kube.fields import MAX_FIELDS
from scheduler_core.kube.frames import frame

_DEFAULT_WINDOW: Final = (1 << 16) - 1
# What the server may send without being asked to go on: on the connection, and of one answer.
_RECEIVE_WINDOW: Final = 1 << 30
STREAM_RECEIVE_WINDOW: Final = MAX_BODY
_REPLENISH: Final = 1 << 20
_SETTINGS: Final = (
    (f.HEADER_TABLE_SIZE, 0),
    (f.ENABLE_PUSH, 0),
    (f.INITIAL_WINDOW, STREAM_RECEIVE_WINDOW),
    (f.MAX_HEADER_LIST_SIZE, MAX_FIELDS),
)


class Sending:
    """Frames for the server, in order; `waiting`: bodies that the server has no room for yet, by stream."""

    def __init__(self) -> None:
        self.waiting: dict[int, bytes] = {}
        self._window = _DEFAULT_WINDOW
        self._stream_window = _DEFAULT_WINDOW
        # Of each stream, less the body that was or will be sent.
        self._windows: dict[int, int] = {}
        self._read = 0
        self._out = [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            frame(f.SETTINGS, 0, 0, b"".join([f.SETTING.pack(*setting) for setting in _SETTINGS])),
            frame(f.WINDOW_UPDATE, 0, 0, (_RECEIVE_WINDOW - _DEFAULT_WINDOW).to_bytes(4, "big")),
        ]

    def take_out(self) -> bytes:
        """Bytes that nobody has taken yet."""
        out = b"".join(self._out)
        self._out.clear()
        return out

    def say(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        self._out.append(frame(kind, flags, stream, payload))

    def fits(self, block: bytes, body: bytes) -> bool:
        """Whether a request is one frame for each, and within the window of its stream."""
        return len(block) <= f.MAX_FRAME and len(body) <= min(f.MAX_FRAME, self._stream_window)

    def begin(self, stream: int, block: bytes, body: bytes) -> None:
        """A request that fits; its body waits where the connection has no room, or others wait before it."""
        self._windows[stream] = self._stream_window - len(body)
        if not body:
            self.say(f.HEADERS, f.END_HEADERS | f.END_STREAM, stream, block)
            return
        self.say(f.HEADERS, f.END_HEADERS, stream, block)
        if not self.waiting and len(body) <= self._window:
            self._window -= len(body)
            self.say(f.DATA, f.END_STREAM, stream, body)
        else:
            self.waiting[stream] = body

    def forget(self, stream: int) -> bool:
        """Nothing more is sent; whether a body waited."""
        self._windows.pop(stream, None)
        return self.waiting.pop(stream, None) is not None

    def hopeless(self) -> list[int]:
        """Streams whose bodies wait and are longer than what the server takes by now."""
        return [stream for stream, body in self.waiting.items() if len(body) > self._stream_window]

    def release(self) -> None:
        """Bodies that have waited go, as far as there is room."""
        for stream, body in list(self.waiting.items()):
            if len(body) > self._window:
                return
            del self.waiting[stream]
            self._window -= len(body)
            self.say(f.DATA, f.END_STREAM, stream, body)

    def widen(self, stream: int, by: int) -> None:
        """The server takes more, on a stream or (0) on the connection. Raises BrokenAnswer."""
        if stream == 0:
            self._window = _widened(self._window, by)
        elif stream in self._windows:
            self._windows[stream] = _widened(self._windows[stream], by)

    def resize(self, window: int) -> None:
        """What the server takes of every request, also of those that have begun. Raises BrokenAnswer."""
        change, self._stream_window = window - self._stream_window, window
        self._windows = {stream: _widened(size, change) for stream, size in self._windows.items()}

    def note_read(self, size: int) -> None:
        """So much of the server's window was used; it gets it back, in large portions."""
        self._read += size
        if self._read >= _REPLENISH:
            self.say(f.WINDOW_UPDATE, 0, 0, self._read.to_bytes(4, "big"))
            self._read = 0


def _widened(window: int, by: int) -> int:
    if window + by > f.MAX_WINDOW:
        raise BrokenAnswer("a window beyond all bounds")
    return window + by
