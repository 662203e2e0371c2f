"""StatefulSet controller."""

from __future__ import annotations

from sandbox.controllers.rollout import template_hash
from sandbox.controllers.workload import Key, WorkloadController, is_active, phase_of, pod_from
from sandbox.kinds.builtin import PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS
from sandbox.kinds.pods import is_ready
from sandbox.nodes.pod_status import FINISHED
from sandbox.objects import Obj, at, copy_json

_HASH = "controller-revision-hash"


class StatefulSetController(WorkloadController):
    """Keeps pods `name-0`, `name-1`, ...: in order, or all at once with podManagementPolicy Parallel."""

    kind = STATEFUL_SETS
    component = "statefulset-controller"

    async def reconcile(self, key: Key) -> float | None:
        """One step: replace ended pods, create missing pods, delete surplus pods, then update old pods."""
        owner = self.current(key)
        if owner is None:
            return None
        try:
            await self._step(owner)
        finally:
            await self.write_status(owner, status_of(owner, self.pods_of(owner)))
        return None

    async def _step(self, owner: Obj) -> None:
        by_ordinal = {ordinal_of(pod): pod for pod in self.pods_of(owner)}
        wanted = int(owner["spec"].get("replicas", 1))
        parallel = owner["spec"].get("podManagementPolicy") == "Parallel"
        for ordinal in range(wanted):
            pod = by_ordinal.get(ordinal)
            if pod is None:
                await self._claims(owner, ordinal)
                await self.create_pod(owner, stateful_pod(owner, ordinal))
            elif phase_of(pod) in FINISHED and is_removable(pod):
                await self.delete_pod(owner, pod)
            if not parallel and (pod is None or not is_ready(pod) or not is_active(pod)):
                return
        for ordinal in sorted((o for o in by_ordinal if o >= wanted), reverse=True):
            if is_removable(by_ordinal[ordinal]):
                await self.delete_pod(owner, by_ordinal[ordinal])
            if not parallel:
                return
        await self._update(owner, by_ordinal)

    async def _update(self, owner: Obj, by_ordinal: dict[int, Obj]) -> None:
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate" or not all(
            map(is_ready, by_ordinal.values())
        ):
            return
        first = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
        digest = template_hash(owner["spec"]["template"])
        for ordinal in sorted(by_ordinal, reverse=True):
            pod = by_ordinal[ordinal]
            if ordinal >= first and pod["metadata"]["labels"].get(_HASH) != digest and is_removable(pod):
                await self.delete_pod(owner, pod)
                return

    async def _claims(self, owner: Obj, ordinal: int) -> None:
        meta = owner["metadata"]
        for template in owner["spec"].get("volumeClaimTemplates") or ():
            name = f"{template['metadata']['name']}-{meta['name']}-{ordinal}"
            if self.store.get(PERSISTENT_VOLUME_CLAIMS, meta["namespace"], name) is None:
                labels = at(template, "metadata", "labels") or {}
                claim = {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {"name": name, "namespace": meta["namespace"], "labels": labels},
                    "spec": template.get("spec") or {},
                }
                await self.registry.create(PERSISTENT_VOLUME_CLAIMS, claim)


def is_removable(pod: Obj) -> bool:
    """True if the pod is not being deleted."""
    return not pod["metadata"].get("deletionTimestamp")


def ordinal_of(pod: Obj) -> int:
    """The number at the end of the pod's name; -1 without a number."""
    text = str(pod["metadata"]["name"]).rpartition("-")[2]
    return int(text) if text.isdigit() else -1


def stateful_pod(owner: Obj, ordinal: int) -> Obj:
    """The pod of one ordinal, with its stable name, labels and volumes."""
    spec = owner["spec"]
    name = f"{owner['metadata']['name']}-{ordinal}"
    pod = pod_from(owner, spec["template"], name=name)
    pod["metadata"]["labels"] |= {
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
        _HASH: template_hash(spec["template"]),
    }
    pod["spec"]["hostname"] = name
    if spec.get("serviceName"):
        pod["spec"]["subdomain"] = spec["serviceName"]
    claims = [template["metadata"]["name"] for template in spec.get("volumeClaimTemplates") or ()]
    if claims:
        others = [v for v in copy_json(pod["spec"].get("volumes") or []) if v.get("name") not in claims]
        mounts = [{"name": c, "persistentVolumeClaim": {"claimName": f"{c}-{name}"}} for c in claims]
        pod["spec"]["volumes"] = [*others, *mounts]
    return pod


def status_of(owner: Obj, pods: list[Obj]) -> Obj:
    """The status with the counts and revisions that `kubectl rollout status` needs."""
    old = owner.get("status") or {}
    update = f"{owner['metadata']['name']}-{template_hash(owner['spec']['template'])}"
    active = [pod for pod in pods if is_active(pod)]
    updated = [pod for pod in active if update.endswith(pod["metadata"]["labels"].get(_HASH, "?"))]
    wanted = int(owner["spec"].get("replicas", 1))
    current = old.get("currentRevision") or update
    if len(updated) == wanted == len(active) and all(map(is_ready, updated)):
        current = update
    ready = sum(map(is_ready, active))
    return {
        "observedGeneration": owner["metadata"].get("generation", 1),
        "replicas": len(active),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "updatedReplicas": len(updated),
        "currentReplicas": len(updated) if current == update else len(active) - len(updated),
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": 0,
    }
