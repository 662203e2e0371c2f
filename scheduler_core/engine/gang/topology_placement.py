"""Places a gang on the topology tree, at the optimum of its constraints (docs/topology.md#groups).

1. Read the group's rules on the current tree.
2. Count how many members fit on every node that passes all filters, by every requested resource
   (`gang.topology_slots`).
3. Find the best placement of the waiting members; members that are placed already stay.
4. Reserve the members, in pod index order along the tree; each passes all filters again. If a node refuses a
   member, undo all, reduce the node's slots and repeat step 3; as a last resort place members one by one.
5. All members hold nodes: assign their ranks, as labels that are written before the binding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.engine.binding import ReservedPod
from scheduler_core.engine.evaluation import Reevaluation
from scheduler_core.engine.gang.members import Members, undone_on_error
from scheduler_core.engine.gang.topology_slots import Slots, leaf_capacity, slots_for
from scheduler_core.engine.gang.topology_times import record_placement
from scheduler_core.engine.pod_cycle import Attempt, PodCycle
from scheduler_core.errors import ModelError
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Diagnosis, Status, unschedulable
from scheduler_core.model import names
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.kinds import PODS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.writes import Patch
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.group_members import MemberPlacement, counts_of, placed_members, ranks_of
from scheduler_core.state.topology import GroupRun, rules_of
from scheduler_core.topology.constraints import Rules
from scheduler_core.topology.placer import GroupPlacement, Infeasible, can_place, most_members, place
from scheduler_core.topology.question import Solver
from scheduler_core.topology.tree import Tree

Reserved = list[tuple[Profile, ReservedPod]]
# A member and its leaf.
PlannedMember = tuple[tuple[Profile, Pod], int]

# How often another placement is searched after filters refused one.
_MOST_REPAIRS: Final = 64


class PlacementTask(msgspec.Struct, frozen=True):
    """One placement to find: the gang, its rules on the tree, placed members, and members to place."""

    gang: Gang
    tree: Tree
    rules: Rules
    placed: Sequence[MemberPlacement]
    members: Members
    slots: Slots

    @property
    def size(self) -> int:
        """The number of members after the placement, including those placed already."""
        return len(self.placed) + len(self.members)

    @property
    def fixed(self) -> Int64:
        """int64 [leaves]: members that are placed already."""
        return counts_of(self.tree, self.placed)


class PlacementFailure(msgspec.Struct, frozen=True):
    """The reason why a gang has no placement; `task` is set if preemption might help.

    `faulty`: the constraints must be corrected. `everywhere`: a plugin refuses a member on every node, so it
    is not for the constraints.
    """

    reason: str
    plugins: frozenset[str] = frozenset()
    task: PlacementTask | None = None
    faulty: bool = False
    everywhere: bool = False


class TopologyPlacer:
    """Places gangs on the topology. `clock` gives seconds; only differences count."""

    def __init__(self, cycle: PodCycle, clock: Callable[[], float]) -> None:
        self.cycle = cycle
        self.state = cycle.state
        self.clock = clock

    def place(self, gang: Gang, members: Members, now: float) -> Reserved | PlacementFailure:
        """Reserve a node for all members or none. Raises PluginError; then nothing is reserved."""
        run = self.run_of(gang.key)
        asked = self.task_for(gang, members, now)
        if isinstance(asked, PlacementFailure):
            return asked
        run.mixed = asked.slots.mixed
        found = self._place(asked, run, now)
        if isinstance(found, PlacementFailure):
            return found
        record_placement(run, [item.cycle.pod for _, item in found], now)
        run.reason = ""
        run.idle, run.best_hops = (asked.tree, leaf_capacity(self.state, asked.slots, idle=True)), None
        self.state.gangs.group_dirty.add(gang.key)
        return self._ranked(gang, asked.tree, asked.placed, run, found)

    def ranked(self, gang: Gang, reserved: Reserved, now: float) -> Reserved:
        """Members that another cycle reserved, with the labels of their ranks."""
        if not reserved:
            return reserved
        run = self.run_of(gang.key)
        own = {item.cycle.pod.uid for _, item in reserved}
        tree = self.state.topology.tree_of(gang, reserved[0][0].name)
        placed = [member for member in placed_members(self.state, gang, tree) if member.pod.uid not in own]
        record_placement(run, [item.cycle.pod for _, item in reserved], now)
        run.reason, run.optimal = "", False
        self.state.gangs.group_dirty.add(gang.key)
        return self._ranked(gang, tree, placed, run, reserved)

    def run_of(self, key: str) -> GroupRun:
        """The gang's GroupRun, made on its first attempt."""
        runs = self.state.topology.runs
        run = runs.get(key)
        if run is None:
            run = runs[key] = GroupRun()
        return run

    def expired(self, profile: Profile) -> Callable[[], bool]:
        """A function that tells whether the profile's time for a search that begins now is over."""
        deadline = self.clock() + self.state.topology.settings[profile.name].budget_seconds
        return lambda: self.clock() >= deadline

    def solver(self, profile: Profile) -> Solver:
        """The solver of a profile."""
        topology = self.state.topology
        return topology.solvers[topology.settings[profile.name].solver]

    def search(
        self, task: PlacementTask, room: Int64, expired: Callable[[], bool]
    ) -> GroupPlacement | Infeasible:
        """The placement of the profile's solver if `room` members fit per leaf, int64 [leaves]."""
        return place(
            task.tree,
            room,
            task.size,
            task.rules,
            fixed=task.fixed,
            expired=expired,
            solver=self.solver(task.members[0][0]),
        )

    def task_for(self, gang: Gang, members: Members, now: float) -> PlacementTask | PlacementFailure:
        """The placement that an attempt would have to find, or what is wrong before any is searched."""
        if gang.problem:
            return PlacementFailure(gang.problem, faulty=True)
        tree = self.state.topology.tree_of(gang, members[0][0].name)
        try:
            rules = rules_of(gang, tree)
        except ModelError as error:
            return PlacementFailure(str(error), faulty=True)
        slots = slots_for(self.cycle, tree, members, now)
        if isinstance(slots, Status):
            return PlacementFailure(f"{gang.ref}: {slots.reason}", frozenset({slots.plugin}), everywhere=True)
        task = PlacementTask(gang, tree, rules, placed_members(self.state, gang, tree), members, slots)
        if slots.refusal is not None:
            text = f"{gang.ref}: {slots.refusal.reason}"
            return PlacementFailure(text, slots.refusing, task, everywhere=True)
        return task

    def _place(self, task: PlacementTask, run: GroupRun, now: float) -> Reserved | PlacementFailure:
        """Find and reserve a placement, without the slots that filters refuse."""
        room = leaf_capacity(self.state, task.slots)
        expired = self.expired(task.members[0][0])
        failures: dict[str, Diagnosis] = {}
        for _ in range(_MOST_REPAIRS):
            found = self._solve(task, room, run, expired)
            if isinstance(found, Infeasible):
                break
            reserved, kept = self._take(task, found, failures, now)
            if len(reserved) == len(task.members):
                return reserved
            self.undo(reserved)
            if kept is None:
                return msgspec.structs.replace(self._refused(task, found, failures), everywhere=True)
            room = np.where(kept < found.added, np.minimum(room, kept), room)
        singly = place_singly(self, task, now) if failures else None
        if singly is not None:
            run.optimal = False
            return singly
        return self._refused(task, found, failures)

    def _solve(
        self, task: PlacementTask, room: Int64, run: GroupRun, expired: Callable[[], bool]
    ) -> GroupPlacement | Infeasible:
        began = self.clock()
        found = self.search(task, room, expired)
        if not run.replacing:
            run.solver_seconds += self.clock() - began
        if isinstance(found, GroupPlacement):
            run.optimal = found.optimal
        return found

    def _take(
        self, task: PlacementTask, placement: GroupPlacement, failures: dict[str, Diagnosis], now: float
    ) -> tuple[Reserved, Int64 | None]:
        """(reserved members, number per leaf as int64 [leaves]).

        The number is None if a member was refused on every node, as by its quota: no other placement helps.
        """
        kept = np.zeros_like(placement.added)  # [leaves]
        reserved: Reserved = []
        with undone_on_error(lambda: self.undo(reserved)):
            for (profile, pod), leaf in self._nominated_first(in_layers(task.members, placement.added)):
                if kept[leaf] < 0:
                    continue
                slot = int(task.slots.nodes[leaf])
                taken = reserve_on(self.cycle, profile, pod, slot, now)
                if isinstance(taken, ReservedPod):
                    reserved.append((profile, taken))
                    kept[leaf] += 1
                elif isinstance(taken, Status):
                    failures[pod.uid] = Diagnosis(0, taken, plugins=frozenset({taken.plugin}))
                    return reserved, None
                else:
                    failures[pod.uid] = taken
                    kept[leaf] = -1 - kept[leaf]  # closed: no more than it has
        return reserved, np.where(kept < 0, -1 - kept, kept)

    def _nominated_first(self, planned: Iterable[PlannedMember]) -> list[PlannedMember]:
        """Members for which others were evicted before all others, as these must leave them their quota."""
        nominated = self.state.nominations.get
        return sorted(planned, key=lambda item: nominated(item[0][1].uid) is None)

    def undo(self, reserved: Reserved) -> None:
        """Undo reservations, newest first."""
        for profile, item in reversed(reserved):
            self.cycle.unreserve(profile, item.cycle, item.slot)

    def _refused(
        self, task: PlacementTask, found: GroupPlacement | Infeasible, failures: dict[str, Diagnosis]
    ) -> PlacementFailure:
        text = found.reason if isinstance(found, Infeasible) else "its placements do not pass the filters"
        gap = task.tree.compare(
            node.name for node in self.state.nodes.nodes if node is not None and node.allocatable
        )
        if gap.not_in_tree:
            text += f"; {len(gap.not_in_tree)} nodes of the cluster are not in the topology"
        first = next(iter(failures.values()), None)
        why = f": {first.status.reason}" if first is not None and first.status is not None else ""
        plugins = task.slots.refusing.union(*(item.plugins for item in failures.values()))
        return PlacementFailure(f"{task.gang.ref}: {text}{why}", plugins, task)

    def _ranked(
        self, gang: Gang, tree: Tree, placed: Sequence[MemberPlacement], run: GroupRun, reserved: Reserved
    ) -> Reserved:
        """The reservations by rank, each with the patch that labels the member before its binding.

        A native group that asks for nothing but its key gets no labels: each is a request of its own.
        """
        leaf_of, node = tree.leaf_index, self.state.nodes.names
        added = [MemberPlacement(item.cycle.pod, leaf_of[node[item.slot]]) for _, item in reserved]
        run.ranks = ranks_of(tree, [*placed, *added], run.ranks)
        ordered = sorted(reserved, key=lambda pair: run.ranks[pair[1].cycle.pod.uid])
        if gang.topology_key and not gang.constraints.strip():
            return ordered
        return [
            (
                profile,
                msgspec.structs.replace(item, pre_bind=(*item.pre_bind, _labels(item.cycle.pod, run))),
            )
            for profile, item in ordered
        ]


def most_placed(state: ClusterState, task: PlacementTask) -> int:
    """The number of a task's members that could be placed together by slots and constraints alone."""
    room = leaf_capacity(state, task.slots)
    return most_members(task.tree, room, task.size, task.rules, task.fixed)


def in_layers(members: Members, added: Int64) -> Iterator[PlannedMember]:
    """(member, leaf) along the tree: one member per leaf, then a second one per leaf, and so on.

    So a spread constraint that an even placement meets is not violated on the way, and the cached scores for
    one more member on every node serve all members. `added`: int64 [leaves].
    """
    leaves = np.repeat(np.arange(len(added)), added)
    layers = np.arange(len(leaves)) - np.repeat(np.cumsum(added) - added, added)
    for index in np.argsort(layers, kind="stable").tolist():
        yield members[index], int(leaves[index])


def reserve_on(
    cycle: PodCycle, profile: Profile, pod: Pod, slot: int, now: float
) -> ReservedPod | Status | Diagnosis:
    """Reserve one member on a slot if it passes every filter in the current state.

    A Status refuses the member on every node, a Diagnosis on this one.
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


def place_singly(placer: TopologyPlacer, task: PlacementTask, now: float) -> Reserved | None:
    """Reserve members one by one, the last resort if filters between pods refuse all packed placements.

    Filters such as spread constraints and anti-affinity may leave only placements that packing would not
    choose. Every member takes its best node by all filters; the result counts if it meets the strict rules.
    None if it does not; then, and with PluginError, nothing is reserved.
    """
    leaf_of = {slot: leaf for leaf, slot in enumerate(task.slots.nodes.tolist()) if slot >= 0}
    counts = task.fixed.copy()  # [leaves]
    reserved: Reserved = []
    with undone_on_error(lambda: placer.undo(reserved)):
        for profile, pod in task.members:
            attempt = placer.cycle.attempt(profile, pod, now, post_filter=False)
            taken = placer.cycle.reserve(profile, attempt) if attempt.slot in leaf_of else None
            if not isinstance(taken, ReservedPod):
                break
            reserved.append((profile, taken))
            counts[leaf_of[attempt.slot]] += 1
        else:
            if can_place(task.tree, np.zeros_like(counts), task.size, task.rules, counts):
                return reserved
    placer.undo(reserved)
    return None
