"""A real HTTP server that plays an extender, honest or not: what it does with a call is a test's choice."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.support.stand_in_server import StandInHandler, StandInServer

# What a call is answered: something for JSON, bytes as they are, or a function that speaks for itself.
Act = Callable[["Handler", Any], Any]


class Handler(StandInHandler):
    """One call. `hold` waits until the test ends; nobody waits for longer."""

    protocol_version = "HTTP/1.0"
    server: ExtenderServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        verb = self.path.rpartition("/")[2]
        self.server.calls.append((self.path, body))
        act = self.server.acts.get(verb)
        with suppress(OSError):
            said = act(self, body) if act is not None else None
            if act is None:
                self.send_error(404)
            elif said is not None:
                self.say(said if isinstance(said, bytes) else json.dumps(said).encode())

    def say(self, text: bytes, status: int = 200) -> None:
        self.answer(status, text)

    def hold(self, seconds: float | None = None) -> bool:
        return self.server.ended.wait(30.0 if seconds is None else seconds)


class ExtenderServer(StandInServer):
    """`acts` by verb, `calls` as (path, body) in their order; `url` is its urlPrefix."""

    def __init__(self, context: ssl.SSLContext | None = None, **acts: Act) -> None:
        super().__init__(Handler)
        self.acts: dict[str, Act] = acts
        self.calls: list[tuple[str, Any]] = []
        self.ended = threading.Event()
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        scheme = "https" if context is not None else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}/base"

    def handle_error(self, request: Any, client_address: Any) -> None:
        return


@contextmanager
def extender_server(context: ssl.SSLContext | None = None, **acts: Act) -> Iterator[ExtenderServer]:
    with ExtenderServer(context, **acts) as server:
        server.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()


def names_in(body: Any) -> list[str]:
    """The nodes that a call is about, however they were sent."""
    if body["NodeNames"] is not None:
        return list(body["NodeNames"])
    return [node["metadata"]["name"] for node in body["Nodes"]["items"]]
