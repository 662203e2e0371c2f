"""Where the webhook's certificates live: a directory with `ca.crt`, `ca.key`, `tls.crt` and `tls.key`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from webhook.certs import (
    CertificateError,
    KeyPair,
    is_whole,
    issue_serving,
    make_authority,
    rotation_due,
    serves,
)


@dataclass(frozen=True)
class Certificates:
    """A CA and the serving pair it signed."""

    authority: KeyPair
    serving: KeyPair


class FileStore:
    """Certificates on disk, made when they are missing, broken, due for rotation or for other hosts."""

    def __init__(self, directory: Path, hosts: Sequence[str]) -> None:
        self._directory = directory
        self._hosts = tuple(hosts)

    @property
    def certificate(self) -> Path:
        """The serving certificate's file."""
        return self._directory / "tls.crt"

    @property
    def key(self) -> Path:
        """The serving key's file."""
        return self._directory / "tls.key"

    def ensure(self, now: float) -> tuple[Certificates, bool]:
        """Certificates that are good at `now`, and whether they are new. Raises CertificateError."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            authority, serving = self._pair("ca"), self._pair("tls")
            if authority is None or not is_whole(authority) or rotation_due(authority.certificate, now):
                authority, serving = make_authority(now), None
                self._write("ca", authority)
            if (
                serving is None
                or rotation_due(serving.certificate, now)
                or not serves(serving, authority.certificate, self._hosts)
            ):
                serving = issue_serving(authority, self._hosts, now)
                self._write("tls", serving)
                return Certificates(authority, serving), True
        except OSError as error:
            raise CertificateError(str(self._directory), error.strerror or str(error)) from None
        return Certificates(authority, serving), False

    def _pair(self, name: str) -> KeyPair | None:
        certificate, key = self._directory / f"{name}.crt", self._directory / f"{name}.key"
        if not certificate.exists() or not key.exists():
            return None
        return KeyPair(certificate.read_bytes(), key.read_bytes())

    def _write(self, name: str, pair: KeyPair) -> None:
        """Key first, then the certificate, each replaced as a whole; the key is its owner's alone."""
        self._replace(f"{name}.key", pair.key, 0o600)
        self._replace(f"{name}.crt", pair.certificate, 0o644)

    def _replace(self, name: str, content: bytes, mode: int) -> None:
        descriptor, path = tempfile.mkstemp(dir=self._directory, prefix=f".{name}-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), mode)
            os.replace(path, self._directory / name)
        except OSError:
            os.unlink(path)
            raise
