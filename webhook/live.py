"""The few questions that a cache cannot answer in time, asked of the API server itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import NotFound, TooManyRequests
from scheduler_core.kube.schedulers import is_served
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
from webhook.listing import listed

# At the same time; reviews do without the answer where there are more of them. Each takes some 50 MB at most.
MOST_LARGE_LISTS: Final = 4


class LiveReads:
    """Reads through a client whose time limit must be well below the webhooks' `timeoutSeconds`.

    Objects that cannot be read are left out, as the watch leaves them out.
    """

    def __init__(self, client: Client, wall: Callable[[], float] = time.time) -> None:
        self._client = client
        self._wall = wall
        self._large = threading.BoundedSemaphore(MOST_LARGE_LISTS)

    @contextmanager
    def _one_of_few(self) -> Iterator[None]:
        """For lists that are as large as tenants like. Raises TooManyRequests where enough go on."""
        if not self._large.acquire(blocking=False):
            raise TooManyRequests(429, "TooManyRequests", "too many large lists are being read at once")
        try:
            yield
        finally:
            self._large.release()

    def quotas(self, namespace: str) -> Fresh:
        """The ElasticQuotas of a namespace. Raises ApiError."""
        version, quotas = listed(self._client, ELASTIC_QUOTAS, namespace, parse_elastic_quota)
        return Fresh(namespace, version, tuple(quotas))

    def everything(self, namespace: str) -> Fresh:
        """The ElasticQuotas of all namespaces, and the ResourceQuotas of one. Raises ApiError."""
        version, quotas = listed(self._client, ELASTIC_QUOTAS, "", parse_elastic_quota)
        native_version, native = listed(self._client, RESOURCE_QUOTAS, namespace, parse_resource_quota)
        return Fresh("", version, tuple(quotas), native_version, tuple(native))

    def namespace(self, name: str) -> Namespace | None:
        """A namespace, or None where there is none. Raises ApiError."""
        try:
            return parse_namespace(self._client.get(NAMESPACES, "", name))
        except (NotFound, ModelError):
            return None

    def topologies(self) -> tuple[ConfigMap, ...]:
        """The topology ConfigMaps of all namespaces, without those at fault. Raises ApiError."""
        with self._one_of_few():
            _, found = listed(self._client, CONFIG_MAPS, "", parse_config_map, SAKKARA_TOPOLOGY_LABEL)
        return tuple(config_map for config_map in found if config_map.content is not None)

    def serves(self, name: str) -> bool:
        """Whether a scheduler of this name can be seen on the cluster. Raises ApiError."""

        def ask(resource: Resource, selector: str, most: int) -> Sequence[msgspec.Raw]:
            page = self._client.get_page(resource, "", field_selector=selector, limit=most, retry_budget=0.0)
            return page.items or ()

        with self._one_of_few():
            return is_served(name, ask, self._wall())

    def is_unlabelled(self, namespace: str, name: str) -> bool:
        """Whether there is a ConfigMap of this name that is no group. Raises ApiError."""
        selector = f"metadata.name={name}"
        _, found = listed(self._client, CONFIG_MAPS, namespace, parse_config_map, field_selector=selector)
        return any(not config_map.role for config_map in found)

    def members(self, namespace: str, group: str) -> tuple[PodUse, ...]:
        """The pods that name a PodGroup of the namespace by the annotation. Raises ApiError."""
        with self._one_of_few():
            _, pods = listed(self._client, PODS, namespace, parse_pod_use)
        return tuple(pod for pod in pods if pod.group == group)
