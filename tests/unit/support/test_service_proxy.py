"""The stand-in for a Service: each client reaches a replica as long as one can be connected to."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.support.clusters.service_proxy import ServiceProxy
from tests.support.stand_in_server import HOST

CLIENTS = 60


@pytest.fixture
def dead() -> int:
    """A port at which nobody listens."""
    with closing(socket.create_server((HOST, 0))) as listener:
        port: int = listener.getsockname()[1]
    return port


@pytest.fixture
def replica() -> Iterator[socket.socket]:
    with closing(socket.create_server((HOST, 0), backlog=CLIENTS * 2)) as listener:
        listener.settimeout(30)
        yield listener


def test_clients_that_come_at_once_all_reach_the_replica_that_is_left(
    dead: int, replica: socket.socket
) -> None:
    """Each tries every port, whatever turn the others have reached meanwhile."""
    with ServiceProxy() as service:
        service.ports += [dead, replica.getsockname()[1]]
        with ExitStack() as opened:
            clients = [
                opened.enter_context(socket.create_connection((HOST, service.port), timeout=30))
                for _ in range(CLIENTS)
            ]
            for _ in clients:
                link, _ = replica.accept()
                with link:
                    link.sendall(b"welcome")
            assert [client.recv(7) for client in clients] == [b"welcome"] * CLIENTS


def test_a_client_is_let_go_where_no_replica_is_left(dead: int) -> None:
    with ServiceProxy() as service:
        service.ports += [dead, dead]
        with socket.create_connection((HOST, service.port), timeout=30) as client:
            assert client.recv(1) == b""
