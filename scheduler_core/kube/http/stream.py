"""The body of a watch, line by line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from typing import Final

from scheduler_core.kube.batching import BatchDelay
from scheduler_core.kube.http.chunks import Unchunked
from scheduler_core.kube.http.connection import Connection
from scheduler_core.kube.http.response import Response

MAX_LINE: Final = 64 << 20
_CHUNK: Final = 1 << 16
# Changes that follow each other more closely than this, in seconds, are collected.
_LIVELY: Final = 0.02


class StreamSilent(Exception):
    """No byte came within the read timeout."""


class StreamCut(Exception):
    """The connection broke in the middle of the stream."""


class StreamWatcher:
    """The body of a watch, line by line. One thread reads; `abort` may be called from any thread."""

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
        """Complete lines until the server ends the stream. Raises StreamSilent, StreamCut."""
        pending = b""
        dry_at, found, batch = 0.0, 0, BatchDelay()
        while (chunk := self._more()) is not None:
            lines = (pending + chunk).split(b"\n") if pending else chunk.split(b"\n")
            pending = lines.pop()
            if len(pending) > MAX_LINE:
                raise StreamCut(f"a line is longer than {MAX_LINE} bytes")
            yield from lines
            found += len(lines)
            if not self._connection.readable():
                if self._monotonic() - dry_at < _LIVELY:
                    self._sleep(batch.after(found))
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
                raise self._broken("the connection ended before the stream did")
            return self._unchunked.feed(raw)
        except TimeoutError:
            raise StreamSilent from None
        except (OSError, HTTPException, ValueError) as error:
            raise self._broken(repr(error)) from None

    def _broken(self, how: str) -> StreamCut | StreamSilent:
        return StreamSilent() if self._connection.declared_dead else StreamCut(how)

    def abort(self) -> None:
        """End a blocked read of another thread."""
        self._connection.abort()

    def close(self) -> None:
        self._response.close()
        self._connection.close()
