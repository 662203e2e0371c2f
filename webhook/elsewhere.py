"""Pods that Muster should have got and the cluster's own scheduler has: found by the rules of admission.

A webhook with failurePolicy `Ignore` lets pods pass while it is away. They keep their scheduler: nobody can
change `spec.schedulerName` of a pod. Who has a node counts; who waits has to be made anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.kinds import PODS
from scheduler_core.model.names import DEFAULT_SCHEDULER, EXEMPT_LABEL
from scheduler_core.model.namespace import Namespace
from webhook.audit import PASSED_BY, Slip
from webhook.cache import Cache
from webhook.membership import Owners, group_of, is_group_name
from webhook.strangers import Stranger, Strangers


class Elsewhere(NamedTuple):
    """A pod that passed by: the PodGroup it belongs to (or empty), the quota that governs it (or None)."""

    pod: Stranger
    group: str
    quota: ElasticQuota | None

    @property
    def joins(self) -> bool:
        """Whether it belongs to a group and does not say so: it counts as no member yet."""
        return bool(self.group) and not self.pod.named

    def __str__(self) -> str:
        """What is wrong, what it means, and what helps."""
        pod = self.pod
        why = [f"ElasticQuota {self.quota.key} governs its namespace"] if self.quota is not None else []
        why += [f"it belongs to PodGroup {pod.namespace}/{self.group}"] if self.group else []
        says = f"Pod {pod.key}: spec.schedulerName={DEFAULT_SCHEDULER} though {' and '.join(why)}"
        adopt = f"`{adopt_command(pod.namespace, self.group)}`"
        came = "it was created while the webhook was away"
        if not pod.node:
            return f"{says}; {came}, and waits for another scheduler; {adopt} makes it anew for Muster"
        counts = ["in the quota"] if self.quota is not None else []
        counts += ["as a member"] if self.group and not self.joins else []
        text = f"{says}; {came}" + (f", and counts {' and '.join(counts)}" if counts else "")
        return f"{text}; {adopt} makes it count as a member" if self.joins else text


def adopt_command(namespace: str, group: str) -> str:
    """What a user types to offer pods back."""
    return (
        f"kubectl podgroup adopt {group} -n {namespace}"
        if group
        else (f"kubectl elasticquota adopt -n {namespace}")
    )


def passed_by(found: Iterable[Elsewhere]) -> list[Slip]:
    """What is told of them."""
    return [
        Slip(PASSED_BY, str(item), PODS.kind, PODS.api_version, pod.namespace, pod.name, pod.uid)
        for item in found
        for pod in (item.pod,)
    ]


class Search:
    """Goes through the strangers. `find` asks nobody: memory decides."""

    def __init__(self, strangers: Strangers, cache: Cache, owners: Owners, exempt: frozenset[str]) -> None:
        self._strangers = strangers
        self._cache = cache
        self._owners = owners
        self._exempt = exempt

    def find(self) -> list[Elsewhere]:
        """The pods that passed by, in no order.

        Only pods that are not older than what speaks for Muster: the quota of their namespace, their group.
        A pod that names its group itself was Muster's from its first moment on.
        """
        found: list[Elsewhere] = []
        for namespace, pods in self._strangers.by_namespace():
            home = self._cache.namespace(namespace)
            if home is None or namespace in self._exempt or home.labels.get(EXEMPT_LABEL) == "true":
                continue
            found += self._in_namespace(namespace, home, pods)
        return found

    def _in_namespace(self, namespace: str, home: Namespace, pods: tuple[Stranger, ...]) -> list[Elsewhere]:
        quota = self._cache.quota_of(namespace)
        groups = {group.name: group.created for group in self._cache.holdings.groups(namespace).values()}
        # Most pods are older than all of that, or nothing speaks for Muster: no more is asked of them.
        oldest = min((quota.created if quota is not None else float("inf"), *groups.values()))
        found = []
        for pod in pods:
            if pod.created < oldest and not pod.named:
                continue
            governed = quota if quota is not None and pod.created >= quota.created else None
            name = pod.named
            if groups and not name:
                name = group_of(pod.pod, namespace, groups.__contains__, self._owners, home, ask=False)
                name = name if pod.created >= groups.get(name, float("inf")) else ""
            if not is_group_name(name):
                name = ""
            if governed is not None or name:
                found.append(Elsewhere(pod, name, governed))
        return found
