"""Clients of the scripted server."""

from __future__ import annotations

from scheduler_core.kube.client import Client
from scheduler_core.kube.credentials import StaticCredentials
from scheduler_core.kube.endpoint import Endpoint
from scheduler_core.kube.session import Credentials, Limits, Session
from tests.support.fault_server import FaultServer

ANYBODY = StaticCredentials()


def client_for(
    server: FaultServer,
    credentials: Credentials = ANYBODY,
    slept: list[float] | None = None,
    **endpoint: object,
) -> Client:
    session = Session(
        Endpoint(server.url, **endpoint),  # type: ignore[arg-type]
        credentials,
        user_agent="muster/test",
        limits=Limits(connect=1.0, read=0.5),
    )
    return Client(session, sleep=(slept if slept is not None else []).append, wall=lambda: 0.0)


def pod(server: FaultServer, name: str = "p") -> str:
    return server.put("pods", "a", name, spec={})["metadata"]["uid"]
