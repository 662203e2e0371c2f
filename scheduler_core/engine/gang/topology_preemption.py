"""Chooses the victims for a gang on the topology (docs/topology.md#preemption).

A gang within the min of its quota as a whole reclaims what other quotas borrow, whatever their priority:
single pods one by one, gangs as a whole where they would fall below minMembers. Otherwise whole gangs of
lower priority are evicted: the fewest, then the cheapest; pods outside gangs are never victims by priority.
Only strict rules and free slots ask for victims, never soft constraints. Victims are evicted only if the
whole gang then passes all filters where it would be placed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

import msgspec
import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.engine.evaluation import Reevaluation
from scheduler_core.engine.gang.capacity import CAPACITY, charges_by_namespace, charges_of, evicts_nobody
from scheduler_core.engine.gang.fair_preemption import FairAttempt
from scheduler_core.engine.gang.group_units import units_of
from scheduler_core.engine.gang.preemption import GangPreemption, blocks_of, fewest_blocks
from scheduler_core.engine.gang.topology_placement import PlacementTask, TopologyPlacer, in_layers
from scheduler_core.engine.gang.topology_slots import leaf_capacity
from scheduler_core.framework.preemption.budgets import Budgets, counted
from scheduler_core.framework.preemption.demand import Borrowers, Demand, demands_in_order, reclaim_demands
from scheduler_core.framework.preemption.dry_run import disrupted_gangs
from scheduler_core.framework.preemption.eligibility import gang_not_eligible
from scheduler_core.framework.preemption.fair_demand import fair_demand, is_fair_set, why_no_fair_move
from scheduler_core.framework.preemption.group_loans import keeps_guarantees
from scheduler_core.framework.preemption.loans import contended_by
from scheduler_core.framework.preemption.other_sets import MOST_SETS_OF_A_GROUP, TriedSet, cheapest_admitted
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.quota.fair_moves import FairMove
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.departing import can_end
from scheduler_core.state.trial import Trial
from scheduler_core.topology.placer import GroupPlacement, Infeasible, can_place
from scheduler_core.topology.preemption import Victim, choose_victims


class _GangVictim(msgspec.Struct, frozen=True):
    """A gang that may be evicted, with its members that hold a node, are not leaving, and can be ended."""

    victim: Victim
    pods: tuple[Pod, ...]


def preempt_for_placement(placer: TopologyPlacer, task: PlacementTask, now: float) -> GangPreemption | None:
    """The victims and the nominated node of every member, or None; the state is unchanged."""
    state = placer.state
    pods = [pod for _, pod in task.members]
    if gang_not_eligible(state, pods) or evicts_nobody(state, pods, len(pods), now):
        return None
    leaving = frozenset(pod.uid for pod in state.table.leaving_pods())
    quota = _quota_of(state, task)
    borrowers = borrowers_to_evict(state, task, quota, leaving, now) if quota is not None else None
    if borrowers:
        return _replaced(placer, task, borrowers, leaving, now)
    gangs = _gangs_of_lower_priority(state, task)
    known: dict[frozenset[int], Int64] = {}

    def without(chosen: frozenset[int]) -> Int64:
        if chosen not in known:
            gone = leaving.union(pod.uid for index in chosen for pod in gangs[index].pods)
            known[chosen] = leaf_capacity(state, task.slots, gone)
        return known[chosen]

    found = choose_victims(
        task.tree,
        without,
        [gang.victim for gang in gangs],
        task.size,
        task.rules,
        fixed=task.fixed,
        expired=placer.expired(task.members[0][0]),
        solver=placer.solver(task.members[0][0]),
    )
    if isinstance(found, Infeasible) or not found.victims:
        return None
    victims = [pod for index in found.victims for pod in gangs[index].pods]
    return _confirmed(placer, task, found.placement, victims, leaving, now)


def move_fairly_for_placement(placer: TopologyPlacer, task: PlacementTask, now: float) -> FairAttempt:
    """The fair move of a gang on the topology, which goes before nobody; the state is unchanged.

    Gangs go as a whole.
    """
    state, first = placer.state, task.members[0][1]
    pods = [pod for _, pod in task.members]
    quota = _quota_of(state, task)
    if quota is None or gang_not_eligible(state, pods) or evicts_nobody(state, pods, len(pods), now):
        return FairAttempt()
    found = fair_demand(state, first, quota, charges_of(state, pods), now)
    if found is None:
        return FairAttempt()
    leaving = frozenset(pod.uid for pod in state.table.leaving_pods())
    for demand in found.turns(state.table):
        search = partial(_fairly, placer, task, found.move, leaving=leaving, now=now)
        made = cheapest_admitted(state, demand, search, MOST_SETS_OF_A_GROUP)
        if made is not None:
            return FairAttempt(msgspec.structs.replace(made, fair=True))
    return FairAttempt(None, why_no_fair_move(state, found), found.demand.until)


def _fairly(
    placer: TopologyPlacer,
    task: PlacementTask,
    move: FairMove,
    demand: Demand,
    *,
    leaving: frozenset[str],
    now: float,
) -> Iterator[TriedSet[GangPreemption]]:
    """The victims of a demand that make room, and the preemption if they are a fair set."""
    state = placer.state

    def enough(victims: Sequence[Pod]) -> bool:
        frees = _frees(state, demand, victims, guaranteed=False)
        return frees and _has_room(state, task, leaving, victims)

    budgets = Budgets(state.table, counted(state))
    contended = contended_by(demand, demand.need)
    candidates = units_of(state, demand, budgets, contended, state.gangs.gangs).pods(state)
    if not candidates or not enough(candidates):
        return
    victims = fewest_blocks(blocks_of(state, candidates), enough)
    if not is_fair_set(state, move, victims):
        yield TriedSet((), victims, None)
    elif (made := _replaced(placer, task, victims, leaving, now)) is not None:
        yield TriedSet((), victims, made)


def _quota_of(state: ClusterState, task: PlacementTask) -> ElasticQuota | None:
    """The quota of the gang, if quotas count for it."""
    profile, first = task.members[0]
    return state.ledger.quota_of(first.namespace) if CAPACITY in profile.enabled else None


def _replaced(
    placer: TopologyPlacer, task: PlacementTask, victims: list[Pod], leaving: frozenset[str], now: float
) -> GangPreemption | None:
    """The preemption of these victims, with the best placement once they are gone."""
    gone = leaving.union(victim.uid for victim in victims)
    room = leaf_capacity(placer.state, task.slots, gone)
    expired = placer.expired(task.members[0][0])
    placement = placer.search(task, room, expired)
    if isinstance(placement, Infeasible):
        return None
    return _confirmed(placer, task, placement, victims, leaving, now)


def _gangs_of_lower_priority(state: ClusterState, task: PlacementTask) -> list[_GangVictim]:
    """Gangs of lower priority that hold nodes, by key; the cost of a gang is the number of its pods."""
    profile, first = task.members[0]
    own = _priority(task.gang.priority, [pod for _, pod in task.members])
    quotas = CAPACITY in profile.enabled
    found: list[_GangVictim] = []
    for key in sorted(state.gangs.gangs):
        gang = state.gangs.gangs[key]
        pods = tuple(
            pod
            for uid, pod in sorted(state.gangs.members(key).items())
            if can_end(state, uid) and not state.table.ending[state.placed[uid].row]
        )
        exempt = quotas and _another_quota(state, gang.ref.namespace, first.namespace)
        if pods and key != task.gang.key and not exempt:
            priority = _priority(gang.priority, pods)
            if priority < own:
                found.append(_GangVictim(Victim(key, priority, len(pods)), pods))
    return found


def _another_quota(state: ClusterState, victim: str, preemptor: str) -> bool:
    """Whether two namespaces have different quotas, so that quota rules and not priority decide."""
    return state.ledger.quota_of(victim) is not state.ledger.quota_of(preemptor)


def _priority(given: int | None, pods: Sequence[Pod]) -> int:
    """The gang's own priority if it has one, else the highest of its pods."""
    return given if given is not None else max(pod.priority for pod in pods)


def _confirmed(
    placer: TopologyPlacer,
    task: PlacementTask,
    placement: GroupPlacement,
    victims: Sequence[Pod],
    leaving: frozenset[str],
    now: float,
) -> GangPreemption | None:
    """The preemption, if every member passes all filters without the victims and beside the other members."""
    state = placer.state
    nominated: list[tuple[Pod, str, Int64]] = []
    with Trial(state, now) as trial:
        for uid in sorted(leaving.union(victim.uid for victim in victims)):
            trial.remove_placed(uid)
        for (profile, pod), leaf in in_layers(task.members, placement.added):
            slot = int(task.slots.nodes[leaf])
            own = placer.cycle.new_cycle(profile, pod, now)
            if not Reevaluation(placer.cycle, profile, own).fits(slot):
                return None
            trial.place(pod, slot)
            # Nominated with the request that the slots count: the largest of the members per resource.
            nominated.append((pod, state.nodes.names[slot], task.slots.request))
    # Without a priority of its own the gang has the highest of its pods.
    top = max((pod for _, pod in task.members), key=lambda pod: pod.priority)
    return GangPreemption(tuple((victim, top) for victim in victims), tuple(nominated))


def borrowers_to_evict(
    state: ClusterState,
    task: PlacementTask,
    quota: ElasticQuota,
    leaving: frozenset[str],
    now: float = math.inf,
) -> list[Pod] | None:
    """Pods of other quotas whose eviction lets the gang be placed within its min; None if no set does.

    `leaving`: uids of pods that are terminating or being evicted already. `now`: as in `reclaim_demand`.
    """
    first = task.members[0][1]
    asked = charges_of(state, (pod for _, pod in task.members))
    for demand in reclaim_demands(state, first, quota, asked, now):
        search = partial(_lawfully, state, task, leaving=leaving)
        victims = cheapest_admitted(state, demand, search, MOST_SETS_OF_A_GROUP)
        if victims is not None:
            return victims
    return None


def _lawfully(
    state: ClusterState, task: PlacementTask, demand: Demand, *, leaving: frozenset[str]
) -> Iterator[TriedSet[list[Pod]]]:
    """The pods that one demand of the gang evicts; made are they if groups and flavors keep their min."""
    victims = _victims_of(state, task, demand, leaving)
    if victims is not None:
        keeps = keeps_guarantees(state, task.members[0][1], victims)
        yield TriedSet((), victims, victims if keeps else None)


def _victims_of(
    state: ClusterState, task: PlacementTask, demand: Demand, leaving: frozenset[str]
) -> list[Pod] | None:
    """The pods that one demand of the gang evicts, or None."""

    def enough(victims: Sequence[Pod]) -> bool:
        return _frees(state, demand, victims, guaranteed=True) and _has_room(state, task, leaving, victims)

    turns = ((turn, turn.borrowers) for turn in demands_in_order(state.table, demand))
    passes = (_passes(state, turn, borrowers) for turn, borrowers in turns if borrowers is not None)
    for some in chain.from_iterable(passes):
        candidates = _whole_units(state, demand, some)
        if enough(candidates):
            return fewest_blocks(blocks_of(state, candidates), enough)
    return None


def _whole_units(state: ClusterState, demand: Demand, pods: Sequence[Pod]) -> list[Pod]:
    """The pods, with all members of the gangs that go as a whole; without gangs that must not go."""
    found = {pod.uid: pod for pod in pods}
    for gang in disrupted_gangs(state, pods):
        found |= {pod.uid: pod for pod in gang.members}
        if not all(demand.eligible[state.placed[pod.uid].row] for pod in gang.members):
            found = {uid: pod for uid, pod in found.items() if pod not in gang.members}
    return list(found.values())


def _has_room(
    state: ClusterState, task: PlacementTask, leaving: frozenset[str], victims: Sequence[Pod]
) -> bool:
    """Whether the gang can be placed once the victims and those who leave are gone."""
    room = leaf_capacity(state, task.slots, leaving.union(pod.uid for pod in victims))
    return can_place(task.tree, room, task.size, task.rules, task.fixed)


def _frees(state: ClusterState, demand: Demand, victims: Sequence[Pod], *, guaranteed: bool) -> bool:
    """Whether victims free what the gang's quota lacks; `guaranteed`: for a gang within its min."""
    ending = charges_by_namespace(state, victims)
    freed = state.ledger.frees(ending, after_leaving=True, guaranteed=guaranteed)
    lacking = np.flatnonzero(demand.need > 0)
    return all(freed.get(state.index.names[row], 0) >= demand.need[row] for row in lacking)


def _passes(state: ClusterState, demand: Demand, borrowers: Borrowers) -> list[list[Pod]]:
    """Candidate sets: pods within what their quotas borrow of the request, then all of quotas over min."""
    table = state.table
    rows = table.removal_order(demand.eligible)
    width = borrowers.used.shape[1]
    asked = demand.request[:width] > 0  # [R]
    found: list[list[Pod]] = []
    for within_loan in (True, False):
        left = borrowers.used - borrowers.min  # [Q, R]
        chosen: list[int] = []
        for row in rows.tolist():
            number = int(borrowers.of[table.namespace[row]])
            vector = table.requests[:width, row]
            counts = borrowers.counts[number] & asked if within_loan else borrowers.counts[number]
            over = bool(((left[number] > 0) & (vector > 0))[counts].any())
            if over and not (within_loan and (vector > left[number])[counts].any()):
                left[number] -= vector
                chosen.append(row)
        found.append(list(table.of(np.array(chosen, dtype=np.int64))))
    return found
