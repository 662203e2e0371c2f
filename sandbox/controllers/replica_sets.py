"""ReplicaSet and ReplicationController controllers."""

from __future__ import annotations

from collections.abc import Sequence

from sandbox.controllers.workload import Key, WorkloadController, is_active, phase_of, pod_from
from sandbox.errors import StatusError
from sandbox.kinds.builtin import REPLICA_SETS, REPLICATION_CONTROLLERS
from sandbox.kinds.pods import is_ready
from sandbox.objects import Obj, at, condition_now


class ReplicaSetController(WorkloadController):
    """Keeps `replicas` active pods; replaces finished and deleted pods."""

    kind = REPLICA_SETS
    component = "replicaset-controller"

    async def reconcile(self, key: Key) -> float | None:
        """Create missing pods, or delete surplus pods."""
        replica_set = self.current(key)
        if replica_set is None:
            return None
        active = [pod for pod in self.pods_of(replica_set) if is_active(pod)]
        wanted = int(replica_set["spec"].get("replicas", 1))
        refusal: StatusError | None = None
        try:
            for _ in range(wanted - len(active)):
                name = f"{replica_set['metadata']['name']}-"
                pod = pod_from(replica_set, replica_set["spec"]["template"], generateName=name)
                await self.create_pod(replica_set, pod)
            for pod in surplus(active, wanted):
                await self.delete_pod(replica_set, pod)
        except StatusError as error:
            refusal = error
            raise
        finally:
            active = [pod for pod in self.pods_of(replica_set) if is_active(pod)]
            status = status_of(replica_set, active)
            conditions = with_failure(at(replica_set, "status", "conditions") or [], refusal)
            await self.write_status(
                replica_set, {**status, "conditions": conditions} if conditions else status
            )
        return None


def surplus(active: Sequence[Obj], wanted: int) -> list[Obj]:
    """The pods to delete: unassigned first, then pending, then not ready, then the youngest."""
    by_age = sorted(active, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), reverse=True)
    order = sorted(
        by_age,
        key=lambda pod: (bool(pod["spec"].get("nodeName")), phase_of(pod) != "Pending", is_ready(pod)),
    )
    return order[: max(0, len(order) - wanted)]


def with_failure(conditions: list[Obj], refusal: StatusError | None) -> list[Obj]:
    """The conditions with ReplicaFailure after a refused pod creation or deletion, otherwise without."""
    kept = [condition for condition in conditions if condition.get("type") != "ReplicaFailure"]
    if refusal is None:
        return kept
    # Keep the first refusal: each one names another pod, and changing messages would cause endless updates.
    found = next((c for c in conditions if c not in kept), None)
    return [*kept, found or condition_now("ReplicaFailure", True, "FailedCreate", str(refusal))]


def status_of(replica_set: Obj, active: Sequence[Obj]) -> Obj:
    """Counts of the active pods."""
    ready = sum(map(is_ready, active))
    return {
        "replicas": len(active),
        "fullyLabeledReplicas": len(active),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "observedGeneration": replica_set["metadata"].get("generation", 1),
    }


class ReplicationControllerController(ReplicaSetController):
    """Keeps `replicas` active pods of a ReplicationController."""

    kind = REPLICATION_CONTROLLERS
    component = "replication-controller"
