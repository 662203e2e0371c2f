"""Placing a group on the topology: as a gang, at the optimum of its constraints (topology seed).

1. What is asked: the group's rules on the tree as it is now.
2. How many members fit on every node that passes all filters, counting every requested resource.
3. The best placement of the missing members; those that are placed stay.
4. Members take their slots, in pod index order along the tree; each is checked by all filters once more.
   A node that refuses gives up the slots it did not keep, everything is undone, and 3 is tried again; in the
   end one member after the other (engine.group_singly).
5. All of them hold a node: they get their ranks, as labels written before the binding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from scheduler_core.arrays.index import Int64
from scheduler_core.engine.binding import Reservation
from scheduler_core.engine.evaluate import Reevaluation
from scheduler_core.engine.group_singly import place_singly
from scheduler_core.engine.group_slots import Slots, capacity, slots_for
from scheduler_core.engine.group_times import note_placed
from scheduler_core.engine.pod_cycle import Attempt, PodCycle
from scheduler_core.errors import ModelError
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Diagnosis, Status, unschedulable
from scheduler_core.model import names
from scheduler_core.model.gang import Gang
from scheduler_core.model.kinds import PODS
from scheduler_core.model.pod import Pod
from scheduler_core.model.writes import Patch
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.group_members import Seat, counts_of, pod_index, ranks_of, seats_of
from scheduler_core.state.topology import GroupRun, rules_of
from scheduler_core.topology.constraints import Rules
from scheduler_core.topology.placer import Infeasible, Placement, most_members, place
from scheduler_core.topology.question import Solver
from scheduler_core.topology.tree import Tree

Members = Sequence[tuple[Profile, Pod]]
Reserved = list[tuple[Profile, Reservation]]

# How often a placement that filters refuse is looked for again.
_MOST_REPAIRS: Final = 64


class Question(msgspec.Struct, frozen=True):
    """One placement to find: `size` counts the seats that are taken already."""

    gang: Gang
    tree: Tree
    rules: Rules
    seats: Sequence[Seat]
    members: Members
    slots: Slots

    @property
    def size(self) -> int:
        """Members there will be, those that are placed included."""
        return len(self.seats) + len(self.members)

    @property
    def fixed(self) -> Int64:
        """int64 [leaves]: members that stay."""
        return counts_of(self.tree, self.seats)


class Refusal(msgspec.Struct, frozen=True):
    """Why a group has no placement; `question` is set where evictions might give it one."""

    reason: str
    plugins: frozenset[str] = frozenset()
    question: Question | None = None


class GroupPlacer:
    """Places groups. Of the seconds that `clock` gives only differences mean something."""

    def __init__(self, cycle: PodCycle, clock: Callable[[], float]) -> None:
        self.cycle = cycle
        self.state = cycle.state
        self.clock = clock

    def place(self, gang: Gang, members: Members, now: float) -> Reserved | Refusal:
        """Reserve a node for each of the members, or for none. Raises PluginError; then nothing is held."""
        run = self.run_of(gang.key)
        asked = self._ask(gang, members, now)
        if isinstance(asked, Refusal):
            return asked
        run.mixed = asked.slots.mixed
        found = self._place(asked, run, now)
        if isinstance(found, Refusal):
            return found
        note_placed(run, [item.cycle.pod for _, item in found], now)
        run.reason = ""
        run.idle, run.best_hops = (asked.tree, capacity(self.state, asked.slots, idle=True)), None
        self.state.gangs.group_dirty.add(gang.key)
        return self._ranked(asked, run, found)

    def run_of(self, key: str) -> GroupRun:
        """The group's record, made on its first trial."""
        runs = self.state.topology.runs
        run = runs.get(key)
        if run is None:
            run = runs[key] = GroupRun()
        return run

    def expired(self, profile: Profile) -> Callable[[], bool]:
        """Whether the profile's time for a search that begins now is over."""
        deadline = self.clock() + self.state.topology.settings[profile.name].budget_seconds
        return lambda: self.clock() >= deadline

    def solver(self, profile: Profile) -> Solver:
        """The solver that a profile names."""
        topology = self.state.topology
        return topology.solvers[topology.settings[profile.name].solver]

    def search(self, question: Question, room: Int64, expired: Callable[[], bool]) -> Placement | Infeasible:
        """What the profile's solver finds where `room` members fit on the leaves, int64 [leaves]."""
        return place(
            question.tree,
            room,
            question.size,
            question.rules,
            fixed=question.fixed,
            expired=expired,
            solver=self.solver(question.members[0][0]),
        )

    def _ask(self, gang: Gang, members: Members, now: float) -> Question | Refusal:
        if gang.problem:
            return Refusal(gang.problem)
        tree = self.state.topology.tree_of(gang, members[0][0].name)
        try:
            rules = rules_of(gang, tree)
        except ModelError as error:
            return Refusal(str(error))
        slots = slots_for(self.cycle, tree, members, now)
        if isinstance(slots, Status):
            return Refusal(f"{gang.ref}: {slots.reason}", frozenset({slots.plugin}))
        question = Question(gang, tree, rules, seats_of(self.state, gang, tree), members, slots)
        if slots.refusal is not None:
            return Refusal(f"{gang.ref}: {slots.refusal.reason}", slots.refusing, question)
        return question

    def _place(self, question: Question, run: GroupRun, now: float) -> Reserved | Refusal:
        """Find a placement and take it, giving up the slots that filters refuse."""
        room = capacity(self.state, question.slots)
        expired = self.expired(question.members[0][0])
        failures: dict[str, Diagnosis] = {}
        for _ in range(_MOST_REPAIRS):
            found = self._solve(question, room, run, expired)
            if isinstance(found, Infeasible):
                break
            reserved, kept = self._take(question, found, failures, now)
            if len(reserved) == len(question.members):
                return reserved
            self.undo(reserved)
            if kept is None:
                return self._refused(question, found, failures)
            room = np.where(kept < found.added, np.minimum(room, kept), room)
        singly = place_singly(self, question, now) if failures else None
        if singly is not None:
            run.optimal = False
            return singly
        return self._refused(question, found, failures)

    def _solve(
        self, question: Question, room: Int64, run: GroupRun, expired: Callable[[], bool]
    ) -> Placement | Infeasible:
        began = self.clock()
        found = self.search(question, room, expired)
        if not run.replacing:
            run.solver_seconds += self.clock() - began
        if isinstance(found, Placement):
            run.optimal = found.optimal
        return found

    def _take(
        self, question: Question, placement: Placement, failures: dict[str, Diagnosis], now: float
    ) -> tuple[Reserved, Int64 | None]:
        """Reserve what can be; also how many members every leaf kept, int64 [leaves].

        None where a member was refused whatever its node, as by its quota: another placement is no help.
        """
        kept = np.zeros_like(placement.added)  # [leaves]
        reserved: Reserved = []
        try:
            for (profile, pod), leaf in in_layers(question.members, placement.added):
                if kept[leaf] < 0:
                    continue
                slot = int(question.slots.nodes[leaf])
                taken = reserve_on(self.cycle, profile, pod, slot, now)
                if isinstance(taken, Reservation):
                    reserved.append((profile, taken))
                    kept[leaf] += 1
                elif isinstance(taken, Status):
                    failures[pod.uid] = Diagnosis(0, taken, plugins=frozenset({taken.plugin}))
                    return reserved, None
                else:
                    failures[pod.uid] = taken
                    kept[leaf] = -1 - kept[leaf]  # closed: what it kept, and no more
        except BaseException:
            self.undo(reserved)
            raise
        return reserved, np.where(kept < 0, -1 - kept, kept)

    def undo(self, reserved: Reserved) -> None:
        """Take reservations back, newest first."""
        for profile, item in reversed(reserved):
            self.cycle.unreserve(profile, item.cycle, item.slot)

    def _refused(
        self, question: Question, found: Placement | Infeasible, failures: dict[str, Diagnosis]
    ) -> Refusal:
        text = found.reason if isinstance(found, Infeasible) else "its placements do not pass the filters"
        gap = question.tree.compare(
            node.name for node in self.state.nodes.nodes if node is not None and node.allocatable
        )
        if gap.not_in_tree:
            text += f"; {len(gap.not_in_tree)} nodes of the cluster are not in the topology"
        first = next(iter(failures.values()), None)
        why = f": {first.status.reason}" if first is not None and first.status is not None else ""
        plugins = question.slots.refusing.union(*(item.plugins for item in failures.values()))
        return Refusal(f"{question.gang.ref}: {text}{why}", plugins, question)

    def _ranked(self, question: Question, run: GroupRun, reserved: Reserved) -> Reserved:
        """The reservations by rank, with the labels that tell every member its own before its binding."""
        leaf_of = {int(slot): leaf for leaf, slot in enumerate(question.slots.nodes.tolist())}
        seats = [Seat(item.cycle.pod, leaf_of[item.slot]) for _, item in reserved]
        run.ranks = ranks_of(question.tree, [*question.seats, *seats], run.ranks)
        return [
            (
                profile,
                msgspec.structs.replace(item, pre_bind=(*item.pre_bind, _labels(item.cycle.pod, run))),
            )
            for profile, item in sorted(reserved, key=lambda pair: run.ranks[pair[1].cycle.pod.uid])
        ]


def most_placed(state: ClusterState, question: Question) -> int:
    """How many of a question's members could be placed together, if only slots and constraints counted."""
    room = capacity(state, question.slots)
    return most_members(question.tree, room, question.size, question.rules, question.fixed)


def in_layers(members: Members, added: Int64) -> Iterator[tuple[tuple[Profile, Pod], int]]:
    """Members with their leaves, given out along the tree; one of each leaf, then a second, and so on.

    So a limit on how unevenly pods may stand is not broken on the way to an even placement, and what is known
    of all nodes with one more member each serves them all. `added`: int64 [leaves].
    """
    leaves = np.repeat(np.arange(len(added)), added)
    layers = np.arange(len(leaves)) - np.repeat(np.cumsum(added) - added, added)
    for index in np.argsort(layers, kind="stable").tolist():
        yield members[index], int(leaves[index])


def in_index_order(members: Members) -> list[tuple[Profile, Pod]]:
    """Members in the order in which slots are given out."""
    return sorted(members, key=lambda member: pod_index(member[1]))


def reserve_on(
    cycle: PodCycle, profile: Profile, pod: Pod, slot: int, now: float
) -> Reservation | Status | Diagnosis:
    """Reserve one member on the node of a slot if every filter lets it, the state as it is now.

    A Status refuses it on every node, a Diagnosis on this one.
    """
    own = cycle.new_cycle(profile, pod, now)
    status = cycle.pre_filter(profile, own)
    if status is not None:
        return status
    scores = cycle.scores_for(profile, own)
    cluster = any(plugin.name not in own.skipped for plugin in profile.cluster_filter)
    fits = bool(scores.total[slot] >= 0)
    if fits and cluster:
        evaluation = Reevaluation(cycle, profile, own)
        fits = evaluation.passes(slot) and evaluation.fits_beside_nominated(slot)
    if not fits:
        text = f"{pod.key} does not pass the filters on node {cycle.state.nodes.names[slot]}"
        return Diagnosis(0, unschedulable(text), plugins=profile.enabled)
    reserved = cycle.reserve(profile, Attempt(own, slot))
    if isinstance(reserved, Status):
        return Diagnosis(0, reserved, plugins=frozenset({reserved.plugin}))
    return reserved


def _labels(pod: Pod, run: GroupRun) -> Patch:
    labels = {
        names.SAKKARA_MEMBER_RANK_LABEL: str(run.ranks[pod.uid]),
        names.SAKKARA_MEMBER_RETRIES_LABEL: str(run.trials[pod.uid]),
        names.SAKKARA_MEMBER_STATUS_LABEL: names.MEMBER_BOUND,
    }
    return Patch(PODS, pod.namespace, pod.name, {"metadata": {"labels": labels}}, uid=pod.uid)
