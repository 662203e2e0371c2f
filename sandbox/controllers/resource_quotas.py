"""ResourceQuota controller: writes the use in the admission plugin's ledger to the status of quotas."""

from __future__ import annotations

from collections.abc import Callable

from sandbox.admission.resource_quota import QuotaAccounts, status_of
from sandbox.controllers.controller import SandboxController
from sandbox.errors import ignoring
from sandbox.kinds.builtin import RESOURCE_QUOTAS
from sandbox.objects import Obj
from sandbox.store.object_store import EventType
from sandbox.store.registry import Registry

RESYNC_SECONDS = 5.0
"""Seconds before a status of another writer is replaced; kube-controller-manager takes up to five minutes."""


class ResourceQuotaController(SandboxController[tuple[str, str]]):
    """Keys are (namespace, name). All charges of one event loop iteration become one write.

    `settle` delays the write by seconds after a change of the ledger.
    """

    def __init__(
        self,
        registry: Registry,
        ledger: QuotaAccounts,
        *,
        resync: float = RESYNC_SECONDS,
        settle: float = 0.0,
    ) -> None:
        super().__init__(registry)
        self._ledger = ledger
        self._resync = resync
        self._settle = settle

    def subscribe(self) -> list[Callable[[], None]]:
        self._ledger.listeners.append(self._enqueue_changed)
        for quota in self.store.iterate(RESOURCE_QUOTAS):
            self._enqueue_changed(quota["metadata"]["namespace"], quota["metadata"]["name"])
        return [
            lambda: self._ledger.listeners.remove(self._enqueue_changed),
            self.store.subscribe(RESOURCE_QUOTAS, self._on_quota),
        ]

    def _enqueue_changed(self, namespace: str, name: str) -> None:
        if self._settle:
            self.enqueue_later(self._settle, (namespace, name))
        else:
            self.enqueue((namespace, name))

    def _on_quota(self, event: EventType, quota: Obj, old: Obj | None) -> None:
        key = (quota["metadata"]["namespace"], quota["metadata"]["name"])
        if old is not None and quota.get("status") != old.get("status") and self._wanted_status(key, quota):
            self.enqueue_later(self._resync, key)

    def _wanted_status(self, key: tuple[str, str], quota: Obj) -> Obj | None:
        """The wanted status of a quota; None if the quota already has it."""
        account = self._ledger.account(*key)
        status = status_of(account) if account else None
        return None if status is None or quota.get("status") == status else status

    async def reconcile(self, key: tuple[str, str]) -> float | None:
        """Write the status if it has changed."""

        def change(seen: Obj) -> Obj | None:
            status = self._wanted_status(key, seen)
            return None if status is None else {**seen, "status": status}

        with ignoring("NotFound"):
            await self.registry.modify(RESOURCE_QUOTAS, *key, change, subresource="status")
        return None
