"""Objects without what no decision reads: who wrote a field, environment, commands, messages of kubelets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scheduler_core.model import names

Object = dict[str, Any]

_META: Final = (
    "name",
    "namespace",
    "uid",
    "generation",
    "labels",
    "annotations",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
)
_DROPPED_ANNOTATIONS: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
_CONTAINER: Final = ("name", "image", "resources", "restartPolicy", "ports")
_POD_SPEC: Final = (
    "nodeName",
    "schedulerName",
    "priority",
    "priorityClassName",
    "preemptionPolicy",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "schedulingGates",
    "resourceClaims",
    "activeDeadlineSeconds",
    "schedulingGroup",
    "overhead",
    "resources",
    "terminationGracePeriodSeconds",
)
_POD_STATUS: Final = (
    "phase",
    "reason",
    "nominatedNodeName",
    "startTime",
    "allocatedResources",
    "resources",
    "resize",
)
# Volumes that a scheduler looks at; all others could hold anything.
_VOLUMES: Final = (
    *("persistentVolumeClaim", "ephemeral", "gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"),
)
_DISK: Final = ("claimName", "readOnly", "pdName", "volumeID", "iqn", "monitors", "pool", "image")
_CONDITIONS: Final = frozenset(
    {
        names.POD_SCHEDULED,
        names.POD_INITIALIZED,
        names.POD_RESIZE_PENDING,
        names.DISRUPTION_TARGET,
        names.PREEMPTED_FOR,
    }
)
_CONDITION: Final = ("type", "status", "reason", "message", "lastTransitionTime", "observedGeneration")
_SIZES: Final = ("name", "allocatedResources", "resources")
_NODE_STATUS: Final = ("allocatable", "capacity", "images")
_SCALARS: Final = ("value", "globalDefault", "preemptionPolicy", "provisioner", "volumeBindingMode")
# The fields of spec and status that are kept of other kinds; kinds that are not here keep all.
_PARTS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "Node": (("unschedulable", "taints"), _NODE_STATUS),
    "Namespace": ((), ()),
    "PersistentVolume": (
        (
            *("capacity", "accessModes", "storageClassName", "volumeMode", "volumeAttributesClassName"),
            *("nodeAffinity", "claimRef", "csi"),
        ),
        ("phase",),
    ),
    "PersistentVolumeClaim": (
        (
            *("accessModes", "resources", "storageClassName", "volumeName", "volumeMode"),
            *("volumeAttributesClassName", "selector"),
        ),
        ("phase",),
    ),
    "PriorityClass": ((), ()),
    "StorageClass": ((), ()),
    "CSIDriver": (("storageCapacity", "preventPodSchedulingIfMissing"), ()),
}


def plain(obj: Mapping[str, Any]) -> Object:
    """A copy of an object with the fields that decisions read."""
    meta = obj.get("metadata") or {}
    out: Object = {
        "apiVersion": obj.get("apiVersion"),
        "kind": obj.get("kind"),
        "metadata": _chosen(meta, _META),
    }
    annotations = {
        key: value
        for key, value in (meta.get("annotations") or {}).items()
        if key not in _DROPPED_ANNOTATIONS
    }
    if annotations:
        out["metadata"]["annotations"] = annotations
    else:
        out["metadata"].pop("annotations", None)
    rest = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    if obj.get("kind") == "Pod":
        rest = _pod(rest)
    elif obj.get("kind") in _PARTS:
        rest = _parts(str(obj["kind"]), rest)
    return out | {key: value for key, value in rest.items() if value not in ({}, None)}


def _parts(kind: str, rest: Mapping[str, Any]) -> Object:
    """What is kept of an object beside its metadata."""
    spec, status = _PARTS[kind]
    kept = {
        "spec": _chosen(rest.get("spec") or {}, spec),
        "status": _chosen(rest.get("status") or {}, status),
        **_chosen(rest, (*_SCALARS, "allowedTopologies")),
    }
    if "csi" in kept["spec"]:
        kept["spec"]["csi"] = _chosen(kept["spec"]["csi"], ("driver", "volumeHandle"))
    return kept


def _pod(rest: Mapping[str, Any]) -> Object:
    spec, status = rest.get("spec") or {}, rest.get("status") or {}
    kept = _chosen(spec, _POD_SPEC)
    for field in ("containers", "initContainers"):
        if spec.get(field):
            kept[field] = [_container(item) for item in spec[field]]
    volumes = [_volume(item) for item in spec.get("volumes") or ()]
    if any(volumes):
        kept["volumes"] = [item for item in volumes if item]
    told = _chosen(status, _POD_STATUS)
    conditions = [
        _chosen(item, _CONDITION)
        for item in status.get("conditions") or ()
        if item.get("type") in _CONDITIONS
    ]
    if conditions:
        told["conditions"] = conditions
    for field in ("containerStatuses", "initContainerStatuses"):
        sizes = [_chosen(item, _SIZES) for item in status.get(field) or ()]
        if any(len(item) > 1 for item in sizes):
            told[field] = sizes
    return {"spec": kept, "status": told}


def _container(container: Mapping[str, Any]) -> Object:
    kept = _chosen(container, _CONTAINER)
    ports = [port for port in kept.pop("ports", ()) if port.get("hostPort")]
    return kept | ({"ports": ports} if ports else {})


def _volume(volume: Mapping[str, Any]) -> Object:
    kept = {
        kind: {} if kind == "ephemeral" else _chosen(source, _DISK)
        for kind in _VOLUMES
        if isinstance(source := volume.get(kind), dict)
    }
    return {"name": volume.get("name", ""), **kept} if kept else {}


def _chosen(given: Mapping[str, Any], fields: tuple[str, ...]) -> Object:
    return {field: given[field] for field in fields if given.get(field) not in (None, {}, [], "")}
