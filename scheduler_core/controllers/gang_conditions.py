"""Computes conditions of PodGroups: MembersElsewhere, NodesKept, Reserved and TopologyEnforced.

See docs/gangs.md#status-and-conditions. Each function gives a list with the condition, or an empty list.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from scheduler_core.model.conditions import condition, find
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.names import NODES_KEPT_CONDITION, REASON_LIMIT_REACHED
from scheduler_core.model.timestamps import format_time
from scheduler_core.quota.reservations.usage import amounts_text
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.kept_nodes import KeptForGang
from scheduler_core.state.reservations import reservation_of
from scheduler_core.state.topology import is_constrained

ELSEWHERE: Final = "MembersElsewhere"
REASON: Final = "PassedBy"


def elsewhere_condition(
    state: ClusterState, gang: Gang, others: Collection[str], now: float
) -> list[dict[str, Any]]:
    """MembersElsewhere: how many members have one of the schedulers `others`; empty if none has."""
    members = state.gangs.members(gang.key).values()
    away = [
        pod for pod in members if pod.scheduler_name in others and not pod.finished and not pod.terminating
    ]
    if not away:
        return []
    placed = sum(1 for pod in away if pod.uid in state.placed)
    names = ", ".join(sorted({pod.scheduler_name for pod in away}))
    text = f"{len(away)} of {len(members)} members went to {names}: "
    if placed < len(away):
        text += f"{len(away) - placed} wait there, {placed} have a node and count; "
        text += (
            f"`kubectl podgroup adopt {gang.ref.name} -n {gang.ref.namespace}` brings those that wait back"
        )
    else:
        text += "all have a node and count"
    return [condition(ELSEWHERE, True, REASON, text, now, find(gang.status.conditions, ELSEWHERE))]


# Nodes named in the message.
_NAMED: Final = 5


def kept_condition(state: ClusterState, gang: Gang, now: float) -> list[dict[str, Any]]:
    """NodesKept: the nodes kept for the gang; empty if none were ever kept.

    The transition time is when keeping began or ended; a new process reads it.
    """
    keeping = state.gangs.kept_nodes
    found, old = keeping.kept.get(gang.key), find(gang.status.conditions, NODES_KEPT_CONDITION)
    if found is not None:
        reason = "EvictionsUnderWay" if found.evicts else "WaitsForRoom"
        return [condition(NODES_KEPT_CONDITION, True, reason, text_of(found), found.since)]
    ended = keeping.ended(gang.key)
    if ended:
        until = format_time(ended)
        text = f"the limit was reached: no nodes are kept for groups of this namespace until {until}"
        return [condition(NODES_KEPT_CONDITION, False, REASON_LIMIT_REACHED, text, ended - keeping.limit)]
    if old is None:
        return []
    if old.status == "False":
        return [condition(NODES_KEPT_CONDITION, False, old.reason, old.message, now, old)]
    return [condition(NODES_KEPT_CONDITION, False, "NothingKept", "no nodes are kept any more", now, old)]


def text_of(found: KeptForGang) -> str:
    """`2 nodes for 3 of its pods (cpu=6): n0, n1; until 2026-01-01T01:00:00Z at the latest`."""
    nodes = found.nodes
    names = ", ".join(nodes[:_NAMED]) + (f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else "")
    count = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    return (
        f"{count} for {len(found.items)} of its pods ({amounts_text(found.requests)}): {names}; "
        f"until {format_time(found.until)} at the latest"
    )


RESERVED: Final = "Reserved"


def reserved_condition(state: ClusterState, gang: Gang, now: float) -> list[dict[str, Any]]:
    """Reserved: the amounts that the reservation ledger holds; empty for a group without totalResources."""
    if not gang.total:
        return []
    found = reservation_of(state, gang)
    if found is None:
        text = f"{amounts_text(gang.total)} is not reserved: the reservation ledger does not list the group"
        holds, reason = False, "NotReserved"
    else:
        text = str(found)
        holds, reason = not found.ended, "ReservationEnded" if found.ended else "QuotaReserved"
    return [condition(RESERVED, holds, reason, text, now, find(gang.status.conditions, RESERVED))]


TOPOLOGY_ENFORCED: Final = "TopologyEnforced"
NOT_ENFORCED: Final = "not enforced: "


def unenforced(state: ClusterState, gang: Gang) -> str:
    """The text why a gang's topology constraints are not enforced; empty if they are, or there are none."""
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
    """TopologyEnforced; empty for a gang without constraints or without pods."""
    if not is_constrained(gang) or not state.gangs.members(gang.key):
        return []
    text, old = unenforced(state, gang), find(gang.status.conditions, TOPOLOGY_ENFORCED)
    reason = "NoPlugin" if text else "PlacedTogether"
    text = text or "members are placed as the constraints say"
    return [condition(TOPOLOGY_ENFORCED, reason == "PlacedTogether", reason, text, now, old)]
