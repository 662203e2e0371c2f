"""Reads the lists of a live cluster that the engine needs, side by side, as raw JSON."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

import msgspec

from kubectl_plugin.cluster.reading import (
    ListClient,
    ListScope,
    kind_name,
    kind_outside,
    list_if_served,
    list_or_none,
)
from scheduler_core.kube.errors import NotFound
from scheduler_core.model.kinds import (
    CONFIG_MAPS,
    ELASTIC_QUOTAS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    Resource,
)
from scheduler_core.model.names import SAKKARA_GROUP_LABEL, SAKKARA_TOPOLOGY_LABEL
from scheduler_core.model.watched import COMPOSITES, WATCHED

# Kinds that the scheduler does not read, but that explain what happens to pods.
BESIDE: Final = (RESOURCE_QUOTAS, PRIORITY_CLASSES)
# Objects per page: most clusters send each list in a few pages.
_PAGE: Final = 2500
_THREADS: Final = 8


class KindList(msgspec.Struct, frozen=True):
    """The objects of a kind, in the version that the server serves.

    `namespace` is the only one that was read, empty for all. `items` is None where the user may not list the
    kind.
    """

    resource: Resource
    items: tuple[msgspec.Raw, ...] | None
    namespace: str = ""

    @property
    def missing(self) -> str:
        """What is not known, for a message; empty if the list has all objects of the cluster."""
        if self.items is None:
            return kind_name(self.resource)
        return kind_outside(self.resource, self.namespace) if self.namespace else ""


class ServedClient(ListClient, Protocol):
    """The methods of `kube.client.Client` that are needed here."""

    def served(self, resource: Resource) -> Resource:
        """The resource in the version that the server serves. Raises ApiError."""


def read_lists(client: ServedClient, namespace: str, *, composites: bool = False) -> list[KindList]:
    """All objects that a simulation of the cluster needs, pods last.

    A list that the user may not read in all namespaces is read in `namespace`. Raises the ApiError tree, and
    CommandFailed if the server lacks Muster's CRDs.
    """
    kinds = [resource for resource, _ in WATCHED[:-1]]
    kinds += [*BESIDE, *([COMPOSITES[0]] if composites else []), WATCHED[-1][0]]
    with ThreadPoolExecutor(_THREADS) as pool:
        # The largest list begins first.
        tasks = [pool.submit(_read, client, resource, namespace) for resource in reversed(kinds)]
        return [task.result() for task in reversed(tasks)]


def _read(client: ServedClient, resource: Resource, namespace: str) -> KindList:
    try:
        served = client.served(resource)
    except NotFound:
        return KindList(resource, ())
    items = _listed(client, resource, "")
    if items is not None or not (resource.namespaced and namespace):
        return KindList(served, items)
    own = _listed(client, resource, namespace)
    return KindList(served, own, namespace if own is not None else "")


def _listed(client: ListClient, resource: Resource, namespace: str) -> tuple[msgspec.Raw, ...] | None:
    scope = ListScope(namespace, chunk=_PAGE)
    if resource == CONFIG_MAPS:
        return _config_maps(client, scope)
    read = list_or_none if resource == ELASTIC_QUOTAS else list_if_served
    items = read(client, resource, scope)
    return tuple(items) if items is not None else None


def _config_maps(client: ListClient, scope: ListScope) -> tuple[msgspec.Raw, ...] | None:
    """Groups and topologies; an object that has both labels is listed once."""
    found: dict[bytes, msgspec.Raw] = {}
    for label in (SAKKARA_GROUP_LABEL, SAKKARA_TOPOLOGY_LABEL):
        items = list_or_none(client, CONFIG_MAPS, msgspec.structs.replace(scope, labels=label))
        if items is None:
            return None
        found |= {bytes(item): item for item in items}
    return tuple(found.values())


def missing(lists: Sequence[KindList]) -> list[str]:
    """What the user may not read, for messages."""
    return [item.missing for item in lists if item.missing]
