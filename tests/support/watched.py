"""A reflector at work against the scripted server, and a consumer that checks what it is told."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.kube.auth.credentials import StaticCredentials
from scheduler_core.kube.client import Client
from scheduler_core.kube.http.endpoint import Endpoint
from scheduler_core.kube.http.session import Limits, Session
from scheduler_core.kube.watch.reflector import Reflector, ReflectorOptions
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import PODS
from tests.support.eventually import eventually
from tests.support.faults.server import FaultServer

# Times of production divided by about 40.
QUICK = ReflectorOptions(
    backoff=0.02, backoff_cap=1.0, watch_min=5, watch_max=5, silence=0.3, probe=0.1, brief=0.05, steady=2.0
)
SMALL_PAGES = ReflectorOptions(
    backoff=0.02, backoff_cap=1.0, watch_min=5, watch_max=5, silence=2.0, probe=0.1, brief=0.05, page=10
)
CONVERGED_WITHIN = 30.0


def client_of(server: FaultServer) -> Client:
    return Client(Session(Endpoint(server.url), StaticCredentials(), limits=Limits(connect=5.0, read=3.0)))


class Mirror:
    """A consumer that keeps what it is told and objects to events that make no sense."""

    def __init__(self) -> None:
        self.versions: dict[str, str] = {}
        self.wrong: list[str] = []
        self.log: list[Event] = []
        self.hook: Callable[[Event], None] = lambda event: None

    def take(self, event: Event) -> None:
        self.log.append(event)
        known = event.key in self.versions
        if event.type == "SYNCED":
            pass
        elif event.type == "DELETED":
            if self.versions.pop(event.key, None) is None:
                self.wrong.append(f"DELETED of unknown {event.key}")
        else:
            if known != (event.type == "MODIFIED"):
                self.wrong.append(f"{event.type} of {event.key}, known: {known}")
            self.versions[event.key] = event.obj["metadata"]["resourceVersion"]
        self.hook(event)


def parse(raw: msgspec.Raw) -> Any:
    obj = msgspec.json.decode(raw)
    if "bad" in obj:
        raise ModelError("bad", "may not be set")
    return obj


class Watched:
    """A server with thirty pods, a reflector that follows them, and its consumer."""

    def __init__(self, options: ReflectorOptions = QUICK) -> None:
        self.server = FaultServer()
        for number in range(30):
            self.server.put("pods", "a", f"pod-{number}", value=0)
        self.mirror = Mirror()
        self.malformed: list[ModelError] = []
        self.options = options

    def __enter__(self) -> Watched:
        self.server.start()
        self.client = client_of(self.server)
        self.reflector = Reflector(
            self.client,
            PODS,
            parse,
            self.mirror.take,
            options=self.options,
            on_malformed=self.malformed.append,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.reflector.stop()
        self.server.kill()
        if self.reflector.synced.is_set():
            self.reflector.join(60)
        self.client.session.close()
        assert not self.reflector.alive

    def follow(self) -> None:
        self.reflector.start()
        assert self.reflector.synced.wait(60)
        eventually(lambda: self.reflector.watches, 20, interval=0.005)

    def change(self) -> None:
        """Add, modify and delete."""
        self.server.put("pods", "a", "new", value=1)
        self.server.put("pods", "a", "pod-1", value=random.random())
        self.server.remove("pods", "a", "pod-2")

    def assert_converges(self, within: float = CONVERGED_WITHIN) -> None:
        eventually(lambda: self.mirror.versions == self.server.truth("pods"), within, interval=0.005)
        assert self.mirror.wrong == []
