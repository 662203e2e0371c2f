"""Stores certificates: in a directory of one process, or in a Secret that replicas share.

Both hold `ca.crt` (the trusted CAs, newest first), `ca.key`, `tls.crt` and `tls.key`.
"""

from __future__ import annotations

import base64
import binascii
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from scheduler_core.certificates import DEFAULT_LIFETIMES, CertificateError, Lifetimes
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import Conflict, NotFound
from scheduler_core.model.kinds import SECRETS
from scheduler_core.model.writes import Create, Replace
from webhook.certs.plan import NO_MATERIAL, Material, read_material, renewed

FILES: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")
ATTEMPTS: Final = 5


class CertificateStore(Protocol):
    """Stores material. A write is based on the `version` that was read."""

    def read(self) -> tuple[Material, Any]:
        """The stored material, and its version. Raises CertificateError and ApiError."""

    def write(self, material: Material, version: Any) -> None:
        """Store material. Raises Conflict if the version has changed, CertificateError and ApiError."""


def ensure(
    store: CertificateStore,
    hosts: Iterable[str],
    now: float,
    published: Callable[[bytes], bool] = lambda bundle: True,
    lifetimes: Lifetimes = DEFAULT_LIFETIMES,
    last: Material = NO_MATERIAL,
    damaged: Callable[[], object] = lambda: None,
) -> Material:
    """Material that is valid at `now` and stored; of several replicas that renew it, one wins.

    `last` is the material in use. If stored material cannot be used, `damaged` is called and `last` replaces
    it. If nothing is stored, new material is made, and the CAs in use stay trusted. Raises CertificateError,
    and ApiError (Conflict after ATTEMPTS conflicts).
    """
    hosts = tuple(hosts)
    for attempt in range(ATTEMPTS):
        stored, version = store.read()
        base = stored
        if stored.damaged and last.is_usable:
            base = last
        elif not stored.damaged and not stored.is_usable:
            base = Material(last.authorities, serving=last.serving)
        wanted = renewed(base, hosts, now, published, lifetimes)
        if wanted == stored:
            break
        if stored.damaged:
            damaged()
        try:
            store.write(wanted, version)
            break
        except (Conflict, NotFound):
            if attempt == ATTEMPTS - 1:
                raise
    return wanted


class FileStore:
    """Certificates on disk, for one process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def read(self) -> tuple[Material, None]:
        """The stored material; missing files count as empty. Raises CertificateError."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = [self._read(name) for name in FILES]
        except OSError as error:
            raise self._failed(error) from None
        return read_material(*found), None

    def write(self, material: Material, version: None = None) -> None:
        """Write keys before certificates, each file atomically; only the owner can read keys."""
        serving = material.serving
        try:
            self._replace("ca.key", material.authority_key, 0o600)
            self._replace("ca.crt", material.bundle, 0o644)
            self._replace("tls.key", serving.key, 0o600)
            self._replace("tls.crt", serving.certificate, 0o644)
        except OSError as error:
            raise self._failed(error) from None

    def _read(self, name: str) -> bytes:
        path = self.directory / name
        return path.read_bytes() if path.exists() else b""

    def _replace(self, name: str, content: bytes, mode: int) -> None:
        descriptor, path = tempfile.mkstemp(dir=self.directory, prefix=f".{name}-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), mode)
            os.replace(path, self.directory / name)
        except OSError:
            os.unlink(path)
            raise

    def _failed(self, error: OSError) -> CertificateError:
        return CertificateError(str(self.directory), error.strerror or str(error))


class SecretStore:
    """Certificates in a Secret. Its resourceVersion decides which of several replicas renews them."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name

    def read(self) -> tuple[Material, Mapping[str, Any] | None]:
        """The stored material, and its Secret (None if there is none). Raises ApiError."""
        try:
            secret = self._client.get_json(SECRETS, self._namespace, self._name)
        except NotFound:
            return Material(), None
        data = secret.get("data") or {}
        return read_material(*(_decoded(data.get(name)) for name in FILES)), secret

    def write(self, material: Material, version: Mapping[str, Any] | None) -> None:
        """Write everything at once, on the version that was read. Raises Conflict and ApiError."""
        contents = (material.bundle, material.authority_key, material.serving.certificate)
        data = {
            name: base64.b64encode(content).decode()
            for name, content in zip(FILES, (*contents, material.serving.key), strict=True)
        }
        if version is None:
            body = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": self._name, "labels": {"app.kubernetes.io/name": "muster"}},
                "type": "Opaque",
                "data": data,
            }
            self._client.create(Create(SECRETS, self._namespace, body))
        else:
            body = {**version, "data": {**(version.get("data") or {}), **data}}
            self._client.replace(Replace(SECRETS, self._namespace, self._name, body))


def _decoded(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        return b""
