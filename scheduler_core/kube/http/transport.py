"""Socket of a connection, with TLS in memory: one read of the socket returns many TLS records.

`ssl.SSLSocket` needs two system calls for every TLS record.
"""

from __future__ import annotations

import io
import select
import socket
import ssl
import time
from contextlib import suppress
from typing import Final

# Bytes of one read of the socket, and of one TLS record.
_CHUNK: Final = 1 << 16
_RECORD: Final = 1 << 14


class Transport:
    """Bytes to and from a server. Not thread-safe, except for `abort`; `wait` sets the timeout of reads and
    writes.

    After `start_tls` the bytes are encrypted on the socket. `sent` counts the bytes that the socket has
    taken; `last_read` is the time of the last byte received, on the monotonic clock.
    """

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw
        self._tls: ssl.SSLObject | None = None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._unsent = memoryview(b"")
        self.sent = 0
        self.last_read = time.monotonic()
        self._left = memoryview(b"")
        self._ended = False
        self._fault: ssl.SSLError | None = None

    def start_tls(self, context: ssl.SSLContext, server_hostname: str) -> None:
        """Complete the TLS handshake. Raises OSError, including ssl.SSLError."""
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
                # The alert tells the server the reason.
                with suppress(OSError):
                    self._raw.sendall(self._outgoing.read())
                raise
        self._raw.sendall(self._outgoing.read())
        self._tls = tls
        # The server may have sent data together with the end of the handshake.
        self._left = memoryview(self._decrypted(tls))

    @property
    def protocol(self) -> str:
        """The protocol negotiated by ALPN, empty if there is none."""
        return (self._tls.selected_alpn_protocol() if self._tls else None) or ""

    def fileno(self) -> int:
        return self._raw.fileno()

    def wait(self, seconds: float | None) -> None:
        """Set the timeout of reads and writes: 0 for none (BlockingIOError), None for no limit."""
        self._raw.settimeout(seconds)

    @property
    def unsent(self) -> int:
        """Written bytes that must still be flushed."""
        return len(self._unsent)

    def write(self, data: bytes) -> None:
        """Send as much as possible without waiting, where the timeout is 0; `flush` sends the rest.

        Raises OSError.
        """
        if self._tls is not None:
            self._tls.write(data)
            data = self._outgoing.read()
        self._push(data)

    def flush(self) -> None:
        """Send unsent bytes, as many as possible now. Raises OSError."""
        while self._unsent:
            try:
                size = self._raw.send(self._unsent)
            except BlockingIOError:
                return
            self.sent += size
            self._unsent = self._unsent[size:]

    def read(self) -> bytes:
        """The available bytes; empty if the server has closed the connection.

        Raises OSError: BlockingIOError or TimeoutError if no byte comes in time.
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
                # Treated as a regular end of TLS: HTTP itself shows whether the response is complete.
                break
            if plain := self._decrypted(self._tls):
                return plain
        return b""

    def has_buffered_data(self) -> bool:
        """True if a read would not use the socket."""
        return len(self._left) > 0 or self._ended or self._fault is not None

    def is_readable(self) -> bool:
        """True if the socket has data to read, or has ended."""
        poll = select.poll()
        poll.register(self._raw, select.POLLIN)
        return bool(poll.poll(0))

    def makefile(self, mode: str) -> io.BufferedReader:
        """A buffered reader of the same bytes, as `http.client` expects from a socket."""
        return io.BufferedReader(_Reader(self))

    def read_into(self, target: memoryview) -> int:
        """Fill at most `target`; the rest is kept for the next read. Raises OSError."""
        data = self.read()
        size = min(len(data), len(target))
        target[:size] = data[:size]
        self._left = memoryview(data)[size:]
        return size

    def abort(self) -> None:
        """End a blocked read of another thread. Thread-safe."""
        with suppress(OSError):
            self._raw.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._raw.close()

    def _push(self, data: bytes) -> None:
        self._unsent = memoryview(bytes(self._unsent) + data) if self._unsent else memoryview(data)
        self.flush()

    def _take(self) -> int:
        """Pass bytes of the socket to TLS; returns their number, 0 at the end."""
        data = self._received()
        self._incoming.write(data)
        return len(data)

    def _received(self) -> bytes:
        data = self._raw.recv(_CHUNK)
        self.last_read = time.monotonic()
        return data

    def _decrypted(self, tls: ssl.SSLObject) -> bytes:
        """The content of the received TLS records. The error of a broken record is raised after the records
        before it were returned.
        """
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
            # Output of TLS itself: a key update, or an alert. If it cannot be sent, the next read has the
            # error.
            with suppress(OSError):
                self._push(self._outgoing.read())
        if self._fault is not None and not parts:
            raise self._fault
        return b"".join(parts)


class _Reader(io.RawIOBase):
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def readable(self) -> bool:
        return True

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        return self._transport.read_into(memoryview(target))
