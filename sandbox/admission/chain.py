"""Admission chain: all admission plugins in kube-apiserver's order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sandbox import errors
from sandbox.access.escalation import EscalationCheck
from sandbox.admission.limit_ranger import LimitRanger
from sandbox.admission.priority import PriorityResolution
from sandbox.admission.resource_quota import QuotaAccounts, ResourceQuotaCheck
from sandbox.admission.runtime_class import RuntimeClassResolution
from sandbox.admission.webhook_client import ServiceTable
from sandbox.admission.webhooks import WebhookAdmission, check_configuration
from sandbox.objects import Obj
from sandbox.store.registry import Registry
from sandbox.store.requests import AdmissionRequest
from scheduler_core.errors import ModelError


class Chain:
    """Mutating: LimitRanger, Priority, RuntimeClass, webhooks. Validating: the same and ResourceQuota.

    The registry itself does the work of NamespaceLifecycle, before the chain. `ledger` holds the current use
    of every ResourceQuota. `services` maps (namespace, name) of a webhook's `clientConfig.service` to its
    address (host, port). `escalation` judges, before all else, who gives rights.
    """

    def __init__(
        self,
        registry: Registry,
        services: ServiceTable | None = None,
        escalation: EscalationCheck | None = None,
    ) -> None:
        store, kinds = registry.store, registry.kinds
        self.ledger = QuotaAccounts(store, kinds)
        self._limits = LimitRanger(store)
        self._priority = PriorityResolution(store)
        self._runtimes = RuntimeClassResolution(store)
        self._webhooks = WebhookAdmission(store, kinds, services)
        self._quota = ResourceQuotaCheck(self.ledger)
        self._escalation = escalation

    async def close(self) -> None:
        """Close the connections to webhooks."""
        await self._webhooks.close()

    async def mutate(self, req: AdmissionRequest) -> tuple[Obj | None, list[str]]:
        """The object after all mutating plugins, and warnings.

        After a webhook has changed the object, the built-in plugins run again (for added containers), and
        so do webhooks with reinvocationPolicy IfNeeded that have seen an older object.
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
        """Warnings. ResourceQuota runs last and does not await, so that its check is valid until storage."""
        if self._escalation is not None:
            self._escalation.validate(req)
        self._priority.validate(req)
        check_configuration(req)
        with _readable():
            self._limits.validate(req)
            self._runtimes.validate(req)
        warnings = await self._webhooks.validate(req)
        with _readable():
            self._quota.validate(req)
        return warnings


@contextmanager
def _readable() -> Iterator[None]:
    """Turn an invalid quantity into BadRequest."""
    try:
        yield
    except ModelError as error:
        raise errors.bad_request(str(error)) from None
