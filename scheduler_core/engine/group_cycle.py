"""The scheduling cycle of a group that is placed on the topology: which members, and what if they cannot.

1. Is the group there and readable, and are there pods enough? Pods beyond a ConfigMap group's size wait.
2. All waiting members are placed together (engine.group_placement); of a PodGroup at least minMembers.
3. No placement: whole groups of lower priority are looked for that must go (engine.group_preemption).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from scheduler_core.engine.gang_cycle import TOPOLOGY, GangOutcome, missing
from scheduler_core.engine.group_placement import GroupPlacer, Refusal, Reserved, in_index_order
from scheduler_core.engine.group_preemption import preempt_groups
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.profile import Profile
from scheduler_core.model.gang import Gang, group_of
from scheduler_core.model.pod import Pod
from scheduler_core.plugins.topology_placement import ClusterTopologyPlacementGroup
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.topology import is_constrained

Members = Sequence[tuple[Profile, Pod]]

_OWN: Final = frozenset({TOPOLOGY})


def no_clock() -> float:
    """A time that stands still: no search takes too long, and none has a length."""
    return 0.0


def set_up(state: ClusterState, profiles: Mapping[str, Profile]) -> None:
    """Let the state know where the trees of the profiles come from."""
    for profile in profiles.values():
        for plugin in profile.plugins:
            if isinstance(plugin, ClusterTopologyPlacementGroup):
                state.topology.settings[profile.name] = plugin.settings


class GroupCycle:
    """Tries groups on the state of `cycle`; `clock` measures searches and ends those that take too long."""

    def __init__(self, cycle: PodCycle, clock: Callable[[], float]) -> None:
        self.state = cycle.state
        self.placer = GroupPlacer(cycle, clock)

    def run(self, gang: Gang | None, members: Members, now: float) -> GangOutcome | None:
        """Try a group's waiting members, oldest first; None if their placement is no matter of topology.

        Raises PluginError; then nothing is held.
        """
        if not members or any(TOPOLOGY not in profile.enabled for profile, _ in members):
            return None
        if gang is None:
            return _missing_group(members)
        if not is_constrained(gang):
            return None
        if gang.problem:
            return self._waits(gang, members, gang.problem, now)
        run = self.placer.run_of(gang.key, members, now)
        census = self.state.gangs.census(gang.key, self.state.placed)
        need = missing(gang, census)
        if need > len(members):
            text = (
                f"{gang.ref} has size {gang.min_members}: {len(members)} pods wait, "
                f"{census.allocated} have a node, {census.succeeded} succeeded"
            )
            outcome = self._waits(gang, members, text, now)
            outcome.too_few = True
            return outcome
        run.trials.update(pod.uid for _, pod in members)
        return self._try(gang, members, need, now)

    def _try(self, gang: Gang, members: Members, need: int, now: float) -> GangOutcome:
        """All members if they can be placed together, else those that must be; a ConfigMap group's size."""
        exact = gang.group is not None
        refusal: Refusal | None = None
        for number in (need,) if exact else dict.fromkeys((len(members), need)):
            if number:
                found = self.placer.place(gang, in_index_order(_oldest(members, number)), now)
                if not isinstance(found, Refusal):
                    return self._placed(gang, members, found)
                refusal = found
        if refusal is None:
            text = f"{gang.ref} has size {gang.min_members}, and so many members are placed or done"
            return GangOutcome([], {pod.uid: text for _, pod in members}, _OWN)
        outcome = self._waits(gang, members, refusal.reason, now)
        outcome.plugins |= refusal.plugins
        if refusal.question is not None and need:
            outcome.preemption = preempt_groups(self.placer, refusal.question, now)
        return outcome

    def _placed(self, gang: Gang, members: Members, reserved: Reserved) -> GangOutcome:
        held = {item.cycle.pod.uid for _, item in reserved}
        left = [pod.uid for _, pod in members if pod.uid not in held]
        text = f"{gang.ref} has size {gang.min_members}, and so many members are placed"
        if gang.group is None:
            text = f"{gang.ref}: no place that meets the constraints beside the members that are placed"
        return GangOutcome(reserved, dict.fromkeys(left, text), _OWN)

    def _waits(self, gang: Gang, members: Members, reason: str, now: float) -> GangOutcome:
        run = self.placer.run_of(gang.key, members, now)
        if run.reason != reason:
            run.reason = reason
            self.state.gangs.group_dirty.add(gang.key)
        return GangOutcome([], {pod.uid: reason for _, pod in members}, _OWN)


def _oldest(members: Members, number: int) -> Members:
    """Who goes first where there are more than fit: the older, then the lower index."""
    if number == len(members):
        return members
    order = {pod.uid: position for position, (_, pod) in enumerate(in_index_order(members))}
    return sorted(members, key=lambda member: (member[1].created, order[member[1].uid]))[:number]


def _missing_group(members: Members) -> GangOutcome | None:
    """Pods that name a group ConfigMap which is not there wait for it; PodGroups are another plugin's."""
    ref = group_of(members[0][1])
    if ref is None or ref.dialect != "ConfigMap":
        return None
    text = f"{ref} does not exist; its pods wait until it is created"
    return GangOutcome([], {pod.uid: text for _, pod in members}, _OWN)
