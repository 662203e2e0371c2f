"""Dry run of a preemption: removes victims in a Trial, runs all filters, reprieves victims not needed.

Corresponds to `DryRunPreemption` and `SelectVictimsOnNode` of kube-scheduler. The disruption mode of a group
says which of its members are evicted together (`disrupted_gangs`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from scheduler_core.framework.evaluation import Evaluation
from scheduler_core.framework.preemption.demand import Demand
from scheduler_core.framework.preemption.loans import Loans
from scheduler_core.model.groups.gang import Disruption
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.departing import can_end
from scheduler_core.state.gangs.forest import Group
from scheduler_core.state.gangs.ranks import running_rows
from scheduler_core.state.trial import Trial

# Pods that are given back step by step: a step is tried only if all steps before it were given back.
ReprieveUnit = list[list[Pod]]


class DisruptedGang(NamedTuple):
    """A gang that an eviction disrupts as a whole.

    `members` are its running members that somebody can end, most important first; `quorum` is how many of
    them go or stay together.
    """

    key: str
    members: tuple[Pod, ...]
    quorum: int


def disrupted_gangs(state: ClusterState, victims: Iterable[Pod]) -> list[DisruptedGang]:
    """Gangs that the eviction of the victims disrupts as a whole (docs/gangs.md#preemption).

    The disruption mode decides. GANG: a gang that falls below minMembers; a gang that is below already loses
    single members. ALL: every group that loses a member, and of a tree all that is below the highest such
    group. SINGLE: none.
    """
    # A member that ends already is none of those that run.
    running = (pod for pod in victims if not pod.terminating)
    leaving = Counter(gang.key for pod in running if (gang := state.gangs.of(pod)) is not None)
    found: dict[str, DisruptedGang] = {}
    for key, count in leaving.items():
        gang = state.gangs.gangs[key]
        whole = state.gangs.forest.taken_with(key)
        if whole is None and gang.disruption is Disruption.SINGLE:
            continue
        members = running_members(state, whole or gang)
        quorum = len(members) if whole is not None else gang.min_members
        if members and len(members) >= quorum > len(members) - count:
            unit = (whole or gang).key
            # Members on lost nodes stay behind.
            there = tuple(pod for pod in members if can_end(state, pod.uid))
            found[unit] = DisruptedGang(unit, there, quorum - (len(members) - len(there)))
    return list(found.values())


def eviction_units(victims: Sequence[Pod], disrupted: Iterable[DisruptedGang]) -> list[list[Pod]]:
    """The victims grouped into units that are evicted together: disrupted gangs, and single pods."""
    together = {pod.uid: gang.key for gang in disrupted for pod in gang.members}
    units: dict[str, list[Pod]] = {}
    for pod in victims:
        units.setdefault(together.get(pod.uid, pod.uid), []).append(pod)
    return list(units.values())


def reprieve_units(
    victims: Sequence[Pod], disrupted: Sequence[DisruptedGang], *, quorum_first: bool
) -> list[ReprieveUnit]:
    """Victims in the order of reprieve: single pods as they are ordered, then gangs as a whole.

    With `quorum_first` a gang is given back in steps: its quorum together, then its other members one by one.
    """
    members = {pod.uid for gang in disrupted for pod in gang.members}
    units: list[ReprieveUnit] = [[[pod]] for pod in victims if pod.uid not in members]
    for gang in disrupted:
        end = gang.quorum if quorum_first else len(gang.members)
        units.append([list(gang.members[:end]), *([pod] for pod in gang.members[end:])])
    return units


def running_members(state: ClusterState, group: Group) -> list[Pod]:
    """Members of a group, or of the groups below it, that hold a node and stay, most important first."""
    rows = running_rows(state.gangs.members_of_unit(group.key), state.placed, state.table)
    return [pod for row in rows if (pod := state.table.pods[row]) is not None]


class Candidate(NamedTuple):
    """A node and a minimal set of victims to evict for it, as in kube-scheduler.

    `disrupted` are the gangs that are evicted as a whole.
    """

    slot: int
    victims: list[Pod]
    disrupted: list[DisruptedGang]


class DryRun:
    """Dry runs for one preemptor.

    `forbidden_gangs` collects the keys of gangs that would be evicted as a whole, but have a member that must
    not be evicted, or are more than their quota may lose in a fair move.
    """

    def __init__(
        self,
        state: ClusterState,
        now: float,
        evaluation: Evaluation,
        demand: Demand,
        loans: Loans | None = None,
    ) -> None:
        self._state = state
        self._now = now
        self._evaluation = evaluation
        self._demand = demand
        self._loans = loans
        self.forbidden_gangs: set[str] = set()

    def on_node(self, slot: int, pods: Sequence[Pod], leaving: Sequence[str] = ()) -> Candidate | None:
        """The victims among `pods`, which are in the order of reprieve, that the pod needs on a node.

        None if the pod does not fit the node without any of `pods`. Pods in `leaving` (uids) count as gone.
        The state is unchanged afterwards.
        """
        return self._select(slot, pods, leaving, lambda at: at if self._evaluation.fits(at) else -1)

    def on_any_node(
        self, found: Candidate, leaving: Sequence[str], room: Callable[[], Iterable[int]]
    ) -> Candidate:
        """The candidate without the victims that the pod does not need if it uses another node.

        `room` gives the slots to try, in the state at the time of the call.
        """
        with Trial(self._state, self._now) as trial:
            _remove(trial, [*leaving, *(pod.uid for pod in found.victims)])
            if all(slot == found.slot for slot in room()):
                return found

        def look(at: int) -> int:
            if self._evaluation.fits(at):
                return at
            return next((slot for slot in room() if self._evaluation.fits(slot)), -1)

        again = self._select(found.slot, found.victims, leaving, look)
        return found if again is None else again

    def _select(
        self, slot: int, pods: Sequence[Pod], leaving: Sequence[str], look: Callable[[int], int]
    ) -> Candidate | None:
        """`look` gives the slot on which the pod fits now, the given one if possible, or -1."""
        # A pod with required affinity must not rely on pods that leave anywhere.
        if self._demand.pod.pod_affinity.required:
            leaving = [pod.uid for pod in self._state.table.leaving_pods()]
        needed = self._reprieve(slot, [[[pod]] for pod in pods], leaving, look)
        if needed is None:
            return None
        disrupted = disrupted_gangs(self._state, needed[1])
        if disrupted:
            forbidden = {gang.key for gang in disrupted if not self._may_go(gang)}
            self.forbidden_gangs |= forbidden
            units = reprieve_units(needed[1], disrupted, quorum_first=True)
            needed = None if forbidden else self._reprieve(slot, units, leaving, look)
        if needed is None:
            return None
        slot, victims = needed
        return Candidate(slot, victims, disrupted_gangs(self._state, victims))

    def _reprieve(
        self, slot: int, units: list[ReprieveUnit], leaving: Sequence[str], look: Callable[[int], int]
    ) -> tuple[int, list[Pod]] | None:
        """(slot, victims that remain) once all units that the pod does not need were given back."""
        with Trial(self._state, self._now) as trial:
            _remove(trial, leaving)
            _remove(trial, (pod.uid for unit in units for step in unit for pod in step))
            slot = look(slot)
            if slot < 0:
                return None
            again = True
            while again:
                again = failed = False
                for unit in units:
                    while unit:
                        for pod in unit[0]:
                            trial.restore(pod.uid)
                        at = look(slot)
                        if at < 0:
                            _remove(trial, (pod.uid for pod in unit[0]))
                            failed = True
                            break
                        # A spread constraint depends on the minimum over all domains: a pod that was refused
                        # before may fit now.
                        slot, again = at, again or failed
                        del unit[0]
        return slot, [pod for unit in units for step in unit for pod in step]

    def _may_go(self, gang: DisruptedGang) -> bool:
        if not all(map(self._eligible, gang.members)):
            return False
        if self._loans is None or not self._loans.strict:
            return True
        rows = np.array([self._state.placed[pod.uid].row for pod in gang.members], dtype=np.int64)
        taken = self._state.table.requests[: self._loans.width, rows].sum(axis=1)
        return bool(self._loans.hold(taken[None, :], int(self._loans.owners(rows[:1])[0]))[0])

    def _eligible(self, pod: Pod) -> bool:
        return bool(self._demand.eligible[self._state.placed[pod.uid].row])


def _remove(trial: Trial, uids: Iterable[str]) -> None:
    for uid in uids:
        trial.remove_placed(uid)
