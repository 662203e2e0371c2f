"""Computes conditions of PodGroups, apart from those of their phase.

See docs/gangs.md#status-and-conditions. Each function gives a list with the condition, or an empty list.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from scheduler_core.model.conditions import LONGEST_MESSAGE, as_written, condition, find, observing
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.names import (
    DISRUPTION_TARGET,
    NODES_KEPT_CONDITION,
    QUOTA_HELD_CONDITION,
    REASON_EVICTIONS,
    REASON_LIMIT_REACHED,
    REASON_PREEMPTION,
)
from scheduler_core.model.timestamps import format_time
from scheduler_core.quota.reservations.usage import amounts_text
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.enforcement import unenforced
from scheduler_core.state.gangs.gangs import missing, take_census
from scheduler_core.state.gangs.held_quota import effective_hold
from scheduler_core.state.gangs.kept_nodes import KeptForGang
from scheduler_core.state.reservations import reservation_of
from scheduler_core.state.topology import RepairReason, is_constrained

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
        reason = REASON_EVICTIONS if found.evicts else "WaitsForRoom"
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


def held_condition(state: ClusterState, gang: Gang, now: float) -> list[dict[str, Any]]:
    """QuotaHeld: what the ElasticQuota holds for the gang; empty if it never held anything.

    The transition time is when the hold began or ended; a new process reads it.
    """
    holds = state.gangs.quota_holds
    hold, old = holds.holds.get(gang.key), find(gang.status.conditions, QUOTA_HELD_CONDITION)
    amounts = effective_hold(state, gang.key)
    if hold is not None and amounts:
        text = f"{amounts_text(amounts)}; until {format_time(hold.until)} at the latest"
        return [condition(QUOTA_HELD_CONDITION, True, "WaitsToStart", text, hold.since)]
    ended = holds.ended.get(gang.key)
    if ended is not None:
        until = format_time(max(ended, holds.rests.get(gang.ref.namespace) or 0.0))
        text = f"the limit was reached: no quota is held for groups of this namespace until {until}"
        return [condition(QUOTA_HELD_CONDITION, False, REASON_LIMIT_REACHED, text, ended)]
    if old is None:
        return []
    if old.status == "False":
        return [condition(QUOTA_HELD_CONDITION, False, old.reason, old.message, now, old)]
    return [condition(QUOTA_HELD_CONDITION, False, "NothingHeld", "no quota is held any more", now, old)]


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


TOPOLOGY_NOT_ENFORCED: Final = "TopologyNotEnforced"


REPAIR: Final = "Repair"


def topology_conditions(state: ClusterState, gang: Gang, now: float) -> list[dict[str, Any]]:
    """TopologyNotEnforced and Repair; empty for a gang without constraints or without pods."""
    if not is_constrained(gang) or not state.gangs.members(gang.key):
        return []
    return [_enforcement(state, gang, now), *_repair_condition(state, gang, now)]


def _repair_condition(state: ClusterState, gang: Gang, now: float) -> list[dict[str, Any]]:
    """Repair: True while members of a running gang are missing, with what becomes of it."""
    run, old = state.topology.runs.get(gang.key), find(gang.status.conditions, REPAIR)
    repair = run.repair if run is not None else None
    if repair is not None:
        waits = repair.reason in (RepairReason.WAITS, RepairReason.LACKS_QUOTA)
        census = take_census(state, gang.key)
        if not waits or (census.waiting and missing(gang, census)):
            return [condition(REPAIR, waits, repair.reason.value, repair.message, now, old)]
    if old is None:
        return []
    if old.status == "False":
        return [condition(REPAIR, False, old.reason, old.message, now, old)]
    return [condition(REPAIR, False, "NothingMissing", "no member is missing", now, old)]


def _enforcement(state: ClusterState, gang: Gang, now: float) -> dict[str, Any]:
    """TopologyNotEnforced of a gang with constraints."""
    text, old = unenforced(state, gang), find(gang.status.conditions, TOPOLOGY_NOT_ENFORCED)
    reason = "NoPlugin" if text else "PlacedTogether"
    text = text or "members are placed as the constraints say"
    return condition(TOPOLOGY_NOT_ENFORCED, reason == "NoPlugin", reason, text, now, old)


def disruption_condition(state: ClusterState, gang: Gang) -> list[dict[str, Any]]:
    """DisruptionTarget: for whom members were evicted last, and when; empty if that never happened.

    Nobody takes it back. A new process keeps what the object says.
    """
    disruption = state.gangs.verdicts.disruptions.get(gang.key)
    old = find(gang.status.conditions, DISRUPTION_TARGET)
    if disruption is None:
        return [as_written(old)] if old is not None else []
    text = f"{disruption.message}, at {format_time(disruption.now)}"[:LONGEST_MESSAGE]
    found = condition(DISRUPTION_TARGET, True, REASON_PREEMPTION, text, disruption.now, old)
    return [observing(found, disruption.generation)]
