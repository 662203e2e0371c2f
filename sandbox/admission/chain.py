"""All admission plugins in the API server's order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sandbox import errors
from sandbox.admission.limit_ranges import LimitRanger
from sandbox.admission.priority import PriorityResolution
from sandbox.admission.quota import ResourceQuotaCheck
from sandbox.admission.quota_ledger import QuotaLedger
from sandbox.admission.runtime_class import RuntimeClassResolution
from sandbox.admission.webhook_client import ServiceTable
from sandbox.admission.webhooks import WebhookAdmission, check_configuration
from sandbox.admit import AdmissionRequest, Obj
from sandbox.kinds import KindTable
from sandbox.store import Store
from scheduler_core.errors import ModelError


class Chain:
    """LimitRanger, Priority, RuntimeClass and webhooks change; then bounds, webhooks and quota judge.

    NamespaceLifecycle comes before all of them, in the registry. `ledger` holds the current use of every
    ResourceQuota.
    """

    def __init__(self, store: Store, kinds: KindTable, services: ServiceTable | None = None) -> None:
        self.ledger = QuotaLedger(store, kinds)
        self._limits = LimitRanger(store)
        self._priority = PriorityResolution(store)
        self._runtimes = RuntimeClassResolution(store)
        self._webhooks = WebhookAdmission(store, kinds, services)
        self._quota = ResourceQuotaCheck(self.ledger)

    async def close(self) -> None:
        """End the connections to webhooks."""
        await self._webhooks.close()

    async def mutate(self, req: AdmissionRequest) -> tuple[Obj | None, list[str]]:
        """The object to go on with, and warnings.

        Where a webhook changed the object, the built-in defaults run once more (for containers it added), and
        so do webhooks with reinvocationPolicy IfNeeded that saw an older object.
        """
        self._defaults(req)
        before = req.obj
        warnings, again = await self._webhooks.mutate(req)
        if req.obj is not before:
            self._defaults(req)
            if again:
                warnings += (await self._webhooks.mutate(req, only=again))[0]
        return req.obj, warnings

    def _defaults(self, req: AdmissionRequest) -> None:
        with _readable():
            self._limits.mutate(req)
            self._priority.mutate(req)
            self._runtimes.mutate(req)

    async def validate(self, req: AdmissionRequest) -> list[str]:
        """Warnings. The quota comes last and awaits nothing, so that its check holds until the store."""
        self._priority.validate(req)
        check_configuration(req)
        with _readable():
            self._limits.validate(req)
            self._runtimes.validate(req)
        warnings = await self._webhooks.validate(req)
        with _readable():
            self._quota.validate(req)
        return warnings

    async def release(self, req: AdmissionRequest) -> None:
        """Nothing to undo: a quota is charged by the store's own event, so only for what was stored."""


@contextmanager
def _readable() -> Iterator[None]:
    """A quantity that cannot be read is the client's fault."""
    try:
        yield
    except ModelError as error:
        raise errors.bad_request(str(error)) from None
