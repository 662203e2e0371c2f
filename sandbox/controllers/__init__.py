"""Counterparts of kube-controller-manager's controllers, each one task on the server's event loop."""

from __future__ import annotations

import asyncio

from sandbox.admission.chain import Chain
from sandbox.admission.resource_quota import QuotaAccounts
from sandbox.controllers.controller import SandboxController
from sandbox.controllers.deployments import DeploymentController
from sandbox.controllers.disruption_budgets import DisruptionBudgetController
from sandbox.controllers.garbage_collector import GarbageCollector
from sandbox.controllers.jobs import JobController
from sandbox.controllers.namespaces import NamespaceController
from sandbox.controllers.owner_index import OwnerIndex
from sandbox.controllers.pod_gc import PodGarbageCollector
from sandbox.controllers.replica_sets import ReplicaSetController, ReplicationControllerController
from sandbox.controllers.resource_quotas import ResourceQuotaController
from sandbox.controllers.root_ca_publisher import RootCaPublisher
from sandbox.controllers.stateful_sets import StatefulSetController
from sandbox.controllers.volume_binder import VolumeBinder
from sandbox.store.registry import Registry

__all__ = ["Controllers", "start_controllers"]


class Controllers:
    """All running controllers."""

    def __init__(self, owners: OwnerIndex, running: list[SandboxController]) -> None:
        self._owners = owners
        self._running = running

    async def stop(self) -> None:
        """Stop all controllers."""
        await asyncio.gather(*(controller.stop() for controller in self._running))
        self._owners.stop()


def start_controllers(
    registry: Registry, authority: str = "", *, settle: float = 0.0, speed: float = 1.0
) -> Controllers:
    """Start all controllers on the running event loop. Quota use comes from the admission chain's ledger.

    `authority` is the PEM of the CA that is published in each namespace ("": none). `settle` is the delay in
    seconds before a changed quota use is written, for a store that lags behind admission. `speed` divides the
    times of Jobs.
    """
    admission = registry.admission
    ledger = (
        admission.ledger if isinstance(admission, Chain) else QuotaAccounts(registry.store, registry.kinds)
    )
    owners = OwnerIndex(registry.store, registry.kinds)
    running: list[SandboxController] = [
        ResourceQuotaController(registry, ledger, settle=settle),
        NamespaceController(registry),
        GarbageCollector(registry, owners),
        JobController(registry, owners, speed=speed),
        ReplicaSetController(registry, owners),
        ReplicationControllerController(registry, owners),
        DeploymentController(registry, owners),
        StatefulSetController(registry, owners),
        DisruptionBudgetController(registry),
        VolumeBinder(registry),
        PodGarbageCollector(registry),
    ]
    if authority:
        running.append(RootCaPublisher(registry, authority))
    for controller in running:
        controller.start()
    return Controllers(owners, running)
