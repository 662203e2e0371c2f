"""A cluster that is made to be looked at: quotas that lend and borrow, gangs that run and wait, racks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Obj = dict[str, Any]
CREATED = "2026-01-01T00:00:00Z"
GPU = "nvidia.com/gpu"
VERSION = "incubator.scheduling.k8s.io/v1alpha1"
# What becomes text of a page: nothing of it may act, break the page, or turn its direction.
NASTY = (
    "<script>window.hacked=1</script>",
    "\"><img src=x onerror='window.hacked=1'>",
    "javascript:window.hacked=1",
    "]]></svg><svg onload=window.hacked=1>",
    "{{ 7*7 }}{% raw %}",
    "\u202ertl\u202c \u2066x\u2069",
    "\u0000\u0007\u001b[31m",
    "🦀" * 40,
    "x" * 5000,
    "'; DROP TABLE pods; --",
)


def team(number: int) -> str:
    """The namespace of a team."""
    return f"team-{number:03}"


def view_cluster(nodes: int, teams: int) -> Iterator[Obj]:
    """The objects. Every fifth team borrows, every fourth has a gang that waits."""
    yield _topology(nodes)
    for number in range(nodes):
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{number:04}"},
            "status": {"allocatable": {"cpu": "64", "memory": "256Gi", GPU: "8", "pods": "110"}},
        }
    for number in range(teams):
        amounts = {"cpu": "64", GPU: "8"}
        yield {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": "quota", "namespace": team(number)},
            "spec": {"min": amounts, "max": {"cpu": "256", GPU: "32"}},
        }
        size = 6 if number % 5 == 0 else 1
        yield from gang(
            team(number), "train", size, [f"node-{(number * 4 + i) % nodes:04}" for i in range(size)]
        )
        if number % 4 == 0:
            yield from gang(team(number), "waits", 3, [], "ElasticQuota: no room")
    yield from gang("evil", "hostile", 2, [], "; ".join(NASTY))
    yield {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {
            "name": "quota",
            "namespace": "evil",
            "labels": {"a": "b"},
            "annotations": {"x": NASTY[0]},
        },
        "spec": {"min": {GPU: "1"}, "max": {GPU: "2"}},
        "status": {
            "conditions": [
                {"type": "Enforced", "status": "False", "reason": "NoPlugin", "message": NASTY[0]},
            ],
            "lastReclaim": {
                "time": CREATED,
                "by": NASTY[1],
                "byQuota": NASTY[3],
                "pods": 1,
                "resources": {GPU: "1"},
            },
        },
    }


def gang(namespace: str, name: str, size: int, nodes: list[str], message: str = "") -> Iterator[Obj]:
    """A PodGroup, and its pods; those beyond `nodes` wait with a message."""
    yield {
        "apiVersion": VERSION,
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {"muster.dev/topology-constraints": '{"rack": {"type": "pack"}}'},
        },
        "spec": {"minMembers": size},
    }
    for number in range(size):
        node = nodes[number] if number < len(nodes) else ""
        told = {"type": "PodScheduled", "status": "True" if node else "False", "reason": "Unschedulable"}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{number}",
                "namespace": namespace,
                "annotations": {"scheduling.k8s.io/group-name": name},
            },
            "spec": {
                "schedulerName": "muster-scheduler",
                **({"nodeName": node} if node else {}),
                "containers": [
                    {
                        "name": "main",
                        "image": "train",
                        "resources": {"limits": {GPU: "2"}, "requests": {"cpu": "8", GPU: "2"}},
                    }
                ],
            },
            "status": {
                "phase": "Running" if node else "Pending",
                "conditions": [{**told, "message": message, "lastTransitionTime": CREATED}],
            },
        }


def _topology(nodes: int) -> Obj:
    tree: dict[str, dict[str, Any]] = {}
    for number in range(nodes):
        tree.setdefault(f"rack-{number // 20:02}", {})[f"node-{number:04}"] = {}
    data = {
        "name": "tree",
        "resource-names": json.dumps(["cpu", GPU]),
        "level-names": json.dumps(["rack", "node"]),
        "tree": json.dumps(tree),
    }
    labels = {"sakkara.topology": ""}
    meta = {"name": "topology", "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
