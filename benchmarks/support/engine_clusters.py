"""Clusters for benchmarks of the engine: thousands of nodes, pods, quotas and gangs."""

from __future__ import annotations

from typing import Any

from scheduler_core.config.load import muster_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model.groups.gang import parse_gang
from scheduler_core.model.groups.native import parse_native_gang
from scheduler_core.model.names import GROUP_NAME_ANNOTATION, LABEL_HOSTNAME, LABEL_ZONE, MUSTER_SCHEDULER
from scheduler_core.model.node import parse_node
from scheduler_core.model.pods.pod import Pod, parse_pod
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState

ZONES = 3


def scheduler(nodes: int, cpu: int = 32, memory: str = "128Gi") -> Scheduler:
    """A scheduler with the built-in profile and equal, empty nodes in three zones."""
    made = Scheduler(ClusterState(), build_profiles(muster_config(), FACTORIES, KNOWN_PLUGINS))
    for i in range(nodes):
        labels = {LABEL_HOSTNAME: f"n{i}", LABEL_ZONE: f"z{i % ZONES}"}
        allocatable = {"cpu": cpu, "memory": memory, "pods": 110}
        node = {"metadata": {"name": f"n{i}", "labels": labels}, "status": {"allocatable": allocatable}}
        made.put(parse_node(node), 0.0)
    return made


def pod(namespace: str, name: str, cpu: str, memory: str, *, gang: str = "", **spec: Any) -> Pod:
    """A pod of the built-in profile; `spec` adds fields, and a pod with `nodeName` runs."""
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"}
    meta["labels"] = {"app": "bench"}
    if gang:
        meta["annotations"] = {GROUP_NAME_ANNOTATION: gang}
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "c", "image": "bench", "resources": {"requests": requests}}
    phase = "Running" if "nodeName" in spec else "Pending"
    body = {"schedulerName": MUSTER_SCHEDULER, "containers": [container], **spec}
    return parse_pod({"metadata": meta, "spec": body, "status": {"phase": phase}})


def add_quota(made: Scheduler, namespace: str, low: dict[str, Any], high: dict[str, Any]) -> None:
    """One ElasticQuota."""
    meta = {"name": "quota", "namespace": namespace}
    made.put(parse_elastic_quota({"metadata": meta, "spec": {"min": low, "max": high}}), 0.0)


def add_gang(made: Scheduler, name: str, size: int, cpu: str) -> None:
    """A gang of equal pods that must start together."""
    made.put(parse_gang({"metadata": {"name": name, "namespace": "a"}, "spec": {"minMembers": size}}), 1.0)
    for i in range(size):
        made.put(pod("a", f"{name}-{i}", cpu, "1Gi", gang=name), 1.0)


def add_native_gang(made: Scheduler, name: str, size: int, cpu: str) -> None:
    """The same as a native PodGroup of scheduling.k8s.io."""
    policy = {"gang": {"minCount": size}}
    meta = {"name": name, "namespace": "a"}
    made.put(parse_native_gang({"metadata": meta, "spec": {"schedulingPolicy": policy}}), 1.0)
    for i in range(size):
        made.put(pod("a", f"{name}-{i}", cpu, "1Gi", schedulingGroup={"podGroupName": name}), 1.0)
