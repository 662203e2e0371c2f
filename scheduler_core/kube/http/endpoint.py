"""Address of the API server, with its TLS settings and its proxy."""

from __future__ import annotations

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from scheduler_core.kube.errors import KubeconfigError

HTTP_1: Final = "http/1.1"
HTTP_2: Final = "h2"


@dataclass(frozen=True)
class ClientCertificate:
    """A TLS client certificate and its key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class Endpoint:
    """One API server.

    `server` is its URL; `ca` a PEM text (empty: the system's CAs); `tls_server_name` replaces the host name
    in the TLS handshake; `proxy` is an `http://host:port` URL; `source` names the file of these settings.
    """

    server: str
    ca: str = ""
    insecure: bool = False
    tls_server_name: str = ""
    proxy: str = field(default="", repr=False)
    source: str = "command line"

    def __post_init__(self) -> None:
        url = urlsplit(self.server)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise KubeconfigError(self.source, f"server {self.server!r} is not an http or https URL")
        try:
            port = url.port
        except ValueError as error:
            raise KubeconfigError(self.source, f"server {self.server!r}: {error}") from None
        if port == 0:
            raise KubeconfigError(self.source, f"server {self.server!r}: port 0 cannot be connected to")
        proxy = urlsplit(self.proxy)
        if self.proxy and proxy.scheme != "http":
            problem = (
                f"a {proxy.scheme}:// proxy ({proxy.hostname}) is not supported, only http:// proxies are"
            )
            raise KubeconfigError(self.source, problem)

    @property
    def tls(self) -> bool:
        return urlsplit(self.server).scheme == "https"

    @property
    def host(self) -> str:
        return urlsplit(self.server).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.server).port or (443 if self.tls else 80)

    @property
    def authority(self) -> str:
        """The host and the port, as requests name them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def base_path(self) -> str:
        """The path in front of every API path, for servers behind a path-routing proxy; usually empty."""
        return urlsplit(self.server).path.rstrip("/")


def tls_context(
    endpoint: Endpoint, certificate: ClientCertificate | None, protocols: Sequence[str] = (HTTP_1,)
) -> ssl.SSLContext:
    """A client context for the endpoint that offers these protocols by ALPN, the preferred one first.

    Raises KubeconfigError for a CA or certificate that is not PEM.
    """
    try:
        context = ssl.create_default_context(cadata=endpoint.ca or None)
    except (ssl.SSLError, ValueError) as error:
        raise KubeconfigError(endpoint.source, f"certificate-authority is not usable: {error}") from None
    # Cluster CAs of common installers lack the key identifiers that newer Python versions require by default.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(list(protocols))
    if endpoint.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        load_certificate(context, certificate, endpoint.source)
    return context


def load_certificate(context: ssl.SSLContext, certificate: ClientCertificate, source: str) -> None:
    """Load the pair into the context. Raises KubeconfigError for a pair that is not usable.

    `ssl` reads certificates only from files, so the pair is written to a private temporary file.
    """
    descriptor, path = tempfile.mkstemp(prefix="muster-client-", suffix=".pem")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(certificate.key.rstrip(b"\n") + b"\n" + certificate.certificate)
        # A password callback keeps OpenSSL from prompting on the terminal.
        context.load_cert_chain(path, password=lambda: b"")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise KubeconfigError(source, f"client certificate and key are not usable: {error}") from None
    finally:
        os.unlink(path)


def environment_proxy(server: str, environ: Mapping[str, str]) -> str:
    """The URL in `https_proxy` or `http_proxy`; empty where `no_proxy` exempts the host."""
    url = urlsplit(server)
    host = url.hostname or ""
    proxy = environ.get(f"{url.scheme}_proxy") or environ.get(f"{url.scheme.upper()}_PROXY") or ""
    exempt = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if not proxy or _is_loopback(host) or any(_covers(entry.strip(), host) for entry in exempt.split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _covers(entry: str, host: str) -> bool:
    """Whether an entry of `no_proxy` matches: `*`, a network, a domain (with or without a leading dot), or
    the host.
    """
    if entry == "*":
        return True
    if not entry:
        return False
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        domain = entry.lstrip("*").lstrip(".").lower()
        return host == domain or host.endswith(f".{domain}")
