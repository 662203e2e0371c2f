"""Whether anybody holds the members of a group to what it asks of the topology, and the condition for it."""

from __future__ import annotations

from typing import Any, Final

from scheduler_core.model.conditions import condition, find
from scheduler_core.model.gang import Gang
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.topology import is_constrained

TOPOLOGY_ENFORCED: Final = "TopologyEnforced"
NOT_ENFORCED: Final = "not enforced: "


def unenforced(state: ClusterState, gang: Gang) -> str:
    """Why nobody does, empty where somebody does or nothing is asked."""
    if not is_constrained(gang):
        return ""
    live = [pod for pod in state.gangs.members(gang.key).values() if not pod.finished]
    away = [pod for pod in live if pod.scheduler_name not in state.topology.settings]
    if not away:
        return ""
    names = ", ".join(sorted({pod.scheduler_name for pod in away}))
    return (
        f"{NOT_ENFORCED}{len(away)} of {len(live)} members are with {names}, "
        "and no profile of that name has ClusterTopologyPlacementGroup"
    )


def topology_condition(state: ClusterState, gang: Gang, now: float) -> list[dict[str, Any]]:
    """The condition TopologyEnforced; none for a group that asks for nothing, or has no pods yet."""
    if not is_constrained(gang) or not state.gangs.members(gang.key):
        return []
    text, old = unenforced(state, gang), find(gang.status.conditions, TOPOLOGY_ENFORCED)
    reason = "NoPlugin" if text else "PlacedTogether"
    text = text or "members are placed as the constraints say"
    return [condition(TOPOLOGY_ENFORCED, reason == "PlacedTogether", reason, text, now, old)]
