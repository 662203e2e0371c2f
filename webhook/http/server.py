"""The TLS server of the application: cheroot, with certificates that can be replaced while it serves.

HTTP/1.1 only. `scheduler_core.serving` keeps clients from blocking each other.
"""

from __future__ import annotations

import os
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from flask import Flask

from scheduler_core.certificates import CertificateError, KeyPair
from scheduler_core.health import PortTaken
from scheduler_core.serving.tls import LateHandshake, server_context
from webhook.http.body import MAX_TAKEN
from webhook.http.client_certificates import ClientCertificates, ask_for_certificates
from webhook.http.connections import HttpServer

# cheroot never grows its pool by itself; a waiting thread costs only address space.
THREADS: Final = 128
BACKLOG: Final = 512
TIMEOUT: Final = 5
KEEP_ALIVE: Final = 512
MAX_HEADERS: Final = 16 << 10


def tls_context(pair: KeyPair, client_authorities: bytes = b"") -> ssl.SSLContext:
    """A server context: TLS 1.2 or newer, HTTP/1.1 only. Raises CertificateError for a bad pair or CA."""
    context = server_context()
    try:
        with private_file(pair.key.rstrip() + b"\n" + pair.certificate) as name:
            context.load_cert_chain(name)
    except OSError as error:
        raise CertificateError("serving certificate", f"cannot be loaded: {error}") from None
    if client_authorities:
        ask_for_certificates(context, client_authorities)
    return context


@contextmanager
def private_file(content: bytes) -> Iterator[str]:
    """The name of a temporary file with `content`, because OpenSSL reads keys only from files.

    Where the system supports it, the file is in memory and never on a disk.
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


class WebhookServer:
    """The application behind TLS on one address; `http_server` has its connections and their limits."""

    def __init__(
        self, app: Flask, address: tuple[str, int], pair: KeyPair, clients: ClientCertificates | None = None
    ) -> None:
        self._clients = clients or ClientCertificates()
        self._pair, self._authorities = pair, self._clients.read()
        self._adapter = LateHandshake(tls_context(pair, self._authorities))
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
        self.http_server = server
        self._stopped = threading.Event()
        self._threads = (
            threading.Thread(target=server.serve, name="webhook-accept", daemon=True),
            threading.Thread(
                target=server.cut_off_until, args=(self._stopped,), name="webhook-cut-off", daemon=True
            ),
        )

    @property
    def port(self) -> int:
        """The port; if the address has port 0, the one that the system chose."""
        return int(self.http_server.bind_addr[1])

    def start(self) -> None:
        """Listen, and serve on background threads. Raises PortTaken."""
        host, port = self.http_server.bind_addr[:2]
        try:
            self.http_server.prepare()
        except OSError as error:
            problem = "the port is in use" if "Address already in use" in str(error) else str(error)
            raise PortTaken(host, port, problem) from None
        for thread in self._threads:
            thread.start()

    def problem(self) -> str:
        """The reason why the server no longer works, or empty."""
        ended = [thread.name for thread in self._threads if not thread.is_alive()]
        return f"the thread {ended[0]} ended" if ended else ""

    def stop(self) -> None:
        """Finish the requests in progress within TIMEOUT, then close all connections."""
        self._stopped.set()
        self.http_server.stop()
        for thread in self._threads:
            thread.join(TIMEOUT)

    def use(self, pair: KeyPair) -> None:
        """Use `pair` for new connections. Raises CertificateError; an invalid pair changes nothing."""
        self._adapter.context = tls_context(pair, self._authorities)
        self._pair = pair

    def reread_clients(self) -> None:
        """Reread the file of client CAs. Raises CertificateError; invalid ones change nothing."""
        authorities = self._clients.read()
        if authorities != self._authorities:
            self._adapter.context = tls_context(self._pair, authorities)
            self._authorities = authorities
