"""A relay of bare bytes that can lose its connections in silence: nothing passes, nobody is told."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from tests.support.clusters.server import Server, write_kubeconfig
from tests.support.stand_in_server import HOST

_CHUNK = 1 << 16


class Relay:
    """`with Relay(port) as relay:` passes on what comes to `relay.port`, until `swallow`.

    The system goes on to acknowledge every byte, so that TCP notices nothing: as behind a load balancer
    whose other side has gone.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server((HOST, 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"https://{HOST}:{self.port}"
        self._lock = threading.Lock()
        self._pairs: list[_Pair] = []
        self._silent_from_the_start = 0
        # Bytes that were swallowed.
        self.lost_bytes = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Listen no more, and break what is open."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            pair.close()

    @property
    def connections(self) -> int:
        """How many there were."""
        with self._lock:
            return len(self._pairs)

    def swallow(self) -> int:
        """From now on the connections that are open carry nothing any more; how many. New ones are well."""
        with self._lock:
            pairs = [pair for pair in self._pairs if not (pair.silent or pair.closed)]
            for pair in pairs:
                pair.silent = True
        return len(pairs)

    def swallow_next(self) -> None:
        """The next connection carries nothing, not even a TLS handshake."""
        with self._lock:
            self._silent_from_the_start += 1

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection((HOST, self._target))
            except OSError:
                near.close()
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = _Pair(self, near, far)
            with self._lock:
                pair.silent = self._silent_from_the_start > 0
                self._silent_from_the_start -= pair.silent
                self._pairs.append(pair)
            pair.start()


class ServerRelay(Relay):
    """A relay to a server on loopback; the attributes of `Server` lead through it."""

    def __init__(self, server: Server, kubeconfig: Path) -> None:
        super().__init__(urlsplit(server.url).port or 0)
        self.token, self.ca_file, self.kubeconfig = server.token, server.ca_file, kubeconfig
        write_kubeconfig(kubeconfig, self.url, self.ca_file, self.token)


class _Pair:
    def __init__(self, relay: Relay, near: socket.socket, far: socket.socket) -> None:
        self.relay = relay
        self.near, self.far = near, far
        self.silent = self.closed = False

    def start(self) -> None:
        for source, target in ((self.near, self.far), (self.far, self.near)):
            threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def close(self) -> None:
        self.closed = True
        for end in (self.near, self.far):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(_CHUNK):
                if self.silent:
                    self.relay.lost_bytes += len(data)
                else:
                    target.sendall(data)
        except OSError:
            pass
        if not self.silent:
            self.close()
