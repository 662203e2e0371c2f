"""Renews certificates, serves them, and has API servers trust them.

Each check does everything that is due, so the next check makes up for a failed one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Protocol

from scheduler_core.certificates import (
    DEFAULT_LIFETIMES,
    CertificateError,
    KeyPair,
    Lifetimes,
    check_pair,
    expiry,
    is_valid,
    missing_hosts,
)
from scheduler_core.errors import MusterError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import ApiError, Conflict
from webhook.certs.ca_bundle import Published, publish, read_published
from webhook.certs.plan import NO_MATERIAL, NOTHING, Material
from webhook.certs.store import ATTEMPTS, CertificateStore, ensure
from webhook.metrics import WebhookMetrics

SECRET_SECONDS: Final = 30.0
FILES_SECONDS: Final = 1.0

Use = Callable[[KeyPair], None]


class Rotation(Protocol):
    """A source of serving certificates that is checked at intervals."""

    @property
    def interval(self) -> float:
        """Seconds between checks."""

    def first(self, now: float) -> KeyPair:
        """The pair to start with. Raises CertificateError and ApiError."""

    def check(self, now: float, use: Use) -> None:
        """Do what is due; `use` serves a new pair. Raises CertificateError and ApiError."""


class OwnCertificates:
    """Certificates of the webhook's own CA: renewed in the store, published, then served.

    `client` updates the configurations; None if they are not managed. Of several replicas with one store the
    first one renews, and the others follow.
    """

    def __init__(
        self,
        store: CertificateStore,
        hosts: Iterable[str],
        client: Client | None,
        metrics: WebhookMetrics,
        lifetimes: Lifetimes = DEFAULT_LIFETIMES,
    ) -> None:
        self.interval = SECRET_SECONDS
        self.store = store
        self._hosts = tuple(hosts)
        self.client = client
        self._metrics = metrics
        self._lifetimes = lifetimes
        self._material: Material = NO_MATERIAL
        self._served = NOTHING

    @property
    def bundle(self) -> bytes:
        """The CA bundle of the last check."""
        return self._material.bundle

    def first(self, now: float) -> KeyPair:
        """The stored pair, or a new one if there is no valid one."""
        self._ensure(now, lambda bundle: False)
        self._served = self._material.serving
        self._measure()
        return self._served

    def check(self, now: float, use: Use) -> None:
        """Renew what is due at `now`, serve it and publish the CAs; the last good pair is served meanwhile.

        If configurations cannot be read or written, renewals that do not depend on them still happen.
        """
        for attempt in range(ATTEMPTS):
            published, problem = self._published()
            self._ensure(now, published.trusts if published else lambda bundle: False)
            self._serve(use)
            if problem is not None:
                raise problem
            try:
                if self.client is not None and published is not None:
                    publish(self.client, published, self.bundle, self._metrics.bundle_written)
                return
            except Conflict:
                if attempt == ATTEMPTS - 1:
                    raise

    def _published(self) -> tuple[Published | None, MusterError | None]:
        if self.client is None:
            return Published(()), None
        try:
            return read_published(self.client), None
        except ApiError as error:
            return None, error

    def _ensure(self, now: float, published: Callable[[bytes], bool]) -> None:
        self._material = ensure(
            self.store,
            self._hosts,
            now,
            published,
            self._lifetimes,
            self._material,
            self._metrics.reload_failed,
        )

    def _serve(self, use: Use) -> None:
        if self._material.serving != self._served:
            use(self._material.serving)
            self._served = self._material.serving
            self._measure()

    def _measure(self) -> None:
        self._metrics.certificate(expiry(self._served.certificate))
        self._metrics.authority(expiry(self._material.authority.certificate))


class MountedCertificates:
    """A pair in a directory that is renewed externally, such as a mounted Secret of cert-manager."""

    def __init__(self, directory: Path, hosts: Iterable[str], metrics: WebhookMetrics) -> None:
        self.interval = FILES_SECONDS
        self._directory = directory
        self._hosts = tuple(hosts)
        self._metrics = metrics
        self._seen = NOTHING
        self._served = NOTHING

    def first(self, now: float) -> KeyPair:
        """The pair in the directory, even if it has expired or is for other hosts."""
        pair = self._read()
        check_pair(pair, str(self._directory / "tls.crt"))
        self._seen = self._served = pair
        self._metrics.certificate(expiry(pair.certificate))
        return pair

    def check(self, now: float, use: Use) -> None:
        """Serve a new valid pair; an invalid one is reported once, and the last good pair stays."""
        pair = self._read()
        good = is_valid(self._served.certificate, now)
        if pair == self._seen and (good or pair == self._served):
            return
        self._seen = pair
        source = str(self._directory / "tls.crt")
        check_pair(pair, source)
        if good:
            if not is_valid(pair.certificate, now):
                raise CertificateError(source, "has ended or is not valid yet; the last one stays in use")
            had = [host for host in self._hosts if not missing_hosts(self._served.certificate, [host])]
            if missing := missing_hosts(pair.certificate, had):
                raise CertificateError(source, f"is not for {', '.join(missing)}; the last one stays in use")
        use(pair)
        self._served = pair
        self._metrics.certificate(expiry(pair.certificate))

    def _read(self) -> KeyPair:
        # A kubelet replaces all files of a volume at once by this link, so both are read behind it.
        link = self._directory / "..data"
        try:
            folder = link.resolve() if link.exists() else self._directory
            return KeyPair(*((folder / name).read_bytes() for name in ("tls.crt", "tls.key")))
        except OSError as error:
            problem = error.strerror or str(error)
            raise CertificateError(str(self._directory), f"{error.filename}: {problem}") from None
