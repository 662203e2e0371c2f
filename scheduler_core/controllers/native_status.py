"""Conditions of native PodGroups (docs/gangs.md#status-of-native-groups).

The status of a native group has several writers. Muster sends their conditions back as they were read, and
writes only over the version that was read: a write of somebody else in between makes ours fail, and the
changed object is reviewed again.
"""

from __future__ import annotations

from typing import Any, Final

from scheduler_core.controllers.gang_conditions import (
    TOPOLOGY_NOT_ENFORCED,
    disruption_condition,
    held_condition,
    topology_conditions,
)
from scheduler_core.model.conditions import (
    LONGEST_MESSAGE,
    ObjectCondition,
    as_written,
    condition,
    find,
    observing,
)
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.groups.native import V1ALPHA2
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.verdicts import SCHEDULED

INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
# The name of the same condition in v1alpha2.
SCHEDULED_V1ALPHA2: Final = "PodGroupScheduled"


def scheduled_type(gang: Gang) -> str:
    """The type of the condition that tells whether a native group was scheduled, by API version."""
    return SCHEDULED_V1ALPHA2 if gang.version == V1ALPHA2 else INITIALLY_SCHEDULED


def native_conditions(state: ClusterState, gang: Gang, now: float) -> list[dict[str, Any]] | None:
    """The conditions of a native group as they should be; None if they are so already.

    Without a verdict of this process nothing changes: what another process wrote stays.
    """
    old = gang.status.conditions or ()
    due = [*_scheduled(state, gang, now), *disruption_condition(state, gang)]
    due += [*held_condition(state, gang, now), *_topology(state, gang, now)]
    changed = [item for item in due if not _says(find(old, item["type"]), item)]
    if not changed:
        return None
    ours = {item["type"]: item for item in changed}
    kept = [ours.pop(found.type) if found.type in ours else as_written(found) for found in old]
    return [*kept, *ours.values()]


def _scheduled(state: ClusterState, gang: Gang, now: float) -> list[dict[str, Any]]:
    """PodGroupInitiallyScheduled by the last cycle; True is final, only its message may change."""
    verdict = state.gangs.verdicts.verdicts.get(gang.key)
    if verdict is None:
        return []
    type_, holds = scheduled_type(gang), verdict.reason == SCHEDULED
    old = find(gang.status.conditions, type_)
    if old is not None and old.status == "True" and not holds:
        return []
    found = condition(type_, holds, verdict.reason, verdict.message[:LONGEST_MESSAGE], now, old)
    return [observing(found, verdict.generation)]


def _topology(state: ClusterState, gang: Gang, now: float) -> list[dict[str, Any]]:
    """Repair, and TopologyNotEnforced where that is so or was so: else a group has no such condition."""
    return [
        item
        for item in topology_conditions(state, gang, now)
        if item["type"] != TOPOLOGY_NOT_ENFORCED
        or item["status"] == "True"
        or find(gang.status.conditions, TOPOLOGY_NOT_ENFORCED) is not None
    ]


def _says(old: ObjectCondition | None, new: dict[str, Any]) -> bool:
    """Whether a condition has all but the time of another."""
    return old is not None and (old.status, old.reason, old.message, old.observed_generation) == (
        new["status"],
        new["reason"],
        new["message"],
        new.get("observedGeneration", 0),
    )
