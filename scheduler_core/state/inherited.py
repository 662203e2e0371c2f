"""Nominations that an earlier process made: what the API says of them, and what it does not.

What the API says of a pod that this process has nominated itself is older than what is known here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scheduler_core.arrays.index import Int64
from scheduler_core.model.gang import group_of
from scheduler_core.model.pod import Pod
from scheduler_core.state.gangs import GangTable
from scheduler_core.state.nodes import NodeTable
from scheduler_core.state.nominations import Nominations


class Inherited:
    """Takes nominations over from waiting pods; `resolve` is to be called before anything is decided."""

    def __init__(
        self, nominations: Nominations, gangs: GangTable, nodes: NodeTable, placed: Mapping[str, object]
    ) -> None:
        self._nominations = nominations
        self._gangs = gangs
        self._nodes = nodes
        self._placed = placed
        # Groups of which some member came with a node nominated.
        self._groups: set[str] = set()

    def renominate(self, pod: Pod, vector_of: Callable[[Pod], Int64]) -> None:
        """A waiting pod in a newer form: keep what we decided, believe the API about what we do not know."""
        known = self._nominations.get(pod.uid)
        ref = group_of(pod)
        ours = self._nominations.was_ours(pod.uid)
        if not ours and known is not None and known.node != pod.nominated_node:
            # Another process leads, and has changed its mind.
            self._nominations.remove(pod.uid)
            known = None
        if known is not None:
            vector = known.vector if known.pod.requests == pod.requests else vector_of(pod)
            group = ref.key if ref is not None and known.group else ""
            self._nominations.put(
                pod, known.node, vector, known.victims, kept=known.kept, group=group, ours=ours
            )
        elif pod.nominated_node and not ours:
            group = ref.key if ref is not None else ""
            self._nominations.put(pod, pod.nominated_node, vector_of(pod), group=group, ours=False)
            if group:
                self._groups.add(group)

    def resolve(self) -> None:
        """Tell what was kept for gangs from what they evicted for.

        Both look alike in the API, but a gang that evicted for its nodes has victims on their way out there.
        """
        if not self._groups:
            return
        evicted_for = {pod.preempted_for for pods in self._nodes.pods for pod in pods.values()}
        for group in self._groups:
            members = self._gangs.members(group)
            items = [self._nominations.get(uid) for uid in members]
            nominated = [item for item in items if item is not None]
            gang = self._gangs.gangs.get(group)
            if gang is not None and self._gangs.census(group, self._placed).allocated >= gang.min_members:
                # The gang has started: each of these is on its own.
                for item in nominated:
                    self._nominations.put(item.pod, item.node, item.vector, ours=False)
            elif evicted_for.isdisjoint(pod.key for pod in members.values()):
                for item in nominated:
                    self._nominations.put(
                        item.pod, item.node, item.vector, kept=True, group=group, ours=False
                    )
        self._groups.clear()
