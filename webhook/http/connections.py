"""Connections of the webhook's server: chunked bodies, and few workers for unknown clients."""

from __future__ import annotations

import logging
from typing import Any

from scheduler_core.serving.connections import BoundedConnection, BoundedRequest
from scheduler_core.serving.server import BoundedGateway, BoundedServer
from webhook.http.chunked_body import ChunkedBody
from webhook.http.headers import HEAD_LIMITS
from webhook.http.review_endpoint import BODY_READ


class WebhookHttpRequest(BoundedRequest):
    """A request with the limits of reviews."""

    limits = HEAD_LIMITS


class WebhookConnection(BoundedConnection):
    """A connection that may have to make room for clients with a certificate."""

    RequestHandlerClass = WebhookHttpRequest

    def serve(self) -> bool:
        """Answer requests; those of unknown clients on a part of the workers."""
        if self.client is None:
            self.server.limit_unverified(self)
        return super().serve()


class ReviewGateway(BoundedGateway):
    """The WSGI gateway: bounds chunked bodies, and passes BODY_READ to the application."""

    def get_environ(self) -> dict[str, Any]:  # type: ignore[override]
        environ = super().get_environ()
        if self.req.chunked_read:
            environ["wsgi.input"] = self.req.rfile = ChunkedBody(self.req.conn.rfile)
        environ[BODY_READ] = self.req.conn.body_read
        return environ


class HttpServer(BoundedServer):
    """A server that limits clients without a certificate where certificates are requested."""

    ConnectionClass = WebhookConnection
    log = logging.getLogger("muster.webhook")
    asks_for_certificates = False
    active: set[WebhookConnection]  # type: ignore[assignment]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.gateway = ReviewGateway

    def limit_unverified(self, newcomer: WebhookConnection) -> None:
        """Where client certificates are requested, clients without one get half of the workers.

        Beyond that the one that has kept its worker waiting longest is closed, not the new one, which may be
        a probe of the kubelet.
        """
        if not self.asks_for_certificates:
            return
        unverified = [conn for conn in list(self.active) if conn.shaken and conn.client is None]
        if len(unverified) <= self.lingering:
            return
        waiting = [
            (since, conn)
            for conn in unverified
            if conn is not newcomer and (since := conn.waiting_since) is not None
        ]
        if waiting:
            min(waiting, key=lambda entry: entry[0])[1].give_up()
