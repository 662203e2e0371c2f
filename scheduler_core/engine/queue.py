"""The scheduling queue: active, backoff, unschedulable, gated and asked-about units.

A unit is what is tried together: a pod alone, or a gang. It is in exactly one part. Active units wait for
their turn in the order of QueueSort. A unit that failed is unschedulable until an event comes that one of
those who rejected it accepts by hint, until a time that it was given, or until five minutes pass; if its
backoff is not over it waits in the backoff part first. Units that cannot be told apart wait as one class
(engine.waiting), of which one is tried for all. Gated units are kept out by PreEnqueue, asked ones wait
for an answer (engine.asking).
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from scheduler_core.arrays.changes import ChangeLog
from scheduler_core.engine.active import ActiveQueue
from scheduler_core.engine.class_turns import ClassTurns, Wake, Wakes
from scheduler_core.engine.gates import Gates
from scheduler_core.engine.news import Concern
from scheduler_core.engine.unit import Part, QueuedUnit
from scheduler_core.engine.waiting import Traits, WaitingClass, alone
from scheduler_core.engine.waiting_table import NodesOfKinds, WaitingTable
from scheduler_core.framework.interface import Unit
from scheduler_core.model.pod import Pod
from scheduler_core.state.events import ClusterEvent

FLUSH_AFTER_SECONDS: Final = 300.0
_MIN_RETRY_SECONDS: Final = 0.1

SortKey = Callable[[Unit], tuple[Any, ...]]
Gate = Callable[[QueuedUnit], str]
TraitsOf = Callable[[QueuedUnit], Traits]


class SchedulingQueue:
    """Units by key. `gate` names the PreEnqueue plugin that refuses a unit (empty: none).

    `wakes` says whether an event may help an unschedulable unit, `traits` what it has in common with others;
    `table` holds that in columns. Times are the caller's `now`.
    """

    def __init__(
        self,
        sort_key: SortKey,
        gate: Gate,
        wakes: Wakes,
        *,
        traits: TraitsOf = alone,
        table: WaitingTable | None = None,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
    ) -> None:
        self._sort_key = sort_key
        self._gate = gate
        self._wakes = wakes
        self._traits = traits
        self._initial_backoff = initial_backoff
        self._max_backoff = max_backoff
        self.units: dict[str, QueuedUnit] = {}
        self._active = ActiveQueue()
        self._backoff: list[tuple[float, int, str]] = []
        self._due: list[tuple[float, int, str]] = []
        table = table or WaitingTable(NodesOfKinds(ChangeLog()))
        self.classes = ClassTurns(
            table, wakes, sort_key, self.activate, self._wait_on, self._class_of, self.units.get
        )
        self._gates = Gates()
        self._entries = 0
        # Units that entered a part, by what led to it, under kube-scheduler's event names.
        self.incoming: Counter[tuple[str, str]] = Counter()
        self._by_pod: dict[str, str] = {}

    # Pods come and go

    def put(self, pod: Pod, key: str, created: float, now: float, *, gang: bool = False) -> None:
        """Add a waiting pod to its unit, or replace it by its newer form; the unit gets another try."""
        known = self._by_pod.get(pod.uid)
        if known is not None and known != key:
            self.remove(pod.uid)
        unit = self.units.get(key)
        if unit is None:
            unit = self.units[key] = QueuedUnit(key, created, gang, came=now)
        unit.created = created
        unit.pods[pod.uid] = pod
        unit.kinds = {}
        self._by_pod[pod.uid] = key
        self.classes.stand_down(unit)
        self.activate(unit, now, "PodAdd")

    def refresh(self, pod: Pod) -> bool:
        """Replace a queued pod by a newer form that changes nothing for scheduling; False if unknown."""
        key = self._by_pod.get(pod.uid)
        if key is None:
            return False
        unit = self.units[key]
        unit.pods[pod.uid] = pod
        unit.kinds = {}
        return True

    def rank(self, unit: QueuedUnit, created: float, priority: int | None, now: float) -> None:
        """A group came or changed: its age and priority are the unit's, which takes its new place at once."""
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
        """Take a pod out: bound, deleted, or no longer ours. Its unit goes with its last pod."""
        key = self._by_pod.pop(uid, None)
        if key is None:
            return
        unit = self.units[key]
        del unit.pods[uid]
        unit.kinds = {}
        if not unit.pods:
            self._leave(unit)
            del self.units[key]
            self.classes.stand_down(unit)

    def withdraw(self, uid: str, now: float) -> None:
        """A waiting pod is gone: take it out, and let the rest of its gang say what it lacks now."""
        key = self._by_pod.get(uid, "")
        self.remove(uid)
        unit = self.units.get(key)
        if unit is not None and unit.part is Part.UNSCHEDULABLE:
            self.activate(unit, now, "PodDelete")

    def reactivate(self, pods: Iterable[Pod], now: float) -> None:
        """Let waiting pods be tried again, those of them whose units wait for an event."""
        for pod in pods:
            unit = self.units.get(self._by_pod.get(pod.uid, ""))
            if unit is not None and unit.part is Part.UNSCHEDULABLE:
                self.activate(unit, now)

    # Moving between the parts

    def _leave(self, unit: QueuedUnit) -> None:
        self._gates.release(unit)
        self.classes.leave(unit)
        unit.entry = -1

    def _enter(self, unit: QueuedUnit, part: Part, now: float, cause: str) -> int:
        self._leave(unit)
        self._entries += 1
        self.incoming[part, cause] += 1
        unit.part, unit.entry, unit.entered = part, self._entries, now
        return self._entries

    def _ready_at(self, unit: QueuedUnit) -> float:
        """When the unit's backoff ends."""
        return unit.failed_at + self.backoff(unit.attempts)

    def _class_of(self, uid: str) -> WaitingClass | None:
        """The class of a pod that waits for an event."""
        unit = self.units.get(self._by_pod.get(uid, ""))
        return unit.waits_in or unit.stands_for if unit is not None else None

    def _is_worth_it(self, unit: QueuedUnit, now: float) -> bool:
        """Whether what opened the class of a unit may still help it; else the unit waits on."""
        if self.classes.is_worth_it(unit):
            return True
        self._wait_on(unit, now)
        return False

    def _wait_on(self, unit: QueuedUnit, now: float) -> None:
        """Put a unit that was to be tried for its class back, as if it had waited all the time."""
        entered = unit.entered
        self._leave(unit)
        self._entries += 1
        unit.part, unit.entry, unit.entered = Part.UNSCHEDULABLE, self._entries, entered
        if unit.due < math.inf:
            heapq.heappush(self._due, (unit.due, unit.entry, unit.key))
        self.classes.wait_on(unit, self._ready_at(unit), now)

    def activate(self, unit: QueuedUnit, now: float, cause: str = "ForceActivate") -> None:
        """Let a unit be tried as soon as its backoff allows, unless a gate holds it."""
        gate = self._gate(unit)
        if gate:
            unit.plugins = frozenset({gate})
            self._enter(unit, Part.GATED, now, cause)
            self._gates.hold(unit, gate)
            self.classes.stand_down(unit)
            return
        ready = self._ready_at(unit) if unit.attempts else now
        if ready > now:
            if unit.part is Part.BACKOFF and unit.entry >= 0:
                return  # It is there already: who changes it over and over must not fill the heap.
            heapq.heappush(self._backoff, (ready, self._enter(unit, Part.BACKOFF, now, cause), unit.key))
            return
        entry = self._enter(unit, Part.ACTIVE, now, cause)
        self._active.push((self._sort_key(unit), entry, unit.key))

    def backoff(self, attempts: int) -> float:
        """Seconds to wait after that many failed attempts: doubling up to the maximum."""
        if attempts <= 0 or self._initial_backoff <= 0:
            return 0.0
        return min(self._max_backoff, self._initial_backoff * 2.0 ** min(attempts - 1, 30))

    def pop(self, now: float) -> QueuedUnit | None:
        """The next unit to try, still in `units` until its pods are removed; None if none is active."""
        self.flush(now)
        while self._active:
            _, entry, key = self._active.pop()
            unit = self.units.get(key)
            if unit is not None and unit.entry == entry and self._is_worth_it(unit, now):
                unit.attempts += 1
                unit.entry = -1
                return unit
            # Whom it does not help any more may have been asked before others that it does.
            self.classes.go_on(now)
        return None

    def take(self, unit: QueuedUnit) -> None:
        """Take a unit that waits out of its part, to be tried; that is no attempt."""
        self._leave(unit)
        unit.part = Part.ACTIVE

    def park(self, unit: QueuedUnit, now: float) -> None:
        """A unit that was taken out waits until it is activated, whatever happens; its class goes on."""
        self._enter(unit, Part.ASKED, now, "Asked")
        self.classes.stand_down(unit)

    def failed(
        self,
        unit: QueuedUnit,
        plugins: Iterable[str],
        now: float,
        *,
        due: float = math.inf,
        traits: Traits | None = None,
    ) -> None:
        """A tried unit, of these `traits` if known, stays: until an event that `plugins` accept, or `due`."""
        if unit.key not in self.units:
            return
        unit.plugins, unit.failed_at = frozenset(plugins), now
        unit.failures += 1
        unit.since = now if unit.since is None else unit.since
        entry = self._enter(unit, Part.UNSCHEDULABLE, now, "ScheduleAttemptFailure")
        self.classes.add(unit, traits or self._traits(unit), self._ready_at(unit), now)
        self.classes.stand_down(unit)
        unit.due = due if due < now + FLUSH_AFTER_SECONDS else math.inf
        if unit.due < math.inf:
            heapq.heappush(self._due, (due, entry, unit.key))

    def retry(self, unit: QueuedUnit, now: float) -> None:
        """A tried unit failed by an error: again after its backoff, without waiting for an event."""
        if unit.key not in self.units:
            return
        unit.failed_at = now
        # Never at once, whatever the backoff: broken code would keep the scheduler busy for ever.
        ready = now + max(self.backoff(unit.attempts), _MIN_RETRY_SECONDS)
        entry = self._enter(unit, Part.BACKOFF, now, "ScheduleAttemptFailure")
        heapq.heappush(self._backoff, (ready, entry, unit.key))
        self.classes.stand_down(unit)

    def undone(self, uid: str, now: float) -> None:
        """What was decided for a pod failed: if it waits here, then for a backoff, as after an attempt."""
        unit = self.units.get(self._by_pod.get(uid, ""))
        if unit is not None:
            unit.attempts = max(1, unit.attempts)
            self.retry(unit, now)

    def on_event(self, event: ClusterEvent, now: float, concerns: Collection[Concern] | None = None) -> int:
        """Wake the unschedulable and gated units that the event may help; returns how many.

        `concerns` are the plugins that listen, and whom of theirs it can concern: anybody unless given.
        """
        cause = event.cause
        gates = self._gates if concerns is None else {concern.plugin for concern in concerns}
        opened = [unit for unit in self._gates.of(gates) if self._wakes(unit, event) is not Wake.NO]
        return self.classes.tell(event, concerns, now, cause, opened)

    def is_refused_by(self, plugin: str) -> bool:
        """Whether a plugin refused anybody who waits."""
        return plugin in self.classes.waiting.plugins or plugin in self._gates

    def flush(self, now: float) -> None:
        """Move what its time has come for: backoffs that ended, and units forgotten by all events."""
        self.classes.go_on(now)
        for heap, cause in ((self._backoff, "BackoffComplete"), (self._due, "TimeCome")):
            while heap and heap[0][0] <= now:
                _, entry, key = heapq.heappop(heap)
                unit = self.units.get(key)
                if unit is not None and unit.entry == entry:
                    self.activate(unit, now, cause)
        while self.classes.open_oldest(now, now - FLUSH_AFTER_SECONDS):
            pass

    @property
    def anybody_waits(self) -> bool:
        """Whether some unit waits for an event."""
        return bool(self.classes.waiting) or bool(self._gates)

    def has_active(self) -> bool:
        """Whether a unit waits for its turn (entries that were overtaken count until they are popped)."""
        return len(self._active) > 0 or bool(self.classes)

    def next_time(self) -> float | None:
        """When `flush` has something to do next, or None."""
        times = [heap[0][0] for heap in (self._backoff, self._due) if heap]
        if (oldest := self.classes.waiting.oldest) is not None:
            times.append(oldest.tried_at + FLUSH_AFTER_SECONDS)
        return min(times, default=None)

    def count(self, part: Part) -> int:
        """How many units are in a part."""
        return sum(1 for unit in self.units.values() if unit.part is part and unit.entry >= 0)
