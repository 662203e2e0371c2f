"""The cycle of a unit of work: a pod, a gang, a native group, or a tree of groups.

1. A single pod is tried by itself (`engine.pod_cycle`).
2. Of a group, those members are tried that no PreEnqueue plugin holds back, most important first.
3. What its rules, its tree or its constraints decide comes first; otherwise it starts as a gang
   (`engine.gang.cycle`), or its members are tried one by one.
4. It starts, or others are evicted for it, or it waits; where nobody has to go, it is tried once more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from scheduler_core.engine.binding import ReservedPod
from scheduler_core.engine.decisions import Decision, Evicted, Placed, Rejected
from scheduler_core.engine.gang.composite_cycle import CompositeCycle
from scheduler_core.engine.gang.cycle import GangCycle, schedules_gang
from scheduler_core.engine.gang.kept_nodes import NodeKeeper
from scheduler_core.engine.gang.members import Members
from scheduler_core.engine.gang.native_rules import (
    claimed_by_two,
    native_refusal,
    record_error,
    record_verdict,
)
from scheduler_core.engine.gang.outcome import AtFault, MustWait, Outcome, Starts, at_fault
from scheduler_core.engine.gang.preemption import GangPreemption
from scheduler_core.engine.gang.topology_cycle import TopologyCycle
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.engine.queue.gates import PreEnqueueGates
from scheduler_core.engine.queue.scheduling_queue import SchedulingQueue
from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.engine.scheduling_failure import (
    evict_for_gang,
    members_wait,
    rejected,
    reserve_failed,
)
from scheduler_core.errors import PluginError
from scheduler_core.framework.nominations.waiting_nominations import has_room, waiting_nominations
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Status
from scheduler_core.model.groups.composite import is_composite_key
from scheduler_core.model.groups.gang import Gang, GroupRef, group_of
from scheduler_core.model.names import (
    CLUSTER_TOPOLOGY_PLACEMENT_GROUP,
    COSCHEDULING,
    REASON_SCHEDULER_ERROR,
)
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.gangs.gangs import missing, take_census
from scheduler_core.state.topology import is_constrained

# The plugins whose events always concern a waiting member.
_GANG_PLUGINS: Final = frozenset({COSCHEDULING, CLUSTER_TOPOLOGY_PLACEMENT_GROUP})


class Attempted(msgspec.Struct, frozen=True):
    """The decisions about a unit, and the plugins that rejected what waits of it.

    No plugins: nothing is left to try. None: a plugin failed, and the unit is tried again after its backoff.
    """

    decisions: list[Decision]
    plugins: frozenset[str] | None


class _Group(msgspec.Struct, frozen=True):
    """A group at work. `members`: those that are tried, in order. `gang`: its object; None for a tree, or if
    there is none. `native`: its reference if it is a native group. `whole`: its members start together.
    """

    unit: QueuedUnit
    gang: Gang | None
    members: Members
    native: GroupRef | None
    tree: bool
    whole: bool

    @property
    def pods(self) -> list[Pod]:
        return [pod for _, pod in self.members]


class UnitCycle:
    """Tries units on the state of `cycle`; `clock` as in TopologyCycle."""

    def __init__(
        self,
        cycle: PodCycle,
        queue: SchedulingQueue,
        kept_nodes: NodeKeeper,
        profiles: Mapping[str, Profile],
        gates: PreEnqueueGates,
        clock: Callable[[], float],
    ) -> None:
        self.cycle = cycle
        self.state = cycle.state
        self.gang_cycle = GangCycle(cycle)
        self.composite_cycle = CompositeCycle(cycle)
        self.topology_cycle = TopologyCycle(cycle, clock)
        self._queue = queue
        self._kept_nodes = kept_nodes
        self._profiles = profiles
        self._gates = gates

    def run(self, unit: QueuedUnit, now: float) -> Attempted:
        """Try a popped unit; its placed pods leave the queue."""
        if unit.gang:
            return self._run_group(self._group(unit), now)
        return self._run_pod(next(iter(unit.pods.values())), now)

    # Single pods

    def _run_pod(self, pod: Pod, now: float) -> Attempted:
        profile, evicted = self._profiles[pod.scheduler_name], list[Decision]()
        try:
            attempt = self.cycle.attempt(profile, pod, now)
            if attempt.slot < 0:
                found = attempt.post_filter
                decisions, plugins = rejected(self.state, profile, attempt)
                if found is None or not found.nominated or not self._may_start_at_once([pod], found.victims):
                    return Attempted(decisions, plugins)
                evicted = [item for item in decisions if isinstance(item, Evicted)]
                attempt = self.cycle.attempt(profile, pod, now, post_filter=False)
                if attempt.slot < 0:
                    return Attempted(decisions, plugins)
            reserved = self.cycle.reserve(profile, attempt)
        except PluginError as error:
            return Attempted([*evicted, _error(profile, pod, error)], None)
        if isinstance(reserved, Status):
            failed = reserve_failed(self.state, profile, attempt, reserved)
            return Attempted([*evicted, failed], frozenset({reserved.plugin}))
        return Attempted([*evicted, self._placed(profile, reserved)], frozenset())

    def _one_by_one(
        self, group: _Group, pods: Iterable[Pod], decisions: list[Decision], now: float
    ) -> Attempted:
        """Try members as single pods, each of which may preempt; `decisions` were made before."""
        plugins: frozenset[str] = frozenset()
        failed = False
        for pod in pods:
            tried = self._run_pod(pod, now)
            decisions = decisions + tried.decisions
            failed |= tried.plugins is None
            plugins |= tried.plugins or frozenset()
        if failed or not plugins:
            return Attempted(decisions, None if failed else plugins)
        return Attempted(decisions, plugins | _gang_plugins(group))

    # Groups

    def _group(self, unit: QueuedUnit) -> _Group:
        gang = self.state.gangs.gangs.get(unit.key)
        pods = (pod for pod in sorted(unit.pods.values(), key=self._rank) if not self._gates.of(pod))
        ref = group_of(next(iter(unit.pods.values())))
        tree = is_composite_key(unit.key)
        return _Group(
            unit,
            gang,
            [(self._profiles[pod.scheduler_name], pod) for pod in pods],
            ref if ref is not None and ref.native else None,
            tree,
            tree or (gang is not None and missing(gang, take_census(self.state, unit.key)) > 0),
        )

    def _rank(self, pod: Pod) -> tuple[int, bool, float, str]:
        """The order of members: of equal ones, those first for which others were evicted."""
        item = self.state.nominations.get(pod.uid)
        return -pod.priority, item is None or item.kept, pod.created, pod.name

    def _run_group(self, group: _Group, now: float, *, again: bool = False) -> Attempted:
        """Native groups start as many members as they can, and the others are tried again as a group. Other
        gangs start together up to minMembers, then one by one.
        """
        self._kept_nodes.before_attempt(group.unit, group.pods, whole=group.whole)
        try:
            outcome = self._outcome(group, now)
            if outcome is not None and not _acts_first(outcome):
                # Planning kept nodes may call plugins.
                self._kept_nodes.after_attempt(group.unit, group.members, outcome, now)
        except PluginError as error:
            for leaf in self.state.gangs.forest.leaves(group.unit.key) if group.native else ():
                record_error(self.state, leaf, str(error))
            return Attempted([_error(profile, pod, error) for profile, pod in group.members], None)
        if outcome is None:
            self._kept_nodes.members_tried_singly(group.unit)
            return self._one_by_one(group, group.pods, [], now)
        if isinstance(outcome, Starts):
            return self._starts(group, outcome, now)
        if isinstance(outcome, MustWait) and outcome.preemption is not None:
            return self._evicts(group, outcome, outcome.preemption, now, again=again)
        self._record(group, outcome)
        return self._waits(group, outcome, [], now)

    def _outcome(self, group: _Group, now: float) -> Outcome | None:
        """The outcome of a group as a whole; None if its members are tried one by one. Raises PluginError."""
        unit, outcome = group.unit, None
        if group.tree:
            gated = self._gates.held_back(unit)
            outcome = self.composite_cycle.run(unit.key, group.members, gated, now)
        else:
            outcome = self._not_ready(group) or self.topology_cycle.run(
                group.gang, group.members, now, unit.came
            )
        for leaf in self.state.gangs.forest.leaves(unit.key):
            self.state.gangs.quota_holds.judge(leaf.key, faulty=isinstance(outcome, AtFault))
        gang = group.gang
        if outcome is not None or gang is None:
            return outcome
        together = group.whole and all(schedules_gang(profile, gang.ref) for profile, _ in group.members)
        return self.gang_cycle.run(gang, group.members, now) if group.native or together else None

    def _not_ready(self, group: _Group) -> Outcome | None:
        """The outcome of a gang that may not be placed whatever room there is; else None."""
        if group.native is not None:
            gated = self._gates.held_back(group.unit)
            return native_refusal(self.state, group.native, group.gang, group.members, gated)
        text = claimed_by_two(self.state, group.members)
        return at_fault(group.members, text, error=True) if text else None

    def _starts(self, group: _Group, outcome: Starts, now: float) -> Attempted:
        decisions: list[Decision] = [self._placed(*item) for item in outcome.reserved]
        self._kept_nodes.after_attempt(group.unit, group.members, outcome, now)
        self._record(group, outcome)
        if group.native:
            # The others keep their place, and what they lack is then decided for them as a group.
            group.unit.attempts = 0
            return Attempted(decisions, frozenset())
        if outcome.singly:
            others = [pod for pod in group.pods if pod.uid in outcome.refused]
            return self._one_by_one(group, others, decisions, now)
        return self._waits(group, outcome, decisions, now)

    def _evicts(
        self, group: _Group, outcome: MustWait, preemption: GangPreemption, now: float, *, again: bool
    ) -> Attempted:
        decisions = evict_for_gang(self.state, preemption)
        if not again and self._may_start_at_once(group.pods, preemption.victims):
            # Other nodes may have been planned for it before.
            self._kept_nodes.forget(group.unit.key)
            second = self._run_group(group, now, again=True)
            return Attempted(decisions + second.decisions, second.plugins)
        self._kept_nodes.after_attempt(group.unit, group.members, outcome, now)
        self._record(group, outcome)
        return self._waits(group, outcome, decisions, now)

    def _waits(self, group: _Group, outcome: Outcome, decisions: list[Decision], now: float) -> Attempted:
        told = members_wait(self.state, group.gang, group.members, outcome, now)
        plugins = outcome.plugins | _gang_plugins(group) if outcome.refused else frozenset()
        return Attempted(decisions + told, plugins)

    def _record(self, group: _Group, outcome: Outcome) -> None:
        if group.gang is not None and group.native:
            record_verdict(self.state, group.gang, outcome)

    # Both

    def _may_start_at_once(self, pods: Sequence[Pod], victims: Collection[object]) -> bool:
        """Whether pods that were nominated just now may start before any pod is gone.

        So it is without victims, and where their nodes have room that others can do without until their own
        leave: the room of the victims replaces it.
        """
        own = {pod.uid for pod in pods}
        if not victims or own.issuperset(waiting_nominations(self.state).uids):
            return not victims
        nominated = filter(None, map(self.state.nominations.get, own))
        return all(has_room(self.state, item) for item in nominated)

    def _placed(self, profile: Profile, reserved: ReservedPod) -> Placed:
        pod = reserved.cycle.pod
        self._queue.remove(pod.uid)
        node = self.state.nodes.names[reserved.slot]
        if self.state.nominations.node_of(pod.uid) not in ("", node):
            self.state.nominations.freed = True
        return Placed(pod, node, profile.name, reserved.bind, reserved.pre_bind, reserved.post_bind)


def _error(profile: Profile, pod: Pod, error: PluginError) -> Rejected:
    return Rejected(pod, profile.name, REASON_SCHEDULER_ERROR, str(error))


def _acts_first(outcome: Outcome) -> bool:
    """Whether members are bound or nominated before kept nodes hear of the outcome."""
    return isinstance(outcome, Starts) or (isinstance(outcome, MustWait) and outcome.preemption is not None)


def _gang_plugins(group: _Group) -> frozenset[str]:
    """The gang plugins of the members' profiles, whose events always concern a waiting member."""
    enabled = _GANG_PLUGINS.intersection(*(profile.enabled for profile, _ in group.members))
    if group.gang is None or is_constrained(group.gang):
        return enabled
    # Changes of nodes and of the tree concern groups with constraints only.
    return enabled - {CLUSTER_TOPOLOGY_PLACEMENT_GROUP} or enabled
