"""TLS connections that are kept between requests: a handshake costs both sides more than most requests."""

from __future__ import annotations

import atexit
import select
import ssl
import threading
import time
from collections import deque
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

MOST: Final = 8
# Servers close what is idle for longer than a minute; a request must not meet that.
IDLE_SECONDS: Final = 20.0


@dataclass(frozen=True)
class _Idle:
    """A connection that nobody uses, whose it is, and since when."""

    place: tuple[str, Path]
    link: HTTPSConnection
    since: float

    @property
    def alive(self) -> bool:
        """Whether the server still waits for a request: it says nothing by itself, unless it closes."""
        young = time.monotonic() - self.since < IDLE_SECONDS
        return young and not select.select([self.link.sock], [], [], 0)[0]


class KeptLinks:
    """A few idle connections; a thread that takes one has it for itself until it gives it back."""

    def __init__(self) -> None:
        self._idle: deque[_Idle] = deque()
        self._lock = threading.Lock()

    def take(self, url: str, ca_file: Path, timeout: float) -> HTTPSConnection:
        """An open connection, or a new one that opens itself."""
        while found := self._found((url, ca_file)):
            if found.alive:
                found.link.sock.settimeout(timeout)
                return found.link
            found.link.close()
        place, context = urlsplit(url), ssl.create_default_context(cafile=str(ca_file))
        return HTTPSConnection(place.hostname or "", place.port, timeout=timeout, context=context)

    def give_back(self, url: str, ca_file: Path, link: HTTPSConnection) -> None:
        """Keep a connection whose answer was read to its end."""
        if link.sock is None:  # the server wanted it closed
            return
        with self._lock:
            self._idle.append(_Idle((url, ca_file), link, time.monotonic()))
            oldest = self._idle.popleft() if len(self._idle) > MOST else None
        if oldest:
            oldest.link.close()

    def close(self) -> None:
        """Close all that are idle."""
        with self._lock:
            idle = list(self._idle)
            self._idle.clear()
        for item in idle:
            item.link.close()

    def _found(self, place: tuple[str, Path]) -> _Idle | None:
        """The one that was used last: it is the likeliest to be alive."""
        with self._lock:
            found = next((item for item in reversed(self._idle) if item.place == place), None)
            if found:
                self._idle.remove(found)
            return found


LINKS: Final = KeptLinks()
atexit.register(LINKS.close)
