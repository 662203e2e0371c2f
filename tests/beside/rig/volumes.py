"""The volume controller and a provisioner in small: claims that the scheduler has prepared are bound."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import NotFound
from scheduler_core.model.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from scheduler_core.model.names import BIND_COMPLETED_ANNOTATION, SELECTED_NODE_ANNOTATION
from scheduler_core.model.writes import Create, Patch
from tests.beside.rig.world import Raw


def serve_claims(client: Client, pod: Raw) -> None:
    """Bind the claims of a pod that a scheduler gave a volume to, or a node to make one on."""
    namespace = pod["metadata"]["namespace"]
    for volume in pod["spec"]["volumes"]:
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if name is None:
            continue
        try:
            claim = client.get_json(PERSISTENT_VOLUME_CLAIMS, namespace, name)
        except NotFound:
            continue
        if not claim["spec"].get("volumeName"):
            _serve(client, claim)


def _serve(client: Client, claim: dict[str, Any]) -> None:
    meta = claim["metadata"]
    reserved = _reserved_for(client, meta["namespace"], meta["name"])
    if reserved is not None:
        _bind(client, claim, reserved)
    elif SELECTED_NODE_ANNOTATION in (meta.get("annotations") or {}):
        _bind(client, claim, _make(client, claim))


def _reserved_for(client: Client, namespace: str, name: str) -> str | None:
    """The volume that a scheduler gave to a claim. One that was reserved before is found, too."""
    for raw in client.list_raw(PERSISTENT_VOLUMES):
        volume = msgspec.json.decode(raw)
        reference = volume["spec"].get("claimRef") or {}
        # Without a uid a volume is only meant for a claim.
        if (reference.get("namespace"), reference.get("name")) == (namespace, name) and reference.get("uid"):
            return str(volume["metadata"]["name"])
    return None


def _make(client: Client, claim: dict[str, Any]) -> str:
    meta, spec = claim["metadata"], claim["spec"]
    made_by = client.get_json(STORAGE_CLASSES, "", spec["storageClassName"])
    name = f"made-{meta['namespace']}-{meta['name']}"
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": spec["resources"]["requests"],
            "accessModes": spec["accessModes"],
            "storageClassName": spec["storageClassName"],
            "claimRef": {key: meta[key] for key in ("namespace", "name", "uid")},
            "csi": {"driver": made_by["provisioner"], "volumeHandle": name},
        },
    }
    client.create(Create(PERSISTENT_VOLUMES, "", volume))
    return name


def _bind(client: Client, claim: dict[str, Any], volume: str) -> None:
    meta = claim["metadata"]
    body = {"metadata": {"annotations": {BIND_COMPLETED_ANNOTATION: "yes"}}, "spec": {"volumeName": volume}}
    client.patch(Patch(PERSISTENT_VOLUME_CLAIMS, meta["namespace"], meta["name"], body))
    bound = {"status": {"phase": "Bound"}}
    client.patch(
        Patch(PERSISTENT_VOLUME_CLAIMS, meta["namespace"], meta["name"], bound, subresource="status")
    )
    client.patch(Patch(PERSISTENT_VOLUMES, "", volume, bound, subresource="status"))
