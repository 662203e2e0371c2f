"""Turns of the loop are bounded, whatever comes, and one that is slow all the same is told."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec
import pytest

from scheduler_core.app.loop.inbox import Inbox, StateQuery
from scheduler_core.app.loop.loop import (
    DECIDE_SECONDS,
    MOST_HELD_BACK,
    PLACED_SECONDS,
    TAKE_SECONDS,
    Loop,
)
from scheduler_core.app.loop.progress import HANG_SECONDS, Watchdog
from scheduler_core.app.metrics.metrics import SchedulerMetrics
from scheduler_core.config.load import muster_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.controllers.controller import Controller
from scheduler_core.engine.decisions import Decision, Evicted, Noticed, Placed, Rejected
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.registry import build_profiles
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import NODES, PODS
from scheduler_core.model.writes import Bind, Write
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from tests.support.kept import entries
from tests.unit.app.loop.test_loop import Carried, node, pod, seen


class Timed:
    """A loop on a clock that goes on only where something takes time."""

    def __init__(self, *controllers: Controller) -> None:
        self.now = 1000.0
        self.metrics = SchedulerMetrics("test")
        self.scheduler = Scheduler(ClusterState(), build_profiles(muster_config(), FACTORIES, KNOWN_PLUGINS))
        self.loop = Loop(
            self.scheduler,
            controllers,
            [NODES, PODS],
            self.metrics,
            wall=lambda: self.now,
            monotonic=lambda: self.now,
            processor=lambda: self.now,
        )
        self.carried = self.loop.dispatcher = Carried()
        self.put(seen(NODES, node("one")), Event("SYNCED", NODES), Event("SYNCED", PODS))
        self.turn()

    def put(self, *items: Inbox) -> None:
        for item in items:
            self.loop.inbox.put(item)

    def turn(self) -> None:
        self.loop.turn(0.0)

    def takes(self, seconds: float, act: Callable[[], object] = lambda: None) -> StateQuery:
        def ask(_: Scheduler) -> None:
            self.now += seconds
            act()

        return StateQuery(ask)

    def slow_steps(self, seconds: float) -> None:
        """Let every decision take so long."""
        step = self.scheduler.step

        def slow(now: float, limit: int | None = None) -> list[Decision]:
            self.now += seconds
            return step(now, limit)

        self.scheduler.step = slow  # type: ignore[method-assign]


def test_events_are_taken_for_a_while_and_then_decisions_are_made() -> None:
    timed = Timed()
    taken: list[int] = []
    timed.put(seen(PODS, pod()))
    timed.put(*(timed.takes(TAKE_SECONDS / 5, lambda n=n: taken.append(n)) for n in range(12)))  # type: ignore[misc]
    timed.turn()
    assert (len(taken), len(timed.carried.placed)) == (5, 1)
    timed.turn()
    assert len(taken) == 10
    timed.turn()
    assert taken == list(range(12)), "in the order in which they came"
    assert timed.loop.inbox.empty()


def test_what_was_left_for_the_next_turn_is_as_old_as_that_turn() -> None:
    timed = Timed()
    timed.put(*(timed.takes(TAKE_SECONDS / 5) for _ in range(6)))
    timed.turn()
    assert timed.loop.lag.age() == pytest.approx(TAKE_SECONDS)
    timed.put(*(timed.takes(TAKE_SECONDS / 5) for _ in range(6)))
    timed.turn()
    assert timed.loop.lag.age() == pytest.approx(TAKE_SECONDS)
    timed.turn()
    assert timed.loop.lag.age() == 0.0


def test_one_event_that_takes_long_is_followed_by_a_decision() -> None:
    timed = Timed()
    timed.put(seen(PODS, pod()), timed.takes(30.0), seen(PODS, pod("q")))
    timed.turn()
    assert [placed.pod.name for placed in timed.carried.placed] == ["p"]
    assert timed.loop.lag.age() == 30.0, "for so long nobody has looked"
    timed.now += 5.0
    assert timed.loop.lag.age() == 35.0
    timed.turn()
    assert [placed.pod.name for placed in timed.carried.placed] == ["p", "q"]
    assert timed.loop.lag.age() == 0.0


def test_decisions_are_made_for_a_while_and_then_events_are_taken() -> None:
    timed = Timed()
    timed.slow_steps(DECIDE_SECONDS * 0.3)
    pods = [pod(f"p{number}", cpu="0.1") for number in range(9)]
    timed.put(*(seen(PODS, msgspec.structs.replace(one, namespace=one.name)) for one in pods))
    made = []
    for _ in range(3):
        timed.turn()
        made.append(len(timed.carried.placed))
    assert made == [4, 8, 9]


def test_others_go_before_a_namespace_whose_refused_pods_took_the_time() -> None:
    timed = Timed()
    timed.slow_steps(DECIDE_SECONDS * 0.4)
    timed.put(*(seen(PODS, pod(f"p{number}", cpu=f"{5 + number}")) for number in range(6)))
    timed.turn()
    tried = len(timed.carried.decisions)
    assert 0 < tried < 6
    timed.put(seen(PODS, msgspec.structs.replace(pod("q"), namespace="b")))
    for _ in range(3):
        timed.turn()
    names = [made.pod.name for made in timed.carried.decisions if isinstance(made, Placed | Rejected)]
    assert names == [*(f"p{number}" for number in range(tried)), "q", *(f"p{n}" for n in range(tried, 6))]


def test_while_events_are_left_none_is_tried_that_used_up_its_share_and_not_for_ever() -> None:
    timed = Timed()
    timed.slow_steps(DECIDE_SECONDS)
    timed.put(*(seen(PODS, pod(f"p{number}", cpu=f"{5 + number}")) for number in range(6)))
    timed.turn()
    tried = len(timed.carried.decisions)
    slow = [timed.takes(TAKE_SECONDS) for _ in range(MOST_HELD_BACK + 2)]
    timed.put(*slow[:2], seen(PODS, msgspec.structs.replace(pod("q"), namespace="b")), *slow[2:])
    timed.turn()
    timed.turn()
    assert len(timed.carried.decisions) == tried
    timed.turn()
    assert [item.pod.name for item in timed.carried.placed] == ["q"], "the event before it was read, too"
    timed.turn()
    assert len(timed.carried.decisions) == tried + 1
    timed.turn()
    assert len(timed.carried.decisions) == tried + 2


P = pod("p")
REFUSED = Rejected(P, "muster-scheduler", "Unschedulable", "no room")
PLACED = Placed(P, "n", "muster-scheduler", Bind("a", "p", "p", "n"))
EVICTED = Evicted(P, P, "muster-scheduler", "m")
RECLAIMED = Evicted(msgspec.structs.replace(P, namespace="b"), P, "muster-scheduler", "m")
TOLD = Noticed("v1", "PodGroup", "a", "g", "g", "muster-scheduler", "Unschedulable", "no room")


@pytest.mark.parametrize(
    ("decisions", "vain"),
    [
        pytest.param([REFUSED], True, id="a pod that is refused"),
        pytest.param([REFUSED, REFUSED, TOLD], True, id="a gang that is refused"),
        pytest.param([REFUSED, *[RECLAIMED] * 3], False, id="a pod that takes back what others lent"),
        pytest.param([REFUSED, RECLAIMED], True, id="a pod that takes back little after a long time"),
        pytest.param([REFUSED, *[EVICTED] * 3], True, id="a pod that evicts pods of its own team"),
        pytest.param([PLACED] * 60, False, id="a gang that is placed"),
        pytest.param([PLACED], True, id="a pod that is placed after a long time"),
        pytest.param([TOLD], False, id="no pod"),
    ],
)
def test_whose_time_was_in_vain(decisions: list[Decision], vain: bool) -> None:
    timed = Timed()
    left = [decisions]

    def step(now: float, limit: int | None = None) -> list[Decision]:
        timed.now += DECIDE_SECONDS
        return left.pop() if left else []

    timed.scheduler.step = step  # type: ignore[method-assign]
    timed.turn()
    assert timed.scheduler.queue.shares.over("a", timed.now) is vain


def test_the_inbox_is_read_soon_while_attempts_are_in_vain() -> None:
    timed = Timed()
    timed.slow_steps(DECIDE_SECONDS * 0.3)
    timed.put(*(seen(PODS, pod(f"p{number}", cpu=f"{5 + number}")) for number in range(9)))
    tried = []
    for _ in range(4):
        timed.turn()
        tried.append(len(timed.carried.decisions))
    assert tried == [4, 5, 6, 7], "once the share is used up, an attempt a turn"


def test_what_pods_take_ordinarily_that_are_placed_counts_for_nobody() -> None:
    assert _order_of_starts(PLACED_SECONDS / 2) == [*(f"p{number}" for number in range(8)), "q"]


def test_others_go_before_a_namespace_whose_pods_take_long_until_they_are_placed() -> None:
    names = _order_of_starts(DECIDE_SECONDS * 0.4)
    assert names.index("q") <= 4


def _order_of_starts(seconds: float) -> list[str]:
    """The pods of one namespace, each of which takes so long, and then one of another, as they are placed."""
    timed = Timed()
    timed.slow_steps(seconds)
    timed.put(*(seen(PODS, pod(f"p{number}", cpu="0.01")) for number in range(8)))
    timed.put(seen(PODS, msgspec.structs.replace(pod("q", cpu="0.01"), namespace="b")))
    for _ in range(20):
        timed.turn()
    return [placed.pod.name for placed in timed.carried.placed]


def test_changes_of_one_object_stay_in_order_over_turns() -> None:
    timed = Timed()
    first = pod("p", cpu="8")
    second = msgspec.structs.replace(first, labels={"second": ""})
    timed.put(seen(PODS, first), timed.takes(1.0), seen(PODS, second, "MODIFIED"), timed.takes(1.0))
    timed.put(Event("DELETED", PODS, first.key, first.uid), seen(PODS, pod("p", uid="new", cpu="8")))
    found = []
    for _ in range(3):
        timed.turn()
        found.append([(item.uid, item.labels) for item in timed.scheduler.state.pods.values()])
    assert found == [[("p", {})], [("p", {"second": ""})], [("new", {})]]


def test_a_loop_that_never_gets_done_is_not_taken_for_one_that_hangs() -> None:
    timed = Timed()
    dog = Watchdog(timed.loop.heartbeat, lambda: timed.now)
    said: list[str] = []
    timed.put(*(timed.takes(HANG_SECONDS / 2, lambda: said.append(dog.look())) for _ in range(50)))
    for _ in range(50):
        timed.turn()
    assert (len(said), set(said)) == (50, {""})


def test_an_event_that_never_ends_is_a_hang() -> None:
    timed = Timed()
    dog = Watchdog(timed.loop.heartbeat, lambda: timed.now)
    said: list[str] = []

    def endless() -> None:
        for _ in range(int(HANG_SECONDS) + 2):
            timed.now += 1.0
            said.append(dog.look())

    timed.put(timed.takes(0.0, endless))
    timed.turn()
    assert said[:-2] == [""] * int(HANG_SECONDS)
    assert said[-1].startswith("the scheduling loop hangs for 6")
    assert said[-1].endswith(", taking events")


@pytest.mark.parametrize(("seconds", "told"), [(1.9, 0), (2.1, 1)])
def test_a_slow_turn_is_told_with_figures(
    seconds: float, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    timed = Timed()
    timed.put(seen(PODS, pod()), timed.takes(seconds))
    with caplog.at_level(logging.WARNING):
        timed.turn()
    assert timed.metrics.registry.get_sample_value("muster_slow_turns_total") == told
    assert [record.getMessage() for record in caplog.records] == ["a slow turn of the loop: 2.1 s"] * told
    for record in caplog.records:
        shown = record.__dict__["fields"]
        assert (shown["events"], shown["taking_events"]) == (2, 2.1)
        assert shown["decisions"] >= 1


def test_waiting_for_events_is_no_turn() -> None:
    timed = Timed()
    timed.now += 100.0
    timed.turn()
    assert timed.metrics.registry.get_sample_value("muster_slow_turns_total") == 0


def test_a_stop_ends_the_loop_whatever_waits() -> None:
    timed = Timed()
    timed.put(*(timed.takes(1.0) for _ in range(100)))
    timed.loop.stop()
    timed.loop.run()
    assert timed.loop.inbox.qsize() == 101


def test_statuses_wait_like_decisions_while_too_many_writes_have_no_answer() -> None:
    asked: list[float] = []

    class Status:
        def reconcile(self, state: ClusterState, now: float) -> list[Write]:
            asked.append(now)
            return []

        def next_time(self, state: ClusterState) -> float | None:
            return 0.0

    timed = Timed(Status())
    asked.clear()
    timed.carried.backlog = 1_000_000
    timed.turn()
    assert (asked, timed.loop.timeout() > 0.0) == ([], True), "and the loop does not spin meanwhile"
    timed.carried.backlog = 0
    timed.turn()
    assert len(asked) == 1


def test_the_loop_wakes_up_for_what_is_still_to_be_said() -> None:
    timed = Timed()
    timed.carried.due = timed.now + 0.25
    assert timed.loop.timeout() == pytest.approx(0.25)
    before = len(timed.carried.caught_up)
    timed.turn()
    assert len(timed.carried.caught_up) == before + 1


def test_a_pod_that_changes_all_the_time_is_tried_once_a_backoff() -> None:
    timed = Timed()
    kept: list[int] = []
    for number in range(600):
        timed.now += 0.1
        timed.put(seen(PODS, msgspec.structs.replace(pod(cpu="8"), labels={"turn": str(number)}), "MODIFIED"))
        timed.turn()
        if number % 10 == 9:
            kept.append(entries(timed.scheduler.queue))
    # After 1, 2, 4 and 8 s, and every 10 s from then on.
    assert len(timed.carried.decisions) == 1 + 4 + 4
    assert max(kept[30:]) < min(kept[1:30]) + 200, "and what it leaves behind is bounded"


def test_a_pod_that_changes_in_nothing_that_matters_is_not_tried_at_all() -> None:
    timed = Timed()
    for number in range(600):
        timed.now += 0.1
        told = msgspec.structs.replace(pod(cpu="8"), annotations={"turn": str(number)})
        timed.put(seen(PODS, told, "MODIFIED"))
        timed.turn()
    assert len(timed.carried.decisions) == 1
