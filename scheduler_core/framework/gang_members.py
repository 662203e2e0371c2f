"""No-op Reserve, Permit and PostBind for plugins whose groups the engine places as a unit.

Also the queueing hint of these plugins: an event of the pod's own group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.queueing.hints import EVERYBODY, NOBODY, NarrowHint, Reach
from scheduler_core.framework.status import SUCCESS, Status
from scheduler_core.model.groups.gang import group_key
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.writes import Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent


class PlacedTogether:
    """No-op Reserve, Permit and PostBind.

    Configurations enable these extension points. The engine places a group as a unit: all members hold their
    node and quota in the state before the first one is bound.
    """

    def reserve(self, cycle: Cycle, slot: int) -> Status:
        """No-op: the state already holds the node of a member that waits for its siblings."""
        return SUCCESS

    def unreserve(self, cycle: Cycle, slot: int) -> None:
        """No-op: the state removes the placement of the member."""

    def permit(self, cycle: Cycle, slot: int) -> tuple[Status, float]:
        """SUCCESS: the quorum already holds nodes, so no member waits here."""
        return SUCCESS, 0.0

    def post_bind(self, cycle: Cycle, slot: int) -> Sequence[Write]:
        """No writes: a controller derives the status of the group from its pods."""
        return ()


def _of_own_group(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    if event.pod is not None:
        return state.gangs.unit_of(event.pod) == state.gangs.unit_of(pod) != ""
    if event.group:
        return event.group in (group_key(pod), state.gangs.unit_of(pod))
    return not event.namespace or event.namespace == pod.namespace


def _own_group(state: ClusterState, event: ClusterEvent) -> Reach:
    if event.pod is not None:
        unit = state.gangs.unit_of(event.pod)
        return Reach(group=unit) if unit else NOBODY
    if event.group:
        return Reach(group=event.group)
    return Reach(namespaces=frozenset({event.namespace})) if event.namespace else EVERYBODY


# Events of the group that a pod names, or of its other members; in a tree of groups, of the whole tree.
OWN_GROUP: Final = NarrowHint(_of_own_group, _own_group)
