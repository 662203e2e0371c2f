"""What a plugin has to say about one member of a unit that the engine places as a whole: nothing any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.hints import EVERYBODY, NOBODY, NarrowHint, Reach
from scheduler_core.framework.status import SUCCESS, Status
from scheduler_core.model.gang import group_of
from scheduler_core.model.pod import Pod
from scheduler_core.model.writes import Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent


class PlacedTogether:
    """Reserve, Permit and PostBind of plugins whose groups are tried as one.

    Configurations name these points; all members hold node and quota in the state before any one is bound.
    """

    def reserve(self, cycle: Cycle, slot: int) -> Status:
        """A member that waits for its siblings holds its node in the state itself."""
        return SUCCESS

    def unreserve(self, cycle: Cycle, slot: int) -> None:
        """The state forgets the member."""

    def permit(self, cycle: Cycle, slot: int) -> tuple[Status, float]:
        """The quorum holds nodes already, so nobody waits here."""
        return SUCCESS, 0.0

    def post_bind(self, cycle: Cycle, slot: int) -> Sequence[Write]:
        """The group's status follows from its pods: a controller writes it."""
        return ()


def _of_own_group(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    own = group_of(pod)
    if event.pod is not None:
        return group_of(event.pod) == own is not None
    if event.group:
        return own is not None and own.key == event.group
    return not event.namespace or event.namespace == pod.namespace


def _own_group(state: ClusterState, event: ClusterEvent) -> Reach:
    if event.pod is not None:
        ref = group_of(event.pod)
        return Reach(group=ref.key) if ref is not None else NOBODY
    if event.group:
        return Reach(group=event.group)
    return Reach(namespaces=frozenset({event.namespace})) if event.namespace else EVERYBODY


# What happens to the group that a pod names, or to its other members.
OWN_GROUP: Final = NarrowHint(_of_own_group, _own_group)
