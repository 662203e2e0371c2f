"""Random volumes: classes, drivers, pools with room, volumes of nodes and zones, and claims."""

from __future__ import annotations

import random
from typing import Final

from tests.beside.rig.shapes import HOSTNAME, ZONE, Shapes
from tests.beside.rig.world import Raw

_SIZES: Final = ("1Gi", "5Gi", "10Gi")
DRIVER: Final = "csi.example.com"
MADE, MADE_IN_ZONE, LOCAL, AT_ONCE = "made", "made-in-zone", "local", "at-once"


def classes(dice: random.Random) -> list[Raw]:
    """Classes of volumes that are made, made in one zone, or there already; the driver of the first two."""
    driver: Raw = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": DRIVER},
        "spec": {
            "storageCapacity": dice.random() < 0.6,
            "attachRequired": False,
            "preventPodSchedulingIfMissing": dice.random() < 0.3,
        },
    }
    zones = {"matchLabelExpressions": [{"key": ZONE, "values": ["z1", "z2"]}]}
    return [
        _class(MADE, DRIVER, {}),
        _class(MADE_IN_ZONE, DRIVER, {"allowedTopologies": [zones]}),
        _class(LOCAL, "kubernetes.io/no-provisioner", {}),
        _class(AT_ONCE, DRIVER, {"volumeBindingMode": "Immediate"}),
        driver,
    ]


def _class(name: str, provisioner: str, more: Raw) -> Raw:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        **more,
    }


def drivers(dice: random.Random, nodes: list[Raw]) -> list[Raw]:
    """What nodes say of the driver: most have it, with a limit or without."""
    found: list[Raw] = []
    for node in nodes:
        name = node["metadata"]["name"]
        entry: Raw = {"name": DRIVER, "nodeID": name, "topologyKeys": [ZONE]}
        if dice.random() < 0.5:
            entry["allocatable"] = {"count": dice.choice((1, 2, 8))}
        listed = [entry] if dice.random() < 0.85 else []
        found.append(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {"name": name},
                "spec": {"drivers": listed},
            }
        )
    return found


def pools(dice: random.Random) -> list[Raw]:
    """Room of pools, each of a class and a zone."""
    found: list[Raw] = []
    for number in range(dice.choice((0, 1, 2, 3))):
        pool: Raw = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": f"pool-{number}", "namespace": "t"},
            "storageClassName": dice.choice((MADE, MADE_IN_ZONE)),
            "nodeTopology": {"matchLabels": {ZONE: dice.choice(("z1", "z2", "z3"))}},
            "capacity": dice.choice(("1Gi", "6Gi", "100Gi")),
        }
        if dice.random() < 0.2:
            pool["maximumVolumeSize"] = dice.choice(("1Gi", "6Gi"))
        found.append(pool)
    return found


class Claims:
    """Gives pods claims, each with a volume or a class; `made` collects the objects."""

    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes
        self._dice = shapes.dice
        self.made: list[Raw] = []

    def give(self, pod: Raw) -> None:
        """A claim for a pod, or two."""
        dice = self._dice
        volumes: list[Raw] = []
        for i in range(dice.choice((1, 1, 1, 2))):
            if dice.random() < 0.06 and "nodeName" not in pod["spec"]:
                # Nobody runs that makes the claim of a volume that lives as long as its pod.
                spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
                volumes.append({"name": f"v{i}", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}})
                continue
            name = self._claim(pod, i) if dice.random() < 0.95 else "missing"
            volumes.append({"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}})
        pod["spec"]["volumes"] = volumes

    def _claim(self, pod: Raw, number: int) -> str:
        dice, meta = self._dice, pod["metadata"]
        name, size = f"{meta['name']}-{number}", dice.choice(_SIZES)
        runs = "nodeName" in pod["spec"]
        of = LOCAL if runs or dice.random() < 0.4 else dice.choice((*(MADE, MADE, MADE_IN_ZONE) * 3, AT_ONCE))
        mode = dice.choice(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"))
        claim: Raw = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": meta["namespace"]},
            "spec": {
                "storageClassName": of,
                "accessModes": [mode],
                "resources": {"requests": {"storage": size}},
            },
        }
        bound = runs or (of == LOCAL and dice.random() < 0.5)
        if bound:
            volume = f"pv-{name}"
            self.made.append(self._volume(volume, size, mode, claim=claim, node=pod["spec"].get("nodeName")))
            claim["spec"]["volumeName"] = volume
            claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
            claim["status"] = {"phase": "Bound"}
        elif of == LOCAL:
            for i in range(dice.choice((0, 1, 2, 2))):
                self.made.append(self._volume(f"pv-{name}-{i}", dice.choice(_SIZES), mode))
        self.made.append(claim)
        return name

    def _volume(
        self, name: str, size: str, mode: str, *, claim: Raw | None = None, node: str | None = None
    ) -> Raw:
        dice = self._dice
        spec: Raw = {
            "capacity": {"storage": size},
            "accessModes": [mode],
            "storageClassName": LOCAL,
            "persistentVolumeReclaimPolicy": "Retain",
        }
        key, value = (
            (HOSTNAME, node) if node else dice.choice(((HOSTNAME, "n0"), (HOSTNAME, "n1"), (ZONE, "z1")))
        )
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
        if key == HOSTNAME:
            spec["local"] = {"path": f"/mnt/{name}"}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
        else:
            spec["csi"] = {"driver": DRIVER, "volumeHandle": name}
            if dice.random() < 0.7:
                spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
        volume: Raw = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "labels": {ZONE: "z1"} if dice.random() < 0.15 else {}},
            "spec": spec,
            "status": {"phase": "Available"},
        }
        if claim is not None:
            volume["status"] = {"phase": "Bound"}
            volume["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", **claim["metadata"]}
            volume["spec"]["claimRef"] = {
                "kind": "PersistentVolumeClaim",
                "namespace": claim["metadata"]["namespace"],
                "name": claim["metadata"]["name"],
            }
        return volume
