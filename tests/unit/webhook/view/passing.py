"""Pods that passed by, and worlds in which they are found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import JOBS, PODS
from tests.unit.webhook.http.reviews import Obj, namespace, quota, synced
from webhook.view.bypassing_pods import (
    BypassingPod,
    BypassSearch,
    DefaultSchedulerPods,
    parse_default_scheduler_pod,
)
from webhook.view.owners import OwnerCache, parse_owner

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
GROUP = "scheduling.k8s.io/group-name"
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job", "controller": True}


def default_pod(name: str = "p", created: str = LATE, *, node: str = "", **meta: Any) -> Obj:
    """A pod that no webhook saw."""
    body = {"name": name, "namespace": "a", "uid": name, "creationTimestamp": created, **meta}
    return {"metadata": body, "spec": {"schedulerName": "default-scheduler", "nodeName": node}}


def governed(created: str = EARLY) -> Obj:
    """The quota of namespace a."""
    return quota(max={"cpu": "1"}, meta={"creationTimestamp": created})


def group(name: str = "g", created: str = EARLY) -> Obj:
    """A PodGroup of namespace a."""
    meta = {"name": name, "namespace": "a", "uid": name, "creationTimestamp": created}
    return {"kind": "PodGroup", "metadata": meta, "spec": {"minMembers": 2}}


def home(default_group: str = "", labels: Mapping[str, str] | None = None) -> Obj:
    """Namespace a."""
    found = namespace(labels=dict(labels or {}))
    if default_group:
        found["metadata"]["annotations"] = {"muster.dev/default-group": default_group}
    return found


def found_in(
    pods: list[Obj], *world: Obj, job_names: str = "", exempt: tuple[str, ...] = ()
) -> list[BypassingPod]:
    """What a search finds of these pods in this world, with a Job that names a group."""
    default_pods, owners = DefaultSchedulerPods(), OwnerCache()
    for pod in pods:
        meta = pod["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        default_pods.sink(Event("ADDED", PODS, key, meta["uid"], parse_default_scheduler_pod(pod)))  # type: ignore[arg-type]
    job = {"metadata": {"name": "job", "namespace": "a", "uid": "job", "annotations": {GROUP: job_names}}}
    owners.sink(Event("ADDED", JOBS, "a/job", "job", parse_owner(job)))
    return BypassSearch(default_pods, synced(*world), owners, frozenset(exempt)).find()
