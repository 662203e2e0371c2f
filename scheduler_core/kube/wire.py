"""A connected socket, with TLS in memory where there is any: one read of the socket takes many records.

A read through `ssl.SSLSocket` asks the system for the head and for the body of every single record.
"""

from __future__ import annotations

import io
import select
import socket
import ssl
import time
from contextlib import suppress
from typing import Final

# A read takes so much of the socket, and so much of one TLS record at most.
_CHUNK: Final = 1 << 16
_RECORD: Final = 1 << 14


class Wire:
    """Bytes to and from a server. Not thread-safe, but for `abort`; reads and writes wait as `wait` says.

    After `secure`, what is read and written is what the TLS in between protects. `sent` counts bytes that the
    socket has taken; `heard` is when it last gave any, on the monotonic clock.
    """

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw
        self._tls: ssl.SSLObject | None = None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._unsent = memoryview(b"")
        self.sent = 0
        self.heard = time.monotonic()
        self._left = memoryview(b"")
        self._ended = False
        self._fault: ssl.SSLError | None = None

    def secure(self, context: ssl.SSLContext, server_hostname: str) -> None:
        """Shake hands. Raises OSError, ssl.SSLError among them."""
        tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_hostname)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._raw.sendall(self._outgoing.read())
                if not self._take():
                    raise ConnectionResetError(
                        "the server closed the connection during the handshake"
                    ) from None
            except ssl.SSLError:
                # The alert tells the server why.
                with suppress(OSError):
                    self._raw.sendall(self._outgoing.read())
                raise
        self._raw.sendall(self._outgoing.read())
        self._tls = tls
        # The server may have said more together with the end of the handshake.
        self._left = memoryview(self._decrypted(tls))

    @property
    def protocol(self) -> str:
        """What was agreed on by ALPN, "" if nothing was."""
        return (self._tls.selected_alpn_protocol() if self._tls else None) or ""

    def fileno(self) -> int:
        return self._raw.fileno()

    def wait(self, seconds: float | None) -> None:
        """From now on reads and writes wait for so long: 0 not at all (BlockingIOError), None for ever."""
        self._raw.settimeout(seconds)

    @property
    def unsent(self) -> int:
        """Bytes of what was written that have still to be flushed."""
        return len(self._unsent)

    def write(self, data: bytes) -> None:
        """Send as much as goes without waiting, where reads do not wait either; the rest is for `flush`.

        Raises OSError.
        """
        if self._tls is not None:
            self._tls.write(data)
            data = self._outgoing.read()
        self._push(data)

    def flush(self) -> None:
        """Send what is unsent, as much as goes now. Raises OSError."""
        while self._unsent:
            try:
                size = self._raw.send(self._unsent)
            except BlockingIOError:
                return
            self.sent += size
            self._unsent = self._unsent[size:]

    def read(self) -> bytes:
        """All that is there, b"" if the server has closed the connection.

        Raises OSError: BlockingIOError or TimeoutError if there is nothing in time.
        """
        if self._left:
            left, self._left = bytes(self._left), memoryview(b"")
            return left
        while not self._ended:
            if self._fault is not None:
                raise self._fault
            if self._tls is None:
                return self._received()
            if not self._take():
                # As good as an end that TLS told: HTTP says of its own whether something misses.
                break
            if plain := self._decrypted(self._tls):
                return plain
        return b""

    def holds_more(self) -> bool:
        """True if a read would not ask the socket."""
        return len(self._left) > 0 or self._ended or self._fault is not None

    def polled(self) -> bool:
        """True if the socket has something to say."""
        poll = select.poll()
        poll.register(self._raw, select.POLLIN)
        return bool(poll.poll(0))

    def makefile(self, mode: str) -> io.BufferedReader:
        """A buffered reader of the same bytes, as `http.client` wants it of a socket."""
        return io.BufferedReader(_Reader(self))

    def read_into(self, target: memoryview) -> int:
        """Fill at most so much; the rest is kept for the next read. Raises OSError."""
        data = self.read()
        size = min(len(data), len(target))
        target[:size] = data[:size]
        self._left = memoryview(data)[size:]
        return size

    def abort(self) -> None:
        """Wake a thread that is reading: its read ends at once. Thread-safe."""
        try:
            self._raw.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        self._raw.close()

    def _push(self, data: bytes) -> None:
        self._unsent = memoryview(bytes(self._unsent) + data) if self._unsent else memoryview(data)
        self.flush()

    def _take(self) -> int:
        """Bytes that came from the socket for TLS; 0 at the end."""
        data = self._received()
        self._incoming.write(data)
        return len(data)

    def _received(self) -> bytes:
        data = self._raw.recv(_CHUNK)
        self.heard = time.monotonic()
        return data

    def _decrypted(self, tls: ssl.SSLObject) -> bytes:
        """What the records that have come hold; of a broken one the fault, once the good ones are told."""
        parts: list[bytes] = []
        try:
            while part := tls.read(_RECORD):
                parts.append(part)
            self._ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._ended = True
        except ssl.SSLError as error:
            self._fault = error
        if self._outgoing.pending:
            # Answers of TLS itself: to new keys, or an alert. If they cannot be sent, the next read says why.
            with suppress(OSError):
                self._push(self._outgoing.read())
        if self._fault is not None and not parts:
            raise self._fault
        return b"".join(parts)


class _Reader(io.RawIOBase):
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def readable(self) -> bool:
        return True

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        return self._wire.read_into(memoryview(target))
