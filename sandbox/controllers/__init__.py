"""The controllers of the sandbox: one task each on the server's loop, woken by the store's events."""

from __future__ import annotations

import asyncio

from sandbox.admission import Chain
from sandbox.admission.quota_ledger import QuotaLedger
from sandbox.controllers.controller import Controller
from sandbox.controllers.deployments import DeploymentController
from sandbox.controllers.disruption_budgets import DisruptionBudgetController
from sandbox.controllers.garbage import GarbageCollector
from sandbox.controllers.jobs import JobController
from sandbox.controllers.namespaces import NamespaceController
from sandbox.controllers.orphaned_pods import OrphanedPodController
from sandbox.controllers.owners import OwnerIndex
from sandbox.controllers.replica_sets import ReplicaSetController
from sandbox.controllers.replication_controllers import ReplicationControllerController
from sandbox.controllers.resource_quotas import ResourceQuotaController
from sandbox.controllers.root_ca import RootCaPublisher
from sandbox.controllers.stateful_sets import StatefulSetController
from sandbox.controllers.volumes import VolumeBinder
from sandbox.registry import Registry

__all__ = ["Controllers", "start_controllers"]


class Controllers:
    """The running controllers."""

    def __init__(self, owners: OwnerIndex, running: list[Controller]) -> None:
        self._owners = owners
        self._running = running

    async def stop(self) -> None:
        """End all of them."""
        await asyncio.gather(*(controller.stop() for controller in self._running))
        self._owners.stop()


def start_controllers(registry: Registry, authority: str = "", *, settle: float = 0.0) -> Controllers:
    """Start every controller on the running loop. Quota use comes from the admission chain's ledger.

    `authority` is the PEM that pods trust the API server by; without it no namespace gets one. `settle` says
    for how many seconds the objects that are read may lag behind what admission has charged in quotas.
    """
    admission = registry.admission
    ledger = admission.ledger if isinstance(admission, Chain) else QuotaLedger(registry.store, registry.kinds)
    owners = OwnerIndex(registry.store, registry.kinds)
    running: list[Controller] = [
        ResourceQuotaController(registry, ledger, settle=settle),
        NamespaceController(registry),
        GarbageCollector(registry, owners),
        JobController(registry, owners),
        ReplicaSetController(registry, owners),
        ReplicationControllerController(registry, owners),
        DeploymentController(registry, owners),
        StatefulSetController(registry, owners),
        DisruptionBudgetController(registry),
        VolumeBinder(registry),
        OrphanedPodController(registry),
    ]
    if authority:
        running.append(RootCaPublisher(registry, authority))
    for controller in running:
        controller.start()
    return Controllers(owners, running)
