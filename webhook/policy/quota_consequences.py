"""Warnings about what a changed ElasticQuota means for the quotas of other namespaces.

The names of other namespaces, and what their pods request, are told only to users who may list ElasticQuotas
everywhere: no refusal of the webhook names another tenant, and neither does a warning. All others are told
the number of quotas and the sums, which the events of their own waiting pods show anyway. Who the user is, is
the word of the caller: it counts only where callers show a certificate.
"""

from __future__ import annotations

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.quota.shared_resources import (
    MOST_NAMED,
    AffectedQuota,
    SharedResource,
    lowered_sums,
    newly_shared,
)
from webhook.http.admission_review import ReviewRequest
from webhook.policy.elastic_quotas import is_in_effect
from webhook.view.api_reads import OptionalReads
from webhook.view.cache import Cache


class QuotaConsequences:
    """Tells what a change of an ElasticQuota means for others. Thread-safe.

    `known_callers`: reviews come only from clients that showed a certificate.
    """

    def __init__(self, cache: Cache, reads: OptionalReads, *, known_callers: bool) -> None:
        self._cache = cache
        self._reads = reads
        self._known_callers = known_callers

    def on_quota(self, request: ReviewRequest) -> tuple[str, ...]:
        """The warnings about an allowed change of an ElasticQuota."""
        try:
            new = parse_elastic_quota(request.object) if request.operation != "DELETE" else None
            old = parse_elastic_quota(request.old_object) if request.operation != "CREATE" else None
        except ModelError:
            return ()
        quota = new or old
        if quota is None or quota.deleted:
            return ()
        view = self._cache.view(quota.namespace, "off")
        if not is_in_effect(quota, view.siblings):
            return ()
        texts = []
        if new is not None and (old is None or set(new.min) - set(old.min)):
            shared = newly_shared(new, old, view.others, view.allocatable, view.groups)
            texts = [
                text for item in shared if _others(item, new) for text in self._shared(request, new, item)
            ]
        if old is not None:
            lowered = lowered_sums(new, old, view.others, view.groups)
            texts += [f"ElasticQuota {quota.key} {item}" for item in lowered]
        return tuple(texts)

    def _shared(self, request: ReviewRequest, quota: ElasticQuota, shared: SharedResource) -> tuple[str, str]:
        others = _others(shared, quota)
        named = self._may_see_others(request)
        told = msgspec.structs.replace(
            shared, affected=self._with_requests(shared, others) if named else others
        )
        value = format_resource(shared.resource, quota.min[shared.resource])
        who = told.named() if named else f"{len(others)} of other namespaces"
        field = f"ElasticQuota {quota.key}: spec.min[{shared.resource}]"
        return (
            f"{field}={value} limits {shared.resource} for all: {shared.limit()}. "
            f"Quotas that guarantee none of it: {who}",
            f"{field}: {shared.consequence()}",
        )

    def _may_see_others(self, request: ReviewRequest) -> bool:
        if not self._known_callers:
            return False
        return self._reads.ask(lambda live: live.may_list_quotas(request.user_info)) is True

    def _with_requests(
        self, shared: SharedResource, others: tuple[AffectedQuota, ...]
    ) -> tuple[AffectedQuota, ...]:
        """The affected quotas; those that are named with what their pods request, if it can be read."""
        first = sorted(others, key=lambda item: -(item.requested or 0))
        return tuple(
            self._with_request(shared.resource, item) if number < MOST_NAMED else item
            for number, item in enumerate(first)
        )

    def _with_request(self, resource: str, item: AffectedQuota) -> AffectedQuota:
        found = self._reads.ask(lambda live: live.requested(item.namespace))
        return item if found is None else msgspec.structs.replace(item, requested=found.get(resource, 0))


def _others(shared: SharedResource, quota: ElasticQuota) -> tuple[AffectedQuota, ...]:
    return tuple(item for item in shared.affected if item.namespace != quota.namespace)
