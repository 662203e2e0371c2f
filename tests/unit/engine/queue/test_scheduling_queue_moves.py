"""How units move between the parts of the queue: what wakes them, when, and in which order."""

from __future__ import annotations

import pytest

from scheduler_core.engine.queue.requeue import Wake
from scheduler_core.engine.queue.scheduling_queue import (
    FLUSH_AFTER_SECONDS,
    Part,
    QueuedUnit,
    SchedulingQueue,
)
from scheduler_core.engine.queue.waiting_table import Concern
from scheduler_core.framework.queueing.hints import EVERYBODY, NOBODY
from scheduler_core.state.events import ClusterEvent, EventKind
from tests.support.builders import PodBuilder, make_pod

QUOTA, NODE = ClusterEvent(EventKind.QUOTA), ClusterEvent(EventKind.NODE_ADD)
EITHER = ClusterEvent(EventKind.NODE_ADD | EventKind.NODE_TAINTS)


class Setting:
    """A queue of units that wake on the event of the plugin that refused them."""

    def __init__(self, **options: float) -> None:
        self.closed: set[str] = set()
        self.asked: list[str] = []
        # What the next hints say, before those of the plugins.
        self.helps: list[Wake] = []
        self.queue = SchedulingQueue(
            lambda unit: (-unit.priority, unit.created),
            lambda unit: "Gate" if unit.key in self.closed else "",
            self.wakes,
            **options,
        )

    def wakes(self, unit: QueuedUnit, event: ClusterEvent, plugins: frozenset[str]) -> Wake:
        self.asked.append(unit.key)
        if self.helps:
            return self.helps.pop(0)
        return Wake.YES if ("Quota" if event is QUOTA else "Fit") in plugins else Wake.NO

    def put(self, name: str, now: float = 0.0, key: str = "", **more: int) -> None:
        gang = bool(key)
        self.queue.put(pod(name, **more).obj(), key or name, 0.0, now, gang=gang)

    def fail(self, name: str, now: float = 0.0, plugin: str = "Quota", due: float | None = None) -> None:
        unit = self.queue.pop(now)
        assert unit is not None
        assert unit.key == name
        if due is None:
            self.queue.failed(unit, {plugin}, now)
        else:
            self.queue.failed(unit, {plugin}, now, due=due)

    def popped(self, now: float) -> list[str]:
        found: list[str] = []
        while (unit := self.queue.pop(now)) is not None:
            found.append(unit.key)
        return found

    def counts(self) -> dict[str, int]:
        return {str(part): number for part in Part if (number := self.queue.count(part))}


def pod(name: str, priority: int = 0, cpu: int = 1) -> PodBuilder:
    return make_pod(f"a/{name}").uid(name).requests(cpu=cpu).priority(priority)


def test_only_units_refused_by_a_listening_plugin_are_asked() -> None:
    setting = Setting()
    for name, plugin in (("p", "Quota"), ("q", "Fit")):
        setting.put(name)
        setting.fail(name, plugin=plugin)
    assert setting.queue.on_event(QUOTA, 5.0, [Concern("Quota", EVERYBODY)]) == 1
    assert (setting.asked, setting.popped(5.0)) == (["p"], ["p"])
    assert setting.queue.on_event(NODE, 5.0) == 1
    assert setting.popped(5.0) == ["q"]


def test_those_that_wake_together_go_in_the_order_of_the_queue_and_of_their_wait() -> None:
    setting = Setting()
    for name in ("c", "a", "b"):
        setting.put(name)
        setting.fail(name, plugin="Fit")
    assert setting.queue.on_event(NODE, 5.0) == 3
    assert setting.popped(5.0) == ["c", "a", "b"]


def test_a_gated_unit_is_asked_by_events_and_looks_at_its_gate_again() -> None:
    setting = Setting()
    setting.closed.add("p")
    setting.put("p")
    assert (setting.counts(), setting.queue.units["p"].plugins) == ({"gated": 1}, {"Gate"})
    setting.queue.units["p"].plugins = frozenset({"Quota"})
    setting.queue.on_event(QUOTA, 1.0)
    assert setting.counts() == {"gated": 1}
    setting.closed.clear()
    setting.queue.units["p"].plugins = frozenset({"Quota"})
    setting.queue.on_event(QUOTA, 2.0)
    assert (setting.counts(), setting.popped(2.0)) == ({"active": 1}, ["p"])


def test_a_unit_that_is_due_is_tried_at_its_time_and_not_before() -> None:
    setting = Setting()
    setting.put("p")
    setting.fail("p", 10.0, due=40.0)
    assert setting.queue.next_time() == 40.0
    assert (setting.popped(39.9), setting.popped(40.0)) == ([], ["p"])
    setting.put("q", 50.0)
    setting.fail("q", 50.0, due=50.0 + FLUSH_AFTER_SECONDS)
    assert setting.queue.next_time() == 350.0, "the flush comes as early"


def test_a_due_time_is_forgotten_when_the_unit_moved_on() -> None:
    setting = Setting()
    setting.put("p")
    setting.fail("p", 10.0, due=40.0)
    setting.queue.on_event(QUOTA, 20.0)
    setting.fail("p", 20.0)
    assert setting.popped(41.0) == []
    assert setting.popped(320.0) == ["p"]


def test_a_unit_that_waits_on_without_a_try_is_still_due() -> None:
    setting = Setting()
    setting.put("p")
    setting.fail("p", 10.0, due=40.0)
    setting.helps = [Wake.WHILE_SO, Wake.NO]
    setting.queue.on_event(QUOTA, 20.0)
    assert setting.popped(39.0) == []
    assert (setting.queue.next_time(), setting.popped(40.0)) == (40.0, ["p"])


def test_a_unit_with_a_newer_form_is_tried_again_but_not_before_its_backoff() -> None:
    setting = Setting()
    setting.put("p")
    setting.fail("p", 10.0)
    setting.put("p", 10.5, cpu=2)
    assert (setting.counts(), setting.popped(10.9), setting.popped(11.0)) == ({"backoff": 1}, [], ["p"])


def test_a_refreshed_pod_moves_nothing() -> None:
    setting = Setting()
    setting.put("p")
    setting.fail("p", 10.0)
    assert setting.queue.refresh(pod("p", cpu=7).obj())
    known = setting.queue.get("p")
    assert known is not None
    assert (known.requests["cpu"], setting.counts()) == (7000, {"unschedulable": 1})
    assert not setting.queue.refresh(pod("stranger").obj())
    assert setting.queue.get("stranger") is None


def test_a_pod_may_move_to_another_unit() -> None:
    setting = Setting()
    setting.put("p")
    setting.put("p", key="gang")
    assert set(setting.queue.units) == {"gang"}
    setting.put("q", key="gang")
    assert set(setting.queue.units["gang"].pods) == {"p", "q"}
    setting.queue.remove("p")
    assert (set(setting.queue.units["gang"].pods), setting.popped(0.0)) == ({"q"}, ["gang"])
    setting.queue.remove("q")
    assert setting.queue.units == {}


def test_the_rest_of_a_gang_is_tried_when_a_member_goes() -> None:
    setting = Setting()
    for name in "pqr":
        setting.put(name, key="gang")
    setting.fail("gang", 0.0)
    setting.queue.withdraw("p", 5.0)
    assert (setting.counts(), setting.popped(5.0)) == ({"active": 1}, ["gang"])
    setting.queue.withdraw("q", 5.0)
    setting.queue.withdraw("r", 5.0)
    setting.queue.withdraw("stranger", 5.0)
    assert setting.queue.units == {}


def test_a_unit_that_is_being_tried_is_in_no_part() -> None:
    setting = Setting()
    setting.put("p")
    assert (setting.queue.has_active(), setting.queue.has_waiting_units) == (True, False)
    setting.queue.pop(0.0)
    assert (setting.counts(), setting.queue.has_active(), setting.queue.next_time()) == ({}, False, None)


def test_a_unit_that_is_gone_meanwhile_neither_fails_nor_is_retried() -> None:
    setting = Setting()
    setting.put("p")
    unit = setting.queue.pop(0.0)
    assert unit is not None
    setting.queue.remove("p")
    setting.queue.failed(unit, {"Quota"}, 1.0)
    setting.queue.retry(unit, 1.0)
    assert (setting.queue.has_waiting_units, setting.queue.next_time()) == (False, None)


@pytest.mark.parametrize(("initial", "ready"), [(1.0, 11.0), (0.0, 10.1), (0.01, 10.1)])
def test_after_an_error_a_unit_is_never_tried_at_once(initial: float, ready: float) -> None:
    setting = Setting(initial_backoff=initial)
    setting.put("p", 10.0)
    unit = setting.queue.pop(10.0)
    assert unit is not None
    setting.queue.retry(unit, 10.0)
    assert (setting.counts(), setting.queue.next_time()) == ({"backoff": 1}, ready)
    assert setting.queue.on_event(QUOTA, 10.0) == 0, "no event makes it quicker"
    assert (setting.popped(ready - 0.01), setting.popped(ready)) == ([], ["p"])


def test_a_failed_decision_waits_for_a_backoff() -> None:
    setting = Setting()
    setting.put("p", 10.0)
    setting.queue.undone("p", 10.0)
    assert (setting.popped(10.9), setting.popped(11.0)) == ([], ["p"])
    setting.queue.undone("stranger", 10.0)


def test_backoffs_end_one_after_the_other() -> None:
    setting = Setting()
    for name, now in (("p", 10.0), ("q", 10.5)):
        setting.put(name, now)
        unit = setting.queue.pop(now)
        assert unit is not None
        setting.queue.retry(unit, now)
    assert [setting.popped(now) for now in (10.99, 11.0, 11.5)] == [[], ["p"], ["q"]]


def test_all_that_events_forgot_are_flushed_the_oldest_first() -> None:
    setting = Setting()
    for name, now in (("p", 0.0), ("q", 1.0)):
        setting.put(name, now)
        setting.fail(name, now)
    assert setting.queue.next_time() == FLUSH_AFTER_SECONDS
    assert (setting.popped(300.0), setting.popped(301.0)) == (["p"], ["q"])


def test_a_flush_is_done_when_it_is_said_to_be_due() -> None:
    # 28.2 + 300.0 - 300.0 is less than 28.2: a flush that computes the difference would stay due.
    setting = Setting()
    setting.put("p", 28.2)
    setting.fail("p", 28.2)
    due = setting.queue.next_time()
    assert due is not None
    assert setting.popped(due) == ["p"]


def test_the_first_failure_is_remembered_and_attempts_are_counted() -> None:
    setting = Setting()
    setting.put("p", 1.0)
    assert setting.queue.units["p"].since is None
    for now in (1.0, 50.0):
        setting.fail("p", now)
        setting.queue.on_event(QUOTA, now + 20)
    unit = setting.queue.units["p"]
    assert (unit.since, unit.attempts, unit.failed_at) == (1.0, 2, 50.0)


def test_a_gangs_priority_is_its_own_or_that_of_its_most_important_pod() -> None:
    setting = Setting()
    setting.put("p", key="gang", priority=3)
    setting.put("q", key="gang", priority=7)
    unit = setting.queue.units["gang"]
    assert unit.priority == 7
    unit.gang_priority = 0
    assert unit.priority == 0
    assert QueuedUnit("empty", 0.0).priority == 0


def test_equal_pods_of_a_gang_are_one_kind() -> None:
    setting = Setting()
    for name in "pqr":
        setting.put(name, key="gang", cpu=2 if name == "r" else 1)
    unit = setting.queue.units["gang"]
    assert sorted(item.name for item in unit.distinct()) == ["q", "r"]
    setting.put("s", key="gang", cpu=3)
    assert len(list(unit.distinct())) == 3
    setting.queue.remove("r")
    assert len(list(unit.distinct())) == 2
    setting.queue.refresh(pod("s").obj())
    assert len(list(unit.distinct())) == 1


def test_entries_into_each_part_are_counted_by_cause() -> None:
    setting = Setting()
    setting.put("p")
    setting.fail("p", 0.0)
    setting.queue.on_event(QUOTA, 0.5)
    setting.queue.flush(1.0)
    setting.fail("p", 1.0, plugin="Fit")
    setting.queue.on_event(EITHER, 10.0)
    assert dict(setting.queue.incoming) == {
        (Part.ACTIVE, "PodAdd"): 1,
        (Part.UNSCHEDULABLE, "ScheduleAttemptFailure"): 2,
        (Part.BACKOFF, "Quota"): 1,
        (Part.ACTIVE, "BackoffComplete"): 1,
        (Part.ACTIVE, "NodeAdd"): 1,
    }


def test_only_the_plugins_whose_pods_an_event_concerns_are_asked() -> None:
    asked: list[frozenset[str]] = []

    def wakes(unit: QueuedUnit, event: ClusterEvent, plugins: frozenset[str]) -> Wake:
        asked.append(plugins)
        return Wake.NO

    queue = SchedulingQueue(lambda unit: (), lambda unit: "", wakes)
    queue.put(pod("p").obj(), "p", 0.0, 0.0)
    unit = queue.pop(0.0)
    assert unit is not None
    queue.failed(unit, {"Fit", "Quota", "Other"}, 0.0)
    told = [Concern("Fit", NOBODY), Concern("Quota", EVERYBODY), Concern("Taints", EVERYBODY)]
    queue.on_event(QUOTA, 1.0, told)
    queue.on_event(QUOTA, 1.0, [*told, Concern("Other", EVERYBODY)])
    assert asked == [{"Quota"}, {"Quota", "Other"}]
