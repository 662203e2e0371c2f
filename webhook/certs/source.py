"""The source of certificates that the command line selects, and the watches that trigger a check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler_core.kube.client import Client
from scheduler_core.kube.watch.reflector import Reflector
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.admission_webhooks import CONFIGURATIONS, NAME
from scheduler_core.model.kinds import SECRETS, Resource
from webhook.certs.rotation import MountedCertificates, OwnCertificates, Rotation
from webhook.certs.store import FileStore, SecretStore
from webhook.metrics import WebhookMetrics


@dataclass(frozen=True)
class Source:
    """One of three sources of certificates.

    A `secret` (namespace and name) that replicas share, a directory that is renewed externally (`mounted`),
    or the directory `own`. `patch`: the CAs are published in the webhook configurations.
    """

    own: Path
    secret: tuple[str, str] = ("", "")
    mounted: Path | None = None
    patch: bool = False

    def rotation(self, client: Client, hosts: tuple[str, ...], metrics: WebhookMetrics) -> Rotation:
        """The rotation of certificates for these hosts."""
        if self.mounted is not None:
            return MountedCertificates(self.mounted, hosts, metrics)
        store = SecretStore(client, *self.secret) if self.secret[1] else FileStore(self.own)
        return OwnCertificates(store, hosts, client if self._patches else None, metrics)

    def watches(
        self, client: Client, wake: Callable[[], object], trouble: Callable[[Exception], None]
    ) -> Iterator[Reflector]:
        """Watches that call `wake` at every change of the Secret and the configurations; not started."""

        def changed(event: Event) -> None:
            wake()

        def watch(resource: Resource, namespace: str, name: str) -> Reflector:
            selector = f"metadata.name={name}"
            return Reflector(
                client,
                resource,
                _nothing,
                changed,
                namespace=namespace,
                field_selector=selector,
                on_error=trouble,
            )

        if self.mounted is None and self.secret[1]:
            yield watch(SECRETS, *self.secret)
        if self._patches:
            for resource in CONFIGURATIONS:
                yield watch(resource, "", NAME)

    @property
    def _patches(self) -> bool:
        return self.mounted is None and (self.patch or bool(self.secret[1]))


def _nothing(raw: Any) -> bool:
    """Parse nothing: only the event counts, and the content of a Secret is not kept."""
    return True
