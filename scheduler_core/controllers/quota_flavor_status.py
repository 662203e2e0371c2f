"""Maintains the status of every QuotaFlavor (docs/flavors.md#status).

The numbers are those of the nodes and of the ledger that enforces the flavors. A flavor is written again only
when a number or the condition differs from what its object says, at most once per second.
"""

from __future__ import annotations

from typing import Any, Final

from scheduler_core.controllers.pacing import RecentWrites
from scheduler_core.model.conditions import condition, find, says
from scheduler_core.model.kinds import QUOTA_FLAVORS
from scheduler_core.model.names import QUOTA_FLAVOR_VALID
from scheduler_core.model.quotas.quota_flavor import FlavorUse, QuotaFlavor
from scheduler_core.model.writes import Patch, Write
from scheduler_core.quota.flavor_validation import by_name, validate_flavors
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.due_times import DueTimes

MIN_INTERVAL_SECONDS: Final = 1.0


class QuotaFlavorStatus:
    """Looks at the flavors only if use, nodes or flavors changed, or a postponed write is due."""

    def __init__(self, min_interval: float = MIN_INTERVAL_SECONDS) -> None:
        self._recent_writes = RecentWrites(min_interval)
        self._seen: tuple[int, int] = (-1, -1)
        self._postponed: DueTimes[str] = DueTimes()

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """Status patches that are due."""
        flavors = state.nodes.flavors
        now_at = (state.ledger.version, state.nodes.static_changes.position)
        due = self._postponed.take(now)
        if now_at == self._seen and not due:
            return []
        self._seen = now_at
        self._postponed.clear()
        overlaps: dict[str, list[str]] = {}
        for flavor, item in validate_flavors(by_name(flavors.ordered)):
            overlaps.setdefault(flavor.name, []).append(f"{item.field}={item.value} {item.rule}")
        writes: list[Write] = []
        for flavor in flavors.ordered:
            patch = _patch(state, flavor, "; ".join(overlaps.get(flavor.name, ())), now)
            if patch is None:
                continue
            if (end := self._recent_writes.end(flavor.name)) > now:
                self._postponed.put(flavor.name, end)
                continue
            self._recent_writes.begin(flavor.name, now)
            writes.append(patch)
        return writes

    def next_time(self, state: ClusterState) -> float | None:
        """When a postponed write becomes due, or None."""
        return self._postponed.next_time()


def use_of(state: ClusterState, flavor: QuotaFlavor) -> FlavorUse:
    """The nodes of a flavor, what they have of its resource, and what pods under quotas use of it."""
    nodes, row = state.nodes, state.index.row(flavor.virtual)
    here = nodes.flavors.mask(flavor.virtual, nodes.size) & nodes.alive[: nodes.size]
    capacity = int(nodes.allocatable[row, : nodes.size][here].sum()) if row is not None else 0
    used = sum(state.ledger.used(quota.namespace).get(flavor.virtual, 0) for quota in state.ledger.quotas())
    return FlavorUse(int(here.sum()), capacity, used)


def _patch(state: ClusterState, flavor: QuotaFlavor, overlap: str, now: float) -> Patch | None:
    use, old = use_of(state, flavor), find(flavor.conditions, QUOTA_FLAVOR_VALID)
    valid = _valid(flavor, overlap, now)
    if flavor.status == use and says(old, valid):
        return None
    status = {"nodes": use.nodes, "capacity": use.capacity, "used": use.used}
    return Patch(
        QUOTA_FLAVORS,
        "",
        flavor.name,
        {"status": {**status, "observedGeneration": flavor.generation, "conditions": [valid]}},
        subresource="status",
        uid=flavor.uid,
        resource_version=flavor.resource_version,
    )


def _valid(flavor: QuotaFlavor, overlap: str, now: float) -> dict[str, Any]:
    """The condition Valid: False if an older flavor has the same nodes, which then counts there."""
    old = find(flavor.conditions, QUOTA_FLAVOR_VALID)
    if not overlap:
        text = "no older QuotaFlavor of this resource has its nodes"
        return condition(QUOTA_FLAVOR_VALID, True, "Distinct", text, now, old)
    text = f"{overlap}; on nodes that are of both the older one counts"
    return condition(QUOTA_FLAVOR_VALID, False, "Overlaps", text, now, old)
