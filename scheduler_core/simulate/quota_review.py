"""Reports the quotas of a scenario that the webhook would refuse.

A scenario may contain quotas that could not be created today: they existed before the webhook, or the cluster
has lost nodes. Such a quota is in force and reported, and the scenario continues.
"""

from __future__ import annotations

from collections.abc import Iterator

from scheduler_core.errors import ModelError
from scheduler_core.model.quotas.elastic_quota import KIND as ELASTIC_QUOTA
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.quotas.resource_quota import KIND as RESOURCE_QUOTA
from scheduler_core.model.quotas.resource_quota import ResourceQuota, parse_resource_quota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.validation import (
    ValidationContext,
    broken_rules,
    check_bounds,
    check_resource_quota,
    ratcheted,
)
from scheduler_core.quota.violations import Violation, check_whole
from scheduler_core.simulate.objects import Change

Quota = ElasticQuota | ResourceQuota


def written_quota(change: Change) -> Quota | None:
    """The ElasticQuota or ResourceQuota in a written object, else None. Raises ModelError if invalid."""
    if change.gone:
        return None
    if change.key[0] == RESOURCE_QUOTA:
        return parse_resource_quota(change.obj)
    if change.key[0] != ELASTIC_QUOTA:
        return None
    quota = parse_elastic_quota(change.obj)
    for violation in (*check_whole(f"ElasticQuota {quota.key}", quota.fractional), *check_bounds(quota)):
        raise ModelError("", str(violation))
    return quota


class QuotaReview:
    """Quotas in the order in which they were written; each is checked against those before it."""

    def __init__(self) -> None:
        self._ledger = QuotaLedger()
        self._natives: dict[tuple[str, str], ResourceQuota] = {}

    def see(self, change: Change, quota: Quota | None, room: ResourceList) -> list[Violation]:
        """Take a written or removed object; gives the rules that the webhook would refuse it for.

        `room`: the sum of the schedulable nodes' allocatable.
        """
        if isinstance(quota, ElasticQuota):
            return self._put_quota(quota, room)
        if isinstance(quota, ResourceQuota):
            return self._put_native(quota)
        if change.gone:
            self._remove(*change.key)
        return []

    def _put_quota(self, quota: ElasticQuota, room: ResourceList) -> list[Violation]:
        there = list(self._stored(quota.namespace))
        beside = ValidationContext(
            siblings=tuple(there),
            others=tuple(other for other in self._ledger.quotas() if other.namespace != quota.namespace),
            natives=tuple(self._natives.values()),
            room=room,
        )
        broken = broken_rules(quota, beside)
        old = next((other for other in there if other.name == quota.name), None)
        if old is not None:
            kept = ratcheted(broken, quota, old, beside)
            broken = [item for item in broken if item not in kept]
        self._ledger.put_quota(quota)
        return [item.violation for item in broken]

    def _put_native(self, native: ResourceQuota) -> list[Violation]:
        quotas = list(self._stored(native.namespace))
        old = self._natives.get((native.namespace, native.name))
        before = check_resource_quota(old, quotas) if old is not None else []
        self._natives[native.namespace, native.name] = native
        return [found for found in check_resource_quota(native, quotas) if found not in before]

    def _remove(self, kind: str, namespace: str, name: str) -> None:
        if kind == ELASTIC_QUOTA:
            self._ledger.remove_quota(namespace, name)
        elif kind == RESOURCE_QUOTA:
            self._natives.pop((namespace, name), None)

    def _stored(self, namespace: str) -> Iterator[ElasticQuota]:
        binding = self._ledger.quota_of(namespace)
        if binding is not None:
            yield from (binding, *self._ledger.shadowed(namespace))
