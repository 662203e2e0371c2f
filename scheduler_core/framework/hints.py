"""Queueing hints: may an event help a pod that a plugin refused, and whom has one to ask?

A hint is asked for pods that wait, of which there may be a hundred thousand. So it can say beforehand whom an
event can concern at most (`Reach`), and of room that came free how much that is (`Room`): the queue looks
these up in an index, and asks nobody else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from scheduler_core.arrays.index import Int64
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent

# Whether an event may help a pod that a plugin refused.
Hint = Callable[[ClusterState, Pod, ClusterEvent], bool]


class Reach(msgspec.Struct, frozen=True):
    """Whom an event can concern at most: everybody, or a union of the pods of some namespaces, the members of
    a group (its key), and the pods that were nominated.
    """

    everybody: bool = False
    namespaces: frozenset[str] = frozenset()
    group: str = ""
    nominated: bool = False


EVERYBODY: Final = Reach(everybody=True)
NOMINATED: Final = Reach(nominated=True)
NOBODY: Final = Reach()


class Beneath(msgspec.Struct, frozen=True, eq=False):
    """What pods of a node hold, who might go for others: `priorities` int64 [K], ascending, and what the
    first 0 to K of them hold together, `held` int64 [R, K + 1]; `leaving` int64 [R] is what of it leaves.
    """

    priorities: Int64
    held: Int64
    leaving: Int64


# What pods of a node hold who are less important than that, or all of them if so; None where none might go.
FindBeneath = Callable[[int, bool], Beneath | None]


class Room(msgspec.Struct, frozen=True, eq=False):
    """What is free now, int64 [R] by row of the resource index: who asks for more of anything is not helped.

    `slot` is the node on which it is, or None, and `beneath` what evictions there may add. Where `lowest`
    (int64 by namespace id of the pod table) is below a pod's priority, evictions elsewhere may.
    """

    free: Int64
    slot: int | None = None
    beneath: FindBeneath | None = None
    lowest: Int64 | None = None


def to_everybody(state: ClusterState, event: ClusterEvent) -> Reach:
    """Nobody is left out."""
    return EVERYBODY


class NarrowHint(msgspec.Struct, frozen=True):
    """A hint that knows whom an event can concern: `reach` leaves out nobody whom `accepts` would accept."""

    accepts: Hint
    reach: Callable[[ClusterState, ClusterEvent], Reach] = to_everybody

    def __call__(self, state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
        """Whether the event may help the pod."""
        return self.accepts(state, pod, event)


class StandingHint(msgspec.Struct, frozen=True):
    """A hint that is a question about the state alone: does what came free with the event still suffice?

    It is asked again when the pod's turn comes; where the answer is no by then, somebody else took it. Where
    `room` says how much is free, `reach` are those whom the event can concern although they ask for more.
    """

    so: Hint
    reach: Callable[[ClusterState, ClusterEvent], Reach] = to_everybody
    room: Callable[[ClusterState, ClusterEvent], Room | None] | None = None

    def __call__(self, state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
        """Whether it is so now."""
        return self.so(state, pod, event)
