"""The few questions that a cache cannot answer in time, asked of the API server itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import NotFound
from scheduler_core.model.config_map import ConfigMap, parse_config_map
from scheduler_core.model.elastic_quota import parse_elastic_quota
from scheduler_core.model.kinds import (
    CONFIG_MAPS,
    ELASTIC_QUOTAS,
    NAMESPACES,
    PODS,
    RESOURCE_QUOTAS,
    Resource,
)
from scheduler_core.model.names import SAKKARA_TOPOLOGY_LABEL
from scheduler_core.model.namespace import Namespace, parse_namespace
from scheduler_core.model.pod_use import PodUse, parse_pod_use
from scheduler_core.model.resource_quota import parse_resource_quota
from webhook.cache import Fresh

T = TypeVar("T")


class LiveReads:
    """Reads through a client whose time limit must be well below the webhooks' `timeoutSeconds`.

    Objects that cannot be read are left out, as the watch leaves them out.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def quotas(self, namespace: str) -> Fresh:
        """The ElasticQuotas of a namespace. Raises ApiError."""
        version, quotas = self._list(ELASTIC_QUOTAS, namespace, parse_elastic_quota)
        return Fresh(namespace, version, quotas)

    def everything(self, namespace: str) -> Fresh:
        """The ElasticQuotas of all namespaces, and the ResourceQuotas of one. Raises ApiError."""
        version, quotas = self._list(ELASTIC_QUOTAS, "", parse_elastic_quota)
        native_version, native = self._list(RESOURCE_QUOTAS, namespace, parse_resource_quota)
        return Fresh("", version, quotas, native_version, native)

    def namespace(self, name: str) -> Namespace | None:
        """A namespace, or None where there is none. Raises ApiError."""
        try:
            return parse_namespace(self._client.get(NAMESPACES, "", name))
        except (NotFound, ModelError):
            return None

    def topologies(self) -> tuple[ConfigMap, ...]:
        """The topology ConfigMaps of all namespaces, without those at fault. Raises ApiError."""
        page = self._client.get_page(
            CONFIG_MAPS, "", label_selector=SAKKARA_TOPOLOGY_LABEL, limit=0, retry_budget=0.0
        )
        found = [parse_config_map(raw) for raw in page.items or ()]
        return tuple(config_map for config_map in found if config_map.content is not None)

    def members(self, namespace: str, group: str) -> tuple[PodUse, ...]:
        """The pods that name a PodGroup of the namespace by the annotation. Raises ApiError."""
        _, pods = self._list(PODS, namespace, parse_pod_use)
        return tuple(pod for pod in pods if pod.group == group)

    def _list(
        self, resource: Resource, namespace: str, parse: Callable[[msgspec.Raw], T]
    ) -> tuple[str, tuple[T, ...]]:
        """Everything in one page, so that it is of one moment, with that moment's resourceVersion."""
        page = self._client.get_page(resource, namespace, limit=0, retry_budget=0.0)
        return page.metadata.resourceVersion, tuple(_readable(page.items or (), parse))


def _readable(items: Iterable[msgspec.Raw], parse: Callable[[msgspec.Raw], T]) -> Iterator[T]:
    """The objects that can be read."""
    for raw in items:
        try:
            yield parse(raw)
        except ModelError:
            continue
