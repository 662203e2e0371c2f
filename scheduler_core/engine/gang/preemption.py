"""Chooses the victims for a whole gang, only if the whole gang then fits (docs/gangs.md#preemption).

Members get nodes one after the other, with victims where nothing else helps; if that fails, on other nodes or
in another order. Then every victim is reprieved without which the gang still fits; members of a gang that
is disrupted as a whole are reprieved together. If members one by one find no victims, all candidates are
removed at once and as many as possible are reprieved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import msgspec
import numpy as np

from scheduler_core.arrays.reprieve import largest, minimal_subset, reprieve_order
from scheduler_core.arrays.types import Int64
from scheduler_core.engine.evaluation import Reevaluation, remove_leaving
from scheduler_core.engine.gang.capacity import (
    CAPACITY,
    asked_by,
    capacity_limit,
    charges_by_namespace,
    charges_of,
    evicts_nobody,
    leaving,
)
from scheduler_core.engine.gang.chances import reclaims_in_vain
from scheduler_core.engine.gang.members import Members, equal_members
from scheduler_core.engine.gang.placing import PlacedMember, place_in_trial
from scheduler_core.engine.gang.rights import leaves_room, only_by_right
from scheduler_core.engine.gang.search import MOST_MEMBERS
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.preemption.budgets import Budgets, counted, violating
from scheduler_core.framework.preemption.candidates import CandidateSelection
from scheduler_core.framework.preemption.covered import spares_covered
from scheduler_core.framework.preemption.demand import (
    Demand,
    Rows,
    ordinary_demand,
    own_quota_demand,
    reclaim_demands,
)
from scheduler_core.framework.preemption.dry_run import (
    Candidate,
    disrupted_gangs,
    eviction_units,
    reprieve_units,
)
from scheduler_core.framework.preemption.eligibility import gang_not_eligible
from scheduler_core.framework.preemption.group_loans import keeps_guarantees
from scheduler_core.framework.preemption.loans import FIRST, WITHIN, contended_by, loans_of
from scheduler_core.framework.preemption.other_sets import MOST_SETS_OF_A_GROUP, TriedSet, cheapest_admitted
from scheduler_core.framework.profile import Profile
from scheduler_core.model.pods.pod import Pod
from scheduler_core.quota.group_need import least
from scheduler_core.quota.policy import borrows_guaranteed, passes_max
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.trial import Trial

# How often a gang is placed again to reprieve victims: of members one by one, and of all candidates at once.
MOST_PROOFS: Final = 64
_MOST_AT_ONCE: Final = 128
# How often the members of a small gang are placed, each time with one more node without victims.
MOST_DETOURS: Final = 8

Nominated = tuple[Pod, str, Int64]


class GangPreemption(msgspec.Struct, frozen=True):
    """(victim, preempting member) pairs, and the node for which every member is nominated.

    `fair`: the victims go in a fair move.
    """

    victims: tuple[tuple[Pod, Pod], ...]
    nominated: tuple[Nominated, ...]
    fair: bool = False


def nominated_members(state: ClusterState, placed: Sequence[PlacedMember]) -> list[Nominated]:
    """Placed members with the names of their nodes."""
    return [(item.pod, state.nodes.names[item.slot], item.vector) for item in placed]


def preempt_for_gang(cycle: PodCycle, members: Members, need: int, now: float) -> GangPreemption | None:
    """Victims that let `need` of the members start, or None if no eviction can; the state is unchanged."""
    state = cycle.state
    pods = [pod for _, pod in members]
    if gang_not_eligible(state, pods) or evicts_nobody(state, pods, need, now):
        return None
    reprieve = Reprieve(cycle, members, need, now, MOST_PROOFS)
    if leaving(state).any() and reprieve.fits(()):
        # No victims are needed. Below, one member might take the node that another one waits for.
        return GangPreemption((), tuple(reprieve.nominated))
    top = max(pods, key=lambda pod: pod.priority)
    under_quota = all(CAPACITY in profile.enabled for profile, _ in members)
    if need > 1 and reprieve.equal and under_quota and reclaims_in_vain(state, top, need):
        return None
    return find_victims(cycle, members, need, now, reprieve)


def find_victims(
    cycle: PodCycle, members: Members, need: int, now: float, reprieve: Reprieve
) -> GangPreemption | None:
    """Search for victims, however small the chance: for one member after the other, then for all at once."""
    for order in _orders(cycle, members, now):
        placement = _victims_for(cycle, order, need, now)
        if placement is None:
            continue
        took = {pod.uid for _, pod in placement.placed}
        found = _reprieved(cycle, placement, members, reprieve)
        if found is not None and (
            took.issuperset(pod.uid for pod, _, _ in found.nominated) or _by_right(cycle, members, found, now)
        ):
            return found
        # With spare members fewer have to go. But in the room that one takes by its right no other starts.
        some = [member for member in members if member[1].uid in took]
        if found is not None or len(some) < len(members):
            found = _reprieved(cycle, placement, some, reprieve.among(some))
        if found is not None:
            return found
    return _at_once(cycle, members, need, now)


def _reprieved(
    cycle: PodCycle, placement: _OneByOne, members: Members, reprieve: Reprieve
) -> GangPreemption | None:
    """The preemption for members with the victims of a placement that they need; None if it is unlawful."""
    victims = placement.victims
    kept = reprieve.of([victim for victim, _ in victims.values()])
    found = _for_placed_members([victims[victim.uid] for victim in kept], reprieve.nominated)
    return None if found is None or takes_guaranteed(cycle.state, members, found) else found


def _at_once(cycle: PodCycle, members: Members, need: int, now: float) -> GangPreemption | None:
    """Victims for the gang as a whole, on behalf of its member with the highest priority.

    For each demand the fewest that are enough, or, if these must not go, those of other sets.
    """
    state = cycle.state
    top = max((pod for _, pod in members), key=lambda pod: pod.priority)
    reprieve = Reprieve(cycle, members, need, now, _MOST_AT_ONCE)

    def tried(demand: Demand) -> Iterator[TriedSet[GangPreemption]]:
        found = _victims_of(state, demand, reprieve.fits)
        if found is not None and reprieve.fits(found):
            made = _for_placed_members([(victim, top) for victim in found], reprieve.nominated)
            if made is not None and takes_guaranteed(state, members, made):
                made = None
            if made is not None and not _by_right(cycle, members, made, now):
                made = None
            yield TriedSet((), found, made)

    for demand in demands_at_once(state, members, need, now):
        made = cheapest_admitted(state, demand, tried, MOST_SETS_OF_A_GROUP)
        if made is not None:
            return made
    return None


def _by_right(cycle: PodCycle, members: Members, made: GangPreemption, now: float) -> bool:
    """Whether pods of other quotas go only for members that may reclaim."""
    victims = [victim for victim, _ in made.victims]
    starting = {pod.uid for pod, _, _ in made.nominated}
    placed = [member for member in members if member[1].uid in starting]
    if all(victim.namespace == placed[0][1].namespace for victim in victims):
        return True
    return only_by_right(cycle, placed, blocks_of(cycle.state, victims), now)


def _for_placed_members(
    victims: Sequence[tuple[Pod, Pod]], nominated: Sequence[Nominated]
) -> GangPreemption | None:
    """The preemption for the members that start; None if a preempting member outranks all of them."""
    if not nominated:
        return None
    top = max((pod for pod, _, _ in nominated), key=lambda pod: pod.priority)
    if any(pod.priority > top.priority for _, pod in victims):
        return None
    starting = {pod.uid for pod, _, _ in nominated}
    owned = ((victim, pod if pod.uid in starting else top) for victim, pod in victims)
    return GangPreemption(tuple(owned), tuple(nominated))


def takes_guaranteed(state: ClusterState, members: Members, made: GangPreemption) -> bool:
    """Whether the members that start would take what other quotas or groups of quotas are guaranteed, or pods
    of their own quota that they must spare.
    """
    profile, first = members[0]
    charge = charges_of(state, (pod for pod, _, _ in made.nominated))
    victims = [victim for victim, _ in made.victims]
    if CAPACITY not in profile.enabled:
        return False
    if borrows_guaranteed(state.ledger, first.namespace, charge, charges_by_namespace(state, victims)):
        return True
    starting = [pod for pod, _, _ in made.nominated]
    return not (spares_covered(state, starting, charge, victims) and keeps_guarantees(state, first, victims))


def _orders(cycle: PodCycle, members: Members, now: float) -> Iterator[Members]:
    """The members as given; if they differ, also by number of open nodes, fewest first, and by priority.

    So members that could go elsewhere, if need be with victims, leave the free room to members that could
    not.
    """
    yield members
    if len(members) > MOST_MEMBERS or equal_members(cycle.state, members):
        return
    open_to: dict[str, int] = {}
    for profile, pod in members:
        own = cycle.new_cycle(profile, pod, now)
        open_to[pod.uid] = int(cycle.scores_for(profile, own).static.ok.sum())
    tried = [list(members)]
    for key in (
        lambda member: (open_to[member[1].uid], member[1].priority),
        lambda member: (member[1].priority, open_to[member[1].uid]),
    ):
        order = sorted(members, key=key)
        if order not in tried:
            tried.append(order)
            yield order


def _victims_for(cycle: PodCycle, members: Members, need: int, now: float) -> _OneByOne | None:
    """The placement with its victims, if `need` members get nodes in this order.

    Each member takes its own best node. If that leaves too little for later members, the node with the last
    victims is excluded from eviction, and the members are placed again.
    """
    placement = _OneByOne(cycle, now)
    for _ in range(MOST_DETOURS if len(members) <= MOST_MEMBERS else 1):
        if placement.place(members, need):
            return placement
        if placement.cleared < 0:
            return None
        placement.excluded_slots |= {placement.cleared}
    return None


class _OneByOne:
    """Places members one after the other. `victims`, `placed` and `cleared` are those of the last call.

    `victims`: (victim, preempting member) by uid. `placed`: the members that got nodes. `cleared`: the slot
    with the last victims, -1 for none. No pod on the `excluded_slots` is evicted.
    """

    def __init__(self, cycle: PodCycle, now: float) -> None:
        self._cycle = cycle
        self._now = now
        self.excluded_slots: frozenset[int] = frozenset()
        self.victims: dict[str, tuple[Pod, Pod]] = {}
        self.placed: list[tuple[Profile, Pod]] = []
        self.cleared = -1

    def place(self, members: Members, need: int) -> bool:
        """Whether `need` members get nodes; the state is unchanged."""
        self.victims, self.placed, self.cleared = {}, [], -1
        with Trial(self._cycle.state, self._now) as trial:
            for left, (profile, pod) in zip(range(len(members), 0, -1), members, strict=True):
                found = len(self.placed)
                if found >= need or found + left < need:
                    break
                if self._place(trial, profile, pod):
                    self.placed.append((profile, pod))
        return len(self.placed) >= need

    def _place(self, trial: Trial, profile: Profile, pod: Pod) -> bool:
        """Whether one member got a node in the trial, with victims if nothing else helps."""
        cycle, state = self._cycle, self._cycle.state
        attempt = cycle.attempt(profile, pod, self._now, excluded_slots=self.excluded_slots, alone=False)
        slot = attempt.slot
        if slot < 0:
            result = attempt.post_filter
            found = state.nodes.slot(result.nominated) if result is not None else None
            if result is None or found is None:
                return False
            slot = found
            for victim in result.victims:
                self.victims[victim.uid] = (victim, pod)
                self.cleared = slot
                trial.remove_placed(victim.uid)
            remove_leaving(trial, state, slot)
            if not Reevaluation(cycle, profile, attempt.cycle).fits(slot):
                return False
        trial.place(pod, slot)
        return True


class Reprieve:
    """Reprieves victims. `nominated`: the members' nodes as of the last successful `fits`."""

    def __init__(self, cycle: PodCycle, members: Members, need: int, now: float, proofs: int) -> None:
        self._cycle = cycle
        self._members = members
        self._need = need
        self._now = now
        self.equal = equal_members(cycle.state, members)
        self._proofs = proofs
        self.nominated: list[Nominated] = []

    def among(self, members: Members) -> Reprieve:
        """The same for some of the members, with the proofs that are left."""
        return Reprieve(self._cycle, members, self._need, self._now, self._proofs)

    def of(self, victims: Sequence[Pod]) -> list[Pod]:
        """The victims that cannot be reprieved; all of them if the gang does not fit without all."""
        if not self.fits(victims):
            return list(victims)
        return fewest_blocks(blocks_of(self._cycle.state, victims), self.fits)

    def fits(self, victims: Iterable[Pod]) -> bool:
        """Whether enough members find nodes, one after the other, once the victims are gone."""
        cycle, state, now = self._cycle, self._cycle.state, self._now
        with Trial(state, now) as trial:
            going = [pod.uid for pod in state.table.leaving_pods()]
            for uid in (*going, *(victim.uid for victim in victims)):
                trial.remove_placed(uid)
            if self.equal and capacity_limit(cycle, *self._members[0], now).fits < self._need:
                return False
            if self._proofs <= 0:
                return False
            self._proofs -= 1
            mark, need = trial.checkpoint(), self._need
            placed = place_in_trial(cycle, trial, self._members, need, need, now, equal=self.equal)
            if len(placed) < need:
                return False
            trial.rollback(mark)
            if not leaves_room(state, trial, placed):
                return False
        self.nominated = nominated_members(state, placed)
        return True


def blocks_of(state: ClusterState, victims: Sequence[Pod]) -> list[list[Pod]]:
    """Groups of victims that go or stay together, in the order in which they are reprieved.

    First those whose eviction violates a PodDisruptionBudget, then the highest priority; victims of quotas
    above their max last.
    """
    state.rank_members()
    rows = np.array([state.placed[pod.uid].row for pod in victims], dtype=np.int64)
    ordered = list(state.table.of(state.table.by_importance(rows)[::-1]))
    hurt = dict(zip((pod.uid for pod in ordered), violating(ordered, counted(state)), strict=True))
    found = eviction_units(ordered, disrupted_gangs(state, ordered))
    protected = [any(hurt[pod.uid] for pod in block) for block in found]
    stage = [FIRST if _above_max(state, block[0]) else WITHIN for block in found]
    order = reprieve_order([range(len(found), 0, -1)], protected, stage)
    return [found[index] for index in order.tolist()]


def _above_max(state: ClusterState, pod: Pod) -> bool:
    """Whether the pod's quota, or a group above it, uses more than its max."""
    quota = state.ledger.quota_of(pod.namespace)
    return quota is not None and passes_max(state.ledger, quota, after_leaving=True)


# With more candidates this is not tried: the reprieve takes two placements of the gang per candidate.
MOST_CANDIDATES: Final = 28


def demands_at_once(state: ClusterState, members: Members, need: int, now: float = math.inf) -> list[Demand]:
    """The demands for all members at once, in turn. `now`: as in `reclaim_demand`.

    Members that preempt one by one each take the least for themselves. A later member that may evict no pod
    then finds no room, though other victims would have made room for all. Here all candidates are removed,
    and as many as possible are reprieved; every check places the whole gang.
    """
    across_nodes = all(profile.across_nodes for profile, _ in members)
    return _demands(state, members, need, now) if across_nodes else []


def _victims_of(
    state: ClusterState, demand: Demand, enough: Callable[[Sequence[Pod]], bool]
) -> list[Pod] | None:
    """The fewest lawful victims of one demand that are enough, or None; None of too many candidates."""
    rows = np.flatnonzero(demand.eligible)
    if not 0 < len(rows) <= MOST_CANDIDATES or not enough(list(state.table.of(rows))):
        return None
    budgets = Budgets(state.table, counted(state))
    contended = contended_by(demand, demand.need)
    choice = CandidateSelection(state, loans_of(state.table, demand), budgets, lambda _: contended)
    order = choice.reprieve_order_of_all(rows, contended)
    found = _without_spared(state, demand, order, enough)
    if found is not None and not choice.is_lawful(found):
        found = _without_spared(state, demand, choice.unlawful_first(order, found), enough)
    return found.victims if found is not None and choice.is_lawful(found) else None


def _demands(state: ClusterState, members: Members, need: int, now: float) -> list[Demand]:
    """The candidates, in turn: what the member of highest priority may evict, or the quota may reclaim.

    Where the quota may not reclaim for all of the members, it does for as many as it may: what their victims
    leave over, or a node that is free for one of them, may be room for the others. Of members that differ, as
    many may ask for more than the least that is looked at here (`only_by_right`). Victims by priority are at
    most as important as the least member: equal waiting pods would otherwise have a better right to their
    room than that member.
    """
    profile, top = max(members, key=lambda member: member[1].priority)
    quota = state.ledger.quota_of(top.namespace) if CAPACITY in profile.enabled else None
    some: list[Demand] = []
    if quota is None:
        demand = ordinary_demand(state, top, spare_quotas=CAPACITY in profile.enabled)
    else:
        requests = [asked_by(state, pod) for _, pod in members]

        def reclaims(count: int) -> list[Demand]:
            return reclaim_demands(state, top, quota, least(count, requests), now)

        if (count := largest(need, lambda count: bool(reclaims(count)))) > 0:
            some = reclaims(count)
        if count == need and equal_members(state, members):
            return some
        demand = own_quota_demand(state, top, quota, least(need, requests))
    lowest = min(pod.priority for _, pod in members)
    eligible = demand.eligible & (state.table.priority[: len(demand.eligible)] <= lowest)
    return [*some, msgspec.structs.replace(demand, eligible=eligible)]


def _without_spared(
    state: ClusterState, demand: Demand, order: Rows, enough: Callable[[Sequence[Pod]], bool]
) -> Candidate | None:
    """The victims after the reprieve, in this order; gangs that fall below minMembers go as a whole.

    None if such a gang has a member that must not be evicted.
    """
    victims = fewest_blocks([[pod] for pod in state.table.of(order)], enough)
    disrupted = disrupted_gangs(state, victims)
    members = {pod.uid: pod for gang in disrupted for pod in gang.members}
    if not all(demand.eligible[state.placed[uid].row] for uid in members):
        return None
    if disrupted:
        # The room of the whole gang may reprieve others.
        units = reprieve_units(victims, disrupted, quorum_first=False)
        victims = fewest_blocks(list(chain.from_iterable(units)), enough)
    return Candidate(-1, victims, disrupted_gangs(state, victims))


def fewest_blocks(blocks: Sequence[list[Pod]], enough: Callable[[Sequence[Pod]], bool]) -> list[Pod]:
    """The pods of the blocks that cannot be reprieved; the first block is tried first."""

    def are_enough(chosen: frozenset[int]) -> bool:
        return enough([pod for index in chosen for pod in blocks[index]])

    return [pod for index in sorted(minimal_subset(range(len(blocks)), are_enough)) for pod in blocks[index]]
