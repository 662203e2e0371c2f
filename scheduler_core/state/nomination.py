"""A nomination: a pod that preempted and waits for its node, as in `status.nominatedNodeName`.

A node may also be kept for a member of a gang that has waited long. Nobody was evicted for it, so such a
nomination has fewer rights (`Nomination.kept`). See docs/gangs.md#kept-nodes-and-guarantees.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from scheduler_core.arrays.types import Int64
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.resources import ResourceList


class Nomination(msgspec.Struct, frozen=True):
    """A waiting pod, its nominated node, and the victims (uids) that it waits for.

    `vector` is the pod's requests, int64 [R] at the time. `kept`: the node is kept for a gang after a time,
    not because of a preemption. `group` is the key of the gang for which nodes were found as a whole; its
    members do not count against each other. `priority` is that of the pod, or of the most important of these
    members: none of them starts without the others.
    """

    pod: Pod
    node: str
    vector: Int64
    victims: frozenset[str] = frozenset()
    kept: bool = False
    group: str = ""
    priority: int = 0
    # What the pod will be charged on the node, without `pods`.
    charge: ResourceList = {}

    @property
    def rank(self) -> tuple[int, float, str]:
        """Order of nominated pods with equal rights; the same after a restart."""
        return -self.priority, self.pod.created, self.pod.key

    @property
    def rights(self) -> NominationRights:
        """The properties that decide about precedence over other pods."""
        return NominationRights(self.pod.namespace, self.priority, self.kept, self.group)


class NominationRights(NamedTuple):
    """The properties by which nominated pods have equal rights towards other pods."""

    namespace: str
    priority: int
    kept: bool
    group: str
