"""Simulates the volume controller and provisioners: binds and provisions volumes at once."""

from __future__ import annotations

import copy

from scheduler_core.model.names import BIND_COMPLETED_ANNOTATION, SELECTED_NODE_ANNOTATION
from scheduler_core.simulate.objects import Change, Object, Objects

_VOLUME, _CLAIM = "PersistentVolume", "PersistentVolumeClaim"


def settle(objects: Objects, change: Change) -> list[Change]:
    """The changes that follow from the scheduler's write to a volume or claim.

    A reserved volume is bound to its claim; a claim with a selected node gets a new volume, which every node
    can use.
    """
    if change.gone:
        return []
    if change.key[0] == _VOLUME and change.obj["spec"].get("claimRef"):
        reference = change.obj["spec"]["claimRef"]
        claim = objects.get((_CLAIM, reference["namespace"], reference["name"]))
        return _bind(objects, change.obj, claim) if claim is not None else []
    if change.key[0] == _CLAIM and _selected(change.obj) and not change.obj["spec"].get("volumeName"):
        made = objects.create(_volume_for(objects, change.obj), "volume")
        return [made, *_bind(objects, made.obj, change.obj)]
    return []


def _selected(claim: Object) -> str:
    notes = claim["metadata"].get("annotations") or {}
    return str(notes.get(SELECTED_NODE_ANNOTATION) or "")


def _volume_for(objects: Objects, claim: Object) -> Object:
    meta, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{meta['namespace']}-{meta['name']}"
    made_by = objects.get(("StorageClass", "", spec.get("storageClassName") or "")) or {}
    reference = {"kind": _CLAIM, "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
    return {
        "apiVersion": "v1",
        "kind": _VOLUME,
        "metadata": {"name": name},
        "spec": {
            "capacity": dict((spec.get("resources") or {}).get("requests") or {}),
            "accessModes": list(spec.get("accessModes") or []),
            "storageClassName": spec.get("storageClassName") or "",
            "volumeMode": spec.get("volumeMode") or "Filesystem",
            "claimRef": reference,
            "csi": {"driver": made_by.get("provisioner", ""), "volumeHandle": name},
        },
    }


def _bind(objects: Objects, volume: Object, claim: Object) -> list[Change]:
    """Volume and claim, both bound; nothing if the claim has a volume."""
    if claim["spec"].get("volumeName"):
        return []
    taken, served = copy.deepcopy(volume), copy.deepcopy(claim)
    taken["status"] = {**(taken.get("status") or {}), "phase": "Bound"}
    served["spec"]["volumeName"] = volume["metadata"]["name"]
    served["metadata"].setdefault("annotations", {})[BIND_COMPLETED_ANNOTATION] = "yes"
    served["status"] = {**(served.get("status") or {}), "phase": "Bound"}
    return [objects.update(taken, "volume"), objects.update(served, "claim")]
