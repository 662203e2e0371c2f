"""Pods that begin to leave within the limit, or no longer do, as time goes by and nodes come and go.

Nobody ends a pod whose node is gone or unreachable: its room comes at no time that could be waited for,
whatever its deletion says (`placed/departures.py` reads that). So it is evicted for nobody either. What it
uses above the min of its quota keeps no other quota from its own min. The same holds for a pod that the API
server does not let go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler_core.model.node import Node, ends_its_pods
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.events import ClusterEvent, EventKind
from scheduler_core.state.placed.departures import can_end_sooner
from scheduler_core.state.placement import Placement

if TYPE_CHECKING:
    from scheduler_core.state.cluster import ClusterState

# Pods may be evicted that could not be before.
_MAY_GO: Final = EventKind.LOAN | EventKind.NOMINATION


def can_end(state: ClusterState, uid: str) -> bool:
    """Whether a pod holds a node that is there and whose kubelet reports, and which so ends pods; and the API
    server did not refuse to let it go.
    """
    placement = state.placed.get(uid)
    return placement is not None and can_go(state, placement)


def can_go(state: ClusterState, placement: Placement) -> bool:
    """The same of a placed pod; one that ends was let go."""
    pod = placement.pod
    stuck = pod.uid in state.departures.stuck and not pod.terminating
    return bool(state.nodes.ends_pods[placement.slot]) and not stuck


def follow(state: ClusterState, placement: Placement, now: float | None) -> None:
    """Mark a placed pod as leaving within the limit, or not, as it is seen at `now`."""
    pod, row = placement.pod, placement.row
    reached = can_go(state, placement)
    # A pod without a grace period was deleted by nobody yet.
    there = pod.ending_grace is None or reached
    if state.departures.leaves(pod, now) and there:
        state.leaves(placement)
        return
    sooner = can_end_sooner(pod, state.departures.limit) and pod.uid not in state.departures.stuck
    state.table.put_late(row, there and sooner)
    if state.table.leaving[row]:
        state.table.leaving[row] = False
        state.ledger.mark_staying(pod.namespace, pod.uid)
    state.ledger.mark_stranded(pod.namespace, pod.uid, stranded=not reached)


def depart(state: ClusterState, now: float) -> list[ClusterEvent]:
    """Bring up to date which pods leave within the limit. Call this regularly. Gives their events."""
    uids = state.departures.due(now)
    events = [event for uid in uids for event in _review(state, state.placed[uid], now)]
    for uid in state.departures.may_go_again(now):
        placement = state.placed[uid]
        follow(state, placement, now)
        events.append(ClusterEvent(_MAY_GO | EventKind.QUOTA, namespace=placement.pod.namespace))
    return events


def follow_node(state: ClusterState, slot: int, old: Node | None) -> list[ClusterEvent]:
    """The events of pods that leave from now on, or no longer, since the node of a slot came or went.

    Pods that run on a node that comes back may be evicted again.
    """
    back = bool(state.nodes.ends_pods[slot])
    if ends_its_pods(old) == back:
        return []
    placements = [state.placed[uid] for uid in list(state.nodes.pods[slot])]
    events = [event for placement in placements for event in _review(state, placement, None)]
    if not back:
        # What these pods use above the min of their quotas keeps no other quota from its own.
        names = dict.fromkeys(placement.pod.namespace for placement in placements)
        events += (ClusterEvent(EventKind.QUOTA, namespace=name) for name in names)
    if back and any(not placement.pod.terminating for placement in placements):
        events.append(ClusterEvent(_MAY_GO))
    return events


def _review(state: ClusterState, placement: Placement, now: float | None) -> list[ClusterEvent]:
    table, row = state.table, placement.row
    was_going, was_late = bool(table.leaving[row]), bool(table.late[row])
    follow(state, placement, now)
    if bool(table.leaving[row]) == was_going and (was_late or not table.late[row]):
        return []
    state.gangs.touch(placement.pod)
    return ending_events(state, placement, was_going=was_going, before=placement.pod)


def ending_events(
    state: ClusterState, placement: Placement, *, was_going: bool, before: Pod
) -> list[ClusterEvent]:
    """The events of a pod that began to end, to leave within the limit, or no longer leaves; `before` is the
    pod as it was.
    """
    pod, row = placement.pod, placement.row
    if state.table.leaving[row]:
        # The event of a pod that this scheduler evicts was sent when the eviction was decided.
        what = EventKind.POD_UPDATE if was_going else EventKind.POD_UPDATE | EventKind.POD_LEAVING
        return [ClusterEvent(what, pod=pod, old_pod=before)]
    events = [ClusterEvent(EventKind.POD_UPDATE, pod=pod, old_pod=before)]
    if was_going or state.table.late[row]:
        # Whoever waited for its room may take that of others; or it may be taken now, though it was in calm.
        stranded = not state.nodes.ends_pods[placement.slot]
        what = _MAY_GO | EventKind.QUOTA if stranded else _MAY_GO
        events.append(ClusterEvent(what, namespace=pod.namespace))
    return events


def mismarked(state: ClusterState, placement: Placement) -> list[str]:
    """Contradictions between the table and the ledger about whether a pod leaves, or can be ended at all."""
    pod, leaving = placement.pod, bool(state.table.leaving[placement.row])
    stranded = not (leaving or can_go(state, placement))
    problems = []
    if leaving != state.ledger.is_leaving(pod.namespace, pod.uid):
        problems.append(f"pod {pod.key}: leaving is {leaving}, the ledger disagrees")
    if stranded != state.ledger.is_stranded(pod.namespace, pod.uid):
        problems.append(f"pod {pod.key}: stranded is {stranded}, the ledger disagrees")
    return problems
