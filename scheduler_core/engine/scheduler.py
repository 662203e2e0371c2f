"""The scheduler: takes objects in and gives decisions out.

Deterministic: equal objects and an equal `now` give equal decisions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from scheduler_core.engine.decisions import Decision, Rejected
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
from scheduler_core.engine.gang.kept_nodes import NodeKeeper
from scheduler_core.engine.gang.topology_cycle import no_clock
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.engine.profile_settings import apply_profiles
from scheduler_core.engine.queue.equivalence import traits_of
from scheduler_core.engine.queue.fair_places import FairPlaces
from scheduler_core.engine.queue.gates import PreEnqueueGates
from scheduler_core.engine.queue.known_refusals import KnownRefusals
from scheduler_core.engine.queue.reviews import WaitingReviews
from scheduler_core.engine.queue.scheduling_queue import FLUSH_AFTER_SECONDS, SchedulingQueue
from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.engine.queue.waiting_table import NodesOfKinds, WaitingTable
from scheduler_core.engine.scheduling_failure import (
    topology_notices,
)
from scheduler_core.engine.scores.signature import schedules_differently
from scheduler_core.engine.unit_cycle import UnitCycle
from scheduler_core.framework.nominations.stale_nominations import release_lost, stale_nominations
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.queueing.quota_obstacles import of_a_gang
from scheduler_core.model.config_map import ConfigMap
from scheduler_core.model.groups.composite import Composite, is_composite_key
from scheduler_core.model.groups.gang import Gang, group_of
from scheduler_core.model.node import Node
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.config_maps import Changed
from scheduler_core.state.departing import depart
from scheduler_core.state.events import ClusterEvent, EventKind
from scheduler_core.state.first_pods import place_first_pods
from scheduler_core.state.gangs.forest import Group
from scheduler_core.state.gangs.held_quota import review_holds

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
        apply_profiles(state, profiles)
        gates = PreEnqueueGates(state, profiles)
        listeners = QueueingHints(profiles.values())
        traits = partial(traits_of, state, profiles)
        self.queue = SchedulingQueue(
            next(iter(profiles.values())).queue_sort.sort_key,
            gates.of_unit,
            partial(listeners.wake, state),
            traits=traits,
            table=WaitingTable(NodesOfKinds(state.nodes.static_changes)),
            places=FairPlaces(state) if state.ledger.borrowing.fair_order else None,
            initial_backoff=initial_backoff,
            max_backoff=max_backoff,
            flush_after=flush_after,
        )
        self.kept_nodes = NodeKeeper(self.cycle, self.queue, profiles)
        self.unit_cycle = UnitCycle(self.cycle, self.queue, self.kept_nodes, profiles, gates, clock)
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
        tried = self.unit_cycle.run(unit, now)
        decisions, plugins = tried.decisions, tried.plugins
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

    def evict_failed(self, victim: Pod, preemptor: Pod, now: float, *, refused: bool = False) -> None:
        """An eviction failed: the victim stays, and units that counted on its room are requeued.

        `refused`: the API server will refuse it again, so others go in its place.
        """
        self.state.reprieve(victim.uid, now, refused=refused)
        self.queue.undone(preemptor.uid, now)
        borrowing = ClusterEvent(EventKind.LOAN, namespace=victim.namespace)
        # Spread constraints count it again.
        stays = ClusterEvent(EventKind.POD_UPDATE, pod=victim, old_pod=victim)
        self.tell([borrowing, ClusterEvent(EventKind.NOMINATION), stays], now)
