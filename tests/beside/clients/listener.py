"""A small server, with TLS and without: it keeps what says who asks."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sandbox.certificates import write_certificates
from sandbox.objects import now
from tests.support.stand_in_server import HOST, StandInHandler, StandInServer

_PREFIX: Final = "impersonate-"


@dataclass(slots=True)
class Listener:
    """Both servers. `heard` has the headers of requests that say who asks; its reader empties it."""

    folder: Path
    secure: str = ""
    plain: str = ""
    heard: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def authority(self) -> Path:
        """The PEM file of the authority that signed the server's certificate, which is a client's, too."""
        return self.folder / "ca.crt"


@contextmanager
def listening(folder: Path) -> Iterator[Listener]:
    """A listener whose certificates are in the folder: ca.crt, server.crt, server.key."""
    files = write_certificates(folder, now())
    listener = Listener(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    with StandInServer(_handler(listener)) as plain, StandInServer(_handler(listener)) as secure:
        secure.socket = context.wrap_socket(secure.socket, server_side=True)
        listener.plain = f"http://{HOST}:{plain.port}"
        listener.secure = f"https://{HOST}:{secure.port}"
        for server in (plain, secure):
            server.start()
        try:
            yield listener
        finally:
            for server in (plain, secure):
                server.shutdown()


def _handler(listener: Listener) -> type[StandInHandler]:
    class Handler(StandInHandler):
        def do_GET(self) -> None:
            said = [
                f"{name.lower()}: {value}"
                for name, value in self.headers.items()
                if name.lower() == "authorization" or name.lower().startswith(_PREFIX)
            ]
            # How long the server may take says nothing about who asks.
            listener.heard.append((self.path.partition("?")[0], *sorted(said)))
            self.answer(
                200,
                b'{"major": "1", "minor": "37", "gitVersion": "v1.37.0"}',
                {"Content-Type": "application/json"},
            )

        def handle(self) -> None:
            try:
                super().handle()
            except (ssl.SSLError, ConnectionError):
                # Who does not trust this server says so and goes.
                self.close_connection = True

    return Handler
