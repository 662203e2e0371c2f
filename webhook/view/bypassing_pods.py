"""Finds pods that bypassed the webhook: pods of the default scheduler that belong to Muster.

With failurePolicy `Ignore`, pods pass while the webhook is unavailable. They keep their scheduler, because
`spec.schedulerName` is immutable. A pod with a node counts in its quota; a waiting one has to be recreated.

One watch with a field selector has the running and waiting pods of the default scheduler; pods of Muster cost
nothing here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import PODS
from scheduler_core.model.meta import LONGEST_KEPT_NAME, MAX_NAME, ApiObject, OwnerReference, decode
from scheduler_core.model.names import (
    DEFAULT_SCHEDULER,
    EXEMPT_LABEL,
    GROUP_NAME_ANNOTATION,
    SAKKARA_GROUP_NAME_LABEL,
    X_POD_GROUP_LABEL,
)
from scheduler_core.model.namespace import Namespace
from scheduler_core.model.pods.adoption import Way, recreation_way
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.quota.passed_by import PassedBy, governs, is_settled
from webhook.policy.pod_group_membership import NewPod, Owners, PodMeta, PodSpec, group_of, is_group_name
from webhook.view.cache import Cache

SELECTOR: Final = f"spec.schedulerName={DEFAULT_SCHEDULER},status.phase!=Succeeded,status.phase!=Failed"


class _PodWire(ApiObject, frozen=True, rename="camel"):
    spec: PodSpec = PodSpec()


class DefaultSchedulerPod(msgspec.Struct, frozen=True):
    """A pod of the default scheduler; `pod` has the fields that determine its group.

    `settled` pods need no audit: they are terminating, mirror pods, or judged by the webhook as pods of
    another scheduler. `created` is in seconds since the epoch; `way` is how the pod can be recreated; `named`
    is the group of its own annotation, empty without.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    created: float
    settled: bool
    way: Way
    named: str
    pod: NewPod

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def node(self) -> str:
        """Its node, empty while it waits."""
        return (self.pod.spec.node_name or "") if self.pod.spec is not None else ""

    @property
    def controller(self) -> OwnerReference | None:
        """The controller that would replace the pod."""
        return self.pod.metadata.controller


def parse_default_scheduler_pod(raw: msgspec.Raw) -> DefaultSchedulerPod:
    """Parse a pod. Raises ModelError."""
    wire = decode(raw, _PodWire, PODS.kind)
    meta = wire.metadata
    annotations, labels = meta.annotations or {}, meta.labels or {}
    named = annotations.get(GROUP_NAME_ANNOTATION, "")[:LONGEST_KEPT_NAME]
    controller = meta.controller
    kept = PodMeta(
        meta.name,
        {GROUP_NAME_ANNOTATION: named},
        {key: labels[key] for key in (X_POD_GROUP_LABEL, SAKKARA_GROUP_NAME_LABEL) if key in labels},
        owner_references=(controller,) if controller is not None else None,
    )
    settled = is_settled(annotations, terminating=meta.deletion_timestamp is not None)
    return DefaultSchedulerPod(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.resource_version,
        meta.created,
        settled,
        recreation_way(controller, labels, annotations),
        named,
        NewPod(kept, _kept_spec(wire.spec)),
    )


def _kept_spec(spec: PodSpec) -> PodSpec:
    """What is asked of a pod later: its scheduler, its node, its native group."""
    group = spec.scheduling_group
    if group is not None and len(group.pod_group_name) > MAX_NAME:
        group = None
    scheduler = (spec.scheduler_name or "")[:LONGEST_KEPT_NAME]
    return PodSpec(scheduler or None, spec.node_name, scheduling_group=group)


class DefaultSchedulerPods:
    """The pods of the default scheduler. Written by a reflector's thread, read by the auditor's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pods: dict[str, dict[str, DefaultSchedulerPod]] = {}

    def sink(self, event: Event) -> None:
        """Take one change; settled pods are not kept."""
        namespace, _, name = event.key.partition("/")
        if not namespace:
            return
        with self._lock:
            pods = self._pods.setdefault(namespace, {})
            if event.obj is None or event.obj.settled:
                pods.pop(name, None)
            else:
                pods[name] = event.obj
            if not pods:
                del self._pods[namespace]

    def by_namespace(self) -> Iterator[tuple[str, tuple[DefaultSchedulerPod, ...]]]:
        """The pods by namespace."""
        with self._lock:
            found = [(namespace, tuple(pods.values())) for namespace, pods in self._pods.items()]
        return iter(found)


class BypassingPod(NamedTuple):
    """A pod that bypassed the webhook, its PodGroup (or empty), and the quota of its namespace (or None)."""

    pod: DefaultSchedulerPod
    group: str
    quota: ElasticQuota | None

    @property
    def joins(self) -> bool:
        """Whether the pod belongs to a group without its annotation, and so is not counted as a member."""
        return bool(self.group) and not self.pod.named

    def __str__(self) -> str:
        """The finding, its consequence, and the remedy."""
        pod, quota = self.pod, self.quota
        quota_key = quota.key if quota is not None else ""
        return str(PassedBy(pod.namespace, pod.name, pod.node, quota_key, self.group, self.joins))


class BypassSearch:
    """Finds bypassing pods by the rules of admission, from the cache alone."""

    def __init__(
        self, default_pods: DefaultSchedulerPods, cache: Cache, owners: Owners, exempt: frozenset[str]
    ) -> None:
        self._default_pods = default_pods
        self._cache = cache
        self._owners = owners
        self._exempt = exempt

    def find(self) -> list[BypassingPod]:
        """The bypassing pods, in no order.

        A pod counts only if it is not older than the quota of its namespace or its group, unless it names
        the group itself.
        """
        found: list[BypassingPod] = []
        for namespace, pods in self._default_pods.by_namespace():
            home = self._cache.namespace(namespace)
            if home is None or namespace in self._exempt or home.labels.get(EXEMPT_LABEL) == "true":
                continue
            found += self._in_namespace(namespace, home, pods)
        return found

    def _in_namespace(
        self, namespace: str, home: Namespace, pods: tuple[DefaultSchedulerPod, ...]
    ) -> list[BypassingPod]:
        quota = self._cache.quota_of(namespace)
        groups = {group.name: group.created for group in self._cache.reservations.groups(namespace).values()}
        # Most pods are older than the quota and all groups, or there are none.
        oldest = min((quota.created if quota is not None else float("inf"), *groups.values()))
        found = []
        for pod in pods:
            if pod.created < oldest and not pod.named:
                continue
            governed = quota if governs(quota, pod.created) else None
            name = pod.named
            if groups and not name:
                name = group_of(pod.pod, namespace, groups.__contains__, self._owners, home, ask=False)
                name = name if pod.created >= groups.get(name, float("inf")) else ""
            if not is_group_name(name):
                name = ""
            if governed is not None or name:
                found.append(BypassingPod(pod, name, governed))
        return found
