"""The scheduling cycle of a group that is placed on the topology: which members, and what if they cannot.

1. Is the group there and readable, and are there pods enough? Pods beyond a ConfigMap group's size wait.
2. All waiting members are placed together (engine.group_placement); of a PodGroup at least minMembers.
3. No placement: whole groups of lower priority are looked for that must go (engine.group_preemption).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from scheduler_core.engine.gang_cycle import COSCHEDULING, TOPOLOGY, GangOutcome
from scheduler_core.engine.gang_refusals import refusing
from scheduler_core.engine.group_placement import GroupPlacer, Refusal, Reserved, in_index_order, most_placed
from scheduler_core.engine.group_preemption import preempt_groups
from scheduler_core.engine.group_times import note_trial
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.profile import Profile
from scheduler_core.model.config_map import unlabelled_group
from scheduler_core.model.gang import Gang, group_of
from scheduler_core.model.pod import Pod
from scheduler_core.state.census import take_census
from scheduler_core.state.config_maps import ConfigMapTable
from scheduler_core.state.gangs import missing, too_few
from scheduler_core.state.topology import is_constrained

Members = Sequence[tuple[Profile, Pod]]

_OWN: Final = frozenset({TOPOLOGY})


def no_clock() -> float:
    """A time that stands still: no search takes too long, and none has a length."""
    return 0.0


class GroupCycle:
    """Tries groups on the state of `cycle`; `clock` measures searches and ends those that take too long."""

    def __init__(self, cycle: PodCycle, clock: Callable[[], float]) -> None:
        self.state = cycle.state
        self.placer = GroupPlacer(cycle, clock)

    def run(
        self, gang: Gang | None, members: Members, now: float, came: float | None = None
    ) -> GangOutcome | None:
        """Try a group's waiting members, oldest first; None if their placement is no matter of topology.

        `came`: when the first of them was seen, now unless given. Raises PluginError; then nothing is held.
        """
        if not members or any(TOPOLOGY not in profile.enabled for profile, _ in members):
            return None
        if gang is None:
            return _missing_group(members, self.state.config_maps)
        if not is_constrained(gang):
            return None
        if gang.problem:
            return self._waits(gang, members, gang.problem)
        run = self.placer.run_of(gang.key)
        census = take_census(self.state, gang.key)
        waiting = [pod for _, pod in members]
        note_trial(self.state, gang.key, run, waiting, census, now if came is None else came)
        need = missing(gang, census)
        if need > len(members):
            outcome = self._waits(gang, members, too_few(gang, census, len(members)))
            outcome.too_few = True
            return outcome
        run.trials = Counter({pod.uid: run.trials[pod.uid] + 1 for _, pod in members})
        return self._try(gang, members, need, now)

    def _try(self, gang: Gang, members: Members, need: int, now: float) -> GangOutcome:
        """All members together, else as many as the constraints allow; never beyond a size."""
        if gang.group is not None and not need:
            text = f"{gang.ref} has size {gang.min_members}, and so many members are placed or done"
            return GangOutcome([], {pod.uid: text for _, pod in members}, _OWN, on_topology=True)
        first = need if gang.group is not None else len(members)
        found = self._place(gang, _oldest(members, first), now)
        if isinstance(found, Refusal) and first > max(need, 1):
            found = self._fewer(gang, members, found, max(need, 1), now)
        if not isinstance(found, Refusal):
            return self._placed(gang, members, found)
        outcome = self._waits(gang, members, found.reason)
        outcome.plugins |= found.plugins | refusing(self.placer.cycle, members, now)
        if found.question is not None and need:
            with self.placer.cycle.backfill.all_kept():
                outcome.preemption = preempt_groups(self.placer, found.question, now)
        return outcome

    def _place(self, gang: Gang, members: Members, now: float) -> Reserved | Refusal:
        return self.placer.place(gang, in_index_order(members), now)

    def _fewer(
        self, gang: Gang, members: Members, refused: Refusal, least: int, now: float
    ) -> Reserved | Refusal:
        """The most that free slots and constraints allow, else the least; then others singly."""
        most = min(most_placed(self.state, refused.question), len(members) - 1) if refused.question else 0
        found: Reserved | Refusal = refused
        for number in sorted({max(most, least), least}, reverse=True):
            found = self._place(gang, _oldest(members, number), now)
            if not isinstance(found, Refusal):
                return found + self._others(gang, members, found, now)
        return found

    def _others(self, gang: Gang, members: Members, held: Reserved, now: float) -> Reserved:
        """Members of a PodGroup beyond those that must start, one by one while the constraints let them."""
        uids = {item.cycle.pod.uid for _, item in held}
        reserved: Reserved = []
        try:
            for member in _oldest([pair for pair in members if pair[1].uid not in uids], len(members)):
                found = self._place(gang, [member], now)
                if isinstance(found, Refusal):
                    break
                reserved += found
        except BaseException:
            self.placer.undo([*held, *reserved])
            raise
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
    """Who goes first where there are more than fit: the older, then the lower index."""
    order = {pod.uid: position for position, (_, pod) in enumerate(in_index_order(members))}
    return sorted(members, key=lambda member: (member[1].created, order[member[1].uid]))[:number]


def _missing_group(members: Members, config_maps: ConfigMapTable) -> GangOutcome | None:
    """Pods wait for a group that is not there: only the group says whether, and where, they go together.

    None where Coscheduling waits for the PodGroup.
    """
    ref = group_of(members[0][1])
    if ref is None:
        return None
    if ref.dialect != "ConfigMap" and any(COSCHEDULING in profile.enabled for profile, _ in members):
        return None
    text = f"{ref} does not exist; its pods wait until it is created"
    if ref.dialect == "ConfigMap" and config_maps.is_unlabelled(f"{ref.namespace}/{ref.name}"):
        text = unlabelled_group(ref.namespace, ref.name)
    return GangOutcome([], {pod.uid: text for _, pod in members}, _OWN, on_topology=True)
