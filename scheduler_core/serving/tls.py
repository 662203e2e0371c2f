"""TLS of the servers: the handshake runs on a worker, and who the client is."""

from __future__ import annotations

import ssl
from typing import Any, Final

from cheroot.ssl.builtin import BuiltinSSLAdapter

# The key of the environ for the common name of a verified client; None without a certificate.
CLIENT: Final = "muster.client"


def server_context() -> ssl.SSLContext:
    """A context without a certificate: TLS 1.2 or newer, HTTP/1.1 only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


class LateHandshake(BuiltinSSLAdapter):
    """Wraps sockets without a handshake, which a worker does later; `context` can be replaced at any time."""

    def __init__(self, context: ssl.SSLContext) -> None:
        # Does not call the parent, which would read the pair from files repeatedly.
        self.context = context

    def wrap(self, sock: Any) -> tuple[Any, dict[str, str]]:
        """The socket, and what a request's environ says of TLS."""
        wrapped = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        return wrapped, {"wsgi.url_scheme": "https", "HTTPS": "on"}


def client_name(sock: ssl.SSLSocket) -> str | None:
    """The common name of a verified client, empty if its certificate has none; None without a certificate."""
    shown = sock.getpeercert() if sock.context.verify_mode != ssl.CERT_NONE else None
    if not shown:
        return None
    subject: Any = shown.get("subject", ())
    return next((value for part in subject for key, value in part if key == "commonName"), "")
