"""Deployment controller."""

from __future__ import annotations

from sandbox.controllers.owner_index import owned_by
from sandbox.controllers.rollout import (
    HASH_LABEL,
    REVISION,
    next_sizes,
    replicas_of,
    status_of,
    template_hash,
)
from sandbox.controllers.workload import Key, WorkloadController
from sandbox.kinds.builtin import DEPLOYMENTS, REPLICA_SETS
from sandbox.objects import Obj, at, copy_json, now, rfc3339, with_meta


class DeploymentController(WorkloadController):
    """Runs one ReplicaSet per pod template; scales the newest up and the others down."""

    kind = DEPLOYMENTS
    parts = REPLICA_SETS
    component = "deployment-controller"

    async def reconcile(self, key: Key) -> float | None:
        """One step of the rollout; status changes of its ReplicaSets trigger the next step."""
        deployment = self.current(key)
        if deployment is None:
            return None
        sets = list(self.owners.dependents(REPLICA_SETS, deployment["metadata"]["uid"]))
        new = self._newest(deployment, sets)
        if new is None and not deployment["spec"].get("paused"):
            new = await self._create(deployment, sets)
        old = [rs for rs in sets if new is None or rs["metadata"]["uid"] != new["metadata"]["uid"]]
        if new is not None:
            new = await self._set_revision(deployment, new, old)
            for name, size in next_sizes(deployment, new, old).items():
                await self._resize(deployment, key[0], name, size)
            await self._delete_old(deployment, old)
        sets = list(self.owners.dependents(REPLICA_SETS, deployment["metadata"]["uid"]))
        new = self._newest(deployment, sets)
        old = [rs for rs in sets if rs is not new]
        await self.write_status(deployment, status_of(deployment, new, old, rfc3339(now())))
        return None

    @staticmethod
    def _newest(deployment: Obj, sets: list[Obj]) -> Obj | None:
        digest = template_hash(deployment["spec"]["template"])
        return next(
            (rs for rs in sets if (rs["metadata"].get("labels") or {}).get(HASH_LABEL) == digest), None
        )

    async def _create(self, deployment: Obj, sets: list[Obj]) -> Obj:
        meta, spec = deployment["metadata"], deployment["spec"]
        digest = template_hash(spec["template"])
        template = copy_json(spec["template"])
        labels = {**(at(template, "metadata", "labels") or {}), HASH_LABEL: digest}
        template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
        selector = copy_json(spec.get("selector") or {})
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: digest}
        return await self.registry.create(
            REPLICA_SETS,
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {
                    "name": f"{meta['name']}-{digest}",
                    "namespace": meta["namespace"],
                    "labels": labels,
                    "annotations": {REVISION: str(_revision(sets) + 1)},
                    "ownerReferences": owned_by(deployment),
                },
                "spec": {"replicas": 0, "selector": selector, "template": template},
            },
            owned=True,
        )

    async def _set_revision(self, deployment: Obj, new: Obj, old: list[Obj]) -> Obj:
        """Set the highest revision on the newest ReplicaSet and on the Deployment."""
        revision = max(_revision([new]), _revision(old) + 1)
        for kind, obj in ((REPLICA_SETS, new), (DEPLOYMENTS, deployment)):
            if (obj["metadata"].get("annotations") or {}).get(REVISION) != str(revision):
                meta = obj["metadata"]

                def stamp(seen: Obj) -> Obj:
                    annotations = {**(seen["metadata"].get("annotations") or {}), REVISION: str(revision)}
                    return with_meta(seen, annotations=annotations)

                await self.registry.modify(kind, meta["namespace"], meta["name"], stamp)
        return self.store.get(REPLICA_SETS, new["metadata"]["namespace"], new["metadata"]["name"]) or new

    async def _resize(self, deployment: Obj, namespace: str, name: str, size: int) -> None:
        found = self.store.get(REPLICA_SETS, namespace, name)
        if found is None or replicas_of(found) == size:
            return
        verb = "up" if size > replicas_of(found) else "down"
        text = f"Scaled {verb} replica set {name} from {replicas_of(found)} to {size}"

        def resize(seen: Obj) -> Obj:
            return {**seen, "spec": {**seen["spec"], "replicas": size}}

        await self.registry.modify(REPLICA_SETS, namespace, name, resize)
        await self.recorder.record(deployment, "Normal", "ScalingReplicaSet", text)

    async def _delete_old(self, deployment: Obj, old: list[Obj]) -> None:
        """Delete empty ReplicaSets beyond `revisionHistoryLimit`, oldest first."""
        empty = [rs for rs in old if not replicas_of(rs) and not at(rs, "status", "replicas")]
        keep = int(deployment["spec"].get("revisionHistoryLimit", 10))
        for replica_set in sorted(empty, key=lambda rs: _revision([rs]))[: max(0, len(empty) - keep)]:
            meta = replica_set["metadata"]
            await self.registry.delete(REPLICA_SETS, meta["namespace"], meta["name"])


def _revision(sets: list[Obj]) -> int:
    texts = [(rs["metadata"].get("annotations") or {}).get(REVISION, "0") for rs in sets]
    return max((int(text) for text in texts if text.isdigit()), default=0)
