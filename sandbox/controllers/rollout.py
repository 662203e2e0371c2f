"""Rollout of Deployments: pure functions that compute the sizes of ReplicaSets and the status."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from sandbox.objects import Obj, absolute
from sandbox.store.metadata import GENERATED_CHARACTERS

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"


def template_hash(template: Obj) -> str:
    """A short hash of a pod template."""
    number = int.from_bytes(hashlib.sha256(msgspec.json.encode(template, order="deterministic")).digest()[:6])
    text = ""
    for _ in range(9):
        number, digit = divmod(number, len(GENERATED_CHARACTERS))
        text += GENERATED_CHARACTERS[digit]
    return text


def replicas_of(replica_set: Obj) -> int:
    """`spec.replicas`."""
    return int(replica_set["spec"].get("replicas", 1))


def available_in(replica_set: Obj) -> int:
    """`status.availableReplicas`."""
    return int((replica_set.get("status") or {}).get("availableReplicas") or 0)


def next_sizes(deployment: Obj, new: Obj, old: Sequence[Obj]) -> dict[str, int]:
    """The next size of each ReplicaSet by name; to be computed again after each status change."""
    spec = deployment["spec"]
    wanted = int(spec.get("replicas", 1))
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return _recreate(wanted, new, old)
    rolling = strategy.get("rollingUpdate") or {}
    surge = absolute(rolling.get("maxSurge", "25%"), wanted, up=True)
    unavailable = absolute(rolling.get("maxUnavailable", "25%"), wanted, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    sizes = {rs["metadata"]["name"]: replicas_of(rs) for rs in old}
    name = new["metadata"]["name"]
    current = replicas_of(new)
    room = wanted + surge - sum(sizes.values())
    sizes[name] = min(wanted, max(room, min(current, wanted)))
    # Unavailable old pods may be deleted immediately; available old pods only as new pods become available.
    spare = min(available_in(new), sizes[name]) - (wanted - unavailable)
    spare += sum(available_in(rs) for rs in old)
    for replica_set in old:
        key = replica_set["metadata"]["name"]
        idle = max(0, sizes[key] - available_in(replica_set))
        drop = min(sizes[key], idle + max(0, spare))
        spare -= max(0, drop - idle)
        sizes[key] -= drop
    return sizes


def _recreate(wanted: int, new: Obj, old: Sequence[Obj]) -> dict[str, int]:
    sizes = {rs["metadata"]["name"]: 0 for rs in old}
    gone = all(not (rs.get("status") or {}).get("replicas") for rs in old)
    sizes[new["metadata"]["name"]] = wanted if gone else replicas_of(new)
    return sizes


def status_of(deployment: Obj, new: Obj | None, old: Sequence[Obj], now: str) -> Obj:
    """The Deployment's status with the conditions that kubectl waits for. `now` is RFC 3339."""
    sets = [*old, *([new] if new else [])]

    def total(field: str) -> int:
        return sum(int((rs.get("status") or {}).get(field) or 0) for rs in sets)

    spec = deployment["spec"]
    wanted = int(spec.get("replicas", 1))
    rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
    unavailable = absolute(rolling.get("maxUnavailable", 0), wanted, up=False)
    updated = int(((new or {}).get("status") or {}).get("replicas") or 0)
    available = total("availableReplicas")
    enough = available >= wanted - unavailable
    done = updated == wanted and available >= wanted and total("replicas") == wanted
    previous = {c["type"]: c for c in (deployment.get("status") or {}).get("conditions") or ()}
    available_text = (
        ("MinimumReplicasAvailable", "Deployment has minimum availability.")
        if enough
        else ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    )
    name = (new or deployment)["metadata"]["name"]
    progress = (
        ("NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.')
        if done
        else ("ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
    )
    return {
        "observedGeneration": deployment["metadata"].get("generation", 1),
        "replicas": total("replicas"),
        "updatedReplicas": updated,
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, wanted - available),
        "conditions": [
            _condition("Available", enough, available_text, previous, now),
            _condition("Progressing", True, progress, previous, now),
        ],
    }


def _condition(kind: str, value: bool, why: tuple[str, str], previous: dict[str, Obj], now: str) -> Obj:
    before = previous.get(kind, {})
    same = (before.get("status"), before.get("reason")) == (str(value), why[0])
    return {
        "type": kind,
        "status": str(value),
        "reason": why[0],
        "message": why[1],
        "lastUpdateTime": before["lastUpdateTime"] if same else now,
        "lastTransitionTime": before["lastTransitionTime"] if before.get("status") == str(value) else now,
    }
