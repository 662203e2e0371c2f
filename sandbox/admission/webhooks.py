"""MutatingAdmissionWebhook and ValidatingAdmissionWebhook plugins: call webhooks and apply their verdicts."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection
from typing import Any

from sandbox import errors
from sandbox.admission.webhook_client import ServiceTable, WebhookCallFailed, WebhookClient
from sandbox.admission.webhook_review import (
    InvalidResponse,
    WebhookVerdict,
    denial,
    dry_run_unsupported,
    patched,
    read_answer,
    review_of,
)
from sandbox.admission.webhook_rules import Webhook, conditions_hold, read_webhooks
from sandbox.cel.evaluation import CelError
from sandbox.kinds.api_kinds import ApiKind, KindTable
from sandbox.kinds.builtin import MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS
from sandbox.store.object_store import ObjectStore
from sandbox.store.requests import AdmissionRequest
from scheduler_core.errors import ModelError

_EXEMPT_GROUP = "admissionregistration.k8s.io"


class WebhookAdmission:
    """Calls the registered webhooks. Configurations are parsed again only after one of them changes."""

    def __init__(self, store: ObjectStore, kinds: KindTable, services: ServiceTable | None = None) -> None:
        self._store = store
        self._kinds = kinds
        self._client = WebhookClient(services)
        self._read: dict[str, list[Webhook]] = {}
        for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            store.subscribe(kind, lambda *_: self._read.clear())

    async def close(self) -> None:
        """Close the connections to the webhooks."""
        await self._client.close()

    def _webhooks(self, kind: ApiKind) -> list[Webhook]:
        found = self._read.get(kind.storage)
        if found is None:
            found = [hook for obj in self._store.list(kind) for hook in read_webhooks(obj)]
            self._read[kind.storage] = found
        return found

    async def mutate(
        self, req: AdmissionRequest, only: Collection[Webhook] | None = None
    ) -> tuple[list[str], set[Webhook]]:
        """Call the mutating webhooks one after the other; they may change `req.obj`.

        Returns warnings, and the webhooks with reinvocationPolicy IfNeeded that were called before another
        webhook changed the object. `only` limits the calls to some webhooks.
        """
        asked: list[Webhook] = []
        again: set[Webhook] = set()
        warnings: list[str] = []
        for hook in self._webhooks(MUTATING_WEBHOOKS):
            if only is not None and hook not in only:
                continue
            verdict = await self._ask(hook, req, mutating=True)
            if verdict is None:
                continue
            warnings += verdict.warnings
            if self._apply(verdict, req):
                again.update(earlier for earlier in asked if earlier.reinvoke)
            asked.append(hook)
        return warnings, again

    @staticmethod
    def _apply(verdict: WebhookVerdict, req: AdmissionRequest) -> bool:
        if verdict.patch is None or req.obj is None:
            return False
        try:
            changed = patched(req.obj, verdict.patch)
        except InvalidResponse as error:
            raise errors.internal(str(error)) from None
        if changed == req.obj:
            return False
        req.obj = changed
        return True

    async def validate(self, req: AdmissionRequest) -> list[str]:
        """Call all validating webhooks at once; raises the first refusal in their order. Returns warnings."""
        hooks = self._webhooks(VALIDATING_WEBHOOKS)
        if not hooks:
            return []
        answers = await asyncio.gather(
            *(self._ask(hook, req, mutating=False) for hook in hooks), return_exceptions=True
        )
        warnings: list[str] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            if answer is not None:
                warnings += answer.warnings
        return warnings

    async def _ask(self, hook: Webhook, req: AdmissionRequest, *, mutating: bool) -> WebhookVerdict | None:
        """The webhook's verdict; None if it does not match the request or its failure is ignored.

        Raises StatusError for a refusal.
        """
        matched = self._matched(hook, req)
        if matched is None:
            return None
        uid = str(uuid.uuid4())
        review = review_of(req, matched, uid)
        if not self._conditions(hook, req, review["request"]):
            return None
        if req.context.dry_run and not hook.dry_run_safe:
            raise dry_run_unsupported(hook.name)
        try:
            verdict = read_answer(await self._client.post(hook, review), uid, mutating=mutating)
        except WebhookCallFailed as error:
            _fail_unless_ignored(hook, f"failed to call webhook: {error}")
            return None
        except InvalidResponse as error:
            _fail_unless_ignored(hook, f"received invalid webhook response: {error}")
            return None
        if not verdict.allowed:
            raise denial(hook.name, verdict.status)
        return verdict

    def _matched(self, hook: Webhook, req: AdmissionRequest) -> ApiKind | None:
        if req.kind.group == _EXEMPT_GROUP:
            return None
        matched = hook.matched_kind(req.operation, req.kind, req.subresource, self._kinds)
        if matched is None or not hook.selects(self._namespace_labels(req), (req.obj, req.old)):
            return None
        return matched

    def _namespace_labels(self, req: AdmissionRequest) -> dict[str, str] | None:
        if req.kind.storage == NAMESPACES.storage:
            obj = req.obj or req.old or {}
        elif req.kind.namespaced:
            obj = self._store.get(NAMESPACES, "", req.namespace) or {}
        else:
            return None
        return obj.get("metadata", {}).get("labels") or {}

    def _conditions(self, hook: Webhook, req: AdmissionRequest, request: dict[str, Any]) -> bool:
        if not hook.conditions:
            return True
        variables = {"object": request["object"], "oldObject": request["oldObject"], "request": request}
        try:
            return conditions_hold(hook, variables)
        except CelError as error:
            if hook.fail_closed:
                raise errors.forbidden(req.kind, req.name, str(error)) from None
            return False


def _fail_unless_ignored(hook: Webhook, why: str) -> None:
    if hook.fail_closed:
        raise errors.internal(f'failed calling webhook "{hook.name}": {why}')


def check_configuration(req: AdmissionRequest) -> None:
    """Refuse a webhook configuration with invalid match conditions or selectors (Invalid)."""
    if req.obj is None or req.kind.storage not in (MUTATING_WEBHOOKS.storage, VALIDATING_WEBHOOKS.storage):
        return
    try:
        read_webhooks(req.obj)
    except (CelError, ModelError) as error:
        cause = errors.StatusCause("FieldValueInvalid", f"Invalid value: {error}", "webhooks")
        raise errors.invalid(req.kind, req.name, [cause]) from None
