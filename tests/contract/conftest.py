"""A scripted server and a client of it; `slept` has the waits that the client was asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler_core.kube.client import Client
from tests.support.fault_client import client_for
from tests.support.fault_server import FaultServer


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
