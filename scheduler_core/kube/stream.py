"""The body of a watch, line by line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from typing import Final

from scheduler_core.kube.breath import Breath
from scheduler_core.kube.connection import Connection
from scheduler_core.kube.response import Response

MAX_LINE: Final = 64 << 20
_CHUNK: Final = 1 << 16
_MAX_SIZE_DIGITS: Final = 16
# Where changes come closer after each other, they are waited for together.
_LIVELY: Final = 0.02


class StreamSilent(Exception):
    """Nothing came for the read timeout."""


class StreamCut(Exception):
    """The connection broke in the middle of the stream."""


class Unchunked:
    """Takes the framing of HTTP/1.1 chunks out of bytes that come in any portions."""

    def __init__(self) -> None:
        self.ended = False
        self._rest = b""
        # Bytes of the present chunk that are to come, with the line end behind them.
        self._due = 0

    def feed(self, data: bytes) -> bytes:
        """What `data` holds of the body; sets `ended` at the last chunk. Raises ValueError."""
        parts: list[bytes] = []
        position = 0
        if self._rest:
            data, self._rest = self._rest + data, b""
        while position < len(data) and not self.ended:
            if not self._due:
                end = data.find(b"\r\n", position)
                if end < 0:
                    self._rest = _unfinished_size(data[position:])
                    break
                size = _size(data[position:end])
                self.ended = size == 0
                self._due = size + 2
                position = end + 2
                continue
            content = max(0, self._due - 2)
            taken = data[position : position + self._due]
            parts.append(taken[:content])
            self._due -= len(taken)
            position += len(taken)
        return b"".join(parts)


def _size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits.isalnum():
        raise ValueError(f"chunk size {line[:20]!r}")
    return int(digits, 16)


def _unfinished_size(line: bytes) -> bytes:
    if len(line.partition(b";")[0]) > _MAX_SIZE_DIGITS:
        raise ValueError(f"chunk size {line[:20]!r}")
    return line


class Stream:
    """The body of a watch, line by line. One thread reads; `abort` may be called from any."""

    def __init__(
        self,
        connection: Connection,
        response: Response,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._connection = connection
        self._response = response
        self._unchunked = Unchunked() if response.chunked else None
        self._monotonic = monotonic
        self._sleep = sleep

    def lines(self) -> Iterator[bytes]:
        """Whole lines until the server ends the stream. Raises StreamSilent, StreamCut."""
        pending = b""
        dry_at, found, breath = 0.0, 0, Breath()
        while (chunk := self._more()) is not None:
            lines = (pending + chunk).split(b"\n") if pending else chunk.split(b"\n")
            pending = lines.pop()
            if len(pending) > MAX_LINE:
                raise StreamCut(f"a line is longer than {MAX_LINE} bytes")
            yield from lines
            found += len(lines)
            if not self._connection.readable():
                if self._monotonic() - dry_at < _LIVELY:
                    self._sleep(breath.after(found))
                dry_at, found = self._monotonic(), 0
        if pending.strip():
            raise StreamCut("the stream ends in the middle of a line")

    def _more(self) -> bytes | None:
        """The next bytes of the body, None at its end."""
        try:
            if self._unchunked is None:
                return self._response.read1(_CHUNK) or None
            if self._unchunked.ended:
                return None
            raw = self._response.fp.read1(_CHUNK)
            if not raw:
                raise StreamCut("the connection ended before the stream did")
            return self._unchunked.feed(raw)
        except TimeoutError:
            raise StreamSilent from None
        except (OSError, HTTPException, ValueError) as error:
            raise StreamCut(repr(error)) from None

    def abort(self) -> None:
        """End a blocked read of another thread."""
        self._connection.abort()

    def close(self) -> None:
        self._response.close()
        self._connection.close()
