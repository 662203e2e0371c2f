"""Who may ask for reviews: whoever reaches the port, or those that show a certificate of a CA we know.

API servers show one where their admission configuration says so.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scheduler_core.certificates import CertificateError

# A server puts the common name of a verified client under this key of the environ; none, no certificate.
CLIENT: Final = "muster.client"


@dataclass(frozen=True)
class Clients:
    """`authority`: a file with CAs, read anew when it changes; None: nobody is asked for a certificate.

    `names`: the common names that may ask; empty: any that a CA has signed.
    """

    authority: Path | None = None
    names: frozenset[str] = frozenset()

    def may_ask(self, environ: Mapping[str, Any]) -> bool:
        """Whether a request is answered with a review."""
        if self.authority is None:
            return True
        name = environ.get(CLIENT)
        return name is not None and (not self.names or name in self.names)

    def read(self) -> bytes:
        """The CAs, PEM; empty where nobody is asked. Raises CertificateError."""
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
    """Clients may show a certificate, and one that no CA here has signed ends the handshake.

    Raises CertificateError.
    """
    try:
        context.load_verify_locations(cadata=authorities.decode("ascii"))
    except (OSError, ValueError) as error:
        raise CertificateError("CAs of clients", f"cannot be loaded: {error}") from None
    # Not required: who has none is told so, and API servers pass that on.
    context.verify_mode = ssl.CERT_OPTIONAL


def client_name(sock: ssl.SSLSocket) -> str | None:
    """The common name of a verified client, empty if its certificate has none; None without a certificate."""
    shown = sock.getpeercert() if sock.context.verify_mode != ssl.CERT_NONE else None
    if not shown:
        return None
    subject: Any = shown.get("subject", ())
    return next((value for part in subject for key, value in part if key == "commonName"), "")
