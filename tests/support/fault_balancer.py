"""A Service in one process: connections to one port, spread over the replicas that are in it at the time."""

from __future__ import annotations

import itertools
import socket
import threading
from contextlib import suppress

from tests.support.fault_listener import HOST

_CHUNK = 1 << 16
_CONNECT_SECONDS = 5.0


class Balancer:
    """`with Balancer() as service:`; `add` and `remove` replicas by port. What is open stays where it is."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._replicas: list[int] = []
        self._turns = itertools.count()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}"

    def __enter__(self) -> Balancer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # A close alone would leave the thread waiting.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def add(self, port: int) -> None:
        with self._lock:
            self._replicas.append(port)

    def remove(self, port: int) -> None:
        with self._lock:
            self._replicas.remove(port)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                port = self._replicas[next(self._turns) % len(self._replicas)]
            try:
                replica = socket.create_connection((HOST, port), _CONNECT_SECONDS)
            except OSError:
                client.close()
                continue
            replica.settimeout(None)
            threading.Thread(target=_join, args=(client, replica), daemon=True).start()


def _join(client: socket.socket, replica: socket.socket) -> None:
    """Let both talk to each other until one of them is done."""
    with client, replica:
        answers = threading.Thread(target=_pump, args=(replica, client), daemon=True)
        answers.start()
        _pump(client, replica)
        answers.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Bytes in one direction, to the end; then both ends are told."""
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
