"""The queue against a slow one: units in a list, each with its part, looked through every time."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from scheduler_core.engine.queue.requeue import Wake
from scheduler_core.engine.queue.scheduling_queue import SchedulingQueue
from scheduler_core.engine.queue.unit import Part, QueuedUnit
from scheduler_core.engine.queue.waiting_table import Concern
from scheduler_core.framework.queueing.hints import EVERYBODY
from scheduler_core.state.events import ClusterEvent, EventKind
from tests.support.builders import make_pod
from tests.support.every import every_seed

EVENTS = {"Quota": ClusterEvent(EventKind.QUOTA), "Fit": ClusterEvent(EventKind.NODE_ADD)}
TRIED = "being tried"


def heard_by(*plugins: str) -> list[Concern]:
    return [Concern(name, EVERYBODY) for name in plugins]


@dataclass
class Slow:
    """A unit of the slow queue; `number` grows with every move."""

    pods: set[str] = field(default_factory=set)
    part: str = ""
    number: int = 0
    entered: float = 0.0
    ready: float = 0.0
    due: float | None = None
    attempts: int = 0
    failed_at: float = 0.0
    since: float | None = None
    plugins: frozenset[str] = frozenset()


class SlowQueue:
    """The rules of the queue as its documents tell them. Backoff 1, 2, 4, 8, 10 seconds."""

    def __init__(self, closed: set[str]) -> None:
        self.closed = closed
        self.units: dict[str, Slow] = {}
        self.moves = 0
        self.incoming: Counter[tuple[str, str]] = Counter()

    def backoff(self, unit: Slow) -> float:
        return min(10.0, 2.0 ** (unit.attempts - 1)) if unit.attempts else 0.0

    def move(self, unit: Slow, part: str, now: float, cause: str) -> None:
        self.moves += 1
        unit.part, unit.number, unit.entered, unit.due = part, self.moves, now, None
        self.incoming[part, cause] += 1

    def activate(self, key: str, now: float, cause: str) -> None:
        unit = self.units[key]
        if key in self.closed:
            unit.plugins = frozenset({"Gate"})
            self.move(unit, "gated", now, cause)
            return
        ready = unit.failed_at + self.backoff(unit) if unit.attempts else now
        if ready > now and unit.part == "backoff":
            return
        unit.ready = ready
        self.move(unit, "backoff" if ready > now else "active", now, cause)

    def put(self, pod: str, key: str, now: float) -> None:
        for other in [other for other, unit in self.units.items() if pod in unit.pods and other != key]:
            self.remove(pod, other)
        self.units.setdefault(key, Slow()).pods.add(pod)
        self.activate(key, now, "PodAdd")

    def remove(self, pod: str, key: str) -> None:
        self.units[key].pods.discard(pod)
        if not self.units[key].pods:
            del self.units[key]

    def key_of(self, pod: str) -> str:
        return next((key for key, unit in self.units.items() if pod in unit.pods), "")

    def waiting(self, *parts: str) -> list[str]:
        """Keys of the units in these parts, those that came first first."""
        found = [key for key, unit in self.units.items() if unit.part in parts]
        return sorted(found, key=lambda key: self.units[key].number)

    def flush(self, now: float) -> None:
        ended = [key for key in self.waiting("backoff") if self.units[key].ready <= now]
        for key in sorted(ended, key=lambda key: (self.units[key].ready, self.units[key].number)):
            self.activate(key, now, "BackoffComplete")
        dues = [
            (unit.due, unit.number, key)
            for key, unit in self.units.items()
            if unit.part == "unschedulable" and unit.due is not None and unit.due <= now
        ]
        for _, _, key in sorted(dues):
            self.activate(key, now, "TimeCome")
        for key in [key for key in self.waiting("unschedulable") if self.units[key].entered + 300.0 <= now]:
            self.activate(key, now, "UnschedulableTimeout")

    def pop(self, now: float) -> str:
        self.flush(now)
        for key in self.waiting("active")[:1]:
            self.units[key].attempts += 1
            self.units[key].part = TRIED
            return key
        return ""

    def failed(self, key: str, plugin: str, now: float, due: float) -> None:
        unit = self.units[key]
        unit.plugins, unit.failed_at = frozenset({plugin}), now
        unit.since = now if unit.since is None else unit.since
        self.move(unit, "unschedulable", now, "ScheduleAttemptFailure")
        unit.due = due if due < now + 300.0 else None

    def retry(self, key: str, now: float) -> None:
        unit = self.units[key]
        unit.failed_at = now
        unit.ready = now + max(0.1, self.backoff(unit))
        self.move(unit, "backoff", now, "ScheduleAttemptFailure")

    def undone(self, pod: str, now: float) -> None:
        key = self.key_of(pod)
        if key:
            self.units[key].attempts = max(1, self.units[key].attempts)
            self.retry(key, now)

    def event(self, plugin: str, now: float) -> int:
        woken = [key for key in self.waiting("unschedulable", "gated") if plugin in self.units[key].plugins]
        for key in woken:
            self.activate(key, now, "Quota" if plugin == "Quota" else "NodeAdd")
        return len(woken)


@every_seed(range(60))
def test_every_move_is_that_of_the_slow_queue(seed: int) -> None:
    rng, now, closed = random.Random(seed), 0.0, set[str]()
    slow = SlowQueue(closed)

    def wakes(unit: QueuedUnit, event: ClusterEvent, plugins: frozenset[str]) -> Wake:
        heard = any(name in plugins for name, known in EVENTS.items() if known is event)
        return Wake.YES if heard else Wake.NO

    queue = SchedulingQueue(lambda unit: (), lambda unit: "Gate" if unit.key in closed else "", wakes)
    tried: list[QueuedUnit] = []
    for _ in range(120):
        now += rng.choice((0.0, 0.0, 0.5, 3.0, 40.0))
        name = f"p{rng.randrange(6)}"
        match rng.randrange(11):
            case 0 | 1 | 2:
                key = rng.choice((name, name, "gang"))
                queue.put(make_pod(f"a/{name}").uid(name).obj(), key, 0.0, now, gang=key == "gang")
                slow.put(name, key, now)
            case 3:
                queue.remove(name)
                if slow.key_of(name):
                    slow.remove(name, slow.key_of(name))
            case 4:
                key = slow.key_of(name)
                queue.withdraw(name, now)
                if key:
                    slow.remove(name, key)
                    if key in slow.units and slow.units[key].part == "unschedulable":
                        slow.activate(key, now, "PodDelete")
            case 5:
                queue.reactivate([make_pod(f"a/{name}").uid(name).obj()], now)
                key = slow.key_of(name)
                if key and slow.units[key].part == "unschedulable":
                    slow.activate(key, now, "ForceActivate")
            case 6:
                closed ^= {rng.choice((name, "gang"))}
            case 7 | 8:
                plugin = rng.choice(("Quota", "Fit"))
                listening = rng.choice((None, heard_by(plugin, "Gate")))
                assert queue.on_event(EVENTS[plugin], now, listening) == slow.event(plugin, now)
                assert queue.on_event(EVENTS[plugin], now, heard_by("Nobody")) == 0
            case 9:
                queue.undone(name, now)
                slow.undone(name, now)
            case _:
                unit = queue.pop(now)
                assert (unit.key if unit is not None else "") == slow.pop(now)
                if unit is not None:
                    tried.append(unit)
        if tried and rng.random() < 0.8:
            unit = tried.pop()
            known = slow.units.get(unit.key)
            if known is None or known.part != TRIED or queue.units[unit.key] is not unit:
                continue
            if rng.random() < 0.3:
                queue.retry(unit, now)
                slow.retry(unit.key, now)
            else:
                plugin, due = rng.choice(("Quota", "Fit")), now + rng.choice((5.0, 60.0, 299.0, 300.0, 900.0))
                queue.failed(unit, {plugin}, now, due=due)
                slow.failed(unit.key, plugin, now, due)
        same(queue, slow)
    queue.flush(now)
    slow.flush(now)
    same(queue, slow)


def same(queue: SchedulingQueue, slow: SlowQueue) -> None:
    assert {key: set(unit.pods) for key, unit in queue.units.items()} == {
        key: unit.pods for key, unit in slow.units.items()
    }
    for part in Part:
        assert queue.count(part) == len(slow.waiting(str(part))), part
    for key, unit in queue.units.items():
        known = slow.units[key]
        assert (unit.attempts, unit.failed_at, unit.since) == (known.attempts, known.failed_at, known.since)
        assert known.part in (TRIED, str(unit.part))
    assert queue.has_waiting_units or not slow.waiting("unschedulable", "gated")
    assert +Counter({(str(part), cause): n for (part, cause), n in queue.incoming.items()}) == slow.incoming
    times = [slow.units[key].ready for key in slow.waiting("backoff")]
    waiting = [slow.units[key] for key in slow.waiting("unschedulable")]
    times += [unit.due for unit in waiting if unit.due is not None]
    times += [unit.entered + 300.0 for unit in waiting]
    told = queue.next_time()
    assert not times or (told is not None and told <= min(times)), "never later than something is due"
