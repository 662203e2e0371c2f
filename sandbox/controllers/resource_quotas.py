"""ResourceQuota status: what the admission's ledger says, written as soon as it changes."""

from __future__ import annotations

from collections.abc import Callable

from sandbox.admission.quota_ledger import QuotaLedger, status_of
from sandbox.builtin import RESOURCE_QUOTAS
from sandbox.controllers.controller import Controller
from sandbox.errors import StatusError
from sandbox.objects import Obj
from sandbox.registry import Registry


class ResourceQuotaController(Controller[tuple[str, str]]):
    """Keys are (namespace, name). Many charges in one turn of the loop become one write."""

    def __init__(self, registry: Registry, ledger: QuotaLedger) -> None:
        super().__init__(registry)
        self._ledger = ledger

    def subscribe(self) -> list[Callable[[], None]]:
        def tell(namespace: str, name: str) -> None:
            self.enqueue((namespace, name))

        self._ledger.listeners.append(tell)
        for quota in self.store.iterate(RESOURCE_QUOTAS):
            tell(quota["metadata"]["namespace"], quota["metadata"]["name"])
        return [lambda: self._ledger.listeners.remove(tell)]

    async def reconcile(self, key: tuple[str, str]) -> float | None:
        """Write the status if it differs."""

        def change(seen: Obj) -> Obj | None:
            account = self._ledger.account(*key)
            status = status_of(account) if account else None
            return None if status is None or seen.get("status") == status else {**seen, "status": status}

        try:
            await self.registry.modify(RESOURCE_QUOTAS, *key, change, subresource="status")
        except StatusError as error:
            if error.reason != "NotFound":
                raise
        return None
