"""The scheduling cycle of a tree of groups: one trial for all pods (docs/gangs.md#composite-groups).

1. Check the tree, and that its pods agree with the root.
2. Place the tree from the root down (`gang.composite_search`).
3. The root reaches its minimum and a pod was placed: the pods of the groups that start are bound, the others
   wait for the next cycle. Otherwise nothing is held.
4. Then look for victims for the whole tree (`gang.composite_preemption`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from scheduler_core.engine.binding import ReservedPod
from scheduler_core.engine.gang.composite_preemption import preempt_for_tree
from scheduler_core.engine.gang.composite_search import PlacedApart, TreeSearch, Tried, by_group
from scheduler_core.engine.gang.cycle import COSCHEDULING, unschedulable_plugins
from scheduler_core.engine.gang.members import Members, UnpreparedMember
from scheduler_core.engine.gang.native_rules import contradiction, record_error, record_start
from scheduler_core.engine.gang.outcome import (
    AtFault,
    Lack,
    MustWait,
    Outcome,
    Prepares,
    Starts,
    at_fault,
    one_text,
    to_prepare,
    waits,
)
from scheduler_core.engine.gang.topology_domains import no_domain
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.model.groups.composite import Composite
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.names import NODE_AFFINITY
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.gangs.forest import Group
from scheduler_core.state.gangs.gangs import take_census, too_few
from scheduler_core.state.gangs.verdicts import UNSCHEDULABLE

_OWN: Final = frozenset({COSCHEDULING})


class CompositeCycle:
    """Tries trees of groups on the state of `cycle`. Has no state of its own."""

    def __init__(self, cycle: PodCycle) -> None:
        self.cycle = cycle
        self.state = cycle.state

    def run(self, unit: str, members: Members, gated: Sequence[Pod], now: float) -> Outcome:
        """Try the waiting pods of a unit, most important first, then oldest; `unit` is the key of a root.

        `gated`: the waiting pods that a PreEnqueue plugin holds back. Raises PluginError; then nothing is
        reserved.
        """
        forest = self.state.gangs.forest
        fault = forest.fault(unit)
        if fault is not None:
            if not fault.awaits:
                return self._error(unit, members, fault.text)
            return at_fault(members, fault.text, lacks_object=True)
        root = forest.composites[unit]
        if gated:
            first = min(pod.key for pod in gated)
            text = f"{root}: Pod {first} has spec.schedulingGates, and a gated pod holds its whole tree"
            return waits(members, text, lack=Lack.PODS)
        waiting = by_group(members)
        lack = self._unready(root, waiting)
        if lack:
            return waits(members, lack, lack=Lack.PODS)
        text = contradiction(self.state, root)
        if text:
            return self._error(unit, members, text)
        search = TreeSearch(self.cycle, waiting, now)
        try:
            found = search.run(root)
        except PlacedApart as error:
            return self._error(unit, members, str(error))
        if found.ok:
            return self._starts(root, members, search, found, now)
        self._tell(found)
        plugins = self._plugins(root, members, now)
        if no_domain(self.state, root):
            return AtFault(refused=found.refused, plugins=plugins)
        with self.cycle.backfill.all_kept():
            preemption = preempt_for_tree(self.cycle, root, members, now)
        return MustWait(refused=found.refused, plugins=plugins, preemption=preemption)

    def _error(self, unit: str, members: Members, text: str) -> AtFault:
        """The outcome of a tree that contradicts itself: every group of it waits with the same text."""
        for leaf in self.state.gangs.forest.leaves(unit):
            record_error(self.state, leaf, text)
        return at_fault(members, text, error=True)

    def _unready(self, group: Group, waiting: Mapping[str, Members]) -> str:
        """Why a group has too few pods, or child groups with enough pods; empty if it has enough."""
        if isinstance(group, Gang):
            return group.problem or too_few(
                group, take_census(self.state, group.key), len(waiting.get(group.key, ()))
            )
        lacks = [self._unready(child, waiting) for child in self.state.gangs.forest.children(group.key)]
        ready = lacks.count("")
        if ready >= group.min_groups:
            return ""
        why = next((lack for lack in lacks if lack), "")
        text = f"{group}: {ready} of the {group.min_groups} groups that must start together have enough pods"
        return f"{text}: {why}" if why else text

    def _starts(
        self, root: Composite, members: Members, search: TreeSearch, found: Tried, now: float
    ) -> Starts | Prepares:
        """The outcome with enough nodes; if a node must be prepared first, all pods are nominated."""
        lacks = next((item.status for _, item in search.taken if isinstance(item, UnpreparedMember)), None)
        plugins = self._plugins(root, members, now) if found.refused else _OWN
        if lacks is None:
            self._tell(found)
            reserved = [(profile, item) for profile, item in search.taken if isinstance(item, ReservedPod)]
            return Starts(reserved=reserved, refused=found.refused, plugins=plugins)
        preparing = to_prepare(self.state, search.taken)
        search.undo()
        text = f"{root}: the pods that must start together have found nodes: {lacks.reason}"
        return Prepares(
            refused=one_text(members, text), plugins=plugins | _OWN | {lacks.plugin}, members=preparing
        )

    def _tell(self, found: Tried) -> None:
        """Record the verdict about every PodGroup."""
        gangs = self.state.gangs
        for key, reason in found.leaves.items():
            if reason:
                gangs.verdicts.decided(key, UNSCHEDULABLE, reason)
            else:
                record_start(self.state, gangs.gangs[key])

    def _plugins(self, root: Composite, members: Members, now: float) -> frozenset[str]:
        """The plugins whose events may help; with topology constraints also changes of the nodes' labels."""
        found = _OWN | unschedulable_plugins(self.cycle, members, now)
        leaves = self.state.gangs.forest.leaves(root.key)
        keys = (group.topology_key for leaf in leaves for group in self.state.gangs.forest.above(leaf.key))
        return found | {NODE_AFFINITY} if any(keys) else found
