"""Ten situations in which work waits, as small clusters: what docs/answers.md compares tools by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from scheduler_core.simulate import Simulation

GPU = "nvidia.com/gpu"
Raw = dict[str, Any]


class Situation(NamedTuple):
    """A cluster, and the kind and name of what waits in namespace `a`."""

    make: Callable[[], Simulation]
    kind: str
    name: str


def node(name: str, gpus: int = 8, labels: dict[str, str] | None = None, **spec: Any) -> Raw:
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": {GPU: str(gpus), "cpu": "64", "memory": "256Gi", "pods": "110"}},
    }


def pod(namespace: str, name: str, gpus: int, group: str = "", at: str = "", **spec: Any) -> Raw:
    meta: Raw = {"namespace": namespace, "name": name}
    if group:
        meta["annotations"] = {"scheduling.k8s.io/group-name": group}
    resources = {"requests": {GPU: str(gpus)}, "limits": {GPU: str(gpus)}}
    return {
        "kind": "Pod",
        "metadata": meta,
        "spec": {
            "schedulerName": "muster-scheduler",
            "containers": [{"name": "main", "image": "i", "resources": resources}],
            **({"nodeName": at} if at else {}),
            **spec,
        },
    }


def quota(namespace: str, low: int, high: int) -> Raw:
    bounds = {"min": {GPU: str(low)}, "max": {GPU: str(high)}}
    return {"kind": "ElasticQuota", "metadata": {"namespace": namespace, "name": "quota"}, "spec": bounds}


def group(name: str, minimum: int, constraints: str = "") -> Raw:
    meta: Raw = {"namespace": "a", "name": name}
    if constraints:
        meta["annotations"] = {"muster.dev/topology-constraints": constraints}
    return {"kind": "PodGroup", "metadata": meta, "spec": {"minMembers": minimum}}


def cluster(*objects: Raw) -> Simulation:
    simulation = Simulation()
    for obj in objects:
        simulation.create(obj)
    return simulation


def above_max() -> Simulation:
    return cluster(
        node("n1"), node("n2"), quota("a", 4, 8), quota("b", 12, 16),
        pod("a", "old", 8, at="n1"), pod("a", "new", 8),
    )  # fmt: skip


def all_is_lent() -> Simulation:
    return cluster(
        node("n1"), node("n2"), quota("a", 4, 16), quota("b", 6, 16),
        pod("b", "old", 8, at="n1"), pod("a", "new", 8),
    )  # fmt: skip


def pods_missing() -> Simulation:
    return cluster(node("n1"), group("g", 3), pod("a", "g-0", 2, "g"), pod("a", "g-1", 2, "g"))


def half_a_gang() -> Simulation:
    members = [pod("a", f"g-{i}", 8, "g") for i in range(3)]
    return cluster(node("n1"), node("n2"), group("g", 3), *members)


def tainted() -> Simulation:
    taint = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    return cluster(node("n1", taints=[taint]), pod("a", "new", 8))


def unlabelled() -> Simulation:
    return cluster(node("n1"), node("n2"), pod("a", "new", 8, nodeSelector={"gpu": "h100"}))


def outranked() -> Simulation:
    return cluster(node("n1"), pod("b", "old", 8, at="n1", priority=10), pod("a", "new", 8, priority=5))


def too_large() -> Simulation:
    return cluster(node("n1"), node("n2"), pod("a", "new", 16))


def scattered() -> Simulation:
    tree = {
        "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "t", "labels": {"sakkara.topology": ""}},
        "data": {
            "name": "t",
            "level-names": '["rack", "node"]',
            "tree": '{"r1": {"n1": {}}, "r2": {"n2": {}}}',
        },
    }
    members = [pod("a", f"g-{i}", 8, "g") for i in range(2)]
    return cluster(tree, node("n1"), node("n2"), group("g", 2, _ONE_RACK), *members)


def on_their_way_out() -> Simulation:
    leaving = pod("b", "old", 8, at="n1")
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 600}
    return cluster(node("n1"), leaving, pod("a", "new", 8, preemptionPolicy="Never"))


_ONE_RACK = '{"rack": {"type": "pack", "hard": true}}'

SITUATIONS: dict[str, Situation] = {
    "the quota is at its max": Situation(above_max, "Pod", "new"),
    "all that is guaranteed is in use, lent or not": Situation(all_is_lent, "Pod", "new"),
    "pods of a gang are missing": Situation(pods_missing, "PodGroup", "g"),
    "a gang fits in part": Situation(half_a_gang, "PodGroup", "g"),
    "a taint is not tolerated": Situation(tainted, "Pod", "new"),
    "no node has the label": Situation(unlabelled, "Pod", "new"),
    "pods of higher priority fill the nodes": Situation(outranked, "Pod", "new"),
    "no node is large enough": Situation(too_large, "Pod", "new"),
    "no rack is large enough": Situation(scattered, "PodGroup", "g"),
    "pods are about to end": Situation(on_their_way_out, "Pod", "new"),
}
