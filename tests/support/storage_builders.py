"""Builders of storage objects: `make_volume("v").capacity("10Gi").on("zone", "a").obj()`."""

from __future__ import annotations

from typing import Self

from scheduler_core.model.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    parse_csi_node,
    parse_persistent_volume,
    parse_persistent_volume_claim,
    parse_storage_class,
)
from scheduler_core.model.storage_pools import (
    CSIDriver,
    CSIStorageCapacity,
    parse_csi_driver,
    parse_csi_storage_capacity,
)
from tests.support.builders import Builder, Raw


def label_term(key: str, *values: str) -> Raw:
    """A node selector term on one label."""
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


class VolumeBuilder(Builder):
    """An available volume of 10Gi for one node at a time."""

    def __init__(self, name: str) -> None:
        super().__init__("v1", "PersistentVolume", name, namespaced=False)
        self.part("spec").update(capacity={"storage": "10Gi"}, accessModes=["ReadWriteOnce"])
        self.part("status")["phase"] = "Available"

    def capacity(self, amount: str) -> Self:
        self.raw["spec"]["capacity"] = {"storage": amount}
        return self

    def modes(self, *modes: str) -> Self:
        self.raw["spec"]["accessModes"] = list(modes)
        return self

    def storage_class(self, name: str) -> Self:
        self.raw["spec"]["storageClassName"] = name
        return self

    def terms(self, *terms: Raw) -> Self:
        self.raw["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": list(terms)}}
        return self

    def on(self, key: str, *values: str) -> Self:
        return self.terms(label_term(key, *values))

    def claimed(self, key: str, uid: str = "") -> Self:
        namespace, _, name = key.rpartition("/")
        reference = {"namespace": namespace, "name": name} | ({"uid": uid} if uid else {})
        self.raw["spec"]["claimRef"] = reference
        return self

    def phase(self, phase: str) -> Self:
        self.raw["status"]["phase"] = phase
        return self

    def csi(self, driver: str, handle: str) -> Self:
        self.raw["spec"]["csi"] = {"driver": driver, "volumeHandle": handle}
        return self

    def spec(self, **fields: object) -> Self:
        self.raw["spec"].update(fields)
        return self

    def obj(self) -> PersistentVolume:
        return parse_persistent_volume(self.dict())


class ClaimBuilder(Builder):
    """A pending claim for 5Gi."""

    def __init__(self, key: str) -> None:
        super().__init__("v1", "PersistentVolumeClaim", key)
        self.uid(f"uid-{key}")
        requests = {"requests": {"storage": "5Gi"}}
        self.part("spec").update(accessModes=["ReadWriteOnce"], resources=requests)
        self.part("status")["phase"] = "Pending"

    def asks(self, amount: str) -> Self:
        self.raw["spec"]["resources"] = {"requests": {"storage": amount}}
        return self

    def modes(self, *modes: str) -> Self:
        self.raw["spec"]["accessModes"] = list(modes)
        return self

    def storage_class(self, name: str) -> Self:
        self.raw["spec"]["storageClassName"] = name
        return self

    def bound(self, volume: str) -> Self:
        self.raw["spec"]["volumeName"] = volume
        self.raw["status"]["phase"] = "Bound"
        return self

    def selected(self, node: str) -> Self:
        self.meta.setdefault("annotations", {})["volume.kubernetes.io/selected-node"] = node
        return self

    def owned_by(self, uid: str) -> Self:
        self.meta["ownerReferences"] = [{"kind": "Pod", "name": "p", "uid": uid, "controller": True}]
        return self

    def spec(self, **fields: object) -> Self:
        self.raw["spec"].update(fields)
        return self

    def phase(self, phase: str) -> Self:
        self.raw["status"]["phase"] = phase
        return self

    def obj(self) -> PersistentVolumeClaim:
        return parse_persistent_volume_claim(self.dict())


class ClassBuilder(Builder):
    """A class whose claims wait for their first consumer; volumes must exist already."""

    def __init__(self, name: str) -> None:
        super().__init__("storage.k8s.io/v1", "StorageClass", name, namespaced=False)
        self.raw.update(provisioner="kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer")

    def provisioner(self, name: str) -> Self:
        self.raw["provisioner"] = name
        return self

    def immediate(self) -> Self:
        self.raw["volumeBindingMode"] = "Immediate"
        return self

    def only_in(self, key: str, *values: str) -> Self:
        term = {"matchLabelExpressions": [{"key": key, "values": list(values)}]}
        self.raw.setdefault("allowedTopologies", []).append(term)
        return self

    def obj(self) -> StorageClass:
        return parse_storage_class(self.dict())


class CsiNodeBuilder(Builder):
    """The CSI drivers of a node."""

    def __init__(self, name: str) -> None:
        super().__init__("storage.k8s.io/v1", "CSINode", name, namespaced=False)
        self.part("spec")["drivers"] = []

    def driver(self, name: str, count: int | None) -> Self:
        entry: Raw = {"name": name, "nodeID": "x"}
        if count is not None:
            entry["allocatable"] = {"count": count}
        self.raw["spec"]["drivers"].append(entry)
        return self

    def obj(self) -> CSINode:
        return parse_csi_node(self.dict())


class CsiDriverBuilder(Builder):
    """A driver that asks nothing of nodes and pools."""

    def __init__(self, name: str) -> None:
        super().__init__("storage.k8s.io/v1", "CSIDriver", name, namespaced=False)
        self.part("spec")

    def reports_capacity(self) -> Self:
        self.raw["spec"]["storageCapacity"] = True
        return self

    def required_on_node(self) -> Self:
        self.raw["spec"]["preventPodSchedulingIfMissing"] = True
        return self

    def obj(self) -> CSIDriver:
        return parse_csi_driver(self.dict())


class PoolBuilder(Builder):
    """The space for volumes of a class; no node reaches it yet."""

    def __init__(self, key: str, storage_class: str, capacity: str | None) -> None:
        super().__init__("storage.k8s.io/v1", "CSIStorageCapacity", key)
        self.raw["storageClassName"] = storage_class
        if capacity is not None:
            self.raw["capacity"] = capacity

    def largest(self, size: str) -> Self:
        self.raw["maximumVolumeSize"] = size
        return self

    def on(self, **labels: str) -> Self:
        self.raw["nodeTopology"] = {"matchLabels": dict(labels)}
        return self

    def selected_by(self, *expressions: Raw) -> Self:
        self.raw["nodeTopology"] = {"matchExpressions": list(expressions)}
        return self

    def obj(self) -> CSIStorageCapacity:
        return parse_csi_storage_capacity(self.dict())


def make_csi_driver(name: str) -> CsiDriverBuilder:
    """A CSIDriver by name."""
    return CsiDriverBuilder(name)


def make_pool(key: str, storage_class: str, capacity: str | None = None) -> PoolBuilder:
    """A CSIStorageCapacity by `namespace/name`."""
    return PoolBuilder(key, storage_class, capacity)


def make_volume(name: str) -> VolumeBuilder:
    """A PersistentVolume by name."""
    return VolumeBuilder(name)


def make_claim(key: str) -> ClaimBuilder:
    """A PersistentVolumeClaim by `namespace/name`."""
    return ClaimBuilder(key)


def make_class(name: str) -> ClassBuilder:
    """A StorageClass by name."""
    return ClassBuilder(name)


def make_csi_node(name: str) -> CsiNodeBuilder:
    """A CSINode by node name."""
    return CsiNodeBuilder(name)
