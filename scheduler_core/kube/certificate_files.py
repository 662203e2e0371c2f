"""Client certificates that somebody else keeps fresh in files, as kubelet, cert-manager and kubeadm do."""

from __future__ import annotations

import ssl
import threading
from pathlib import Path

from scheduler_core.kube.endpoint import ClientCertificate, load_certificate
from scheduler_core.kube.errors import KubeconfigError
from scheduler_core.kube.session import Credentials

Part = Path | bytes
"""The file of a certificate or key, or what a kubeconfig holds of it itself."""
_Stamp = tuple[tuple[int, int, int], ...]


class CertificateFiles:
    """A certificate and its key, read again whenever a file of them has changed. Thread-safe.

    A pair that cannot be read, or does not fit together, keeps the last good one: one of its files may be
    written at this very moment. Raises KubeconfigError where the first pair cannot be read.
    """

    def __init__(self, certificate: Part, key: Part, source: str) -> None:
        self._parts = (certificate, key)
        self._source = source
        self._lock = threading.Lock()
        self._stamp = self._stamped()
        self._pair = self._read()

    def current(self) -> ClientCertificate:
        """The pair as the files have it now; costs a `stat` per file while they do not change."""
        with self._lock:
            self._follow()
            return self._pair

    def _follow(self) -> None:
        try:
            stamp = self._stamped()
            if stamp == self._stamp:
                return
            pair = self._read()
            load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), pair, self._source)
        except KubeconfigError:
            return
        self._pair, self._stamp = pair, stamp

    def _stamped(self) -> _Stamp:
        stamps = []
        for path in self._parts:
            if isinstance(path, Path):
                try:
                    found = path.stat()
                except OSError as error:
                    raise KubeconfigError(self._source, _problem(path, error)) from None
                stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
        return tuple(stamps)

    def _read(self) -> ClientCertificate:
        certificate, key = (self._content(part) for part in self._parts)
        return ClientCertificate(certificate, key)

    def _content(self, part: Part) -> bytes:
        if isinstance(part, bytes):
            return part
        try:
            return part.read_bytes()
        except OSError as error:
            raise KubeconfigError(self._source, _problem(part, error)) from None


class WithCertificateFiles:
    """Other credentials, with a client certificate out of files beside them."""

    def __init__(self, inner: Credentials, files: CertificateFiles) -> None:
        self._inner = inner
        self._files = files

    def headers(self) -> list[tuple[str, str]]:
        return self._inner.headers()

    def certificate(self) -> ClientCertificate | None:
        return self._files.current()

    def refresh(self) -> bool:
        return self._inner.refresh()


def _problem(path: Path, error: OSError) -> str:
    return f"client certificate {path}: {(error.strerror or str(error)).lower()}"
