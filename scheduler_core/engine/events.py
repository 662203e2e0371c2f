"""Turns cluster events and the engine's own decisions into wake-ups of waiting units.

- `put_object`, `remove_object`, `expire_charges`: an object changes the state; cluster events come out.
- `with_borrowing_events`, `placed_events`, `eviction_events`, `overtaken_events`: cluster events that follow
  from decisions.
- `QueueingHints`: the plugins that listen to an event, and whether it may help a unit that they rejected.
- `EventNotifier`: hands events to the queue.

NodeMetrics change many times a second. Most waiting pods were rejected by plugins that do not listen to them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
from msgspec import structs

from scheduler_core.arrays.types import Int64
from scheduler_core.engine.decisions import Decision, Evicted, Placed, Rejected
from scheduler_core.engine.gang.chances import has_no_chance
from scheduler_core.engine.queue.requeue import Wake
from scheduler_core.engine.queue.reviews import WaitingReviews
from scheduler_core.engine.queue.scheduling_queue import SchedulingQueue
from scheduler_core.engine.queue.unit import QueuedUnit, WaitingClass
from scheduler_core.engine.queue.waiting_table import Concern
from scheduler_core.framework.nominations.nominated_sums import own_nominated, stays_within_min
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.queueing.group_hints import group_hints
from scheduler_core.framework.queueing.hints import EVERYBODY, NOBODY, Hint, NarrowHint, StandingHint
from scheduler_core.framework.queueing.min_crossing import told_together
from scheduler_core.framework.queueing.obstacles import importance_of, preemption_hints
from scheduler_core.framework.queueing.quota_obstacles import quota_hints
from scheduler_core.model.namespace import Namespace
from scheduler_core.model.node import Node
from scheduler_core.model.node_metric import NodeMetric
from scheduler_core.model.pdb import PodDisruptionBudget
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.quota_flavor import QuotaFlavor
from scheduler_core.model.quotas.quota_group import QuotaGroup
from scheduler_core.model.quotas.reservation_ledger import ELASTIC_NAME, ReservationLedger
from scheduler_core.model.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler_core.model.storage_pools import CSIDriver, CSIStorageCapacity
from scheduler_core.quota.ledger import charged
from scheduler_core.quota.policy import borrowed
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.config_maps import Changed
from scheduler_core.state.events import ClusterEvent, EventKind
from scheduler_core.state.neighbours.affinity_index import carries_terms


class QueueingHints:
    """The queueing hints of all profiles, by plugin and event (kube-scheduler's QueueingHintMap)."""

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self._hints: dict[str, dict[str, Mapping[EventKind, Hint | None]]] = {
            profile.name: group_hints()
            | {plugin.name: plugin.hints() for plugin in profile.events}
            | preemption_hints()
            | quota_hints()
            for profile in profiles
        }
        self._heard: dict[EventKind, list[tuple[str, Hint | None]]] = {}
        self._by_profile: dict[tuple[str, EventKind], list[tuple[str, Hint | None]]] = {}
        # The last class that an event may help, and on which state.
        self._helped: tuple[WaitingClass, ClusterEvent] | None = None
        self._then = (0, 0, 0)

    def wake(
        self,
        state: ClusterState,
        unit: QueuedUnit,
        event: ClusterEvent,
        plugins: frozenset[str] | None = None,
    ) -> Wake:
        """Whether an event may help any pod of a waiting unit (kube-scheduler's isPodWorthRequeuing), by the
        hints of some of the plugins that rejected it; None: of all.

        The same class is asked again when its unit is popped, mostly on the same state; that answer is
        cached.
        """
        found = unit.stands_for or unit.waits_in
        now = (state.nodes.usage_changes.position, state.ledger.version, state.nominations.version)
        helped = self._helped
        if helped is not None and helped[0] is found and helped[1] is event and self._then == now:
            return Wake.WHILE_SO
        answer = self._wake(state, unit, event, unit.plugins if plugins is None else plugins)
        if answer is Wake.WHILE_SO and found is not None:
            self._helped, self._then = (found, event), now
        return answer

    def _wake(
        self, state: ClusterState, unit: QueuedUnit, event: ClusterEvent, plugins: frozenset[str]
    ) -> Wake:
        asked = unit.distinct()
        if unit.gang and len(state.nominations):
            asked = [*asked, *_waiting_for_nodes(state, unit, event)]
        found = Wake.NO
        for pod in asked:
            found = self._accept(state, plugins, pod, event, found)
            if found is Wake.YES:
                break
        if found is not Wake.NO and unit.gang and has_no_chance(state, unit):
            return Wake.NO
        return found

    def _accept(
        self, state: ClusterState, plugins: frozenset[str], pod: Pod, event: ClusterEvent, found: Wake
    ) -> Wake:
        """Whether an event may help a unit by one more of its pods; `found` says so of the pods before."""
        for name, hint in self._asked(pod.scheduler_name, event.what):
            standing = isinstance(hint, StandingHint)
            if name not in plugins or (standing and found is Wake.WHILE_SO):
                continue
            if hint is None or _accepts(hint, state, pod, event):
                if not standing:
                    return Wake.YES
                found = Wake.WHILE_SO
        return found

    def _asked(self, profile: str, what: EventKind) -> list[tuple[str, Hint | None]]:
        """(plugin, hint) for the plugins of a profile that listen to one of these kinds of events."""
        found = self._by_profile.get((profile, what))
        if found is None:
            found = self._by_profile[profile, what] = [
                (name, hint)
                for name, kinds in self._hints[profile].items()
                for kind, hint in kinds.items()
                if what & kind
            ]
            # The answer of one that stands is of no interest once another one accepts the event.
            found.sort(key=lambda item: isinstance(item[1], StandingHint))
        return found

    def concerns(
        self, state: ClusterState, event: ClusterEvent, has_refused: Callable[[str], bool]
    ) -> list[Concern]:
        """The plugins that listen to an event, each with the units that the event can concern at most.

        `has_refused` tells whether any waiting unit was rejected by a plugin.
        """
        found: dict[tuple[object, ...], Concern] = {}
        for name, hint in self._listening(event.what):
            concern = _concern(state, event, name, hint) if has_refused(name) else None
            if concern is not None:
                by = id(hint) if concern.room is not None else concern.reach
                found.setdefault((name, by), concern)
        return list(found.values())

    def _listening(self, what: EventKind) -> list[tuple[str, Hint | None]]:
        """(plugin, hint) for the plugins of all profiles that listen to one of these kinds of events."""
        found = self._heard.get(what)
        if found is None:
            found = self._heard[what] = [
                item for profile in self._hints for item in self._asked(profile, what)
            ]
        return found


def _concern(state: ClusterState, event: ClusterEvent, name: str, hint: Hint | None) -> Concern | None:
    """The units rejected by a plugin that an event can concern; None where there are none."""
    if not isinstance(hint, NarrowHint | StandingHint):
        return Concern(name, EVERYBODY)
    try:
        return _narrow(state, event, name, hint)
    except MemoryError:
        raise
    except Exception:
        # A broken hint costs needless attempts, not the process.
        return Concern(name, EVERYBODY)


def _narrow(
    state: ClusterState, event: ClusterEvent, name: str, hint: NarrowHint | StandingHint
) -> Concern | None:
    reach, room = hint.reach(state, event), None
    if isinstance(hint, StandingHint) and hint.room is not None and hint.room(state, event) is not None:
        room = partial(hint.room, state, event)
    if reach == NOBODY and room is None:
        return None
    return Concern(name, reach, room, tuple(state.nominations.uids) if reach.nominated else ())


def _accepts(hint: Hint, state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """The answer of a hint. A broken hint counts as yes: it costs a needless attempt, not the process."""
    try:
        return hint(state, pod, event)
    except MemoryError:
        raise
    except Exception:
        return True


def _waiting_for_nodes(state: ClusterState, unit: QueuedUnit, event: ClusterEvent) -> list[Pod]:
    """Members nominated with victims, and members whose nominated node the event is about.

    One with victims waits for pods to be gone: that one begins to leave tells it nothing of its own.
    """
    node = event.node or event.old_node
    name = node.name if node is not None else ""
    leaves = state.placed.get(event.pod.uid) if event.pod is not None else None
    if event.what.meets(EventKind.POD_LEAVING) and leaves is not None:
        name = state.nodes.names[leaves.slot]
    told = event.what is not EventKind.POD_LEAVING
    found = []
    for uid, pod in unit.pods.items():
        item = state.nominations.get(uid)
        if item is not None and (item.node == name if item.kept else told):
            found.append(pod)
    return found


# Kinds that plugins only look up, and the event of a change.
_LOOKED_UP: Final[Mapping[type, EventKind]] = {
    PodDisruptionBudget: EventKind.OTHER,
    PersistentVolume: EventKind.VOLUME,
    PersistentVolumeClaim: EventKind.VOLUME,
    StorageClass: EventKind.VOLUME,
    CSINode: EventKind.VOLUME,
    CSIDriver: EventKind.VOLUME,
    CSIStorageCapacity: EventKind.VOLUME,
    NodeMetric: EventKind.NODE_METRIC,
}


def put_object(state: ClusterState, obj: Any, now: float) -> list[ClusterEvent]:
    """Add or replace an object that is neither a pod nor a group; gives the cluster events."""
    match obj:
        case Node():
            return state.put_node(obj)
        case ElasticQuota():
            return state.put_quota(obj)
        case QuotaGroup():
            return state.put_quota_group(obj)
        case QuotaFlavor():
            return state.put_flavor(obj)
        case Namespace():
            return state.put_namespace(obj)
        case ReservationLedger() if obj.name == ELASTIC_NAME:
            return _quota_changed(obj.namespace, changed=state.unplaced.put_charges(obj, now))
        case ReservationLedger():
            state.gangs.put_ledger(obj)
            return []
        case _:
            if isinstance(obj, PodDisruptionBudget):
                state.gangs.budgets.put(obj)
            return state.put_object(obj, _LOOKED_UP[type(obj)])


def remove_object(state: ClusterState, obj: Any, now: float) -> list[ClusterEvent]:
    """Remove an object that is neither a pod nor a group; `obj` is its last known form."""
    match obj:
        case Node():
            return state.remove_node(obj.name)
        case ElasticQuota():
            return state.remove_quota(obj)
        case QuotaGroup():
            return state.remove_quota_group(obj)
        case QuotaFlavor():
            return state.remove_flavor(obj)
        case Namespace():
            return state.remove_namespace(obj.name)
        case ReservationLedger() if obj.name == ELASTIC_NAME:
            return _quota_changed(obj.namespace, changed=state.unplaced.remove_charges(obj.namespace, now))
        case ReservationLedger():
            state.gangs.remove_ledger(obj.namespace)
            return []
        case CSIDriver():
            # Nodes need not have it any more, nor room for its volumes.
            return [structs.replace(event, obj=obj) for event in state.remove_object(obj, EventKind.VOLUME)]
        case _:
            if isinstance(obj, PodDisruptionBudget):
                state.gangs.budgets.remove(obj)
            return state.remove_object(obj, _LOOKED_UP[type(obj)])


def expire_charges(state: ClusterState, now: float) -> list[ClusterEvent]:
    """Drop charges of unconfirmed pods that have expired; gives a quota event per namespace."""
    return [event for name in state.unplaced.lapse(now) for event in _quota_changed(name, changed=True)]


def _quota_changed(namespace: str, *, changed: bool) -> list[ClusterEvent]:
    """The use of a namespace may have changed although no pod took or lost a node."""
    return [ClusterEvent(EventKind.QUOTA, namespace=namespace)] if changed else []


def with_borrowing_events(state: ClusterState, events: list[ClusterEvent]) -> list[ClusterEvent]:
    """The events, and one per quota that borrows more because of the pods that were added with a node.

    A pod that waits within the min of its own quota may then reclaim more pods of that quota.
    """
    came: dict[str, set[str]] = {}
    for event in events:
        if event.what is EventKind.POD_ADD and event.pod is not None:
            came.setdefault(event.pod.namespace, set()).update(charged(state.charge_of(event.pod)))
    borrowing = []
    for namespace, names in came.items():
        quota = state.ledger.quota_of(namespace)
        # The use of terminating pods does not count as borrowed. In a tree, a group may borrow more instead.
        if state.ledger.groups_above(namespace) or (
            quota is not None and not names.isdisjoint(borrowed(state.ledger, quota, after_leaving=True))
        ):
            borrowing.append(ClusterEvent(EventKind.LOAN, namespace=namespace))
    return [*events, *borrowing]


def placed_events(decisions: Iterable[Decision]) -> list[ClusterEvent]:
    """One event per pod that was assigned a node."""
    return [ClusterEvent(EventKind.POD_ADD, pod=item.pod) for item in decisions if isinstance(item, Placed)]


def assigned_nodes(decisions: Iterable[Decision]) -> set[str]:
    """The nodes that pods were assigned."""
    return {item.node for item in decisions if isinstance(item, Placed)}


def eviction_events(
    state: ClusterState, decisions: Iterable[Decision], before: Collection[str] = ()
) -> list[ClusterEvent]:
    """One event per pod evicted by these decisions, if units other than the preemptors may profit.

    Evictions that free more than the preemptors take matter to others: the rest may be enough beside fewer
    victims. Where the preemptors take everything that their victims free, nobody else is told, except the
    quotas of the victims where a smaller share gives them more right. Pods in `before` (uids) were nominated
    earlier, so their share is counted already.
    """
    made = list(decisions)
    victims = [item.pod for item in made if isinstance(item, Evicted)]
    if not victims:
        return []
    if _beside_resources(victims) or _below_min(state, victims) or _room(state, made, before):
        return [ClusterEvent(EventKind.POD_LEAVING, pod=victim) for victim in victims]
    if not state.ledger.borrowing.fair_moves:
        return []
    names = dict.fromkeys(victim.namespace for victim in victims)
    return [ClusterEvent(EventKind.SHARE, namespace=name) for name in names]


def claiming_events(
    state: ClusterState, decisions: Iterable[Decision], before: Collection[str] = ()
) -> list[ClusterEvent]:
    """One event per quota of which a pod was nominated that was not `before` (uids); for fair moves alone.

    What it will use counts in the share of its quota, so others may take more from that quota.
    """
    if not state.ledger.borrowing.fair_moves:
        return []
    pods = (item.pod for item in decisions if isinstance(item, Rejected) and item.nominated)
    names = dict.fromkeys(pod.namespace for pod in pods if pod.uid not in before)
    return [
        ClusterEvent(EventKind.LOAN, namespace=name)
        for name in names
        if state.ledger.quota_of(name) is not None
    ]


def overtaken_events(state: ClusterState, decisions: Iterable[Decision]) -> list[ClusterEvent]:
    """One event per quota of which a pod evicts others, or starts beside nominated pods; one without a quota.

    It may do so by a right that more important pods of its quota lack: it stays within the min, or its quota
    borrows less with it than with them. These go before it on the freed room, or may evict it once it runs.
    A pod without a quota evicts pods without one, which pods of quotas may not. Those that stay within their
    min and are as important go before it. So do all that stay within their min before a pod that evicts
    others of its quota and would borrow. The event has the least important of these pods.
    """
    least: dict[str, Pod] = {}
    borrowers: dict[str, Pod] = {}
    for item in decisions:
        if isinstance(item, Evicted):
            pod = item.preemptor
        elif isinstance(item, Placed) and len(state.nominations):
            pod = item.pod
        else:
            continue
        governed = state.ledger.quota_of(pod.namespace) is not None
        if not (governed or isinstance(item, Evicted)):
            continue
        own = own_nominated(state, pod) if governed and isinstance(item, Evicted) else None
        if own is not None and not stays_within_min(state, pod, own):
            borrowers[pod.namespace] = pod
        name = pod.namespace if governed else ""
        known = least.get(name)
        if known is None or importance_of(state, pod) < importance_of(state, known):
            least[name] = pod
    told = [*least.items(), *(("", pod) for pod in borrowers.values())]
    return [ClusterEvent(EventKind.OVERTAKEN, namespace=name, pod=pod) for name, pod in told]


def _beside_resources(victims: Iterable[Pod]) -> bool:
    """Whether victims hold something besides resources: host ports or affinity terms."""
    return any(pod.host_ports or carries_terms(pod) for pod in victims)


def _below_min(state: ClusterState, victims: Iterable[Pod]) -> bool:
    """Whether a quota falls below its min without the victims, so that its pods may reclaim."""
    ledger = state.ledger
    for namespace in {pod.namespace for pod in victims}:
        quota = ledger.quota_of(namespace)
        if quota is None:
            continue
        used, leaving = ledger.used(namespace), ledger.leaving(namespace)
        if any(used.get(name, 0) - leaving.get(name, 0) < low for name, low in quota.min.items()):
            return True
    return False


def _room(state: ClusterState, decisions: Iterable[Decision], before: Collection[str]) -> bool:
    """Whether some node loses more to victims than was nominated there by these decisions."""
    left: dict[int, Int64] = {}
    for item in decisions:
        if isinstance(item, Evicted):
            placement = state.placed.get(item.pod.uid)
            if placement is not None:
                _add(left, placement.slot, placement.vector, 1)
        elif isinstance(item, Rejected) and item.nominated and item.pod.uid not in before:
            slot = state.nodes.slot(item.nominated)
            nomination = state.nominations.get(item.pod.uid)
            if slot is not None and nomination is not None:
                _add(left, slot, nomination.vector, -1)
    return any((vector > 0).any() for vector in left.values())


def _add(left: dict[int, Int64], slot: int, vector: Int64, sign: int) -> None:
    """Add or subtract requests (int64 [R]) of a node; newer pods may have more resources than older ones."""
    known = left.get(slot, vector[:0])
    total: Int64 = np.zeros(max(len(known), len(vector)), dtype=np.int64)
    total[: len(known)] = known
    total[: len(vector)] += sign * vector
    left[slot] = total


class EventNotifier:
    """Hands cluster events and the events of decisions to the queue, which wakes the units they may help."""

    def __init__(
        self, state: ClusterState, queue: SchedulingQueue, listeners: QueueingHints, reviews: WaitingReviews
    ) -> None:
        self._state = state
        self._queue = queue
        self._listeners = listeners
        self._reviews = reviews

    def tell(self, events: Iterable[ClusterEvent], now: float) -> None:
        """Let cluster events wake the units that they may help."""
        for event in told_together(self._state, events) if self._queue.has_waiting_units else ():
            self._reviews.changed()
            concerns = self._listeners.concerns(self._state, event, self._queue.is_refused_by)
            if concerns:
                self._queue.on_event(event, now, concerns)

    def tell_config_map(self, changed: Changed, now: float) -> None:
        """A ConfigMap changed: a new topology tree may help many; an unlabelled group changes its message."""
        if changed.topology:
            self.tell([ClusterEvent(EventKind.TOPOLOGY)], now)
        if changed.bare in self._queue.units:
            self._reviews.changed()

    def tell_freed(self, now: float) -> None:
        """Wake units that may use room freed by a nomination that was removed."""
        if self._state.nominations.freed:
            self._state.nominations.freed = False
            self.tell([ClusterEvent(EventKind.NOMINATION)], now)

    def tell_decided(self, decisions: Iterable[Decision], before: set[str], now: float) -> None:
        """Wake units that placements (affinity, borrowed quota) and evictions may help.

        `before`: uids of pods that were nominated before these decisions.
        """
        placed = placed_events(decisions)
        if placed:
            self.tell(with_borrowing_events(self._state, placed), now)
        if self._queue.has_waiting_units:
            self.tell(eviction_events(self._state, decisions, before), now)
            self.tell(claiming_events(self._state, decisions, before), now)
            self.tell(filter(self._is_heard, overtaken_events(self._state, decisions)), now)

    def _is_heard(self, event: ClusterEvent) -> bool:
        """Whether units wait that are more important than the event's pod; without a quota, as important; for
        one that borrows, any.
        """
        if event.pod is None:
            return False
        waiting, than = self._queue.classes.waiting.table, importance_of(self._state, event.pod)
        if not event.namespace:
            # Whom a guarantee puts before one that borrows is no matter of priorities.
            borrows = self._state.ledger.quota_of(event.pod.namespace) is not None
            return borrows or (any(self._state.ledger.quotas()) and waiting.outranks(None, than - 1))
        return waiting.outranks(self._state.table.namespaces.find(event.namespace), than)
