"""The server of the console: cheroot, on loopback or in a pod."""

from __future__ import annotations

import logging
import threading
from typing import Any, Final

from kubectl_plugin.console.web.connections import ConsoleHttpServer
from kubectl_plugin.console.web.serving_certificate import ServingCertificate
from scheduler_core.certificates import CertificateError
from scheduler_core.health import PortTaken

log = logging.getLogger("muster.console")

# Pages are short, and a browser asks every few seconds.
_THREADS: Final = 8
_TIMEOUT: Final = 10
_MOST_HEADERS: Final = 64 << 10
_MOST_BODY: Final = 2 << 20
# Connections of browsers that stay open between two questions.
_MOST_KEPT: Final = 256


class ConsoleServer:
    """Serves an application on one address; port 0 is any free one. `http_server` has the limits."""

    def __init__(self, address: tuple[str, int], certificate: ServingCertificate | None = None) -> None:
        """Raises CertificateError."""
        self._address = address
        self.http_server = ConsoleHttpServer(
            address, _not_yet, numthreads=_THREADS, timeout=_TIMEOUT, server_name="muster-console"
        )
        self.http_server.max_request_header_size = _MOST_HEADERS
        self.http_server.max_request_body_size = _MOST_BODY
        self.http_server.keep_alive_conn_limit = _MOST_KEPT
        self.http_server.ssl_adapter = None if certificate is None else certificate.adapter()
        self._certificate = certificate
        self._told = ""
        self._thread = threading.Thread(target=self.http_server.serve, name="console-server", daemon=True)
        self._stopped = threading.Event()
        self._watchman = threading.Thread(
            target=self.http_server.cut_off_until,
            args=(self._stopped,),
            name="console-slow-clients",
            daemon=True,
        )

    def listen(self) -> int:
        """Bind, and return the port. Raises PortTaken."""
        try:
            self.http_server.prepare()
        except OSError as error:
            host, port = self._address
            # cheroot puts the errors of all addresses into one text.
            taken = "Address already in use" in str(error)
            problem = "the port is in use" if taken else error.strerror or str(error)
            raise PortTaken(host, port, problem) from None
        return int(self.http_server.bind_addr[1])

    def serve(self, application: Any) -> None:
        """Answer with this application, on threads of its own."""
        self.http_server.wsgi_app = application
        self._thread.start()
        self._watchman.start()

    def renew(self) -> None:
        """Use a certificate whose files were replaced for new connections; a bad one changes nothing."""
        if self._certificate is None:
            return
        try:
            adapter = self._certificate.adapter()
        except CertificateError as error:
            if str(error) != self._told:
                log.warning("%s; the one before is kept", error)
            self._told = str(error)
            return
        self._told = ""
        if adapter is not None:
            self.http_server.ssl_adapter = adapter

    def stop(self) -> None:
        """End all connections."""
        self._stopped.set()
        self.http_server.stop()
        self._thread.join(_TIMEOUT)


def _not_yet(environ: Any, start_response: Any) -> list[bytes]:
    start_response("503 Service Unavailable", [("Content-Type", "text/plain")])
    return [b"the console starts\n"]
