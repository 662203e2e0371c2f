"""Both ends of a socket pair: a wire on one, a peer that says just what it is told to on the other."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache

import trustme

from scheduler_core.kube.http.transport import Transport

PLAIN, TLS_2, TLS_3 = "plain", "TLS 1.2", "TLS 1.3"
SECURE = (TLS_2, TLS_3)
VERSIONS = {TLS_2: ssl.TLSVersion.TLSv1_2, TLS_3: ssl.TLSVersion.TLSv1_3}
NAME = "localhost"
SECONDS = 10.0
CHUNK = 1 << 16
# Both threads use it: made when it is first asked for, it might be made twice.
AUTHORITY = trustme.CA()


class Peer:
    """The server's end. Nothing waits for long, and what is said goes out in one piece."""

    def __init__(self, raw: socket.socket) -> None:
        self.raw = raw
        raw.settimeout(SECONDS)
        self.received = 0
        self._tls: ssl.SSLObject | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()

    def start_tls(self, version: str, *greeting: bytes) -> None:
        """Shake hands, and say this together with the end of it.

        Raises ssl.SSLError with what the client says against it.
        """
        tls = server_context(version).wrap_bio(self._incoming, self._outgoing, server_side=True)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.raw.sendall(self._outgoing.read())
                self._incoming.write(self.raw.recv(CHUNK))
        for part in greeting:
            tls.write(part)
        self.raw.sendall(self._outgoing.read())
        self._tls = tls

    def encoded(self, *parts: bytes) -> bytes:
        """As these go over the socket, one record or more for each."""
        if self._tls is None:
            return b"".join(parts)
        for part in parts:
            self._tls.write(part)
        return self._outgoing.read()

    def say(self, *parts: bytes) -> None:
        self.raw.sendall(self.encoded(*parts))

    def say_farewell(self) -> None:
        """Close as TLS wants it."""
        assert self._tls is not None
        with suppress(ssl.SSLWantReadError):
            self._tls.unwrap()
        self.raw.sendall(self._outgoing.read())

    def hear(self) -> bytes:
        """What has arrived, without waiting."""
        data = b""
        self.raw.setblocking(False)
        with suppress(BlockingIOError):
            while part := self.raw.recv(CHUNK):
                data += part
        self.raw.settimeout(SECONDS)
        self.received += len(data)
        if self._tls is None:
            return data
        self._incoming.write(data)
        plain = b""
        with suppress(ssl.SSLWantReadError):
            while part := self._tls.read(CHUNK):
                plain += part
        return plain


@cache
def server_context(version: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = VERSIONS[version]
    context.set_alpn_protocols(["second", "third"])
    AUTHORITY.issue_cert(NAME).configure_cert(context)
    return context


def client_context(*protocols: str, trusting: bool = True) -> ssl.SSLContext:
    # The authorities of the system, which nobody here trusts, take longer to read than a handshake.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if trusting:
        AUTHORITY.configure_trust(context)
    context.set_alpn_protocols(list(protocols))
    return context


@contextmanager
def ends() -> Iterator[tuple[Transport, Peer]]:
    near, far = socket.socketpair()
    with near, far:
        transport = Transport(near)
        transport.wait(SECONDS)
        yield transport, Peer(far)


@contextmanager
def meanwhile(peer: Peer, version: str, *greeting: bytes) -> Iterator[Future[None]]:
    """The peer shakes hands on another thread."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(peer.start_tls, version, *greeting)


@contextmanager
def connected(way: str, *greeting: bytes) -> Iterator[tuple[Transport, Peer]]:
    with ends() as (transport, peer):
        if way != PLAIN:
            with meanwhile(peer, way, *greeting) as shaken:
                transport.start_tls(client_context(), NAME)
            shaken.result()
        yield transport, peer
