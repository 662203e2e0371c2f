"""Disruption controller: updates the status of PodDisruptionBudgets after changes of pods and budgets."""

from __future__ import annotations

from collections.abc import Callable

from sandbox.controllers.controller import SandboxController
from sandbox.errors import ignoring
from sandbox.kinds import disruption
from sandbox.kinds.builtin import POD_DISRUPTION_BUDGETS, PODS
from sandbox.objects import Obj
from sandbox.store.object_store import EventType


class DisruptionBudgetController(SandboxController[tuple[str, str]]):
    """Keys are (namespace, name) of budgets."""

    def subscribe(self) -> list[Callable[[], None]]:
        for budget in self.store.iterate(POD_DISRUPTION_BUDGETS):
            self._on_budget("ADDED", budget, None)
        return [
            self.store.subscribe(POD_DISRUPTION_BUDGETS, self._on_budget),
            self.store.subscribe(PODS, self._on_pod),
        ]

    def _on_budget(self, event: EventType, obj: Obj, old: Obj | None) -> None:
        if event != "DELETED":
            self.enqueue((obj["metadata"]["namespace"], obj["metadata"]["name"]))

    def _on_pod(self, event: EventType, obj: Obj, old: Obj | None) -> None:
        namespace = obj["metadata"]["namespace"]
        for budget in self.store.iterate(POD_DISRUPTION_BUDGETS, namespace):
            if disruption.covers(budget, obj) or (old is not None and disruption.covers(budget, old)):
                self.enqueue((namespace, budget["metadata"]["name"]))

    async def reconcile(self, key: tuple[str, str]) -> float | None:
        """Write the status if it has changed."""

        def change(seen: Obj) -> Obj | None:
            status = disruption.status_of(self.store, seen)
            return None if seen.get("status") == status else {**seen, "status": status}

        with ignoring("NotFound"):
            await self.registry.modify(POD_DISRUPTION_BUDGETS, *key, change, subresource="status")
        return None
