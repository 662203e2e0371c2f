"""A scripted server and a client of it; `slept` has the waits that the client was asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler_core.kube.client import Client
from tests.support.faults.client import client_for
from tests.support.faults.server import FaultServer
from tests.support.http2.front import Http2Front


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def client(server: FaultServer, slept: list[float]) -> Iterator[Client]:
    made = client_for(server, slept=slept)
    yield made
    made.session.close()


@pytest.fixture
def front(server: FaultServer) -> Iterator[Http2Front]:
    """The scripted server behind TLS and HTTP/2; clients kept to the protocol."""
    with Http2Front(server) as running:
        yield running
    assert running.violations == []
