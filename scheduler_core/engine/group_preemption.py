"""Preemption of whole groups by priority, so that a group can be placed (topology seed, user stories).

Only strict rules and free slots ask for victims, never a soft wish. What stays within the min of its quota
reclaims it (engine.group_reclaim); by priority, pods outside groups are not touched. The
victims are the fewest groups, then the cheapest, and they go only if the whole group then passes all filters
where it would be placed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from scheduler_core.arrays.index import Int64
from scheduler_core.engine.evaluate import Reevaluation
from scheduler_core.engine.gang_capacity import CAPACITY, must_rest
from scheduler_core.engine.gang_preemption import GangPreemption
from scheduler_core.engine.group_placement import GroupPlacer, Question, in_layers
from scheduler_core.engine.group_reclaim import borrowers_to_evict
from scheduler_core.engine.group_slots import capacity
from scheduler_core.framework.preemption.eligibility import gang_not_eligible
from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.trial import Trial
from scheduler_core.topology.placer import Infeasible, Placement
from scheduler_core.topology.preempt import Victim, choose_victims


class _Group(msgspec.Struct, frozen=True):
    """A group that may go: its members that hold a node and are not on their way out."""

    victim: Victim
    pods: tuple[Pod, ...]


def preempt_groups(placer: GroupPlacer, question: Question, now: float) -> GangPreemption | None:
    """The groups to evict and where every member waits, or None; the state is unchanged."""
    state = placer.state
    pods = [pod for _, pod in question.members]
    if gang_not_eligible(state, pods) or must_rest(state, pods, len(pods), now):
        return None
    leaving = frozenset(pod.uid for pod in state.table.leaving_pods())
    quota = _quota_of(state, question)
    borrowers = borrowers_to_evict(state, question, quota, leaving) if quota is not None else None
    if borrowers:
        return _replaced(placer, question, borrowers, leaving, now)
    groups = _lower_groups(state, question)
    known: dict[frozenset[int], Int64] = {}

    def without(chosen: frozenset[int]) -> Int64:
        if chosen not in known:
            gone = leaving.union(pod.uid for index in chosen for pod in groups[index].pods)
            known[chosen] = capacity(state, question.slots, gone)
        return known[chosen]

    found = choose_victims(
        question.tree,
        without,
        [group.victim for group in groups],
        question.size,
        question.rules,
        fixed=question.fixed,
        expired=placer.expired(question.members[0][0]),
        solver=placer.solver(question.members[0][0]),
    )
    if isinstance(found, Infeasible) or not found.victims:
        return None
    victims = [pod for index in found.victims for pod in groups[index].pods]
    return _confirmed(placer, question, found.placement, victims, leaving, now)


def _quota_of(state: ClusterState, question: Question) -> ElasticQuota | None:
    """The quota whose min the group may reclaim."""
    profile, first = question.members[0]
    return state.ledger.quota_of(first.namespace) if CAPACITY in profile.enabled else None


def _replaced(
    placer: GroupPlacer, question: Question, victims: list[Pod], leaving: frozenset[str], now: float
) -> GangPreemption | None:
    """The preemption of these victims, with the best placement once they are gone."""
    gone = leaving.union(victim.uid for victim in victims)
    room = capacity(placer.state, question.slots, gone)
    expired = placer.expired(question.members[0][0])
    placement = placer.search(question, room, expired)
    if isinstance(placement, Infeasible):
        return None
    return _confirmed(placer, question, placement, victims, leaving, now)


def _lower_groups(state: ClusterState, question: Question) -> list[_Group]:
    """Groups of lower priority that hold nodes, by key: the price of one is the number of its pods."""
    profile, first = question.members[0]
    own = _priority(question.gang.priority, [pod for _, pod in question.members])
    quotas = CAPACITY in profile.enabled
    found: list[_Group] = []
    for key in sorted(state.gangs.gangs):
        gang = state.gangs.gangs[key]
        pods = tuple(
            pod
            for uid, pod in sorted(state.gangs.members(key).items())
            if uid in state.placed and not state.table.going[state.placed[uid].row]
        )
        spared = quotas and _another_quota(state, gang.ref.namespace, first.namespace)
        if pods and key != question.gang.key and not spared:
            priority = _priority(gang.priority, pods)
            if priority < own:
                found.append(_Group(Victim(key, priority, len(pods)), pods))
    return found


def _another_quota(state: ClusterState, victim: str, preemptor: str) -> bool:
    """Whether quota rules, not priority, decide between two namespaces (capacity reference, rule 9)."""
    return state.ledger.quota_of(victim) is not state.ledger.quota_of(preemptor)


def _priority(given: int | None, pods: Sequence[Pod]) -> int:
    """A group's own priority where it has one, else the highest of its pods."""
    return given if given is not None else max(pod.priority for pod in pods)


def _confirmed(
    placer: GroupPlacer,
    question: Question,
    placement: Placement,
    victims: Sequence[Pod],
    leaving: frozenset[str],
    now: float,
) -> GangPreemption | None:
    """The preemption, if every member passes all filters once the victims are gone and its siblings there."""
    state = placer.state
    nominated: list[tuple[Pod, str, Int64]] = []
    with Trial(state, now) as trial:
        for uid in sorted(leaving.union(victim.uid for victim in victims)):
            trial.lift(uid)
        for (profile, pod), leaf in in_layers(question.members, placement.added):
            slot = int(question.slots.nodes[leaf])
            own = placer.cycle.new_cycle(profile, pod, now)
            if not Reevaluation(placer.cycle, profile, own).fits(slot):
                return None
            trial.place(pod, slot)
            # Kept is what the slots count: for members that differ, the largest in every resource.
            nominated.append((pod, state.nodes.names[slot], question.slots.request))
    # Without a priority of its own the group has that of its most important pod.
    top = max((pod for _, pod in question.members), key=lambda pod: pod.priority)
    return GangPreemption(tuple((victim, top) for victim in victims), tuple(nominated))
