"""Chooses the victims for a whole tree of groups (docs/gangs.md#composite-groups)."""

from __future__ import annotations

from scheduler_core.engine.gang.composite_search import PlacedApart, TreeSearch, by_group
from scheduler_core.engine.gang.group_preemption import preempt_for_members
from scheduler_core.engine.gang.members import Members
from scheduler_core.engine.gang.placing import PlacedMember, placed_members
from scheduler_core.engine.gang.preemption import GangPreemption
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.model.groups.composite import Composite
from scheduler_core.model.pods.pod import NEVER


def preempt_for_tree(cycle: PodCycle, root: Composite, members: Members, now: float) -> GangPreemption | None:
    """Victims that let the tree start, or None if no eviction can; the state is unchanged.

    The pods of a tree have one preemption policy. Raises PluginError.
    """
    if any(pod.preemption_policy == NEVER for _, pod in members):
        return None

    def place(some: Members) -> list[PlacedMember]:
        search = TreeSearch(cycle, by_group(some), now)
        try:
            search.run(root)
        except PlacedApart:
            return []
        placed = placed_members(search.taken)
        search.undo()
        return placed

    return preempt_for_members(cycle, root.priority, members, 1, now, place)
