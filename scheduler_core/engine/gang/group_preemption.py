"""Chooses the victims for a native group, as kube-scheduler does for a PodGroup (docs/gangs.md#preemption).

1. Arrays give the units that resources and quotas require: as many of the group's waiting members as possible
   get room, from the least important units.
2. Without these units all members are placed once, by all filters. If fewer get a node than resources allow,
   all units that may be evicted are removed instead.
3. Units are given back while every placed member keeps its node: those whose eviction violates a
   PodDisruptionBudget first, then the more important ones.

The group's own priority decides what may be evicted. Under an ElasticQuota members within its min reclaim
from other quotas what these borrow; if that does not help all of them, the group evicts less important pods
of its own quota.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain, combinations, islice
from typing import Final

import msgspec
import numpy as np

from scheduler_core.arrays.reprieve import minimal_subset
from scheduler_core.arrays.types import Int64
from scheduler_core.engine.evaluation import Reevaluation
from scheduler_core.engine.gang.capacity import CAPACITY, capacity_limit, charges_of, evicts_nobody
from scheduler_core.engine.gang.group_room import GroupRoom, needed_units
from scheduler_core.engine.gang.group_units import Units, units_of
from scheduler_core.engine.gang.members import Members, equal_members, kinds_of, largest_share
from scheduler_core.engine.gang.placing import PlacedMember, place_in_trial
from scheduler_core.engine.gang.preemption import (
    GangPreemption,
    nominated_members,
    preempt_for_gang,
    takes_guaranteed,
)
from scheduler_core.engine.gang.rights import leaves_room, with_a_right
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.nominations.nominated_sums import nominated_requests
from scheduler_core.framework.preemption.budgets import Budgets, counted
from scheduler_core.framework.preemption.covered import spared
from scheduler_core.framework.preemption.demand import (
    Demand,
    demands_in_order,
    need_within_guarantees,
    need_within_min,
    ordinary_demand,
    own_quota_demand,
    reclaim_demand,
    reclaim_demands,
)
from scheduler_core.framework.preemption.dry_run import DisruptedGang, disrupted_gangs
from scheduler_core.framework.preemption.eligibility import gang_waits
from scheduler_core.framework.preemption.fair_demand import is_fair_set
from scheduler_core.framework.preemption.loans import contended_by, loans_of
from scheduler_core.framework.preemption.other_sets import MOST_SETS_OF_A_GROUP, TriedSet, cheapest_admitted
from scheduler_core.framework.preemption.spare_members import without_torn_gangs
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.pods.pod import NEVER, Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.trial import Trial

# With more kinds of members all of them are tried.
_MOST_KINDS: Final = 16
# Most restarts with gangs that go as a whole; in the last one all gangs do.
_MOST_ROUNDS: Final = 4
# Most parts of a group that preempt in place of all of it, and most that are looked at to find such parts.
_MOST_PARTS: Final = 4
_MOST_LOOKS: Final = 64


Place = Callable[[Members], list[PlacedMember]]


def preempt_for_group(
    cycle: PodCycle, gang: Gang, members: Members, need: int, now: float
) -> GangPreemption | None:
    """Victims that let as many of the members start as possible, at least `need`; the state is unchanged.

    None if no eviction helps, if the group never preempts, or while its earlier victims leave. Raises
    PluginError.
    """
    pods = [pod for _, pod in members]
    # Below, only the first members are looked at: they would give up the nodes for which the others wait.
    if never_preempts(gang, pods) or gang_waits(cycle.state, pods):
        return None
    need = max(need, 1)
    found = preempt_for_members(cycle, gang.priority, members, need, now)
    # A loan that is taken in the order of importance may be used up where it makes too little room. Member by
    # member, as for groups of the other kinds, it is taken where it makes room for one after the other.
    # Just enough of them: of members that differ, the least of each resource is less than any asks for.
    if found is None:
        parts = _parts(cycle.state, members, need)
        found = next(filter(None, (preempt_for_gang(cycle, part, need, now) for part in parts)), None)
    return found if found is not None and (found.victims or cycle.state.table.leaving_pods()) else None


def _parts(state: ClusterState, members: Members, need: int) -> Iterator[Members]:
    """Parts of a group that might start in place of all: the first members, the smallest ones, and others.

    So a member that quota or nodes cannot hold leaves the room to others. No two parts are alike, and there
    are few.
    """
    kinds = dict(zip((pod.uid for _, pod in members), kinds_of(state, members), strict=True))
    total = state.nodes.allocatable_total()
    smallest = sorted(members, key=lambda one: largest_share(one[1], total))[:need]
    seen = list[Counter[Hashable]]()
    for part in islice(chain((members[:need], smallest), combinations(members, need)), _MOST_LOOKS):
        alike = Counter(kinds[pod.uid] for _, pod in part)
        if alike not in seen and len(seen) < _MOST_PARTS:
            seen.append(alike)
            yield part


def preempt_for_members(
    cycle: PodCycle, priority: int | None, members: Members, need: int, now: float, place: Place | None = None
) -> GangPreemption | None:
    """As `preempt_for_group`, with the `priority` of the group, None for that of its members.

    `place` places members in the state as it is, and undoes that; by default one after the other.
    """
    state = cycle.state
    pods = [pod for _, pod in members]
    if gang_waits(state, pods) or evicts_nobody(state, pods, need, now):
        return None
    members = able(cycle, members, now)
    if len(members) < need:
        return None
    best: GangPreemption | None = None
    for turn in _turns(state, priority, members, need, now):
        for part in (where_it_helps(cycle, turn, now), turn):
            found = preempt_in_turn(cycle, part, need, now, place) if part is not None else None
            if found is not None and (best is None or len(found.nominated) > len(best.nominated)):
                best = found
            if best is not None and len(best.nominated) == len(members):
                return best
    return best


def able(cycle: PodCycle, members: Members, now: float) -> Members:
    """The members that nodes could hold if all possible victims were gone: others get no part of a quota."""
    kinds = kinds_of(cycle.state, members)
    samples = dict(zip(kinds, members, strict=True))
    if len(samples) == 1 or len(samples) > _MOST_KINDS:
        return members
    able = {kind for kind, one in samples.items() if capacity_limit(cycle, *one, now, evicting=True).fits}
    return [member for kind, member in zip(kinds, members, strict=True) if kind in able]


def where_it_helps(cycle: PodCycle, turn: Turn, now: float) -> Turn | None:
    """A reclaim with victims only on nodes where they make room; None for others.

    What a quota borrows can be taken once, so it must not be taken where that makes no room.
    """
    demand, loans = turn.demand, loans_of(cycle.state.table, turn.demand)
    if loans is None:
        return None
    rows = np.flatnonzero(demand.eligible)
    rows = rows[loans.returned_by(rows)]
    if not len(rows):
        return None
    units = Units(rows, np.arange(len(rows)), len(rows))
    helps = GroupRoom(cycle, turn.members, units, now).gaining[cycle.state.table.slot[: len(demand.eligible)]]
    narrowed = msgspec.structs.replace(demand, eligible=demand.eligible & helps)
    return msgspec.structs.replace(turn, demand=narrowed)


def never_preempts(gang: Gang, pods: Sequence[Pod]) -> bool:
    """Whether the policy of the group forbids preemption; without one a single member forbids it."""
    if gang.preemption_policy:
        return gang.preemption_policy == NEVER
    return any(pod.preemption_policy == NEVER for pod in pods)


class Turn(msgspec.Struct, frozen=True):
    """One way to preempt: the members to place, and the demand on whose behalf victims are evicted.

    `need_of` gives what victims must free so that the quota admits some of the members, int64 [R].
    """

    members: Members
    demand: Demand
    need_of: Callable[[Sequence[Pod]], Int64]


def _turns(
    state: ClusterState, priority: int | None, members: Members, need: int, now: float
) -> Iterator[Turn]:
    """The ways to preempt in the order in which to try them."""
    profile, top = max(members, key=lambda member: member[1].priority)
    quota = state.ledger.quota_of(top.namespace) if CAPACITY in profile.enabled else None
    lowest = min(pod.priority for _, pod in members) if priority is None else priority
    if quota is None:
        demand = ordinary_demand(state, top, spare_quotas=CAPACITY in profile.enabled)
        yield Turn(members, _below(state, demand, lowest), lambda _: demand.need)
        return

    def within(pods: Sequence[Pod]) -> Demand | None:
        return reclaim_demand(state, top, quota, charges_of(state, pods), now)

    chosen = with_a_right(members, lambda pods: within(pods) is not None)
    charge = charges_of(state, (pod for _, pod in chosen))
    reclaims = reclaim_demands(state, top, quota, charge, now) if len(chosen) >= need else []
    for reclaim in reclaims:
        for demand in demands_in_order(state.table, reclaim):
            yield Turn(chosen, demand, _reclaimed(within, reclaim, demand))

    def of_own(some: Sequence[Pod]) -> Int64:
        return own_quota_demand(state, top, quota, charges_of(state, some)).need

    def of_own_min(some: Sequence[Pod]) -> Int64:
        return need_within_min(state, top, quota, charges_of(state, some))

    def of_own_guarantees(some: Sequence[Pod]) -> Int64:
        return need_within_guarantees(state, top, quota, charges_of(state, some))

    def from_own(chosen: Members) -> Iterator[Turn]:
        pods = [pod for _, pod in chosen]
        demand = _below(state, own_quota_demand(state, top, quota, charges_of(state, pods)), lowest)
        yield Turn(chosen, demand, of_own)
        # Evictions may bring members within the min: then less use of other quotas counts against them.
        for needs in (of_own_min, of_own_guarantees):
            if any((needs(some) < of_own(some)).any() for some in (pods[:need], pods)):
                yield Turn(chosen, msgspec.structs.replace(demand, need=needs(pods)), needs)

    yield from from_own(members)
    # All together they might have to spare pods that the min covers, and some of them alone not.
    beside = nominated_requests(state, top)[0]
    covered = with_a_right(
        members,
        lambda some: not spared(state, quota, top.priority, charges_of(state, some), beside).any(),
    )
    if need <= len(covered) < len(members):
        yield from from_own(covered)


def _reclaimed(
    within: Callable[[Sequence[Pod]], Demand | None], reclaim: Demand, demand: Demand
) -> Callable[[Sequence[Pod]], Int64]:
    """`need_of` for one of the demands of a reclaim, which may have to free more than the reclaim itself."""
    more = demand.need - reclaim.need

    def need_of(pods: Sequence[Pod]) -> Int64:
        found = within(pods)
        return np.where(found.need > 0, found.need + more, 0) if found is not None else demand.need

    return need_of


def _below(state: ClusterState, demand: Demand, priority: int) -> Demand:
    """The demand with victims below a priority; those of the pod's own priority are known to the demand."""
    lower = state.table.priority[: len(demand.eligible)] < priority
    return msgspec.structs.replace(demand, eligible=demand.eligible & lower)


def preempt_in_turn(
    cycle: PodCycle, turn: Turn, need: int, now: float, place: Place | None
) -> GangPreemption | None:
    """The preemption of one turn of a group, or None. Where a set of victims is refused, others are tried."""

    def search(demand: Demand) -> Iterator[TriedSet[GangPreemption]]:
        for _ in range(_MOST_ROUNDS):
            own = TurnSearch(cycle, msgspec.structs.replace(turn, demand=demand), need, now, place)
            made = own.run()
            if made is not None or own.refused:
                yield TriedSet((), own.refused, made)
                return
            eligible = without_torn_gangs(cycle.state, demand, own.torn)
            if np.array_equal(eligible, demand.eligible) or not eligible.any():
                return
            demand = msgspec.structs.replace(demand, eligible=eligible)

    return cheapest_admitted(cycle.state, turn.demand, search, MOST_SETS_OF_A_GROUP)


class TurnSearch:
    """The search for one turn of a group: at least `need` of the members, as many as possible.

    `refused` are victims that make room, but must not go as a whole; `torn` are gangs of which single members
    would have made room.
    """

    def __init__(self, cycle: PodCycle, turn: Turn, need: int, now: float, place: Place | None) -> None:
        self._cycle = cycle
        self._placing = place
        self._state = cycle.state
        self._turn = turn
        self._members = turn.members
        self._demand = turn.demand
        self._need = need
        self._now = now
        self.refused: Sequence[Pod] = ()
        self.torn: list[DisruptedGang] = []
        self._budgets = Budgets(self._state.table, counted(self._state))
        self._leaving = [pod.uid for pod in self._state.table.leaving_pods()]
        self._equal = equal_members(self._state, turn.members)

    def run(self) -> GangPreemption | None:
        """The preemption, or None. Restarts where a gang would fall below its minimum: it goes as a whole."""
        contended = contended_by(self._demand, self._demand.need)
        whole: set[str] = set()
        for turn in range(_MOST_ROUNDS):
            if turn == _MOST_ROUNDS - 1:
                whole.update(self._state.gangs.gangs)
            units = units_of(self._state, self._demand, self._budgets, contended, whole)
            self._members = self._admitted(units)
            if len(self._members) < self._need:
                return None
            placed, chosen = self._placed(units)
            if len(placed) < self._need:
                return None
            victims = self._given_back(chosen, placed)
            gone = {pod.uid for pod in victims}
            torn = disrupted_gangs(self._state, victims)
            torn = [gang for gang in torn if not gone.issuperset(pod.uid for pod in gang.members)]
            if not torn:
                return self._preemption(placed, victims)
            self.torn += torn
            whole.update(gang.key for gang in torn)
        return None

    def _preemption(self, placed: Sequence[PlacedMember], victims: Sequence[Pod]) -> GangPreemption | None:
        """None without victims, now or on their way out, and where it took what others are guaranteed.

        None for a fair move whose victims are no fair set.
        """
        if not victims and not self._leaving:
            return None
        loans = self._demand.borrowers
        first, nominated = placed[0].pod, nominated_members(self._state, placed)
        made = GangPreemption(tuple((victim, first) for victim in victims), tuple(nominated))
        fair = loans is None or is_fair_set(self._state, loans.fair, victims)
        if fair and not takes_guaranteed(self._state, self._members, made):
            return made
        self.refused = victims
        return None

    def _admitted(self, units: Units) -> Members:
        """The members that the quota can admit together once all units are gone: in order, without those too
        large beside the others.
        """
        freed = self._freed(units)
        return with_a_right(self._turn.members, lambda pods: bool((freed >= self._turn.need_of(pods)).all()))

    def _freed(self, units: Units) -> Int64:
        """int64 [R]: what the units hold together."""
        width = len(self._demand.need)
        total: Int64 = self._state.table.requests[:width, units.rows].sum(axis=1)
        return total

    # Placing

    def _placed(self, units: Units) -> tuple[list[PlacedMember], Units]:
        """(members with nodes, units that are removed for them)."""
        room = GroupRoom(self._cycle, self._members, units, self._now)
        most = min(len(self._members), room.most) if self._equal else len(self._members)
        few = room.fewest(most, self._turn.need_of([pod for _, pod in self._members]))
        tried: list[tuple[list[PlacedMember], Units]] = []
        for chosen in (few, units) if few.size < units.size else (units,):
            placed = self._place(chosen)
            tried.append((placed if self._leaves_room(chosen, placed) else [], chosen))
            if len(tried[-1][0]) >= most:
                break
        return max(tried, key=lambda item: len(item[0]))

    def _place(self, units: Units) -> list[PlacedMember]:
        """As many members as find nodes once the units are gone."""
        cycle, now = self._cycle, self._now
        with Trial(self._state, now) as trial:
            self._remove(trial, units)
            if self._placing is not None:
                return self._placing(self._members)
            most = len(self._members)
            return place_in_trial(cycle, trial, self._members, self._need, most, now, equal=self._equal)

    def _remove(self, trial: Trial, units: Units) -> None:
        gone = {pod.uid for pod in units.pods(self._state)}
        for uid in (*self._leaving, *gone.difference(self._leaving)):
            trial.remove_placed(uid)

    # Giving back

    def _given_back(self, chosen: Units, placed: Sequence[PlacedMember]) -> list[Pod]:
        """The pods that must go so that all placed members keep their nodes."""
        state = self._state
        need = self._turn.need_of([member.pod for member in placed])
        spare = self._freed(chosen) - need
        taken = [(member.slot, member.vector) for member in placed]
        go = needed_units(state, chosen, taken, spare, bounded=need > 0)
        if self._keeps(chosen.some(go), placed):
            return chosen.some(self._counting(chosen, go, placed)).pods(state)
        # Other filters refuse: as few as possible of the other units go as well, those beside members first.
        slots = {member.slot for member in placed}
        near = np.isin(state.table.slot[chosen.rows], list(slots))
        beside = sorted(set(chosen.of[near].tolist()).union(go))
        more = beside if self._keeps(chosen.some(beside), placed) else range(chosen.size)
        return chosen.some(self._fewest(chosen, more, placed)).pods(state)

    def _counting(
        self, units: Units, numbers: Sequence[int], placed: Sequence[PlacedMember]
    ) -> Iterable[int]:
        """Of these units, those that the members need where part of a quota's use is above its max.

        Such use counts against no other quota: a unit that only ends it frees less than it holds.
        """
        loans = self._demand.borrowers
        hides = loans is not None and loans.hidden is not None
        return self._fewest(units, numbers, placed) if hides else numbers

    def _fewest(self, units: Units, numbers: Iterable[int], placed: Sequence[PlacedMember]) -> frozenset[int]:
        """The part of these units without which a placed member would lose its node."""

        def enough(some: frozenset[int]) -> bool:
            return self._keeps(units.some(some), placed)

        return minimal_subset(sorted(numbers, reverse=True), enough)

    def _keeps(self, gone: Units, placed: Sequence[PlacedMember]) -> bool:
        """Whether all placed members pass all filters on their nodes, one after the other, and leave room for
        nominated pods that go before the group as a whole.
        """
        if not self._leaves_room(gone, placed):
            return False
        with Trial(self._state, self._now) as trial:
            self._remove(trial, gone)
            for member in placed:
                own = self._cycle.new_cycle(member.profile, member.pod, self._now)
                if not Reevaluation(self._cycle, member.profile, own).fits(member.slot):
                    return False
                trial.place(member.pod, member.slot)
        return True

    def _leaves_room(self, gone: Units, placed: Sequence[PlacedMember]) -> bool:
        """Whether nodes keep room for the nominated pods that go before the group as a whole."""
        if not len(self._state.nominations):
            return True
        with Trial(self._state, self._now) as trial:
            self._remove(trial, gone)
            return leaves_room(self._state, trial, placed)
