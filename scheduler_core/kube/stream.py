"""The body of a watch, line by line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from typing import Final

from scheduler_core.kube.breath import Breath
from scheduler_core.kube.chunks import Unchunked
from scheduler_core.kube.connection import Connection
from scheduler_core.kube.response import Response

MAX_LINE: Final = 64 << 20
_CHUNK: Final = 1 << 16
# Where changes come closer after each other, they are waited for together.
_LIVELY: Final = 0.02


class StreamSilent(Exception):
    """Nothing came for the read timeout."""


class StreamCut(Exception):
    """The connection broke in the middle of the stream."""


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
                raise self._broken("the connection ended before the stream did")
            return self._unchunked.feed(raw)
        except TimeoutError:
            raise StreamSilent from None
        except (OSError, HTTPException, ValueError) as error:
            raise self._broken(repr(error)) from None

    def _broken(self, how: str) -> StreamCut | StreamSilent:
        return StreamSilent() if self._connection.given_up else StreamCut(how)

    def abort(self) -> None:
        """End a blocked read of another thread."""
        self._connection.abort()

    def close(self) -> None:
        self._response.close()
        self._connection.close()
