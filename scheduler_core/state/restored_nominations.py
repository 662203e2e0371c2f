"""Restores nominations of an earlier process from `status.nominatedNodeName` and the victims still leaving.

For pods that this process nominated itself, the API is behind what is known here and is not read. Members of
a gang that has started are treated alike in both cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.model.groups.gang import group_of
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.gangs.gangs import GangTable, missing
from scheduler_core.state.nomination import Nomination
from scheduler_core.state.nominations import Nominations
from scheduler_core.state.placed.pods import PodTable
from scheduler_core.state.topology import TopologyTable

_NOBODY: Final[frozenset[str]] = frozenset()


class RestoredNominations:
    """Takes over nominations from waiting pods; `resolve` must be called before the first decision."""

    def __init__(
        self,
        nominations: Nominations,
        gangs: GangTable,
        topology: TopologyTable,
        table: PodTable,
        placed: Mapping[str, object],
    ) -> None:
        self._nominations = nominations
        self._gangs = gangs
        self._topology = topology
        self._table = table
        self._placed = placed
        # Pods (uids) that were first seen with a nominated node, and the groups of these pods.
        self._pods: set[str] = set()
        self._groups: set[str] = set()

    def renominate(self, pod: Pod, vector_of: Callable[[Pod], Int64]) -> None:
        """A waiting pod was added or changed: keep own nominations, take over those of the API otherwise."""
        known = self._nominations.get(pod.uid)
        ours = self._nominations.was_ours(pod.uid)
        if not ours and known is not None and known.node != pod.nominated_node:
            # Another process leads and has changed the nomination.
            self._nominations.remove(pod.uid)
            known = None
        if known is not None:
            vector = known.vector if known.pod.requests == pod.requests else vector_of(pod)
            group = self._gangs.unit_of(pod) if known.group else ""
            self._nominations.put(
                pod,
                known.node,
                vector,
                known.victims,
                kept=known.kept,
                group=group,
                priority=known.priority if group else None,
                ours=ours,
            )
        elif pod.nominated_node and not ours:
            group = self._gangs.unit_of(pod)
            self._nominations.put(pod, pod.nominated_node, vector_of(pod), group=group, ours=False)
            self._pods.add(pod.uid)
            if group:
                self._groups.add(group)

    def resolve(self) -> set[str]:
        """Find whom nominated pods wait for, and tell kept nodes from preemptions; gives the nodes.

        Both look alike in the API, but a preemptor has leaving victims on some node, or its PodGroup has the
        condition.
        """
        if not self._pods:
            return set()
        victims = self._table.evicted_for()
        for group in self._groups:
            self._resolve_group(group, victims)
        items = [item for uid in self._pods if (item := self._nominations.get(uid)) is not None]
        self._release([item for item in items if not item.group], victims)
        self._pods.clear()
        self._groups.clear()
        return {item.node for item in items}

    def release(self, group: str) -> None:
        """Once a gang has started, each nominated member waits for its own victims with its own rights.

        Members of native groups are tried together after the start, too.
        """
        nominated = list(self._nominations.waiting(lambda rights: rights.group == group))
        if nominated and self._is_tried_singly(group):
            self._release(nominated, self._table.evicted_for())

    def _release(self, nominated: Iterable[Nomination], victims: Mapping[str, set[str]]) -> None:
        for item in nominated:
            names = (item.pod.key, item.pod.uid)
            self._renew(item, _NOBODY.union(*(victims.get(name, _NOBODY) for name in names)))

    def _is_tried_singly(self, group: str) -> bool:
        gang = self._gangs.gangs.get(group)
        if gang is None or gang.ref.native:
            return False
        return missing(gang, self._gangs.census(group, self._placed)) == 0

    def _resolve_group(self, group: str, victims: Mapping[str, set[str]]) -> None:
        members = self._gangs.members_of_unit(group)
        nominated = [item for uid in members if (item := self._nominations.get(uid)) is not None]
        if self._is_tried_singly(group):
            self._release(nominated, victims)
            return
        waiting = {name for pod in members.values() for name in (pod.key, pod.uid, str(group_of(pod)))}
        waiting |= {gang.uid for gang in self._gangs.forest.leaves(group)}
        theirs = _NOBODY.union(*(victims.get(name, _NOBODY) for name in waiting))
        top = max((item.pod.priority for item in nominated), default=0)
        if group in self._gangs.gangs and self._topology.counts_slots(
            self._gangs.gangs[group], {item.pod.scheduler_name for item in nominated}
        ):
            nominated = _with_slots(nominated)
        # Its victims may be gone while it waits for others.
        kept = not theirs and not self._gangs.kept_nodes.evicted_before(group)
        for item in nominated:
            self._renew(item, theirs, kept=kept, group=group, priority=top)

    def _renew(self, item: Nomination, victims: frozenset[str], **more: Any) -> None:
        if self._nominations.counts(item.pod.uid):
            self._nominations.put(item.pod, item.node, item.vector, victims, ours=False, **more)


def _with_slots(nominated: list[Nomination]) -> list[Nomination]:
    """The nominations with a slot of the topology each: the largest request of the members per resource."""
    slot: Int64 = np.zeros(max((len(item.vector) for item in nominated), default=0), dtype=np.int64)  # [R]
    for item in nominated:
        width = len(item.vector)
        slot[:width] = np.maximum(slot[:width], item.vector)
    return [msgspec.structs.replace(item, vector=slot) for item in nominated]
