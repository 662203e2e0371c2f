"""Pods that begin to leave within the limit, or are overdue, as time goes by (`placed/departures.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.events import ClusterEvent, EventKind
from scheduler_core.state.placed.departures import can_end_sooner
from scheduler_core.state.placement import Placement

if TYPE_CHECKING:
    from scheduler_core.state.cluster import ClusterState


def follow(state: ClusterState, placement: Placement, now: float | None) -> None:
    """Mark a placed pod as leaving within the limit, or not, as it is seen at `now`."""
    pod, row = placement.pod, placement.row
    if state.departures.leaves(pod, now):
        state.leaves(placement)
        return
    state.table.put_late(row, can_end_sooner(pod, state.departures.limit))
    if state.table.leaving[row]:
        state.table.leaving[row] = False
        state.ledger.mark_staying(pod.namespace, pod.uid)


def depart(state: ClusterState, now: float) -> list[ClusterEvent]:
    """Bring up to date which pods leave within the limit. Call this regularly.

    An event for each pod whose end came into sight, and two for each that is overdue.
    """
    events = []
    for uid in state.departures.due(now):
        placement = state.placed[uid]
        pod, was_going = placement.pod, bool(state.table.leaving[placement.row])
        follow(state, placement, now)
        goes = bool(state.table.leaving[placement.row])
        if goes == was_going:
            continue
        state.gangs.touch(pod)
        events.append(ending_event(pod, goes=goes))
        if not goes:
            # Whoever waited for its room may take that of others.
            borrows = EventKind.LOAN | EventKind.NOMINATION
            events.append(ClusterEvent(borrows, namespace=pod.namespace))
    return events


def ending_event(pod: Pod, *, goes: bool) -> ClusterEvent:
    """A pod ends; `goes`: and from now on it leaves within the limit."""
    return ClusterEvent(
        EventKind.POD_UPDATE | EventKind.POD_LEAVING if goes else EventKind.POD_UPDATE, pod=pod
    )
