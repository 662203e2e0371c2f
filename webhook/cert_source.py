"""Where a process gets its certificates, as the command line says, and what tells it to look again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler_core.kube.client import Client
from scheduler_core.kube.reflector import Reflector
from scheduler_core.kube.tracker import Event
from scheduler_core.model.kinds import SECRETS, Resource
from webhook.cert_store import FileStore, SecretStore
from webhook.metrics import Metrics
from webhook.registration import CONFIGURATIONS, NAME
from webhook.rotation import MountedCertificates, OwnCertificates, Rotation


@dataclass(frozen=True)
class Source:
    """One of three: a `secret` (namespace and name) that replicas share, a directory that somebody else
    fills (`mounted`), or a directory of our own. `patch`: the webhook configurations get our CAs."""

    own: Path
    secret: tuple[str, str] = ("", "")
    mounted: Path | None = None
    patch: bool = False

    def rotation(self, client: Client, hosts: tuple[str, ...], metrics: Metrics) -> Rotation:
        """What renews, or takes over, certificates for these hosts."""
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
    """Of what is watched only the news counts; a Secret's content is not kept."""
    return True
