"""The scheduler: takes objects in and gives decisions out.

Deterministic: equal objects and an equal `now` give equal decisions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from scheduler_core.engine.binding import ReservedPod
from scheduler_core.engine.decisions import Decision, Evicted, Placed, Rejected
from scheduler_core.engine.events import (
    EventNotifier,
    QueueingHints,
    assigned_nodes,
    expire_charges,
    put_object,
    remove_object,
    with_borrowing_events,
)
from scheduler_core.engine.extenders.asking import Asking
from scheduler_core.engine.gang.composite_cycle import CompositeCycle
from scheduler_core.engine.gang.cycle import (
    COSCHEDULING,
    TOPOLOGY,
    GangCycle,
    GangOutcome,
    refuse_all,
    schedules_gang,
)
from scheduler_core.engine.gang.kept_nodes import NodeKeeper
from scheduler_core.engine.gang.members import Members
from scheduler_core.engine.gang.native_rules import (
    claimed_by_two,
    native_refusal,
    record_error,
    record_verdict,
)
from scheduler_core.engine.gang.topology_cycle import TopologyCycle, no_clock
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.engine.profile_settings import apply_profiles
from scheduler_core.engine.queue.equivalence import traits_of
from scheduler_core.engine.queue.fair_places import FairPlaces
from scheduler_core.engine.queue.known_refusals import KnownRefusals
from scheduler_core.engine.queue.reviews import WaitingReviews
from scheduler_core.engine.queue.scheduling_queue import FLUSH_AFTER_SECONDS, SchedulingQueue
from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.engine.queue.waiting_table import NodesOfKinds, WaitingTable
from scheduler_core.engine.scheduling_failure import (
    evict_for_gang,
    members_wait,
    rejected,
    reserve_failed,
    topology_notices,
)
from scheduler_core.engine.scores.signature import schedules_differently
from scheduler_core.errors import PluginError
from scheduler_core.framework.nominations.stale_nominations import release_lost, stale_nominations
from scheduler_core.framework.nominations.waiting_nominations import has_room, waiting_nominations
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.queueing.quota_obstacles import of_a_gang
from scheduler_core.framework.status import Status
from scheduler_core.model.config_map import ConfigMap
from scheduler_core.model.groups.composite import Composite, is_composite_key
from scheduler_core.model.groups.gang import Gang, GroupRef, group_of
from scheduler_core.model.names import REASON_SCHEDULER_ERROR
from scheduler_core.model.node import Node
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.config_maps import Changed
from scheduler_core.state.departing import depart
from scheduler_core.state.events import ClusterEvent, EventKind
from scheduler_core.state.first_pods import place_first_pods
from scheduler_core.state.gangs.forest import Group
from scheduler_core.state.gangs.gangs import missing, take_census
from scheduler_core.state.gangs.held_quota import review_holds
from scheduler_core.state.topology import is_constrained

T = TypeVar("T")


class Scheduler:
    """One queue and one cluster state for all profiles. Only the loop's thread may call it.

    `clock` gives seconds that limit searches for topology placements; without one they are not limited.
    `flush_after`: as in SchedulingQueue.
    """

    def __init__(
        self,
        state: ClusterState,
        profiles: Mapping[str, Profile],
        *,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        flush_after: float = FLUSH_AFTER_SECONDS,
        clock: Callable[[], float] = no_clock,
    ) -> None:
        self.state = state
        self.profiles = profiles
        self.cycle = PodCycle(state)
        self.gang_cycle = GangCycle(self.cycle)
        self.composite_cycle = CompositeCycle(self.cycle)
        self.topology_cycle = TopologyCycle(self.cycle, clock)
        apply_profiles(state, profiles)
        listeners = QueueingHints(profiles.values())
        traits = partial(traits_of, state, profiles)
        self.queue = SchedulingQueue(
            next(iter(profiles.values())).queue_sort.sort_key,
            self._gate,
            partial(listeners.wake, state),
            traits=traits,
            table=WaitingTable(NodesOfKinds(state.nodes.static_changes)),
            places=FairPlaces(state) if state.ledger.borrowing.fair_order else None,
            initial_backoff=initial_backoff,
            max_backoff=max_backoff,
            flush_after=flush_after,
        )
        self.kept_nodes = NodeKeeper(self.cycle, self.queue, profiles)
        self.asking = Asking(self.cycle, self.queue, profiles)
        self.reviews = WaitingReviews(
            self.queue,
            state.topology,
            state.nominations,
            state.gangs.quota_holds,
            state.table,
            state.ledger,
            self._decide,
        )
        self._notifier = EventNotifier(state, self.queue, listeners, self.reviews)
        self.refusals = KnownRefusals(state, self.cycle.classes, self.queue, self.reviews, traits)

    # Objects come and go

    def put(self, obj: Any, now: float) -> None:
        """An object was added or changed in the API."""
        if isinstance(obj, Pod):
            self._put_pod(obj, now)
        elif isinstance(obj, Gang):
            self._put_gang(obj, now)
        elif isinstance(obj, Composite):
            self._regroup(obj, self.state.gangs.forest.put, now)
        elif isinstance(obj, ConfigMap):
            self._config_map_changed(self.state.config_maps.put(obj), now)
        else:
            self.tell(put_object(self.state, obj, now), now)
            self._release_lost(obj, now)
        self._notifier.tell_freed(now)

    def put_first_pods(self, pods: Sequence[Pod], now: float) -> None:
        """As `put` of one pod after the other, pods with a node first; quicker where no pod is known yet."""
        for pod in pods if self.queue.units else place_first_pods(self.state, pods, now):
            self.put(pod, now)

    def remove(self, obj: Any, now: float) -> None:
        """An object is gone from the API; `obj` is its last known form."""
        if isinstance(obj, Pod):
            self.queue.withdraw(obj.uid, now)
            self.tell(self.state.remove_pod(obj.uid), now)
        elif isinstance(obj, Gang):
            self._remove_gang(obj, now)
        elif isinstance(obj, Composite):
            self._regroup(obj, self.state.gangs.forest.remove, now)
        elif isinstance(obj, ConfigMap):
            self._config_map_changed(self.state.config_maps.remove(obj), now)
        else:
            self.tell(remove_object(self.state, obj, now), now)
            self._release_lost(obj, now)
        self._notifier.tell_freed(now)

    def _release_lost(self, obj: Any, now: float) -> None:
        """Let pods look for another node whose nominated node is not to be used any more."""
        if isinstance(obj, Node) and len(self.state.nominations):
            self.queue.reactivate(release_lost(self.state, obj.name), now)

    def _put_pod(self, pod: Pod, now: float) -> None:
        events = self.state.put_pod(pod, now)
        ours = pod.scheduler_name in self.profiles
        if not ours or pod.assigned or pod.finished or pod.terminating:
            self.queue.remove(pod.uid)
        elif pod.uid not in self.state.placed:
            known = self.queue.get(pod.uid)
            if known is None or schedules_differently(known, pod):
                self._enqueue(pod, now)
            else:
                self.queue.refresh(pod)
        if events:
            if pod.assigned and any(event.what is EventKind.POD_ADD for event in events):
                self.kept_nodes.recheck(None, {pod.node_name}, now)
            self.tell(with_borrowing_events(self.state, events), now)

    def _enqueue(self, pod: Pod, now: float) -> None:
        """Add a waiting pod to its group's unit, else to a unit of its own."""
        ref = group_of(pod)
        if ref is None:
            self.queue.put(pod, pod.key, pod.created, now)
            return
        forest = self.state.gangs.forest
        unit = forest.unit_of(ref.key)
        gang = forest.composites.get(unit) or self.state.gangs.gangs.get(ref.key)
        known = self.queue.units.get(unit)
        if ref.native:
            # As in Kubernetes the group takes the place of its first pod, whenever its object was made.
            created = min(pod.created, known.created if known is not None else math.inf)
        else:
            created = gang.created if gang else pod.created
        self.queue.put(pod, unit, created, now, gang=True)
        self.queue.units[unit].gang_priority = gang.priority if gang else None

    def _put_gang(self, gang: Gang, now: float) -> None:
        events = self._regroup(gang, self.state.put_gang, now)
        if unit := self.queue.units.get(gang.key):
            self.queue.rank(unit, unit.created if gang.ref.native else gang.created, gang.priority, now)
        self.tell(events, now)

    def _remove_gang(self, gang: Gang, now: float) -> None:
        self.state.topology.runs.pop(gang.key, None)
        self.state.topology.chosen.pop(gang.key, None)
        self.tell(self._regroup(gang, self.state.remove_gang, now), now)

    def _regroup(self, group: Group, change: Callable[[Any], T], now: float) -> T:
        """Change a group, move waiting pods whose unit is another one then, and try the units again."""
        forest = self.state.gangs.forest
        before = forest.unit_of(group.key)
        made = change(group)
        after = forest.unit_of(group.key)
        if not is_composite_key(before) and before == after:
            return made
        if before != after:
            keys = {group.key, *(leaf.key for leaf in forest.leaves(group.key))}
            pods = [pod for key in sorted(keys) for pod in self.state.gangs.members(key).values()]
            for pod in pods:
                if (known := self.queue.get(pod.uid)) is not None:
                    self._enqueue(known, now)
        if (root := forest.composites.get(after)) and (unit := self.queue.units.get(after)):
            self.queue.rank(unit, unit.created, root.priority, now)
        namespace = group.namespace if isinstance(group, Composite) else group.ref.namespace
        keys = {before, after}
        self.tell(
            (ClusterEvent(EventKind.GROUP, namespace=namespace, group=key) for key in sorted(keys)), now
        )
        return made

    def _config_map_changed(self, changed: Changed, now: float) -> None:
        for gang in changed.gone:
            self._remove_gang(gang, now)
        for gang in changed.come:
            self._put_gang(gang, now)
        self._notifier.tell_config_map(changed, now)

    def tell(self, events: Iterable[ClusterEvent], now: float) -> None:
        """Let cluster events wake the units that they may help."""
        self._notifier.tell(events, now)

    def _gate(self, unit: QueuedUnit) -> str:
        """The PreEnqueue plugin that holds a unit back; a gang is held back only if all its members are."""
        gates = [self._gated_by(pod) for pod in unit.pods.values()]
        return gates[0] if all(gates) else ""

    def _gated_by(self, pod: Pod) -> str:
        for plugin in self.profiles[pod.scheduler_name].pre_enqueue:
            if not plugin.pre_enqueue(self.state, pod).ok:
                return plugin.name
        return ""

    # Decisions
    def step(self, now: float, limit: int | None = None) -> list[Decision]:
        """Try active units in queue order until none is left or `limit` were tried."""
        self.kept_nodes.limits.enforce(now)
        events = [*expire_charges(self.state, now), *depart(self.state, now), *review_holds(self.state, now)]
        self.tell(events, now)
        self.reviews.follow()
        self._notifier.tell_freed(now)
        decisions: list[Decision] = topology_notices(self.state) if self.state.topology.unreported else []
        tried = 0
        while limit is None or tried < limit:
            unit = self.queue.pop(now)
            if unit is None:
                break
            tried += 1
            known = self.refusals.of(unit, now)
            if known is None:
                decisions += self._decide(unit, now)
            else:
                due = known.rejected.due
                self.queue.failed(unit, known.plugins, now, due=due, traits=known.traits)
                self.reviews.tried(unit, now)
                decisions.append(known.rejected)
        return decisions

    def _decide(self, unit: QueuedUnit, now: float) -> list[Decision]:
        """Try a popped unit, and wake the units that the decisions may help."""
        before = {uid for uid in unit.pods if self.state.nominations.node_of(uid)}
        decisions = self.kept_nodes.schedule(unit, now, partial(self.asking.decide, schedule=self._schedule))
        given = assigned_nodes(decisions)
        self.kept_nodes.recheck(unit, given, now)
        self._notifier.tell_decided(decisions, before, now)
        self.queue.reactivate(stale_nominations(self.state, given), now)
        self._notifier.tell_freed(now)
        self.reviews.follow()
        return decisions

    def _schedule(self, unit: QueuedUnit, now: float) -> list[Decision]:
        if not unit.gang:
            decisions, plugins = self._try(next(iter(unit.pods.values())), now)
        else:
            members = [pod for pod in sorted(unit.pods.values(), key=self._rank) if not self._gated_by(pod)]
            gang = self.state.gangs.gangs.get(unit.key)
            decisions, plugins = self._try_gang(unit, gang, members, now)
        if plugins is None:
            self.queue.retry(unit, now)
        elif not plugins and unit.key in self.queue.units:
            self.queue.activate(unit, now)  # The pods that are left are gated.
        elif plugins:
            due = min((item.due for item in decisions if isinstance(item, Rejected)), default=math.inf)
            if unit.gang:
                due = min(due, self.kept_nodes.due(unit, now))
            self.queue.failed(unit, of_a_gang(plugins) if unit.gang else plugins, now, due=due)
            self.reviews.tried(unit, now)
            self.refusals.learn(unit, decisions, plugins)
        return decisions

    def _rank(self, pod: Pod) -> tuple[int, bool, float, str]:
        """The order of members: of equal ones, those first for which others were evicted."""
        item = self.state.nominations.get(pod.uid)
        return -pod.priority, item is None or item.kept, pod.created, pod.name

    def _try(self, pod: Pod, now: float) -> tuple[list[Decision], frozenset[str] | None]:
        """(decisions, plugins that rejected the pod): no plugins if it was placed, None after an error."""
        profile, evicted = self.profiles[pod.scheduler_name], list[Decision]()
        try:
            attempt = self.cycle.attempt(profile, pod, now)
            if attempt.slot < 0:
                found = attempt.post_filter
                decisions, plugins = rejected(self.state, profile, attempt)
                if found is None or not found.nominated or not self._may_start_at_once([pod], found.victims):
                    return decisions, plugins
                evicted = [item for item in decisions if isinstance(item, Evicted)]
                attempt = self.cycle.attempt(profile, pod, now, post_filter=False)
                if attempt.slot < 0:
                    return decisions, plugins
            reserved = self.cycle.reserve(profile, attempt)
        except PluginError as error:
            return [*evicted, Rejected(pod, profile.name, REASON_SCHEDULER_ERROR, str(error))], None
        if isinstance(reserved, Status):
            failed = reserve_failed(self.state, profile, attempt, reserved)
            return [*evicted, failed], frozenset({reserved.plugin})
        return [*evicted, self._placed(profile, reserved)], frozenset()

    def _may_start_at_once(self, pods: Iterable[Pod], victims: Collection[object]) -> bool:
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
        self.queue.remove(pod.uid)
        node = self.state.nodes.names[reserved.slot]
        if self.state.nominations.node_of(pod.uid) not in ("", node):
            self.state.nominations.freed = True
        return Placed(pod, node, profile.name, reserved.bind, reserved.pre_bind, reserved.post_bind)

    def _try_gang(
        self, unit: QueuedUnit, gang: Gang | None, members: list[Pod], now: float, *, again: bool = False
    ) -> tuple[list[Decision], frozenset[str] | None]:
        """(decisions, plugins) of a gang's waiting members.

        Native groups start as many members as they can, and the others are tried again as a group. Other
        gangs start together up to minMembers, then one by one.
        """
        pairs = [(self.profiles[pod.scheduler_name], pod) for pod in members]
        ref = group_of(next(iter(unit.pods.values())))
        native = ref if ref is not None and ref.native else None
        tree = is_composite_key(unit.key)
        whole = tree or (gang is not None and missing(gang, take_census(self.state, unit.key)) > 0)
        self.kept_nodes.before_attempt(unit, members, whole=whole)
        try:
            outcome: GangOutcome | None
            if tree:
                outcome = self.composite_cycle.run(unit.key, pairs, self._held_back(unit), now)
            else:
                outcome = self._not_ready(unit, gang, pairs, native) or self.topology_cycle.run(
                    gang, pairs, now, unit.came
                )
            faulty = outcome is not None and (outcome.error or outcome.faulty)
            for leaf in self.state.gangs.forest.leaves(unit.key):
                self.state.gangs.quota_holds.judge(leaf.key, faulty=faulty)
            if outcome is None:
                schedules = gang is not None and all(schedules_gang(of, gang.ref) for of, _ in pairs)
                if gang is None or not (native or (whole and schedules)):
                    self.kept_nodes.members_tried_singly(unit)
                    decisions, plugins = self._try_each(members, now)
                    return decisions, plugins and plugins | self._gang_plugins(gang, pairs)
                outcome = self.gang_cycle.run(gang, pairs, now)
            if not outcome.reserved and outcome.preemption is None:
                # Planning kept nodes may call plugins.
                self.kept_nodes.after_attempt(unit, pairs, outcome, now)
        except PluginError as error:
            for leaf in self.state.gangs.forest.leaves(unit.key) if native else ():
                record_error(self.state, leaf, str(error))
            return [Rejected(p, of.name, REASON_SCHEDULER_ERROR, str(error)) for of, p in pairs], None
        decisions = [self._placed(*item) for item in outcome.reserved]
        if outcome.preemption is not None:
            decisions += evict_for_gang(self.state, outcome.preemption)
            if not again and self._may_start_at_once(members, outcome.preemption.victims):
                # Other nodes may have been planned for it before.
                self.kept_nodes.forget(unit.key)
                made, plugins = self._try_gang(unit, gang, members, now, again=True)
                return decisions + made, plugins
        if outcome.reserved or outcome.preemption is not None:
            self.kept_nodes.after_attempt(unit, pairs, outcome, now)
        if gang is not None and native:
            record_verdict(self.state, gang, outcome)
        if native and outcome.reserved:
            # The others keep their place, and what they lack is then decided for them as a group.
            unit.attempts = 0
            return decisions, frozenset()
        if outcome.reserved and not outcome.on_topology:
            # Members beyond minMembers are tried one by one; each may preempt like any pod.
            made, plugins = self._try_each([pod for pod in members if pod.uid in outcome.refused], now)
            return decisions + made, plugins and plugins | self._gang_plugins(gang, pairs)
        decisions += members_wait(self.state, gang, pairs, outcome, now)
        if not outcome.refused:
            return decisions, frozenset()
        return decisions, outcome.plugins | self._gang_plugins(gang, pairs)

    def _not_ready(
        self, unit: QueuedUnit, gang: Gang | None, pairs: Members, native: GroupRef | None
    ) -> GangOutcome | None:
        """The outcome of a gang that may not be placed whatever room there is; else None.

        `native` is the reference of a native group.
        """
        if native is not None:
            return native_refusal(self.state, native, gang, pairs, self._held_back(unit))
        text = claimed_by_two(self.state, pairs)
        return refuse_all(pairs, text, error=True) if text else None

    def _held_back(self, unit: QueuedUnit) -> list[Pod]:
        """The pods of a unit that a PreEnqueue plugin holds back."""
        return [pod for pod in unit.pods.values() if self._gated_by(pod)]

    def _gang_plugins(self, gang: Gang | None, members: Iterable[tuple[Profile, Pod]]) -> frozenset[str]:
        """The gang plugins of the members' profiles, whose events always concern a waiting member."""
        found = frozenset({COSCHEDULING, TOPOLOGY}).intersection(*(profile.enabled for profile, _ in members))
        # Changes of nodes and of the tree concern groups with constraints only.
        return found if gang is None or is_constrained(gang) else found - {TOPOLOGY} or found

    def _try_each(self, members: list[Pod], now: float) -> tuple[list[Decision], frozenset[str] | None]:
        decisions: list[Decision] = []
        rejected: frozenset[str] = frozenset()
        failed = False
        for pod in members:
            made, plugins = self._try(pod, now)
            decisions += made
            failed |= plugins is None
            rejected |= plugins or frozenset()
        return decisions, None if failed else rejected

    def bind_failed(self, pod: Pod, now: float) -> None:
        """The API refused a binding: unreserve the pod and requeue it after its backoff."""
        placement = self.state.placed.get(pod.uid)
        if placement is None or not placement.assumed:
            return
        current, slot, profile = placement.pod, placement.slot, self.profiles[pod.scheduler_name]
        cycle = self.cycle.new_cycle(profile, current, now)
        events = self.cycle.unreserve(profile, cycle, slot)
        if self.state.gangs.of(current) is not None:
            # Other members may be bound already: keep the node so that the gang can become complete.
            self.state.nominations.put(current, self.state.nodes.names[slot], cycle.vector)
        self._enqueue(current, now)
        self.queue.undone(current.uid, now)
        self.tell(events, now)

    def evict_failed(self, victim: Pod, preemptor: Pod, now: float) -> None:
        """The API refused an eviction: the victim stays, and units that counted on its room are requeued."""
        self.state.reprieve(victim.uid, now)
        self.queue.undone(preemptor.uid, now)
        borrowing = ClusterEvent(EventKind.LOAN, namespace=victim.namespace)
        # Spread constraints count it again.
        stays = ClusterEvent(EventKind.POD_UPDATE, pod=victim, old_pod=victim)
        self.tell([borrowing, ClusterEvent(EventKind.NOMINATION), stays], now)
