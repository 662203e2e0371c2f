"""Maintains `status.used` and the conditions of every ElasticQuota (docs/quota.md#status).

The numbers are those of the ledger that enforces the quotas. At most one write per quota and second, each
with the resourceVersion that it was computed from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scheduler_core.controllers.events import named_warning, reference
from scheduler_core.controllers.pacing import Portions, RecentWrites
from scheduler_core.framework.profile import Profile
from scheduler_core.model.conditions import condition, find
from scheduler_core.model.kinds import ELASTIC_QUOTAS
from scheduler_core.model.names import (
    CAPACITY_SCHEDULING,
    QUOTA_ABOVE_MAX,
    QUOTA_ENFORCED,
    QUOTA_NO_PLUGIN,
    QUOTA_OVERCOMMITTED,
)
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, PastBorrowing
from scheduler_core.model.resources import to_strings
from scheduler_core.model.writes import Create, Patch, Write
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.policy import above_max, above_max_text, borrowed
from scheduler_core.quota.validation import overcommitted
from scheduler_core.state.cluster import ClusterState

MIN_INTERVAL_SECONDS: Final = 1.0
CAPACITY: Final = CAPACITY_SCHEDULING
# The condition status that is reported as a Warning.
_BAD: Final = {QUOTA_ENFORCED: "False", QUOTA_OVERCOMMITTED: "True", QUOTA_ABOVE_MAX: "True"}


def enforcing(profiles: Mapping[str, Profile]) -> bool:
    """Whether any profile enforces quotas."""
    return any(CAPACITY in profile.enabled for profile in profiles.values())


class QuotaStatus:
    """Reviews only namespaces whose use or quota changed since the last pass (`state.quota_dirty`).

    `enforced`: some profile has the plugin that enforces quotas.
    """

    def __init__(self, min_interval: float = MIN_INTERVAL_SECONDS, *, enforced: bool = True) -> None:
        self._enforced = enforced
        self._recent_writes = RecentWrites(min_interval)
        self._portions = Portions(self._recent_writes.end)
        self._short: dict[str, tuple[int, int]] | None = None
        self._quotas_version = -1

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """Status patches that are due; namespaces beyond the rate limits stay dirty."""
        short = overcommitted(state.ledger.total_min, state.nodes.allocatable_total())
        # A changed quota changes the shares of all.
        version = state.ledger.quotas_version if state.history is not None else -1
        if short != self._short or version != self._quotas_version:
            self._short, self._quotas_version = short, version
            state.quota_dirty.update(quota.namespace for quota in state.ledger.quotas())
        writes: list[Write] = []
        for namespace in self._portions.take(state.quota_dirty, now):
            found = self._namespace(state, namespace, now)
            if found:
                self._recent_writes.begin(namespace, now)
                writes.extend(found)
        return writes

    def next_time(self, state: ClusterState) -> float | None:
        """When a postponed write becomes due, or None."""
        return self._portions.next_time(state.quota_dirty)

    def _namespace(self, state: ClusterState, namespace: str, now: float) -> list[Write]:
        bound = state.ledger.quota_of(namespace)
        if bound is None:
            return []
        over = borrowed(state.ledger, bound)
        conditions = [*self._bound(bound, now), *_above_max(state.ledger, bound, now)]
        writes = [self._patch(state, bound, state.ledger.status_used(bound), over, conditions, now)]
        for other in state.ledger.shadowed(namespace):
            used = dict.fromkeys(state.ledger.status_used(other), 0)
            writes.append(self._patch(state, other, used, {}, self._shadowed(other, bound, now), now))
        found: list[Write] = [write for write in writes if write is not None]
        for quota in (bound, *state.ledger.shadowed(namespace)):
            found.extend(_warnings(quota, found, now))
        return found

    def _patch(
        self,
        state: ClusterState,
        quota: ElasticQuota,
        used: dict[str, int],
        over: dict[str, int],
        conditions: list[dict[str, Any]],
        now: float,
    ) -> Patch | None:
        figures = status_of_use(quota, used, over)
        summary = (figures["summary"]["used"], figures["summary"]["borrowed"])
        old = {item.type: (item.status, item.reason, item.message) for item in quota.conditions}
        new = {item["type"]: (item["status"], item["reason"], item["message"]) for item in conditions}
        reclaim = self._reclaim(state, quota)
        history = _history(state, quota, now)
        shares = [item.share if item is not None else None for item in (quota.history, history)]
        same = quota.status_used == used and quota.summary == summary and old == new
        if same and reclaim is None and shares[0] == shares[1]:
            return None
        return Patch(
            ELASTIC_QUOTAS,
            quota.namespace,
            quota.name,
            {
                "status": {
                    **figures,
                    "conditions": conditions,
                    **({"lastReclaim": reclaim} if reclaim is not None else {}),
                    **_history_document(quota, history),
                }
            },
            subresource="status",
            uid=quota.uid,
            resource_version=quota.resource_version,
        )

    @staticmethod
    def _reclaim(state: ClusterState, quota: ElasticQuota) -> dict[str, Any] | None:
        """`lastReclaim`, if the object does not have it yet; amounts of the one before are removed."""
        reclaim, old = state.displacements.reclaims.get(quota.namespace), quota.last_reclaim
        if reclaim is None or state.ledger.quota_of(quota.namespace) is not quota:
            return None
        if reclaim == old:
            del state.displacements.reclaims[quota.namespace]
            return None
        stale = {
            name: None for name in (old.amounts if old is not None else ()) if name not in reclaim.amounts
        }
        document = reclaim.document()
        return {**document, "resources": {**stale, **document["resources"]}}

    def _bound(self, quota: ElasticQuota, now: float) -> list[dict[str, Any]]:
        text = "this quota is enforced in its namespace"
        old = find(quota.conditions, QUOTA_ENFORCED)
        conditions = [condition(QUOTA_ENFORCED, True, "Oldest", text, now, old)]
        if not self._enforced:
            text = f"no profile of the scheduler has {CAPACITY}: it places pods whatever this quota says"
            conditions = [condition(QUOTA_ENFORCED, False, QUOTA_NO_PLUGIN, text, now, old)]
        short = {name: values for name, values in (self._short or {}).items() if name in quota.min}
        was = find(quota.conditions, QUOTA_OVERCOMMITTED)
        if short:
            parts = [
                f"{name}: sum of min {format_resource(name, total)}, "
                f"allocatable {format_resource(name, room)}"
                for name, (total, room) in short.items()
            ]
            text = f"not every min can be given at once ({'; '.join(parts)})"
            conditions.append(condition(QUOTA_OVERCOMMITTED, True, "ClusterTooSmall", text, now, was))
        elif was is not None:
            text = "the sum of min fits the cluster"
            conditions.append(condition(QUOTA_OVERCOMMITTED, False, "ClusterFits", text, now, was))
        return conditions

    def _shadowed(self, quota: ElasticQuota, bound: ElasticQuota, now: float) -> list[dict[str, Any]]:
        text = f"ElasticQuota {bound.name} is older and binds in namespace {quota.namespace}"
        old = find(quota.conditions, QUOTA_ENFORCED)
        return [condition(QUOTA_ENFORCED, False, "NotOldest", text, now, old)]


def _history(state: ClusterState, quota: ElasticQuota, now: float) -> PastBorrowing | None:
    """What the status should say of past borrowing; None where it does not count."""
    history = state.history
    if history is None or state.ledger.quota_of(quota.namespace) is not quota:
        return None
    history.advance(now)
    past = history.past(quota.namespace)
    if past is None:
        return None
    return PastBorrowing(history.value(quota.namespace, now), now, past.share)


def _history_document(quota: ElasticQuota, history: PastBorrowing | None) -> dict[str, Any]:
    if history is None:
        return {"history": None} if quota.history is not None else {}
    return {"history": history.document()}


def _above_max(ledger: QuotaLedger, quota: ElasticQuota, now: float) -> list[dict[str, Any]]:
    """The condition AboveMax: by how much a quota uses more than its max; False once it no longer does."""
    was, over = find(quota.conditions, QUOTA_ABOVE_MAX), above_max(ledger, quota)
    if not over and was is None:
        return []
    if not over:
        return [condition(QUOTA_ABOVE_MAX, False, "WithinMax", "no use is above max", now, was)]
    text = f"{above_max_text(ledger, quota)}; its pods are the first to be evicted for others"
    return [condition(QUOTA_ABOVE_MAX, True, "PassedBy", text, now, was)]


def _warnings(quota: ElasticQuota, writes: list[Write], now: float) -> list[Write]:
    """Warning Events for conditions of a quota that become bad with these writes."""
    events: list[Write] = []
    patches = [w for w in writes if isinstance(w, Patch) and w.name == quota.name]
    for patch in patches:
        body: Any = patch.body
        for item in body["status"]["conditions"]:
            bad = _BAD.get(item["type"]) == item["status"]
            old = find(quota.conditions, item["type"])
            if bad and (old is None or old.status != item["status"]):
                events.append(_event(quota, item, now))
    return events


def _event(quota: ElasticQuota, item: dict[str, Any], now: float) -> Create:
    """A Warning on the quota; its name makes the API refuse a repeated write."""
    name = f"{quota.name}.{item['type'].lower()}.{int(now * 1000):x}"
    reason = item["type"] if item["status"] == "True" else f"Not{item['type']}"
    regarding = reference(ELASTIC_QUOTAS, quota.namespace, quota.name, quota.uid)
    return named_warning(name, regarding, reason, "Checking", item["message"], now)


def status_of_use(quota: ElasticQuota, used: dict[str, int], over: dict[str, int]) -> dict[str, Any]:
    """The merge patch of the use in the status of a quota; `over` is what it borrows. Stale amounts go."""
    stale = {name: None for name in quota.status_used if name not in used}
    return {
        "used": {**stale, **to_strings(used)},
        "summary": {"used": _use(quota, used), "borrowed": _amounts(over)},
    }


def _use(quota: ElasticQuota, used: dict[str, int]) -> str:
    """`cpu 4/6, memory 8Gi`: used/max per resource; only used if there is no max."""
    parts = []
    for name, value in used.items():
        limit = f"/{format_resource(name, quota.max[name])}" if name in quota.max else ""
        parts.append(f"{name} {format_resource(name, value)}{limit}")
    return ", ".join(parts)


def _amounts(values: dict[str, int]) -> str:
    return ", ".join(f"{name} {format_resource(name, value)}" for name, value in values.items())
