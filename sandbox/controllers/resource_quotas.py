"""ResourceQuota status: what the admission's ledger says, written as soon as it changes."""

from __future__ import annotations

from collections.abc import Callable

from sandbox.admission.quota_ledger import QuotaLedger, status_of
from sandbox.builtin import RESOURCE_QUOTAS
from sandbox.controllers.controller import Controller
from sandbox.errors import StatusError
from sandbox.objects import Obj
from sandbox.registry import Registry
from sandbox.store import EventType

RESYNC_SECONDS = 5.0
"""How long a status that somebody else wrote may stand; Kubernetes' controller takes up to five minutes."""


class ResourceQuotaController(Controller[tuple[str, str]]):
    """Keys are (namespace, name). Many charges in one turn of the loop become one write.

    With `settle`, what the ledger says is written so many seconds after it changed.
    """

    def __init__(
        self,
        registry: Registry,
        ledger: QuotaLedger,
        *,
        resync: float = RESYNC_SECONDS,
        settle: float = 0.0,
    ) -> None:
        super().__init__(registry)
        self._ledger = ledger
        self._resync = resync
        self._settle = settle

    def subscribe(self) -> list[Callable[[], None]]:
        self._ledger.listeners.append(self._tell)
        for quota in self.store.iterate(RESOURCE_QUOTAS):
            self._tell(quota["metadata"]["namespace"], quota["metadata"]["name"])
        return [
            lambda: self._ledger.listeners.remove(self._tell),
            self.store.subscribe(RESOURCE_QUOTAS, self._on_quota),
        ]

    def _tell(self, namespace: str, name: str) -> None:
        if self._settle:
            self.enqueue_later(self._settle, (namespace, name))
        else:
            self.enqueue((namespace, name))

    def _on_quota(self, event: EventType, quota: Obj, old: Obj | None) -> None:
        key = (quota["metadata"]["namespace"], quota["metadata"]["name"])
        if old is not None and quota.get("status") != old.get("status") and self._wanted(key, quota):
            self.enqueue_later(self._resync, key)

    def _wanted(self, key: tuple[str, str], quota: Obj) -> Obj | None:
        """The status that a quota should have, None if it has it."""
        account = self._ledger.account(*key)
        status = status_of(account) if account else None
        return None if status is None or quota.get("status") == status else status

    async def reconcile(self, key: tuple[str, str]) -> float | None:
        """Write the status if it differs."""

        def change(seen: Obj) -> Obj | None:
            status = self._wanted(key, seen)
            return None if status is None else {**seen, "status": status}

        try:
            await self.registry.modify(RESOURCE_QUOTAS, *key, change, subresource="status")
        except StatusError as error:
            if error.reason != "NotFound":
                raise
        return None
