"""Preemption for a whole gang: in one trial, and only if the whole gang then fits (reference, item 11).

Member after member gets a node, evicting where nothing else helps; where that fails, on other nodes, and in
another order. What the first members evicted may turn out to be needless once the others have theirs, so in
the end every victim is given back without which the gang still fits somewhere; members of a gang that would
be torn are given back together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from scheduler_core.arrays.index import Int64
from scheduler_core.arrays.sparing import spared
from scheduler_core.engine.evaluate import Reevaluation
from scheduler_core.engine.gang_at_once import victims_at_once
from scheduler_core.engine.gang_capacity import (
    CAPACITY,
    Members,
    equal_members,
    leaving,
    must_rest,
    room_for,
)
from scheduler_core.engine.gang_search import MOST_MEMBERS, GangSearch, worth_a_search
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.preemption.budgets import counted, violating
from scheduler_core.framework.preemption.eligibility import gang_not_eligible
from scheduler_core.framework.profile import Profile
from scheduler_core.model.gang import Gang
from scheduler_core.model.pod import Pod
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.quota.policy import above_max, borrows_guaranteed
from scheduler_core.state.census import take_census
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.trial import Trial

# How often a gang is placed anew to see whether it can do without some victims; and where all went at once.
MOST_PROOFS: Final = 64
_MOST_AT_ONCE: Final = 128
# How often the members of a small gang are placed, each time with one node more on which nobody goes.
MOST_DETOURS: Final = 8

Nominated = tuple[Pod, str, Int64]


class GangPreemption(msgspec.Struct, frozen=True):
    """Victims with the member each goes for, and the node that every member waits for."""

    victims: tuple[tuple[Pod, Pod], ...]
    nominated: tuple[Nominated, ...]


def preempt_for_gang(cycle: PodCycle, members: Members, need: int, now: float) -> GangPreemption | None:
    """Victims that let `need` of the members start, or None if no eviction can; the state is unchanged."""
    state = cycle.state
    pods = [pod for _, pod in members]
    if gang_not_eligible(state, pods) or must_rest(state, pods, need, now):
        return None
    fewer = _Fewer(cycle, members, need, now, MOST_PROOFS)
    if leaving(state).any() and fewer.fits(()):
        # Nobody has to go. Below, each member for itself might take the node that another one waits for.
        return GangPreemption((), tuple(fewer.seats))
    for order in _orders(cycle, members, now):
        victims = _victims_for(cycle, order, need, now)
        if victims is not None:
            kept = fewer.of([victim for victim, _ in victims.values()])
            found = _for_seated([victims[victim.uid] for victim in kept], fewer.seats)
            if found is not None and not _borrows_guaranteed(state, members, found):
                return found
    return _at_once(cycle, members, need, now)


def _at_once(cycle: PodCycle, members: Members, need: int, now: float) -> GangPreemption | None:
    """Victims of the gang as a whole, for its most important member."""
    fewer = _Fewer(cycle, members, need, now, _MOST_AT_ONCE)
    found = victims_at_once(cycle.state, members, need, fewer.fits)
    if found is None or not fewer.fits(found):
        return None
    top = max((pod for _, pod in members), key=lambda pod: pod.priority)
    made = _for_seated([(victim, top) for victim in found], fewer.seats)
    return None if made is None or _borrows_guaranteed(cycle.state, members, made) else made


def _for_seated(victims: Sequence[tuple[Pod, Pod]], seats: Sequence[Nominated]) -> GangPreemption | None:
    """Victims of members that start; None where somebody evicts who is more important than all of these."""
    if not seats:
        return None
    top = max((pod for pod, _, _ in seats), key=lambda pod: pod.priority)
    if any(pod.priority > top.priority for _, pod in victims):
        return None
    seated = {pod.uid for pod, _, _ in seats}
    owned = ((victim, pod if pod.uid in seated else top) for victim, pod in victims)
    return GangPreemption(tuple(owned), tuple(seats))


def _borrows_guaranteed(state: ClusterState, members: Members, made: GangPreemption) -> bool:
    """Whether the members that start would borrow what other quotas are guaranteed."""
    profile, first = members[0]
    charge: dict[str, int] = {}
    for pod, _, _ in made.nominated:
        shift(charge, charged(pod.requests))
    freed: dict[str, dict[str, int]] = {}
    for victim, _ in made.victims:
        shift(freed.setdefault(victim.namespace, {}), charged(victim.requests))
    return CAPACITY in profile.enabled and borrows_guaranteed(state.ledger, first.namespace, charge, freed)


def _orders(cycle: PodCycle, members: Members, now: float) -> Iterator[Members]:
    """The members as they are; where they differ, also by open nodes, fewest first, or by priority.

    Whoever could go elsewhere, by evicting if need be, leaves the free room to those who could not.
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


def _victims_for(
    cycle: PodCycle, members: Members, need: int, now: float
) -> dict[str, tuple[Pod, Pod]] | None:
    """Victims, by uid, with the member each goes for, if `need` members get nodes in this order.

    Each member takes the node that is best for itself. Where that leaves too little for those after it, the
    node on which somebody had to go last is left alone, and once more.
    """
    tries = _OneByOne(cycle, now)
    for _ in range(MOST_DETOURS if len(members) <= MOST_MEMBERS else 1):
        if tries.place(members, need):
            return tries.victims
        if tries.cleared < 0:
            return None
        tries.spared |= {tries.cleared}
    return None


class _OneByOne:
    """Gives members nodes, one after the other. `victims` and `cleared` are those of the last try.

    `cleared` is the last node that somebody had to go for, -1 for none; on the `spared` nodes nobody has to.
    """

    def __init__(self, cycle: PodCycle, now: float) -> None:
        self._cycle = cycle
        self._now = now
        self.spared: frozenset[int] = frozenset()
        self.victims: dict[str, tuple[Pod, Pod]] = {}
        self.cleared = -1

    def place(self, members: Members, need: int) -> bool:
        """Whether `need` members get nodes; the state is unchanged."""
        self.victims, self.cleared = {}, -1
        found = 0
        with Trial(self._cycle.state, self._now) as trial:
            for left, (profile, pod) in zip(range(len(members), 0, -1), members, strict=True):
                if found >= need or found + left < need:
                    break
                found += self._place(trial, profile, pod)
        return found >= need

    def _place(self, trial: Trial, profile: Profile, pod: Pod) -> bool:
        """Whether one member has a node now, in the trial; for it, victims go where nothing else helps."""
        cycle, state = self._cycle, self._cycle.state
        attempt = cycle.attempt(profile, pod, self._now, spared=self.spared)
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
                trial.lift(victim.uid)
            for uid in [u for u in state.nodes.pods[slot] if state.table.going[state.placed[u].row]]:
                trial.lift(uid)
            if not Reevaluation(cycle, profile, attempt.cycle).fits(slot):
                return False
        trial.place(pod, slot)
        return True


class _Fewer:
    """Gives victims back. `seats` are the nodes of the members beside the victims that are left."""

    def __init__(self, cycle: PodCycle, members: Members, need: int, now: float, proofs: int) -> None:
        self._cycle = cycle
        self._members = members
        self._need = need
        self._now = now
        self._equal = equal_members(cycle.state, members)
        self._proofs = proofs
        self.seats: list[Nominated] = []

    def of(self, victims: Sequence[Pod]) -> list[Pod]:
        """The victims without any that can be spared; all of them where that cannot be told."""
        if not self.fits(victims):
            return list(victims)
        blocks = blocks_of(self._cycle.state, victims)

        def enough(chosen: frozenset[int]) -> bool:
            return self.fits([pod for index in chosen for pod in blocks[index]])

        kept = spared(range(len(blocks)), enough)
        return [pod for index in sorted(kept) for pod in blocks[index]]

    def fits(self, victims: Iterable[Pod]) -> bool:
        """Whether enough members find nodes, each after those before it, once the victims are gone."""
        cycle, state, now = self._cycle, self._cycle.state, self._now
        with Trial(state, now) as trial:
            going = [pod.uid for pod in state.table.leaving_pods()]
            for uid in (*going, *(victim.uid for victim in victims)):
                trial.lift(uid)
            if self._equal and room_for(cycle, *self._members[0], now).fits < self._need:
                return False
            if self._proofs <= 0:
                return False
            self._proofs -= 1
            seats = self._seated(trial)
        if len(seats) < self._need:
            return False
        self.seats = seats
        return True

    def _seated(self, trial: Trial) -> list[Nominated]:
        """Nodes for as many members as are needed: in their order, and if that fails by a search."""
        cycle, state, now = self._cycle, self._cycle.state, self._now
        seats: list[Nominated] = []
        mark = trial.checkpoint()
        for profile, pod in self._members:
            attempt = cycle.attempt(profile, pod, now, post_filter=False)
            if attempt.slot >= 0 and len(seats) < self._need:
                trial.place(pod, attempt.slot)
                seats.append((pod, state.nodes.names[attempt.slot], attempt.cycle.vector))
        if len(seats) >= self._need or not worth_a_search(self._members, equal=self._equal):
            return seats
        trial.rollback(mark)
        search = GangSearch(cycle, self._members, self._need, now)
        found = search.run() or []
        seats = [(item.cycle.pod, state.nodes.names[item.slot], item.cycle.vector) for _, item in found]
        search.undo()
        return seats


def blocks_of(state: ClusterState, victims: Sequence[Pod]) -> list[list[Pod]]:
    """Victims that go or stay together, in the order in which they are given back.

    First those whose eviction would violate a disruption budget, then the most important; those of quotas
    that use more than their max last.
    """
    ordered = sorted(victims, key=lambda pod: (-pod.priority, pod.start_time or 0.0, pod.key))
    hurt = dict(zip((pod.uid for pod in ordered), violating(ordered, counted(state)), strict=True))
    going = Counter(gang.key for pod in ordered if (gang := state.gangs.of(pod)) is not None)
    torn = {key for key, number in going.items() if _torn(state, state.gangs.gangs[key], number)}
    blocks: dict[str, list[Pod]] = {}
    for pod in ordered:
        gang = state.gangs.of(pod)
        bound = gang.key if gang is not None and gang.key in torn else pod.uid
        blocks.setdefault(bound, []).append(pod)
    return sorted(
        blocks.values(),
        key=lambda block: (_above_max(state, block[0]), not any(hurt[pod.uid] for pod in block)),
    )


def _above_max(state: ClusterState, pod: Pod) -> bool:
    """Whether the pod's quota uses more than its max."""
    quota = state.ledger.quota_of(pod.namespace)
    return quota is not None and bool(above_max(state.ledger, quota, after_leaving=True))


def _torn(state: ClusterState, gang: Gang, leaving: int) -> bool:
    """Whether a gang would fall below minMembers without so many of its members."""
    allocated = take_census(state, gang.key).allocated
    return allocated >= gang.min_members > allocated - leaving
