"""Keeps what is served and what is registered in step with the certificates on disk."""

from __future__ import annotations

from collections.abc import Callable

from webhook.cert_store import FileStore
from webhook.certs import CertificateError, KeyPair, expiry
from webhook.metrics import Metrics


class Rotation:
    """One check does whatever is still to be done, so a check that failed is made good by the next.

    `reload` makes the server use the pair on disk and says whether it could; `register` tells the API server
    which CA to trust. `served` is the pair that the server started with.
    """

    def __init__(
        self,
        store: FileStore,
        served: KeyPair,
        reload: Callable[[], bool],
        register: Callable[[bytes], None],
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._served = served
        self._reload = reload
        self._register = register
        self._metrics = metrics
        self._registered = b""

    def check(self, now: float) -> None:
        """Renew what is due at `now`, serve it, and register its CA if that is another one.

        Raises CertificateError, and whatever `register` raises; the last good pair is served on.
        """
        certificates, _ = self._store.ensure(now)
        if certificates.serving != self._served:
            if not self._reload():
                raise CertificateError(str(self._store.certificate), "the new pair could not be loaded")
            self._served = certificates.serving
        self._metrics.certificate(expiry(certificates.serving.certificate))
        authority = certificates.authority.certificate
        if authority != self._registered:
            self._register(authority)
            self._registered = authority
