"""Reads request bodies in bounded memory and time, on any WSGI server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from scheduler_core.serving.stream import RequestUnreadable

MAX_BODY: Final = 7 << 20
# Larger bodies, up to this size, are read and dropped, so that the client reads the response. API servers
# accept requests of 3 MiB, store 1.5 MB of an object, and write each character in six bytes at most.
MAX_TAKEN: Final = 24 << 20
READ_SECONDS: Final = 3.0
# All bodies together, while they are read and judged; a typical review has a few KiB.
MAX_BODIES: Final = 64 << 20
# Of each body, not counted: typical reviews are answered however many large ones there are.
FREE_BYTES: Final = 64 << 10
HEAD_BYTES: Final = 1 << 10
_STEP: Final = 1 << 15


class Readable(Protocol):
    """A WSGI input."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; empty at the end."""


class BodyTooLarge(Exception):
    """The body has more than MAX_BODY bytes. `head` is its beginning if all of it was read, else empty."""

    def __init__(self, head: bytes = b"") -> None:
        self.head = head
        super().__init__()


class TooManyBodies(Exception):
    """Other bodies take up all the memory for bodies. `head` is the beginning of this one."""

    def __init__(self, head: bytes = b"") -> None:
        self.head = head
        super().__init__()


class BodyMemory:
    """Limits the bytes that all requests hold together; the first `free` bytes of each are not counted.

    `left`: the bytes that nobody holds. Thread-safe.
    """

    def __init__(self, limit: int = MAX_BODIES, free: int = FREE_BYTES) -> None:
        self.left = limit
        self._free = free
        self._lock = threading.Lock()

    @contextmanager
    def claims(self) -> Iterator[Callable[[int], None]]:
        """A function that claims a number of bytes or raises TooManyBodies; all are released at the end."""
        claimed, free = 0, self._free

        def claim(size: int) -> None:
            nonlocal claimed, free
            size, free = max(0, size - free), max(0, free - size)
            with self._lock:
                if size > self.left:
                    raise TooManyBodies
                self.left -= size
            claimed += size

        try:
            yield claim
        finally:
            with self._lock:
                self.left += claimed


def read_body(
    stream: Readable,
    length: int | None,
    claim: Callable[[int], None] = lambda size: None,
    seconds: float = READ_SECONDS,
    monotonic: Callable[[], float] = time.monotonic,
) -> bytes:
    """The whole body. `claim` is called with the size of every part before the next one is read.

    Raises BodyTooLarge, RequestUnreadable and TooManyBodies. A body that is too large, or for which there is
    no memory, is first read to its end and dropped, up to MAX_TAKEN, so that the client reads the response.
    """
    if length is not None and length > MAX_TAKEN:
        raise BodyTooLarge
    deadline = monotonic() + seconds
    parts: list[bytes] = []
    size, head = 0, b""
    refused: type[BodyTooLarge | TooManyBodies] | None = None
    while True:
        part = _read(stream)
        if not part:
            if refused is not None:
                raise refused(head)
            return b"".join(parts)
        size += len(part)
        if size > MAX_TAKEN:
            raise BodyTooLarge
        if monotonic() > deadline:
            raise RequestUnreadable("the body did not come in time")
        head += part[: HEAD_BYTES - len(head)]
        if refused is not None:
            continue
        try:
            if max(size, length or 0) > MAX_BODY:
                raise BodyTooLarge
            claim(len(part))
            parts.append(part)
        except (BodyTooLarge, TooManyBodies) as error:
            refused = type(error)
            parts.clear()


def _read(stream: Readable) -> bytes:
    try:
        return stream.read(_STEP)
    except (BodyTooLarge, RequestUnreadable, MemoryError):
        raise
    except TimeoutError:
        raise RequestUnreadable("the body did not come in time") from None
    except Exception as error:
        # Each server has its own errors for this; only the text tells an oversized chunk.
        if "too large" in str(error).lower():
            raise BodyTooLarge from None
        raise RequestUnreadable("the body's transfer encoding is broken") from None
