"""Computes scheduling signatures: pods with an equal signature get the same answers of plugins (KEP-5598)."""

from __future__ import annotations

from collections.abc import Hashable

from scheduler_core.model.groups.gang import group_of
from scheduler_core.model.names import SCALING_FACTORS_ANNOTATION
from scheduler_core.model.pods.pod import Pod


def static_signature(pod: Pod) -> Hashable:
    """Equal for pods with the same answers of every STATIC plugin, whatever they request."""
    return (
        pod.scheduler_name,
        pod.node_selector,
        pod.node_affinity,
        pod.tolerations,
        pod.images,
        pod.node_name,
        pod.controller.kind if pod.controller else "",
    )


def usage_signature(pod: Pod) -> Hashable:
    """Equal for pods with the same answers of every STATIC and USAGE plugin, in any namespace: one class."""
    return static_signature(pod), tuple(pod.requests.items()), pod.nonzero, pod.host_ports


def signature(pod: Pod, *, labels_matter: bool) -> Hashable:
    """Equal for pods of one namespace and priority with the same answers of every STATIC and USAGE plugin.

    Labels, volumes and rules between pods are read by CLUSTER plugins only, which run for every attempt. With
    `labels_matter` they are included, and equal pods get the same answers of all plugins.
    """
    return (
        usage_signature(pod),
        pod.namespace,
        pod.priority,
        _of_many_nodes(pod) if labels_matter else None,
    )


def kind(pod: Pod, *, labels_matter: bool) -> Hashable:
    """Equal for pods with the same answers of all plugins; labels count only with `labels_matter`."""
    labels, *others = _of_many_nodes(pod)
    return signature(pod, labels_matter=False), tuple(others), labels if labels_matter else None


def _of_many_nodes(pod: Pod) -> tuple[Hashable, ...]:
    """The fields that only plugins of CLUSTER scope read."""
    labels, limits = tuple(sorted(pod.labels.items())), tuple(sorted(pod.limits.items()))
    wanted = (pod.spread, pod.pod_affinity, pod.pod_anti_affinity, pod.volumes, pod.needs_claims)
    estimated = (limits, pod.annotations.get(SCALING_FACTORS_ANNOTATION), pod.best_effort, pod.of_daemon_set)
    return labels, *wanted, *estimated


def schedules_differently(old: Pod, new: Pod) -> bool:
    """Whether a newer form of a waiting pod may be scheduled differently, so that it is requeued."""
    return (
        old.gates != new.gates
        or group_of(old) != group_of(new)
        or signature(old, labels_matter=True) != signature(new, labels_matter=True)
    )
