"""The console's certificate, from files that are replaced while it serves."""

from __future__ import annotations

import ssl
from pathlib import Path

from scheduler_core.certificates import CertificateError
from scheduler_core.serving.tls import LateHandshake, server_context


class ServingCertificate:
    """A certificate, its key, and the CA of clients' certificates (may be empty): names of files, PEM."""

    def __init__(self, certificate: str, key: str, client_ca: str = "") -> None:
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self._read: tuple[bytes, ...] = ()

    def adapter(self) -> LateHandshake | None:
        """TLS with what the files hold now; None if that was tried before. Raises CertificateError."""
        try:
            found = self._contents()
            if found == self._read:
                return None
            self._read = found
            return self._loaded()
        except (OSError, ValueError) as error:
            raise CertificateError("serving certificate", f"cannot be used: {error}") from None

    def _contents(self) -> tuple[bytes, ...]:
        names = (self._certificate, self._key, self._client_ca)
        return tuple(Path(name).read_bytes() for name in names if name)

    def _loaded(self) -> LateHandshake:
        context = server_context()
        context.load_cert_chain(self._certificate, self._key)
        if self._client_ca:
            context.load_verify_locations(self._client_ca)
            # Optional: people without a certificate come with tokens.
            context.verify_mode = ssl.CERT_OPTIONAL
        return LateHandshake(context)
