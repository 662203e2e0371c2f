"""cheroot behind TLS: real read timeouts, HTTP/1.1 only, new certificates without a signal.

`connections` says what is done so that no client can stop the others.
"""

from __future__ import annotations

import os
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from cheroot.ssl.builtin import BuiltinSSLAdapter
from flask import Flask

from scheduler_core.certificates import CertificateError, KeyPair
from scheduler_core.errors import MusterError
from webhook.body import MAX_TAKEN
from webhook.clients import Clients, ask_for_certificates
from webhook.connections import HttpServer, cut_off_until

# cheroot never grows its pool by itself; what a thread costs while it waits is address space.
THREADS: Final = 128
BACKLOG: Final = 512
TIMEOUT: Final = 5
KEEP_ALIVE: Final = 512
MAX_HEADERS: Final = 16 << 10


class ListenError(MusterError):
    """The address cannot be listened on: which, and why."""

    def __init__(self, address: str, problem: str) -> None:
        self.address = address
        self.problem = problem
        super().__init__(address, problem)

    def __str__(self) -> str:
        return f"cannot listen on {self.address}: {self.problem}"


def tls_context(pair: KeyPair, client_authorities: bytes = b"") -> ssl.SSLContext:
    """A server context: TLS 1.2 or newer, HTTP/1.1 only. Raises CertificateError for a bad pair or CA."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        with _private_file(pair.key.rstrip() + b"\n" + pair.certificate) as name:
            context.load_cert_chain(name)
    except OSError as error:
        raise CertificateError("serving certificate", f"cannot be loaded: {error}") from None
    if client_authorities:
        ask_for_certificates(context, client_authorities)
    return context


@contextmanager
def _private_file(content: bytes) -> Iterator[str]:
    """A name under which OpenSSL, which reads files only, finds the content while it needs to.

    Where the system can, it is in memory and never on a disk.
    """
    in_memory = hasattr(os, "memfd_create")
    with (
        os.fdopen(os.memfd_create("muster-webhook"), "wb")
        if in_memory
        else tempfile.NamedTemporaryFile(prefix="muster-webhook-")
    ) as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}" if in_memory else str(file.name)


class _TlsAdapter(BuiltinSSLAdapter):
    """Wraps at once, shakes hands later; the context can be exchanged at any time."""

    def __init__(self, context: ssl.SSLContext) -> None:
        # Not the parent's: it would read the pair from files, again and again.
        self.context = context

    def wrap(self, sock: Any) -> tuple[Any, dict[str, str]]:
        wrapped = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        return wrapped, {"wsgi.url_scheme": "https", "HTTPS": "on"}


class WebhookServer:
    """The application behind TLS on one address."""

    def __init__(
        self, app: Flask, address: tuple[str, int], pair: KeyPair, clients: Clients | None = None
    ) -> None:
        self._clients = clients or Clients()
        self._pair, self._authorities = pair, self._clients.read()
        self._adapter = _TlsAdapter(tls_context(pair, self._authorities))
        server = HttpServer(
            address,
            app,
            numthreads=THREADS,
            request_queue_size=BACKLOG,
            timeout=TIMEOUT,
            shutdown_timeout=TIMEOUT,
            server_name="muster-webhook",
        )
        server.ssl_adapter = self._adapter
        server.max_request_body_size = MAX_TAKEN
        server.max_request_header_size = MAX_HEADERS
        server.keep_alive_conn_limit = KEEP_ALIVE
        server.asks_for_certificates = self._clients.authority is not None
        self._server = server
        self._stopped = threading.Event()
        self._threads = (
            threading.Thread(target=server.serve, name="webhook-accept", daemon=True),
            threading.Thread(
                target=cut_off_until, args=(server, self._stopped), name="webhook-cut-off", daemon=True
            ),
        )

    @property
    def port(self) -> int:
        """The port, chosen by the system where 0 was asked for."""
        return int(self._server.bind_addr[1])

    def start(self) -> None:
        """Listen, and serve on threads of our own. Raises ListenError."""
        host, port = self._server.bind_addr[:2]
        try:
            self._server.prepare()
        except OSError as error:
            problem = "the port is in use" if "Address already in use" in str(error) else str(error)
            raise ListenError(f"{host}:{port}", problem) from None
        for thread in self._threads:
            thread.start()

    def problem(self) -> str:
        """Why nobody is answered any more, or empty."""
        ended = [thread.name for thread in self._threads if not thread.is_alive()]
        return f"the thread {ended[0]} ended" if ended else ""

    def stop(self) -> None:
        """Finish the requests in progress, within TIMEOUT, and close everything."""
        self._stopped.set()
        self._server.stop()
        for thread in self._threads:
            thread.join(TIMEOUT)

    def use(self, pair: KeyPair) -> None:
        """Serve new connections with this pair. Raises CertificateError; a bad pair changes nothing."""
        self._adapter.context = tls_context(pair, self._authorities)
        self._pair = pair

    def reread_clients(self) -> None:
        """Trust the CAs that the file of them has now. Raises CertificateError; bad ones change nothing."""
        authorities = self._clients.read()
        if authorities != self._authorities:
            self._adapter.context = tls_context(self._pair, authorities)
            self._authorities = authorities
