"""Connections of the console's server: requests of browsers and of authenticating proxies."""

from __future__ import annotations

import io
import logging
from typing import Any, Final

from scheduler_core.serving.connections import BoundedConnection, BoundedRequest
from scheduler_core.serving.heads import HeaderRejected, HeadLimits
from scheduler_core.serving.server import BoundedGateway, BoundedServer
from scheduler_core.serving.stream import RequestUnreadable

# A browser sends all cookies of a host; the token of a user with many groups has many KiB.
HEAD_LIMITS: Final = HeadLimits(first_line=16 << 10, value=32 << 10, headers=128)


class ConsoleRequest(BoundedRequest):
    """A request whose body has a length, as browsers send it."""

    limits = HEAD_LIMITS

    def check_encoding(self, coding: bytes) -> None:
        """Raises HeaderRejected for every encoding."""
        raise HeaderRejected(411, "a body needs a Content-Length")


class ConsoleConnection(BoundedConnection):
    """A connection of these requests."""

    RequestHandlerClass = ConsoleRequest


class ConsoleGateway(BoundedGateway):
    """The WSGI gateway: reads the body before the application, whose time is not the client's."""

    def get_environ(self) -> dict[str, Any]:  # type: ignore[override]
        """The environ with the whole body. Raises ConnectionError for a body that cannot be read."""
        environ = super().get_environ()
        try:
            environ["wsgi.input"] = io.BytesIO(self.req.rfile.read())
        except RequestUnreadable as error:
            raise ConnectionError(str(error)) from None
        self.req.conn.body_read()
        return environ


class ConsoleHttpServer(BoundedServer):
    """A server of these connections."""

    ConnectionClass = ConsoleConnection
    log = logging.getLogger("muster.console")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.gateway = ConsoleGateway
