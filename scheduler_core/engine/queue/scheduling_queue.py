"""The scheduling queue: active, backoff, unschedulable and gated units, and units that wait for extenders.

A unit is a single pod, or a gang that is tried together. It is in exactly one part:

- active: ordered by QueueSort; those of a namespace that used up its share of the processor go after others.
- unschedulable: rejected; until the hint of a rejecting plugin accepts an event, a given time comes, or five
  minutes pass. Equivalent units wait as one class (`queue.waiting_classes`), and one is tried for all.
- backoff: requeued before its backoff is over.
- gated: held back by PreEnqueue.
- asked: waits for the answers of HTTP extenders (`engine.extenders`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final

from scheduler_core.arrays.changes import ChangeLog
from scheduler_core.engine.queue.active_queue import ActiveQueue, Entry, FairActiveQueue, UnitsInOrder
from scheduler_core.engine.queue.fair_places import FairPlaces
from scheduler_core.engine.queue.processor_shares import ProcessorShares
from scheduler_core.engine.queue.requeue import ClassRequeuer, Wake, Wakes
from scheduler_core.engine.queue.unit import Part, QueuedUnit, Traits, WaitingClass, alone
from scheduler_core.engine.queue.waiting_demand import WaitingDemand
from scheduler_core.engine.queue.waiting_table import Concern, NodesOfKinds, WaitingTable
from scheduler_core.framework.interface import Unit
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.due_times import DueTimes, earliest
from scheduler_core.state.events import ClusterEvent

FLUSH_AFTER_SECONDS: Final = 300.0
_MIN_RETRY_SECONDS: Final = 0.1
# The parts in which a unit may have an end of its time, and the cause of its leaving then.
_TIMED: Final = {Part.BACKOFF: "BackoffComplete", Part.UNSCHEDULABLE: "TimeCome"}

SortKey = Callable[[Unit], tuple[Any, ...]]
Gate = Callable[[QueuedUnit], str]
TraitsOf = Callable[[QueuedUnit], Traits]


class SchedulingQueue:
    """Units by key. `gate` names the PreEnqueue plugin that holds a unit back (empty: none).

    `wakes` tells whether an event may help an unschedulable unit; `traits` gives a unit's traits, and `table`
    holds them in columns. With `places` the order among namespaces is that of fair sharing, and `sort_key`
    decides within one. `demand` is what all pods in the queue ask for. After `flush_after` seconds a unit is
    tried again though no event concerns it. Times are the caller's `now`.
    """

    def __init__(
        self,
        sort_key: SortKey,
        gate: Gate,
        wakes: Wakes,
        *,
        traits: TraitsOf = alone,
        table: WaitingTable | None = None,
        places: FairPlaces | None = None,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        flush_after: float = FLUSH_AFTER_SECONDS,
    ) -> None:
        self._sort_key = sort_key
        self._gate = gate
        self._wakes = wakes
        self.traits = traits
        self._initial_backoff = initial_backoff
        self._max_backoff = max_backoff
        self._flush_after = flush_after
        self.units: dict[str, QueuedUnit] = {}
        self._places = places
        self._active: UnitsInOrder = (
            ActiveQueue() if places is None else FairActiveQueue(places, self.units.get)
        )
        self.shares = ProcessorShares()
        # Active units that others go before, by namespace.
        self._aside: dict[str, ActiveQueue] = {}
        # When the backoff or the wait of a unit ends, by its key.
        self._ends: DueTimes[str] = DueTimes()
        table = table or WaitingTable(NodesOfKinds(ChangeLog()))
        self.classes = ClassRequeuer(
            table, wakes, sort_key, self.activate, self._wait_on, self._class_of, self.units.get, places
        )
        self._gates = Gates()
        self._entries = 0
        # Units that entered a part, by (part, cause); causes have kube-scheduler's event names.
        self.incoming: Counter[tuple[str, str]] = Counter()
        self._by_pod: dict[str, str] = {}
        self.demand = WaitingDemand()

    # Pods come and go

    def put(self, pod: Pod, key: str, created: float, now: float, *, gang: bool = False) -> None:
        """Add a pod to its unit, or replace it by its newer form; the unit is requeued."""
        known = self._by_pod.get(pod.uid)
        if known is not None and known != key:
            self.remove(pod.uid)
        unit = self.units.get(key)
        if unit is None:
            unit = self.units[key] = QueuedUnit(key, created, gang, came=now)
        unit.created = created
        self._set(unit, pod)
        self._by_pod[pod.uid] = key
        self.classes.release_class(unit)
        self.activate(unit, now, "PodAdd")

    def refresh(self, pod: Pod) -> bool:
        """Replace a queued pod by a newer form that is equal for scheduling; False if the pod is unknown."""
        key = self._by_pod.get(pod.uid)
        if key is None:
            return False
        self._set(self.units[key], pod)
        return True

    def _set(self, unit: QueuedUnit, pod: Pod) -> None:
        before = unit.pods.get(pod.uid)
        if before is not None:
            self.demand.remove(before)
        self.demand.add(pod)
        unit.pods[pod.uid] = pod
        unit.kinds = {}

    def rank(self, unit: QueuedUnit, created: float, priority: int | None, now: float) -> None:
        """Set the age and priority of a gang's unit from its group; it takes its new place at once."""
        if (unit.created, unit.gang_priority) != (created, priority):
            unit.created, unit.gang_priority = created, priority
            if unit.part is Part.ACTIVE:
                self.activate(unit, now)
            elif unit.waits_in is not None:
                self.classes.reorder(unit, self._ready_at(unit), now)

    def get(self, uid: str) -> Pod | None:
        """The queued form of a pod."""
        key = self._by_pod.get(uid)
        return self.units[key].pods[uid] if key is not None else None

    def remove(self, uid: str) -> None:
        """Remove a pod that is bound, deleted or no longer ours. Its unit goes with its last pod."""
        key = self._by_pod.pop(uid, None)
        if key is None:
            return
        unit = self.units[key]
        self.demand.remove(unit.pods.pop(uid))
        unit.kinds = {}
        if not unit.pods:
            self._leave(unit)
            del self.units[key]
            self.classes.release_class(unit)

    def withdraw(self, uid: str, now: float) -> None:
        """Remove a deleted pod, and requeue the rest of its gang so that its message is updated."""
        key = self._by_pod.get(uid, "")
        self.remove(uid)
        unit = self.units.get(key)
        if unit is not None and unit.part is Part.UNSCHEDULABLE:
            self.activate(unit, now, "PodDelete")

    def refused_by(self, uid: str) -> frozenset[str]:
        """The names under which the unit of a pod waits; empty if it was not refused, or waits no longer."""
        unit = self.units.get(self._by_pod.get(uid, ""))
        return unit.plugins if unit is not None else frozenset()

    def reactivate(self, pods: Iterable[Pod], now: float) -> None:
        """Requeue the units of pods that are unschedulable."""
        for pod in pods:
            unit = self.units.get(self._by_pod.get(pod.uid, ""))
            if unit is not None and unit.part is Part.UNSCHEDULABLE:
                self.activate(unit, now)

    # Moving between the parts

    def _leave(self, unit: QueuedUnit) -> None:
        self._gates.remove(unit)
        self.classes.leave(unit)
        if unit.part in _TIMED:
            self._ends.drop(unit.key)
        unit.entry = -1

    def _enter(self, unit: QueuedUnit, part: Part, now: float, cause: str) -> int:
        self._leave(unit)
        self._entries += 1
        self.incoming[part, cause] += 1
        unit.part, unit.entry, unit.entered = part, self._entries, now
        return self._entries

    def _ready_at(self, unit: QueuedUnit) -> float:
        """The end of the unit's backoff."""
        return unit.failed_at + self.backoff(unit.attempts)

    def _class_of(self, uid: str) -> WaitingClass | None:
        """The class in which a pod waits, or that it represents."""
        unit = self.units.get(self._by_pod.get(uid, ""))
        return unit.waits_in or unit.stands_for if unit is not None else None

    def _is_worth_trying(self, unit: QueuedUnit, now: float) -> bool:
        """Whether an event may still help a popped representative; if not it is put back."""
        if self.classes.is_worth_trying(unit):
            return True
        self._wait_on(unit, now)
        return False

    def _wait_on(self, unit: QueuedUnit, now: float) -> None:
        """Put a representative back into its class, as if it had never left."""
        entered = unit.entered
        self._leave(unit)
        self._entries += 1
        unit.part, unit.entry, unit.entered = Part.UNSCHEDULABLE, self._entries, entered
        if unit.due < math.inf:
            self._ends.put(unit.key, unit.due)
        self.classes.wait_on(unit, self._ready_at(unit), now)

    def activate(self, unit: QueuedUnit, now: float, cause: str = "ForceActivate") -> None:
        """Move a unit to the active part, or to backoff until that is over, unless a gate holds it back."""
        gate = self._gate(unit)
        if gate:
            unit.plugins = frozenset({gate})
            self._enter(unit, Part.GATED, now, cause)
            self._gates.add(unit, gate)
            self.classes.release_class(unit)
            return
        ready = self._ready_at(unit) if unit.attempts else now
        if ready > now:
            if unit.part is Part.BACKOFF and unit.entry >= 0:
                return
            self._enter(unit, Part.BACKOFF, now, cause)
            self._ends.put(unit.key, ready)
            return
        entry = self._enter(unit, Part.ACTIVE, now, cause)
        self._active.push((self._sort_key(unit), entry, unit.key))

    def backoff(self, attempts: int) -> float:
        """Seconds of backoff after that many failed attempts: doubling up to the maximum."""
        if attempts <= 0 or self._initial_backoff <= 0:
            return 0.0
        return min(self._max_backoff, self._initial_backoff * 2.0 ** min(attempts - 1, 30))

    def pop(self, now: float) -> QueuedUnit | None:
        """The next unit to try, still in `units` until its pods are removed; None if none is active."""
        self.flush(now)
        if self._places is not None:
            self._places.advance(now)
        in_order = not (self._aside or self.shares.used_up)
        while (found := self._active.pop() if in_order else self._next(now)) is not None:
            _, entry, key = found
            unit = self.units.get(key)
            if unit is not None and unit.entry == entry and self._is_worth_trying(unit, now):
                unit.attempts += 1
                unit.entry = -1
                return unit
            # Other classes may follow the representative that was put back.
            self.classes.continue_attempts(now)
        return None

    def _next(self, now: float) -> Entry | None:
        """Remove and return the next entry; those of units that others go before come last."""
        for namespace in [name for name in self._aside if not self.shares.over(name, now)]:
            lane = self._aside.pop(namespace)
            while (found := lane.pop()) is not None:
                self._push(found)
        while (found := self._active.pop()) is not None:
            unit = self.units.get(found[2])
            if unit is None or unit.entry != found[1] or not self.shares.over(unit.namespace, now):
                return found
            self._aside.setdefault(unit.namespace, ActiveQueue()).push(found)
        if not self._aside or self.shares.held_back:
            return None
        namespace = min(self._aside, key=lambda name: self.shares.spent(name, now))
        found = self._aside[namespace].pop()
        if not len(self._aside[namespace]):
            del self._aside[namespace]
        return found

    def _push(self, entry: Entry) -> None:
        """Add the entry of a unit that is active, unless it has left."""
        unit = self.units.get(entry[2])
        if unit is not None and unit.entry == entry[1]:
            self._active.push(entry)

    def take(self, unit: QueuedUnit) -> None:
        """Take a waiting unit out of its part to be tried, without counting an attempt."""
        self._leave(unit)
        unit.part = Part.ACTIVE

    def park(self, unit: QueuedUnit, now: float) -> None:
        """Hold a popped unit until it is activated, whatever events come; its class continues."""
        self._enter(unit, Part.ASKED, now, "Asked")
        self.classes.release_class(unit)

    def failed(
        self,
        unit: QueuedUnit,
        plugins: Iterable[str],
        now: float,
        *,
        due: float = math.inf,
        traits: Traits | None = None,
    ) -> None:
        """Make a tried unit unschedulable until an event that `plugins` accept, or until `due`.

        `traits` are the unit's, if known.
        """
        if unit.key not in self.units:
            return
        unit.plugins, unit.failed_at = frozenset(plugins), now
        unit.failures += 1
        unit.since = now if unit.since is None else unit.since
        self._enter(unit, Part.UNSCHEDULABLE, now, "ScheduleAttemptFailure")
        self.classes.add(unit, traits or self.traits(unit), self._ready_at(unit), now)
        self.classes.release_class(unit)
        unit.due = due if due < now + self._flush_after else math.inf
        if unit.due < math.inf:
            self._ends.put(unit.key, due)

    def retry(self, unit: QueuedUnit, now: float) -> None:
        """Requeue a unit that failed with an error after its backoff, without waiting for an event."""
        if unit.key not in self.units:
            return
        unit.failed_at = now
        # Never at once, whatever the backoff: a broken plugin would keep the scheduler busy.
        self._enter(unit, Part.BACKOFF, now, "ScheduleAttemptFailure")
        self._ends.put(unit.key, now + max(self.backoff(unit.attempts), _MIN_RETRY_SECONDS))
        self.classes.release_class(unit)

    def undone(self, uid: str, now: float) -> None:
        """A write for a pod failed: requeue its unit after a backoff, as after an attempt."""
        unit = self.units.get(self._by_pod.get(uid, ""))
        if unit is not None:
            unit.attempts = max(1, unit.attempts)
            self.retry(unit, now)

    def on_event(self, event: ClusterEvent, now: float, concerns: Collection[Concern] | None = None) -> int:
        """Requeue the unschedulable and gated units that the event may help; returns their number.

        `concerns`: the plugins that listen, and the units that the event can concern; all units unless given.
        """
        cause = event.cause
        gates = self._gates if concerns is None else {concern.plugin for concern in concerns}
        opened = [
            unit for unit in self._gates.of(gates) if self._wakes(unit, event, unit.plugins) is not Wake.NO
        ]
        return self.classes.tell(event, concerns, now, cause, opened)

    def is_refused_by(self, plugin: str) -> bool:
        """Whether any waiting unit was rejected by a plugin."""
        return plugin in self.classes.waiting.plugins or plugin in self._gates

    def flush(self, now: float) -> None:
        """Requeue units whose backoff or wait is over, and units that no event has woken for five minutes."""
        self.classes.continue_attempts(now)
        if ended := self._ends.take(now):
            # Backoffs first; each unit is where it was, unless another one has just sent it on.
            units = sorted((self.units[key] for key in ended), key=lambda unit: unit.part is not Part.BACKOFF)
            for unit in units:
                if cause := _TIMED.get(unit.part):
                    self.activate(unit, now, cause)
        while self.classes.open_oldest(now, self._flush_after):
            pass

    def order(self, unit: QueuedUnit) -> tuple[Any, ...]:
        """The place of a unit among all units as things are now; the lower one is tried first."""
        return (self._places.of(unit) if self._places is not None else (), self._sort_key(unit))

    @property
    def has_waiting_units(self) -> bool:
        """Whether any unit is unschedulable or gated."""
        return bool(self.classes.waiting) or bool(self._gates)

    def has_active(self) -> bool:
        """Whether a unit is active (stale entries count until they are popped)."""
        return len(self._active) > 0 or bool(self._aside) or bool(self.classes)

    def next_time(self) -> float | None:
        """When `flush` has work next, or None."""
        oldest = self.classes.waiting.oldest
        flush = oldest.tried_at + self._flush_after if oldest is not None else None
        return earliest(self._ends.next_time(), flush)

    def count(self, part: Part) -> int:
        """The number of units in a part."""
        return sum(1 for unit in self.units.values() if unit.part is part and unit.entry >= 0)


class Gates:
    """Gated units, by the PreEnqueue plugin that holds each back."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, QueuedUnit]] = {}
        self._by_unit: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def __contains__(self, plugin: object) -> bool:
        """Whether a plugin holds any unit back."""
        return plugin in self._held

    def __iter__(self) -> Iterator[str]:
        """The plugins that hold units back."""
        return iter(self._held)

    def add(self, unit: QueuedUnit, plugin: str) -> None:
        """Add a unit that a plugin holds back."""
        self._by_unit[unit.key] = plugin
        self._held.setdefault(plugin, {})[unit.key] = unit

    def remove(self, unit: QueuedUnit) -> None:
        """Remove a unit. Idempotent."""
        plugin = self._by_unit.pop(unit.key, None)
        if plugin is not None:
            held = self._held[plugin]
            del held[unit.key]
            if not held:
                del self._held[plugin]

    def of(self, plugins: Iterable[str]) -> list[QueuedUnit]:
        """The units that some plugins hold back."""
        return [unit for plugin in plugins for unit in self._held.get(plugin, {}).values()]
