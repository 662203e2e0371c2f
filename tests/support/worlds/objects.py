"""Raw objects of random worlds: dicts as the API has them, with the least that is needed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

Raw = dict[str, Any]
Amounts = Mapping[str, str]

SCHEDULER: Final = "muster-scheduler"
# Another scheduler, which places pods past ours.
ELSEWHERE: Final = "default-scheduler"
GPU: Final = "x/gpu"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "zone"
# A volume class whose volumes are made on the node that the scheduler has chosen.
LATE_CLASS: Final = "late"

INCUBATOR: Final = "incubator.scheduling.k8s.io/v1alpha1"
X_GROUPS: Final = "scheduling.x-k8s.io/v1alpha1"
NATIVE: Final = "scheduling.k8s.io/v1beta1"


def meta(name: str, namespace: str = "", labels: Mapping[str, str] | None = None) -> Raw:
    found: Raw = {"name": name}
    if namespace:
        found["namespace"] = namespace
    if labels:
        found["labels"] = dict(labels)
    return found


def reference(obj: Raw) -> Raw:
    """What a step needs to name an object."""
    own = obj["metadata"]
    found = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": {"name": own["name"]}}
    if own.get("namespace"):
        found["metadata"]["namespace"] = own["namespace"]
    return found


def node(
    name: str,
    amounts: Amounts,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Raw] = (),
    unschedulable: bool = False,
) -> Raw:
    spec: Raw = {}
    if taints:
        spec["taints"] = list(taints)
    if unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta(name, labels={HOSTNAME: name, **(labels or {})}),
        "spec": spec,
        "status": {"allocatable": dict(amounts), "capacity": dict(amounts)},
    }


def taint(key: str, effect: str = "NoSchedule") -> Raw:
    return {"key": key, "value": "", "effect": effect}


def pod(namespace: str, name: str, requests: Amounts, **spec: Any) -> Raw:
    """A waiting pod; `spec` is added to its spec."""
    container: Raw = {"name": "c", "image": "i", "resources": {"requests": dict(requests)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(name, namespace),
        "spec": {"schedulerName": SCHEDULER, "priority": 0, "containers": [container], **spec},
    }


def near(app: str, key: str) -> Raw:
    """A required term of (anti-)affinity: pods with this `app` label in the same domain."""
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def spread(app: str, key: str, skew: int = 1) -> Raw:
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }


def quota(namespace: str, low: Amounts, high: Amounts, name: str = "q") -> Raw:
    spec: Raw = {"min": dict(low)}
    if high:
        spec["max"] = dict(high)
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": meta(name, namespace),
        "spec": spec,
    }


def budget(namespace: str, name: str, app: str, allowed: int) -> Raw:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta(name, namespace),
        "spec": {"selector": {"matchLabels": {"app": app}}, "minAvailable": 1},
        "status": {
            "disruptionsAllowed": allowed,
            "observedGeneration": 1,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
        },
    }


# Groups. A dialect is one of the keys of JOINS.


def group(dialect: str, namespace: str, name: str, minimum: int, where: str = "") -> Raw:
    """A group of a dialect; `where` is a topology key (native) or constraints as JSON (others)."""
    if dialect == "config":
        return group_map(namespace, name, minimum, where)
    version = INCUBATOR
    spec: Raw = {"minMembers": minimum}
    if dialect == "x":
        version, spec = X_GROUPS, {"minMember": minimum}
    if dialect == "native":
        version = NATIVE
        spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}} if minimum > 1 else {}
        if where:
            spec["schedulingConstraints"] = {"topology": [{"key": where}]}
    made: Raw = {"apiVersion": version, "kind": "PodGroup", "metadata": meta(name, namespace), "spec": spec}
    if where and dialect != "native":
        made["metadata"]["annotations"] = {"muster.dev/topology-constraints": where}
    return made


def group_map(namespace: str, name: str, size: int, constraints: str) -> Raw:
    data = {"name": name, "size": str(size), "priority": "0"}
    if constraints:
        data["constraints"] = constraints
    labels = {"sakkara.group": ""}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta(name, namespace, labels),
        "data": data,
    }


def join(dialect: str, name: str) -> Raw:
    """The merge patch that makes a pod a member."""
    if dialect == "config":
        return {"metadata": {"labels": {"sakkara.group.name": name}}}
    if dialect == "x":
        return {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": name}}}
    if dialect == "native":
        return {"spec": {"schedulingGroup": {"podGroupName": name}}}
    return {"metadata": {"annotations": {"scheduling.k8s.io/group-name": name}}}


def pack(level: str, *, hard: bool) -> str:
    """Constraints: all on one unit of a level, or as few as possible."""
    return json.dumps({level: {"type": "pack", "hard": True} if hard else {"type": "pack"}})


# Volumes


def volume(name: str, key: str, value: str, claim: tuple[str, str]) -> Raw:
    """A volume that only nodes with one label reach, bound to a claim."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    namespace, claimed = claim
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": meta(name),
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": claimed},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
        "status": {"phase": "Bound"},
    }


def claim(namespace: str, name: str, volume_name: str = "") -> Raw:
    """A claim that is bound to a volume, or waits for the first pod that uses it."""
    found: Raw = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta(name, namespace),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "" if volume_name else LATE_CLASS,
        },
        "status": {"phase": "Bound" if volume_name else "Pending"},
    }
    if volume_name:
        found["spec"]["volumeName"] = volume_name
        found["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    return found


def late_class() -> Raw:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": meta(LATE_CLASS),
        "provisioner": "example.com/late",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
