"""The scheduling cycle of a gang with topology constraints (docs/topology.md#groups).

1. Check that the group exists and is readable, and that there are enough pods. Pods beyond the size of a
   group ConfigMap wait.
2. Place all waiting members together (`gang.topology_placement`); of a PodGroup at least minMembers.
3. No placement: look for victims (`gang.topology_preemption`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from scheduler_core.engine.gang.cycle import COSCHEDULING, TOPOLOGY, GangOutcome, unschedulable_plugins
from scheduler_core.engine.gang.members import Members, in_index_order, undone_on_error
from scheduler_core.engine.gang.topology_placement import (
    PlacementFailure,
    Reserved,
    TopologyPlacer,
    most_placed,
)
from scheduler_core.engine.gang.topology_preemption import preempt_for_placement
from scheduler_core.engine.gang.topology_times import record_attempt
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.model.config_map import unlabelled_group
from scheduler_core.model.groups.gang import Gang, group_of
from scheduler_core.state.config_maps import ConfigMapTable
from scheduler_core.state.gangs.gangs import missing, take_census, too_few
from scheduler_core.state.topology import is_constrained

_OWN: Final = frozenset({TOPOLOGY})


def no_clock() -> float:
    """A clock that stands still: searches have no time limit and no duration."""
    return 0.0


class TopologyCycle:
    """Tries gangs on the state of `cycle`; `clock` measures searches and limits their time."""

    def __init__(self, cycle: PodCycle, clock: Callable[[], float]) -> None:
        self.state = cycle.state
        self.placer = TopologyPlacer(cycle, clock)

    def run(
        self, gang: Gang | None, members: Members, now: float, came: float | None = None
    ) -> GangOutcome | None:
        """Try a gang's waiting members, oldest first; None if the gang has no topology constraints.

        `came`: when the first of them was added, now unless given. Raises PluginError; then nothing is
        reserved.
        """
        if not members or any(TOPOLOGY not in profile.enabled for profile, _ in members):
            return None
        if gang is None:
            return _without_group(members, self.state.config_maps)
        if not is_constrained(gang):
            return None
        if gang.problem:
            return self._waits(gang, members, gang.problem)
        run = self.placer.run_of(gang.key)
        census = take_census(self.state, gang.key)
        waiting = [pod for _, pod in members]
        record_attempt(self.state, gang.key, run, waiting, census, now if came is None else came)
        need = missing(gang, census)
        if need > len(members):
            outcome = self._waits(gang, members, too_few(gang, census, len(members)))
            outcome.too_few = True
            return outcome
        run.trials = Counter({pod.uid: run.trials[pod.uid] + 1 for _, pod in members})
        return self._try(gang, members, need, now)

    def _try(self, gang: Gang, members: Members, need: int, now: float) -> GangOutcome:
        """Place all members together, else as many as the constraints allow; never beyond the size."""
        if gang.group is not None and not need:
            text = f"{gang.ref} has size {gang.min_members}, and so many members are placed or done"
            return GangOutcome([], {pod.uid: text for _, pod in members}, _OWN, on_topology=True)
        first = need if gang.group is not None else len(members)
        found = self._place(gang, _oldest(members, first), now)
        if isinstance(found, PlacementFailure) and first > max(need, 1):
            found = self._fewer(gang, members, found, max(need, 1), now)
        if not isinstance(found, PlacementFailure):
            return self._placed(gang, members, found)
        outcome = self._waits(gang, members, found.reason)
        outcome.plugins |= found.plugins | unschedulable_plugins(self.placer.cycle, members, now)
        if found.task is not None and need:
            with self.placer.cycle.backfill.all_kept():
                outcome.preemption = preempt_for_placement(self.placer, found.task, now)
        return outcome

    def _place(self, gang: Gang, members: Members, now: float) -> Reserved | PlacementFailure:
        return self.placer.place(gang, in_index_order(members), now)

    def _fewer(
        self, gang: Gang, members: Members, refused: PlacementFailure, least: int, now: float
    ) -> Reserved | PlacementFailure:
        """Place as many members as slots and constraints allow, else the least; then others one by one."""
        most = min(most_placed(self.state, refused.task), len(members) - 1) if refused.task else 0
        found: Reserved | PlacementFailure = refused
        for number in sorted({max(most, least), least}, reverse=True):
            found = self._place(gang, _oldest(members, number), now)
            if not isinstance(found, PlacementFailure):
                return found + self._others(gang, members, found, now)
        return found

    def _others(self, gang: Gang, members: Members, held: Reserved, now: float) -> Reserved:
        """Members of a PodGroup beyond minMembers, one by one while the constraints allow."""
        uids = {item.cycle.pod.uid for _, item in held}
        reserved: Reserved = []
        with undone_on_error(lambda: self.placer.undo([*held, *reserved])):
            for member in _oldest([pair for pair in members if pair[1].uid not in uids], len(members)):
                found = self._place(gang, [member], now)
                if isinstance(found, PlacementFailure):
                    break
                reserved += found
        return reserved

    def _placed(self, gang: Gang, members: Members, reserved: Reserved) -> GangOutcome:
        held = {item.cycle.pod.uid for _, item in reserved}
        left = [pod.uid for _, pod in members if pod.uid not in held]
        text = f"{gang.ref} has size {gang.min_members}, and so many members are placed"
        if gang.group is None:
            text = f"{gang.ref}: no place that meets the constraints beside the members that are placed"
        return GangOutcome(reserved, dict.fromkeys(left, text), _OWN, on_topology=True)

    def _waits(self, gang: Gang, members: Members, reason: str) -> GangOutcome:
        run = self.placer.run_of(gang.key)
        if run.reason != reason:
            run.reason = reason
            self.state.gangs.group_dirty.add(gang.key)
        return GangOutcome([], {pod.uid: reason for _, pod in members}, _OWN, on_topology=True)


def _oldest(members: Members, number: int) -> Members:
    """The first `number` members: the oldest, then those with the lowest index."""
    order = {pod.uid: position for position, (_, pod) in enumerate(in_index_order(members))}
    return sorted(members, key=lambda member: (member[1].created, order[member[1].uid]))[:number]


def _without_group(members: Members, config_maps: ConfigMapTable) -> GangOutcome | None:
    """The outcome of pods whose group does not exist; None if Coscheduling reports the missing PodGroup."""
    ref = group_of(members[0][1])
    if ref is None:
        return None
    if ref.dialect != "ConfigMap" and any(COSCHEDULING in profile.enabled for profile, _ in members):
        return None
    text = f"{ref} does not exist; its pods wait until it is created"
    if ref.dialect == "ConfigMap" and config_maps.is_unlabelled(f"{ref.namespace}/{ref.name}"):
        text = unlabelled_group(ref.namespace, ref.name)
    return GangOutcome([], {pod.uid: text for _, pod in members}, _OWN, on_topology=True)
