"""The scheduling cycle of a gang with topology constraints (docs/topology.md#groups).

1. Check that the group exists and is readable, that its constraints are enforced for all members, and that
   there are enough pods. Pods beyond the size of a group ConfigMap wait.
2. Place all waiting members together (`gang.topology_placement`); of a PodGroup at least minMembers.
3. No placement: look for victims (`gang.topology_preemption`).

A native group with a topology key is tried in one domain after the other, best first
(`gang.topology_domains`). In each, the filter of ClusterTopologyPlacementGroup refuses all other nodes;
victims are searched there, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from scheduler_core.arrays.types import Bool
from scheduler_core.engine.gang.cycle import (
    COSCHEDULING,
    TOPOLOGY,
    GangCycle,
    unschedulable_plugins,
)
from scheduler_core.engine.gang.members import Members, equal_members, in_index_order, undone_on_error
from scheduler_core.engine.gang.outcome import (
    AtFault,
    Lack,
    MustWait,
    Outcome,
    Prepares,
    Starts,
    also_woken_by,
    at_fault,
    one_text,
    waits,
)
from scheduler_core.engine.gang.topology_domains import (
    DomainRoom,
    domain_numbers,
    domains_in_order,
    home_of,
    kinds_in,
    most_room,
    no_domain,
)
from scheduler_core.engine.gang.topology_placement import (
    PlacementFailure,
    PlacementTask,
    Reserved,
    TopologyPlacer,
    most_placed,
)
from scheduler_core.engine.gang.topology_preemption import (
    move_fairly_for_placement,
    preempt_for_placement,
)
from scheduler_core.engine.gang.topology_repair import decide_repair, is_damaged, lacking_quota
from scheduler_core.engine.gang.topology_slots import node_capacity, on_leaves
from scheduler_core.engine.gang.topology_times import record_attempt
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.errors import ModelError
from scheduler_core.framework.status import Status
from scheduler_core.model.config_map import unlabelled_group
from scheduler_core.model.groups.gang import Gang, group_of
from scheduler_core.state.config_maps import ConfigMapTable
from scheduler_core.state.gangs.enforcement import has_strict_constraints, unenforced
from scheduler_core.state.gangs.gangs import missing, take_census, too_few
from scheduler_core.state.topology import GroupRun, is_constrained, rules_of
from scheduler_core.topology.constraints import terms_of
from scheduler_core.topology.placer import can_place

_OWN: Final = frozenset({TOPOLOGY})


def no_clock() -> float:
    """A clock that stands still: searches have no time limit and no duration."""
    return 0.0


class TopologyCycle:
    """Tries gangs on the state of `cycle`; `clock` measures searches and limits their time."""

    def __init__(self, cycle: PodCycle, clock: Callable[[], float]) -> None:
        self.state = cycle.state
        self.placer = TopologyPlacer(cycle, clock)
        self.gang_cycle = GangCycle(cycle)

    def run(
        self, gang: Gang | None, members: Members, now: float, came: float | None = None
    ) -> Outcome | None:
        """Try a gang's waiting members, oldest first; None if topology constraints leave it to other cycles.

        That is a gang without constraints, or whose constraints are preferences that its profile does not
        have; and members that join a running native group, which the filter keeps in the group's domain.
        `came`: when the first of them was added, now unless given. Raises PluginError; then nothing is
        reserved.
        """
        if not members:
            return None
        if gang is None:
            return _without_group(members, self.state.config_maps)
        if not is_constrained(gang):
            return None
        self.state.topology.chosen.pop(gang.key, None)
        strict = has_strict_constraints(gang)
        if strict and (text := unenforced(self.state, gang)):
            return self._at_fault(gang, members, f"{gang.ref}: {text}")
        if not strict and any(TOPOLOGY not in profile.enabled for profile, _ in members):
            return None
        if gang.problem:
            return self._at_fault(gang, members, gang.problem)
        run = self.placer.run_of(gang.key)
        census = take_census(self.state, gang.key)
        waiting = [pod for _, pod in members]
        record_attempt(self.state, gang.key, run, waiting, census, now if came is None else came)
        need = missing(gang, census)
        if need > len(members):
            return self._waits(gang, members, too_few(gang, census, len(members)), lack=Lack.PODS)
        run.trials = Counter({pod.uid: run.trials[pod.uid] + 1 for _, pod in members})
        # The attempt adds to the members that the group is known to have had.
        damaged = is_damaged(gang, run, census, need)
        attempt = self._in_one_domain if gang.topology_key else self._try
        tried = attempt(gang, members, need, now)
        if tried is not None and damaged:
            self._repair(gang, run, members, need, tried, now)
        return tried

    def _in_one_domain(self, gang: Gang, members: Members, need: int, now: float) -> Outcome | None:
        """Try a native group with a topology key: in the domain of its running members, else in the best.

        None leaves members that no minimum needs to the cycle of single pods.
        """
        state, key = self.state, gang.topology_key
        lacking = no_domain(state, gang)
        if lacking:
            return self._at_fault(gang, members, lacking)
        home = home_of(state, gang, domain_numbers(state, key))
        if isinstance(home, str):
            return self._at_fault(gang, members, home)
        if home is not None:
            return self._within(gang, members, need, DomainRoom(home, len(members)), now)
        kinds = kinds_in(self.placer.cycle, members, now)
        if isinstance(kinds, Status):
            text = f"{gang.ref}: {kinds.reason}"
            return self._waits(gang, members, text, everywhere=True, plugins=_OWN | {kinds.plugin})
        expired = self.placer.expired(members[0][0])
        best: Outcome | None = None
        for evicting in (False, True):
            for room in domains_in_order(state, key, kinds, need, members, evicting=evicting):
                tried = self._within(gang, members, need, room, now)
                if tried is not None and _helps(tried, evicting):
                    return tried
                if not evicting:
                    best = best or tried
                if expired():
                    break
        return self._no_domain(gang, members, need, now, best or most_room(state, key, kinds))

    def _within(
        self, gang: Gang, members: Members, need: int, room: DomainRoom, now: float
    ) -> Outcome | None:
        """Try a group in one domain: at the optimum of its tree, else as gangs without constraints are."""
        self.state.topology.chosen[gang.key] = room.domain
        if gang.constraints.strip():
            return self._try(gang, members, need, now)
        if equal_members(self.state, members):
            first = _oldest(members, max(need, min(room.fits, len(members))))
            found = self._place(gang, first, now)
            if not isinstance(found, PlacementFailure):
                held = {item.cycle.pod.uid for _, item in found}
                others = [(profile, pod) for profile, pod in members if pod.uid not in held]
                return Starts(reserved=found, refused=one_text(others, ""), plugins=_OWN)
        if not need:
            return None
        outcome = self.gang_cycle.run(gang, members, now)
        if isinstance(outcome, Starts):
            ranked = self.placer.ranked(gang, list(outcome.reserved), now)
            outcome = msgspec.structs.replace(outcome, reserved=ranked)
        elif isinstance(outcome, MustWait):
            # Nodes are kept by a plan that knows no domains.
            outcome = msgspec.structs.replace(outcome, need=0)
        return also_woken_by(outcome, _OWN)

    def _no_domain(
        self, gang: Gang, members: Members, need: int, now: float, best: Outcome | DomainRoom | None
    ) -> MustWait:
        """The outcome of a group that no domain can hold.

        `best`: the attempt in the best domain whose nodes have room, which says what else the group lacks; or
        the domain with most room, if no domain has enough.
        """
        self.state.topology.chosen.pop(gang.key, None)
        plugins = _OWN | unschedulable_plugins(self.placer.cycle, members, now)
        if isinstance(best, DomainRoom | None):
            pods = f"the {need} pods that must start together" if need > 1 else "its pod"
            largest = f"; {best.domain.value} has most, for {best.fits}" if best is not None else ""
            text = f"{gang.ref}: no value of {gang.topology_key} has room for {pods} on its nodes{largest}"
            return self._waits(gang, members, text, plugins=plugins)
        beyond = isinstance(best, MustWait) and best.lack is Lack.QUOTA
        return self._waits(
            gang,
            members,
            next(iter(best.refused.values())),
            everywhere=beyond or (isinstance(best, MustWait) and best.everywhere),
            lack=Lack.QUOTA if beyond else Lack.ROOM,
            plugins=plugins | best.plugins,
        )

    def _repair(
        self, gang: Gang, run: GroupRun, members: Members, need: int, tried: Outcome, now: float
    ) -> None:
        """Decide about a running group that lacks members, after this attempt to replace them."""
        state, domain = self.state, self.state.topology.chosen.get(gang.key)
        try:
            rules = rules_of(gang, state.topology.tree_of(gang, members[0][0].name))
        except ModelError:
            return
        terms = " and ".join(map(str, terms_of(rules))) or "the topology"
        where = f"{domain.key}={domain.value}" if domain is not None else terms

        def fits_beside(gone: Bool) -> bool:
            task = self.placer.task_for(gang, _oldest(members, need), now)
            if isinstance(task, PlacementFailure):
                return False
            room = on_leaves(task.slots, node_capacity(state, task.slots, gone))
            return can_place(task.tree, room, task.size, task.rules, task.fixed)

        def fits_anew(gone: Bool) -> bool:
            state.topology.chosen.pop(gang.key, None)
            open_to = self.placer.task_for(gang, _oldest(members, need), now)
            if isinstance(open_to, PlacementFailure):
                return False
            room = on_leaves(open_to.slots, node_capacity(state, open_to.slots, gone))
            return can_place(open_to.tree, room, gang.min_members, open_to.rules)

        # Members that have just been placed lack nothing, and have no place in the queue any more.
        short = "" if isinstance(tried, Starts) else lacking_quota(state, members, need)
        decide_repair(state, gang, run, need, tried, where, short, fits_beside, fits_anew)

    def _try(self, gang: Gang, members: Members, need: int, now: float) -> Starts | MustWait | AtFault:
        """Place all members together, else as many as the constraints allow; never beyond the size."""
        if gang.group is not None and not need:
            text = f"{gang.ref} has size {gang.min_members}, and so many members are placed or done"
            return waits(members, text, plugins=_OWN)
        first = need if gang.group is not None else len(members)
        found = self._place(gang, _oldest(members, first), now)
        if isinstance(found, PlacementFailure) and first > max(need, 1):
            found = self._fewer(gang, members, found, max(need, 1), now)
        if not isinstance(found, PlacementFailure):
            return self._placed(gang, members, found)
        plugins = _OWN | found.plugins | unschedulable_plugins(self.placer.cycle, members, now)
        if found.faulty:
            return also_woken_by(self._at_fault(gang, members, found.reason), plugins)
        outcome = self._waits(gang, members, found.reason, everywhere=found.everywhere, plugins=plugins)
        return self._with_victims(outcome, found.task, now) if found.task is not None and need else outcome

    def _with_victims(self, outcome: MustWait, task: PlacementTask, now: float) -> MustWait:
        """The outcome with the evictions that make room, or the reason why there is no fair move."""
        with self.placer.cycle.backfill.all_kept():
            preemption = preempt_for_placement(self.placer, task, now)
            if preemption is not None:
                return msgspec.structs.replace(outcome, preemption=preemption)
            return outcome.with_fair_move(move_fairly_for_placement(self.placer, task, now))

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

    def _placed(self, gang: Gang, members: Members, reserved: Reserved) -> Starts:
        held = {item.cycle.pod.uid for _, item in reserved}
        others = [(profile, pod) for profile, pod in members if pod.uid not in held]
        text = f"{gang.ref} has size {gang.min_members}, and so many members are placed"
        if gang.group is None:
            text = f"{gang.ref}: no place that meets the constraints beside the members that are placed"
        return Starts(reserved=reserved, refused=one_text(others, text), plugins=_OWN)

    def _waits(
        self,
        gang: Gang,
        members: Members,
        reason: str,
        *,
        everywhere: bool = False,
        lack: Lack = Lack.ROOM,
        plugins: frozenset[str] = _OWN,
    ) -> MustWait:
        self._note(gang, reason, everywhere=everywhere)
        return waits(members, reason, everywhere=everywhere, lack=lack, plugins=plugins)

    def _at_fault(self, gang: Gang, members: Members, reason: str) -> AtFault:
        self._note(gang, reason, everywhere=False)
        return at_fault(members, reason, plugins=_OWN)

    def _note(self, gang: Gang, reason: str, *, everywhere: bool) -> None:
        """Keep for conditions why the group is not placed."""
        run = self.placer.run_of(gang.key)
        run.everywhere = everywhere
        if run.reason != reason:
            run.reason = reason
            self.state.gangs.group_dirty.add(gang.key)


def _helps(outcome: Outcome, evicting: bool) -> bool:
    """Whether members start or have found nodes that must be prepared; with `evicting`, also with victims."""
    if isinstance(outcome, MustWait):
        return evicting and outcome.preemption is not None
    return isinstance(outcome, Starts | Prepares)


def _oldest(members: Members, number: int) -> Members:
    """The first `number` members: the oldest, then those with the lowest index."""
    order = {pod.uid: position for position, (_, pod) in enumerate(in_index_order(members))}
    return sorted(members, key=lambda member: (member[1].created, order[member[1].uid]))[:number]


def _without_group(members: Members, config_maps: ConfigMapTable) -> MustWait | None:
    """The outcome of pods whose group does not exist; None if Coscheduling reports the missing PodGroup."""
    ref = group_of(members[0][1])
    if ref is None:
        return None
    if ref.dialect != "ConfigMap" and any(COSCHEDULING in profile.enabled for profile, _ in members):
        return None
    text = f"{ref} does not exist; its pods wait until it is created"
    if ref.dialect == "ConfigMap" and config_maps.is_unlabelled(f"{ref.namespace}/{ref.name}"):
        text = unlabelled_group(ref.namespace, ref.name)
    return waits(members, text, plugins=_OWN)
