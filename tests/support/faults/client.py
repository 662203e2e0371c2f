"""Clients of the scripted server."""

from __future__ import annotations

from typing import Protocol

from scheduler_core.kube.auth.credentials import StaticCredentials
from scheduler_core.kube.client import Client
from scheduler_core.kube.http.endpoint import Endpoint
from scheduler_core.kube.http.session import Credentials, Limits, Session
from tests.support.faults.server import FaultServer

ANYBODY = StaticCredentials()
IMPATIENT = Limits(connect=10.0, read=3.0)


class Served(Protocol):
    """Something that listens."""

    @property
    def url(self) -> str: ...


def client_for(
    server: Served,
    credentials: Credentials = ANYBODY,
    slept: list[float] | None = None,
    limits: Limits = IMPATIENT,
    **endpoint: object,
) -> Client:
    session = Session(
        Endpoint(server.url, **endpoint),  # type: ignore[arg-type]
        credentials,
        user_agent="muster/test",
        limits=limits,
    )
    return Client(session, sleep=(slept if slept is not None else []).append, wall=lambda: 0.0)


def pod(server: FaultServer, name: str = "p") -> str:
    return server.put("pods", "a", name, spec={})["metadata"]["uid"]
