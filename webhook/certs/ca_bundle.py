"""Keeps the CA bundles in the webhook configurations in step with the certificates.

The configurations are read before the certificates, and written on the version that was read. So a slow
replica cannot replace a newer bundle by an older one: the newer one changed the version.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import NotFound
from scheduler_core.model.admission_webhooks import CONFIGURATIONS, DOMAIN, NAME
from scheduler_core.model.kinds import Resource
from scheduler_core.model.writes import Replace

Configuration = Mapping[str, Any]


class Published(NamedTuple):
    """The configurations as they were read, without those that do not exist."""

    found: tuple[tuple[Resource, Configuration], ...]

    def trusts(self, bundle: bytes) -> bool:
        """Whether all webhooks of Muster have exactly this bundle."""
        text = base64.b64encode(bundle).decode()
        return all(config.get("caBundle") == text for config in self._client_configs())

    def _client_configs(self) -> Iterator[Mapping[str, Any]]:
        for _, configuration in self.found:
            for entry in configuration.get("webhooks") or ():
                if _is_ours(entry):
                    yield entry.get("clientConfig") or {}


def read_published(client: Client) -> Published:
    """Read both configurations. Raises ApiError."""
    found = []
    for resource in CONFIGURATIONS:
        try:
            found.append((resource, client.get_json(resource, "", NAME)))
        except NotFound:
            continue
    return Published(tuple(found))


def publish(
    client: Client, published: Published, bundle: bytes, wrote: Callable[[], object] = lambda: None
) -> None:
    """Write the bundle where it differs; nothing else is changed. Raises Conflict and ApiError."""
    for resource, current in published.found:
        wanted = with_bundle(current, bundle)
        if wanted != current:
            client.replace(Replace(resource, "", NAME, wanted))
            wrote()


def with_bundle(configuration: Configuration, bundle: bytes) -> dict[str, Any]:
    """The configuration with the bundle in all webhooks of Muster."""
    text = base64.b64encode(bundle).decode()
    entries = [
        {**entry, "clientConfig": {**(entry.get("clientConfig") or {}), "caBundle": text}}
        if _is_ours(entry)
        else entry
        for entry in configuration.get("webhooks") or ()
    ]
    return {**configuration, "webhooks": entries}


def _is_ours(entry: Mapping[str, Any]) -> bool:
    return str(entry.get("name", "")).endswith(DOMAIN)
