"""The condition NodesKept of PodGroups: what is kept for them, since when and until when at most."""

from __future__ import annotations

from typing import Any, Final

from scheduler_core.model.conditions import condition, find, rfc3339
from scheduler_core.model.gang import Gang
from scheduler_core.model.names import NODES_KEPT_CONDITION, REASON_LIMIT_REACHED
from scheduler_core.quota.holds import amounts_text
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.keeping import Kept

# So many nodes are named.
_NAMED: Final = 5


def kept_condition(state: ClusterState, gang: Gang, now: float) -> list[dict[str, Any]]:
    """The condition; none for a group for which nothing was ever kept.

    Its transition time says since when nodes are kept, or when that ended; a new process reads it.
    """
    keeping = state.gangs.keeping
    found, old = keeping.kept.get(gang.key), find(gang.status.conditions, NODES_KEPT_CONDITION)
    if found is not None:
        reason = "EvictionsUnderWay" if found.evicts else "WaitsForRoom"
        return [condition(NODES_KEPT_CONDITION, True, reason, text_of(found), found.since)]
    ended = keeping.ended(gang.key)
    if ended:
        text = f"the limit was reached: no nodes are kept for groups of this namespace until {rfc3339(ended)}"
        return [condition(NODES_KEPT_CONDITION, False, REASON_LIMIT_REACHED, text, ended - keeping.limit)]
    if old is None:
        return []
    if old.status == "False":
        return [condition(NODES_KEPT_CONDITION, False, old.reason, old.message, now, old)]
    return [condition(NODES_KEPT_CONDITION, False, "NothingKept", "no nodes are kept any more", now, old)]


def text_of(found: Kept) -> str:
    """`2 nodes for 3 of its pods (cpu=6): n0, n1; until 2026-01-01T01:00:00Z at the latest`."""
    nodes = found.nodes
    names = ", ".join(nodes[:_NAMED]) + (f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else "")
    count = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    return (
        f"{count} for {len(found.items)} of its pods ({amounts_text(found.requests)}): {names}; "
        f"until {rfc3339(found.until)} at the latest"
    )
