"""Client certificates: the clients that may send reviews.

Without a client CA, every client may send reviews. API servers present a certificate where their admission
configuration (`--admission-control-config-file`) has a kubeconfig for the webhook.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler_core.certificates import CertificateError
from scheduler_core.serving.tls import CLIENT


@dataclass(frozen=True)
class ClientCertificates:
    """The client certificates that are accepted.

    `authority`: a file with CAs, reread when it changes; None if no certificates are requested. `names`: the
    common names that may ask for reviews; empty for any that a CA has signed.
    """

    authority: Path | None = None
    names: frozenset[str] = frozenset()

    def may_ask(self, environ: Mapping[str, Any]) -> bool:
        """Whether the client of a request may ask for reviews."""
        if self.authority is None:
            return True
        name = environ.get(CLIENT)
        return name is not None and (not self.names or name in self.names)

    def read(self) -> bytes:
        """The CAs as PEM; empty if no certificates are requested. Raises CertificateError."""
        if self.authority is None:
            return b""
        try:
            content = self.authority.read_bytes()
        except OSError as error:
            raise CertificateError(str(self.authority), f"cannot be read: {error.strerror}") from None
        if not content.strip():
            raise CertificateError(str(self.authority), "is empty")
        return content


def ask_for_certificates(context: ssl.SSLContext, authorities: bytes) -> None:
    """Request client certificates; one that none of the CAs has signed fails the handshake.

    Raises CertificateError.
    """
    try:
        context.load_verify_locations(cadata=authorities.decode("ascii"))
    except (OSError, ValueError) as error:
        raise CertificateError("CAs of clients", f"cannot be loaded: {error}") from None
    # Optional: a client without a certificate gets a 403, whose reason API servers pass on.
    context.verify_mode = ssl.CERT_OPTIONAL
