"""The queue: a unit is in exactly one part; backoff, hints and the flush move it."""

from __future__ import annotations

import heapq
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.engine.queue.active_queue import ActiveQueue, Entry
from scheduler_core.engine.queue.requeue import Wake
from scheduler_core.engine.queue.scheduling_queue import (
    FLUSH_AFTER_SECONDS,
    SchedulingQueue,
)
from scheduler_core.engine.queue.unit import Part, QueuedUnit
from scheduler_core.state.events import ClusterEvent, EventKind
from tests.support.builders import make_pod
from tests.support.every import every_seed
from tests.support.kept import entries

QUOTA = ClusterEvent(EventKind.QUOTA)
NODE = ClusterEvent(EventKind.NODE_ADD)


class Setting:
    """A queue whose gate and hints the test decides: `closed` keys are gated, plugins wake on their event."""

    def __init__(self) -> None:
        self.closed: set[str] = set()
        self.queue = SchedulingQueue(
            lambda unit: (-unit.priority, unit.created, unit.key),
            lambda unit: "Gate" if unit.key in self.closed else "",
            self.wakes,
        )

    def wakes(self, unit: QueuedUnit, event: ClusterEvent, plugins: frozenset[str]) -> Wake:
        return Wake.YES if plugins & {"Quota" if event is QUOTA else "Fit"} else Wake.NO

    def put(self, key: str, now: float = 0.0, priority: int = 0, created: float = 0.0) -> None:
        self.queue.put(make_pod(key).uid(key).priority(priority).obj(), key, created, now)

    def pop(self, now: float) -> str:
        unit = self.queue.pop(now)
        return unit.key if unit is not None else ""

    def fail(self, key: str, now: float, plugin: str = "Quota") -> None:
        assert self.pop(now) == key
        self.queue.failed(self.queue.units[key], {plugin}, now)


def test_priority_then_age_then_name_decides() -> None:
    setting = Setting()
    setting.put("a/young", created=9.0)
    setting.put("a/old", created=1.0)
    setting.put("a/important", priority=5, created=99.0)
    setting.put("a/alike", created=1.0)
    assert [setting.pop(0.0) for _ in range(5)] == ["a/important", "a/alike", "a/old", "a/young", ""]


def test_changes_in_a_loop_are_one_try_per_backoff_and_one_entry() -> None:
    setting = Setting()
    setting.put("a/p")
    setting.fail("a/p", 0.0)
    tries, most = [], entries(setting.queue) + 10
    for tick in range(1, 700):
        now = tick / 100
        setting.put("a/p", now)
        assert entries(setting.queue) <= most
        if setting.pop(now):
            tries.append(now)
            setting.queue.failed(setting.queue.units["a/p"], {"Quota"}, now)
    assert tries == [1.0, 3.0]


def test_a_failed_unit_waits_for_an_event_that_its_plugin_accepts() -> None:
    setting = Setting()
    setting.put("a/p")
    setting.fail("a/p", 0.0)
    assert setting.queue.on_event(NODE, 50.0) == 0
    assert setting.pop(50.0) == ""
    assert setting.queue.on_event(QUOTA, 50.0) == 1
    assert setting.pop(50.0) == "a/p"


@pytest.mark.parametrize(("attempts", "seconds"), [(0, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (60, 10)])
def test_backoff_doubles_up_to_the_maximum(attempts: int, seconds: float) -> None:
    assert Setting().queue.backoff(attempts) == seconds


def test_a_woken_unit_sits_out_its_backoff() -> None:
    setting = Setting()
    setting.put("a/p")
    setting.fail("a/p", 10.0)
    setting.queue.on_event(QUOTA, 10.2)
    assert setting.queue.count(Part.BACKOFF) == 1
    assert setting.queue.next_time() == 11.0
    assert setting.pop(10.9) == ""
    assert setting.pop(11.0) == "a/p"


def test_a_unit_that_no_event_wakes_is_tried_after_five_minutes() -> None:
    setting = Setting()
    setting.put("a/p")
    setting.fail("a/p", 10.0)
    assert setting.queue.next_time() == 10.0 + FLUSH_AFTER_SECONDS
    assert setting.pop(309.9) == ""
    assert setting.pop(310.0) == "a/p"


def test_a_gated_unit_waits_for_its_gate() -> None:
    setting = Setting()
    setting.closed.add("a/p")
    setting.put("a/p")
    assert setting.queue.count(Part.GATED) == 1
    assert setting.pop(1000.0) == ""
    setting.closed.clear()
    setting.put("a/p", 1.0)
    assert setting.pop(1.0) == "a/p"


def test_a_removed_unit_is_nowhere() -> None:
    setting = Setting()
    setting.put("a/p")
    setting.queue.remove("a/p")
    setting.queue.remove("a/p")
    assert setting.pop(0.0) == ""
    assert setting.queue.units == {}


@every_seed(range(40))
def test_random_histories_keep_every_unit_in_one_part(seed: int) -> None:
    rng, setting, now = random.Random(seed), Setting(), 0.0
    queue = setting.queue
    for _ in range(150):
        now += rng.choice([0.0, 0.5, 3.0])
        key = f"a/p{rng.randint(0, 8)}"
        match rng.randint(0, 5):
            case 0:
                setting.put(key, now, rng.randint(0, 2))
            case 1:
                queue.remove(key)
            case 2:
                setting.closed ^= {key}
            case 3:
                queue.on_event(rng.choice([QUOTA, NODE]), now)
            case _:
                unit = queue.pop(now)
                if unit is not None:
                    assert queue.backoff(unit.attempts - 1) <= 10.0
                    queue.failed(unit, {rng.choice(["Quota", "Fit"])}, now)
        assert sum(queue.count(part) for part in Part) == len(queue.units)
    setting.closed.clear()
    for unit in list(queue.units.values()):
        setting.put(unit.key, now)
    waiting = set(queue.units)
    assert {setting.pop(now + 11.0) for _ in waiting} == waiting
    assert setting.pop(now + 11.0) == ""


# A number is a push with that key; None is a pop.
STEPS = st.lists(st.one_of(st.integers(0, 5), st.none()), max_size=120)


@given(st.lists(st.integers(0, 9), max_size=40), STEPS)
def test_entries_leave_as_from_a_heap(first: list[int], steps: list[int | None]) -> None:
    queue, heap = ActiveQueue(), []
    for number, step in enumerate([*first, *steps]):
        if step is not None:
            entry: Entry = ((step,), number, f"unit-{number}")
            queue.push(entry)
            heapq.heappush(heap, entry)
        elif heap:
            assert queue.pop() == heapq.heappop(heap)
        assert len(queue) == len(heap)
    assert [queue.pop() for _ in range(len(heap))] == sorted(heap)
