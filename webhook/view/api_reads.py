"""Reads from the API server during a review, for what the cache does not have or not in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, Protocol, TypeVar

import msgspec

from scheduler_core.decoding import decode
from scheduler_core.errors import ModelError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import ApiError, KubeconfigError, NotFound, TooManyRequests
from scheduler_core.kube.schedulers import is_served
from scheduler_core.model.config_map import ConfigMap, parse_config_map
from scheduler_core.model.groups.gang import Gang, GroupRef
from scheduler_core.model.kinds import (
    CONFIG_MAPS,
    ELASTIC_QUOTAS,
    NAMESPACES,
    PODS,
    QUOTA_FLAVORS,
    QUOTA_GROUPS,
    RESOURCE_QUOTAS,
    SUBJECT_ACCESS_REVIEWS,
    Resource,
)
from scheduler_core.model.names import SAKKARA_TOPOLOGY_LABEL, TOPOLOGY_NAMESPACE
from scheduler_core.model.namespace import Namespace, parse_namespace
from scheduler_core.model.pods.requests import CurrentRule, ResizeRule
from scheduler_core.model.pods.use import PodUse, parse_pod_use
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.model.quotas.quota_flavor import QuotaFlavor, parse_quota_flavor
from scheduler_core.model.quotas.quota_group import QuotaGroup, parse_quota_group
from scheduler_core.model.quotas.resource_quota import parse_resource_quota
from scheduler_core.model.resources import ResourceList, add_to
from scheduler_core.model.writes import Create
from webhook.http.admission_review import UserInfo
from webhook.policy.group_quota import PodExamples
from webhook.view.cache import FreshList
from webhook.view.group_reads import GroupWithPods, group_named, groups_with_pods, members_of, template_of
from webhook.view.listing import listed

T = TypeVar("T")


class ApiReads(Protocol):
    """The reads that reviews may make. Every method raises ApiError."""

    def quotas(self, namespace: str) -> FreshList:
        """The ElasticQuotas of a namespace."""

    def everything(self, namespace: str) -> FreshList:
        """The ElasticQuotas of all namespaces, all QuotaGroups and QuotaFlavors, and the ResourceQuotas of a
        namespace.
        """

    def quota_groups(self) -> tuple[QuotaGroup, ...]:
        """All QuotaGroups."""

    def namespace(self, name: str) -> Namespace | None:
        """A namespace, or None."""

    def topologies(self) -> Sequence[ConfigMap]:
        """The valid topology ConfigMaps that schedulers read."""

    def serves(self, name: str) -> bool:
        """Whether a scheduler of this name can be seen on the cluster."""

    def is_unlabelled(self, namespace: str, name: str) -> bool:
        """Whether there is a ConfigMap of this name that is no group."""

    def members(self, ref: GroupRef) -> Sequence[PodUse]:
        """The pods of a group."""

    def template(self, gang: Gang) -> PodExamples:
        """The pod templates of the controller that the Workload of a native group refers to."""

    def group(self, ref: GroupRef) -> Gang | None:
        """The group that pods name, or None."""

    def groups(self, namespace: str) -> Sequence[GroupWithPods]:
        """The groups of a namespace with their pods."""

    def requested(self, namespace: str) -> ResourceList:
        """What the pods of a namespace request that have not ended."""

    def may_list_quotas(self, user: UserInfo) -> bool:
        """Whether a user may list the ElasticQuotas of all namespaces."""


class OptionalReads:
    """Reads that may fail; then the cache has to suffice."""

    def __init__(self, live: ApiReads | None) -> None:
        self._live = live

    def ask(self, question: Callable[[ApiReads], T]) -> T | None:
        """The result of a read, or None if it fails."""
        if self._live is None:
            return None
        try:
            return question(self._live)
        except (ApiError, KubeconfigError):
            return None


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


# Large lists at the same time, of some 50 MB each at most; further ones fail, and reviews go without them.
MOST_LARGE_LISTS: Final = 4


class ClientReads:
    """ApiReads by a client whose time limit must be well below the webhooks' `timeoutSeconds`.

    Invalid objects are left out, as in the watches. `topologies`: the namespaces whose topologies are read.
    `rule`: what resized pods count for.
    """

    def __init__(
        self,
        client: Client,
        wall: Callable[[], float] = time.time,
        topologies: Collection[str] = (TOPOLOGY_NAMESPACE,),
        rule: CurrentRule = ResizeRule.newest,
    ) -> None:
        self._client = client
        self._rule = rule
        self._wall = wall
        self._topologies = sorted(topologies)
        self._large = threading.BoundedSemaphore(MOST_LARGE_LISTS)

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        """Bound the lists whose size tenants choose. Raises TooManyRequests beyond MOST_LARGE_LISTS."""
        if not self._large.acquire(blocking=False):
            raise TooManyRequests(429, "TooManyRequests", "too many large lists are being read at once")
        try:
            yield
        finally:
            self._large.release()

    def quotas(self, namespace: str) -> FreshList:
        """The ElasticQuotas of a namespace. Raises ApiError."""
        version, quotas = listed(self._client, ELASTIC_QUOTAS, namespace, parse_elastic_quota)
        return FreshList(namespace, version, tuple(quotas))

    def everything(self, namespace: str) -> FreshList:
        """The ElasticQuotas of all namespaces, all QuotaGroups and QuotaFlavors, and the ResourceQuotas of a
        namespace. Raises ApiError.
        """
        version, quotas = listed(self._client, ELASTIC_QUOTAS, "", parse_elastic_quota)
        native_version, native = listed(self._client, RESOURCE_QUOTAS, namespace, parse_resource_quota)
        return FreshList(
            "",
            version,
            tuple(quotas),
            native_version,
            tuple(native),
            groups=self.quota_groups(),
            flavors=self.quota_flavors(),
        )

    def quota_groups(self) -> tuple[QuotaGroup, ...]:
        """All QuotaGroups; none where the cluster does not serve the kind. Raises ApiError."""
        try:
            return tuple(listed(self._client, QUOTA_GROUPS, "", parse_quota_group)[1])
        except NotFound:
            return ()

    def quota_flavors(self) -> tuple[QuotaFlavor, ...]:
        """All QuotaFlavors; none where the cluster does not serve the kind. Raises ApiError."""
        try:
            return tuple(listed(self._client, QUOTA_FLAVORS, "", parse_quota_flavor)[1])
        except NotFound:
            return ()

    def namespace(self, name: str) -> Namespace | None:
        """A namespace, or None where there is none. Raises ApiError."""
        try:
            return parse_namespace(self._client.get(NAMESPACES, "", name))
        except (NotFound, ModelError):
            return None

    def topologies(self) -> tuple[ConfigMap, ...]:
        """The valid topology ConfigMaps that schedulers read. Raises ApiError.

        Whatever tenants call a topology in their own namespaces is neither read nor counts.
        """
        found: list[ConfigMap] = []
        with self._bounded():
            for namespace in self._topologies:
                found += listed(
                    self._client, CONFIG_MAPS, namespace, parse_config_map, SAKKARA_TOPOLOGY_LABEL
                )[1]
        return tuple(config_map for config_map in found if config_map.content is not None)

    def serves(self, name: str) -> bool:
        """Whether a scheduler of this name can be seen on the cluster. Raises ApiError."""

        def ask(resource: Resource, selector: str, most: int) -> Sequence[msgspec.Raw]:
            page = self._client.get_page(resource, "", field_selector=selector, limit=most, retry_budget=0.0)
            return page.items or ()

        with self._bounded():
            return is_served(name, ask, self._wall())

    def is_unlabelled(self, namespace: str, name: str) -> bool:
        """Whether there is a ConfigMap of this name that is no group. Raises ApiError."""
        selector = f"metadata.name={name}"
        read = partial(parse_config_map, topologies=())
        _, found = listed(self._client, CONFIG_MAPS, namespace, read, field_selector=selector)
        return any(not config_map.role for config_map in found)

    def members(self, ref: GroupRef) -> tuple[PodUse, ...]:
        """The pods of a group of any dialect. Raises ApiError."""
        with self._bounded():
            return members_of(self._client, ref, self._rule())

    def template(self, gang: Gang) -> PodExamples:
        """The pod templates of the controller of a group's Workload. Raises ApiError."""
        return template_of(self._client, gang)

    def group(self, ref: GroupRef) -> Gang | None:
        """The group that pods name, or None. Raises ApiError."""
        with self._bounded():
            return group_named(self._client, ref)

    def groups(self, namespace: str) -> tuple[GroupWithPods, ...]:
        """The groups of a namespace with their pods. Raises ApiError."""
        with self._bounded():
            return groups_with_pods(self._client, namespace, self._rule())

    def requested(self, namespace: str) -> ResourceList:
        """What the pods of a namespace request that have not ended. Raises ApiError."""
        with self._bounded():
            _, pods = listed(self._client, PODS, namespace, partial(parse_pod_use, rule=self._rule()))
        total: dict[str, int] = {}
        for pod in pods:
            if not pod.finished:
                add_to(total, pod.usage)
        return total

    def may_list_quotas(self, user: UserInfo) -> bool:
        """Whether a user may list the ElasticQuotas of all namespaces. Raises ApiError."""
        attributes = {"verb": "list", "group": ELASTIC_QUOTAS.group, "resource": ELASTIC_QUOTAS.plural}
        spec = {"user": user.username, "groups": user.groups or (), "resourceAttributes": attributes}
        answer = self._client.create(Create(SUBJECT_ACCESS_REVIEWS, "", {"spec": spec}))
        try:
            return decode(answer, _AccessReview).status.allowed
        except msgspec.MsgspecError:
            return False
