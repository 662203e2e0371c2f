"""Maintains the status of PodGroups: counts, conditions and phase (docs/gangs.md#status-and-conditions).

Of native groups it writes conditions alone; other controllers own the status of the other dialects. Only pods
in the group's own namespace count. No phase is final: new members change it again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from scheduler_core.controllers.gang_conditions import (
    disruption_condition,
    elsewhere_condition,
    held_condition,
    kept_condition,
    reserved_condition,
    topology_conditions,
)
from scheduler_core.controllers.gang_lifecycle import is_below_min_members
from scheduler_core.controllers.gang_phase import numbers, phase_of, refused_since
from scheduler_core.controllers.native_status import native_conditions
from scheduler_core.controllers.pacing import Portions, RecentWrites
from scheduler_core.model.conditions import condition, find
from scheduler_core.model.groups.gang import RESOURCES, Gang
from scheduler_core.model.writes import Patch, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.gangs import Census, take_census

SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
MIN_INTERVAL_SECONDS: Final = 1.0


class GangStatusController:
    """Reviews only gangs whose members, object or reservation changed (`state.gangs.dirty`).

    `others`: names of schedulers whose pods are reported in the condition MembersElsewhere.
    """

    def __init__(
        self, min_interval: float = MIN_INTERVAL_SECONDS, others: Collection[str] = frozenset()
    ) -> None:
        self._recent_writes = RecentWrites(min_interval)
        self._portions = Portions(self._recent_writes.end)
        self._others = others

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """Status patches that are due; gangs beyond the rate limits stay dirty."""
        writes: list[Write] = []
        sources = (state.gangs.kept_nodes, state.gangs.verdicts, state.gangs.quota_holds)
        for changed in (source.changed for source in sources):
            state.gangs.dirty |= changed
            changed.clear()
        for key in self._portions.take(state.gangs.dirty, now):
            gang = state.gangs.gangs.get(key)
            patch = self._patch(state, gang, now) if gang is not None else None
            if patch is not None:
                self._recent_writes.begin(key, now)
                writes.append(patch)
        return writes

    def _patch(self, state: ClusterState, gang: Gang, now: float) -> Patch | None:
        """The patch that is due; other controllers own the status of the other dialects."""
        if gang.ref.dialect == "native-PodGroup":
            due = native_conditions(state, gang, now)
            return patch_of(gang, {"status": {"conditions": due}}, subresource="status") if due else None
        if gang.ref.dialect != "PodGroup":
            return None
        census = take_census(state, gang.key)
        conditions = [
            *_conditions(gang, census, now),
            *reserved_condition(state, gang, now),
            *elsewhere_condition(state, gang, self._others, now),
            *kept_condition(state, gang, now),
            *held_condition(state, gang, now),
            *topology_conditions(state, gang, now),
            *disruption_condition(state, gang),
        ]
        refused = refused_since(state.gangs.members(gang.key).values())
        return _patch(gang, census, phase_of(gang, census, refused=refused), conditions)

    def next_time(self, state: ClusterState) -> float | None:
        """When a postponed write becomes due, or None."""
        return self._portions.next_time(state.gangs.dirty)


def _conditions(gang: Gang, census: Census, now: float) -> list[dict[str, Any]]:
    enough = census.allocated + census.succeeded >= gang.min_members
    text = numbers(gang, census)
    old = gang.status.conditions
    scheduled = condition(
        SCHEDULED, enough, "GangPlaced" if enough else "GangWaits", text, now, find(old, SCHEDULED)
    )
    below = is_below_min_members(gang, census)
    torn_apart = condition(
        UNSCHEDULABLE, below, _quorum(gang, census, below=below), text, now, find(old, UNSCHEDULABLE)
    )
    return [scheduled, torn_apart]


def _quorum(gang: Gang, census: Census, *, below: bool) -> str:
    """The reason of Unschedulable: a gang of which nothing runs lost nothing, whatever it lacks."""
    if below:
        return "BelowMinMembers"
    live = census.succeeded + census.waiting - census.gated + census.allocated
    return "EnoughMembers" if live >= gang.min_members or census.running else "NothingRuns"


def _patch(gang: Gang, census: Census, phase: str, conditions: list[dict[str, Any]]) -> Patch | None:
    status: dict[str, Any] = {
        "phase": phase,
        "admitted": census.members,
        "running": census.running,
        "succeeded": census.succeeded,
        "failed": census.failed,
    }
    same = all(getattr(gang.status, field) == value for field, value in status.items())
    old = {(c.type, c.status, c.reason, c.message) for c in gang.status.conditions or ()}
    new = {(c["type"], c["status"], c["reason"], c["message"]) for c in conditions}
    if same and old == new:
        return None
    return patch_of(gang, {"status": {**status, "conditions": conditions}}, subresource="status")


def patch_of(gang: Gang, body: dict[str, Any], *, subresource: str = "") -> Patch:
    """A patch of the object of a gang, only over the version that was read."""
    return Patch(
        RESOURCES[gang.ref.dialect],
        gang.ref.namespace,
        gang.ref.name,
        body,
        subresource=subresource,
        uid=gang.uid,
        resource_version=gang.resource_version,
    )
