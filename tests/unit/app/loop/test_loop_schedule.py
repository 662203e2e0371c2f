"""The loop between its turns: it sleeps until some part is due, and no faulty part keeps it busy."""

from __future__ import annotations

import pytest

from scheduler_core.app.loop.clock import SteadyClock
from scheduler_core.app.loop.loop import Loop
from scheduler_core.app.loop.schedule import FLOOR_SECONDS, RESTLESS_SECONDS, STUCK_TURNS
from scheduler_core.app.metrics.metrics import SchedulerMetrics
from scheduler_core.config.load import muster_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.registry import build_profiles
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import PODS
from scheduler_core.model.writes import Delete, Write
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from tests.unit.app.loop.test_loop import Carried, Rig, pod, seen


class Forgetful:
    """A controller that returns early, and leaves its moment where it was."""

    def __init__(self) -> None:
        self.due: float | None = 990.0
        self.turns = 0

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        self.turns += 1
        return []

    def next_time(self, state: ClusterState) -> float | None:
        return self.due


class Postponing:
    """A controller that puts off what it has to do to this very moment; `writes`: it does some of it."""

    def __init__(self, *, writes: bool = False) -> None:
        self._writes = writes
        self._due = 990.0

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        self._due = now
        return [Delete(PODS, "a", "p")] if self._writes else []

    def next_time(self, state: ClusterState) -> float | None:
        return self._due


def stuck(rig: Rig) -> dict[str, float]:
    """The parts that the metric names."""
    family = next(item for item in rig.metrics.registry.collect() if item.name == "muster_stuck_part")
    return {sample.labels["part"]: sample.value for sample in family.samples}


def test_a_part_that_never_moves_is_named_and_keeps_the_loop_busy_no_longer() -> None:
    forgetful = Forgetful()
    rig = Rig(forgetful)
    rig.sync()
    assert set(stuck(rig).values()) == {0.0}, "every part is exported before anything happens"
    for _ in range(STUCK_TURNS):
        assert rig.loop.timeout() == 0.0
        rig.turn()
    assert rig.loop.timeout() == FLOOR_SECONDS
    assert rig.loop.schedule.stuck == ("Forgetful",)
    assert {part for part, value in stuck(rig).items() if value} == {"Forgetful"}
    # In a minute it has a turn a second.
    before = forgetful.turns
    for _ in range(60):
        rig.now += rig.loop.timeout()
        rig.turn()
    assert (forgetful.turns - before, rig.now) == (60, 1060.0)
    # Nobody else waits for it.
    rig.turn(seen(PODS, pod()))
    assert [placed.pod.name for placed in rig.carried.placed] == ["p"]
    forgetful.due = None
    rig.turn()
    rig.loop.timeout()
    assert (rig.loop.schedule.stuck, set(stuck(rig).values())) == ((), {0.0})


@pytest.mark.parametrize(
    ("writes", "named"),
    [
        pytest.param(False, ("Postponing",), id="it does nothing"),
        pytest.param(True, (), id="it does some of it in each turn"),
    ],
)
def test_a_part_that_is_due_for_a_minute_is_named_if_it_brings_nothing_about(
    writes: bool, named: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(Postponing(writes=writes))
    monkeypatch.setattr(rig.carried, "submit_write", lambda write: None)
    rig.sync()
    began = rig.now
    while rig.now < began + 2 * RESTLESS_SECONDS:
        rig.turn()
        rig.now += 1.0 + rig.loop.timeout()
    assert rig.loop.schedule.stuck == named


def test_reports_that_never_go_out_are_named() -> None:
    rig = Rig()
    rig.sync()
    rig.carried.due = 990.0
    for _ in range(STUCK_TURNS + 1):
        rig.turn()
        rig.loop.timeout()
    assert rig.loop.schedule.stuck == ("reports",)


def test_who_does_not_lead_names_nobody() -> None:
    rig = Rig(Forgetful())
    rig.sync()
    rig.leads = False
    for _ in range(10 * STUCK_TURNS):
        rig.turn()
        assert rig.loop.timeout() == 1.0
    assert rig.loop.schedule.stuck == ()


@pytest.mark.parametrize("step", [-3600.0, 3600.0], ids=["back", "forward"])
def test_a_clock_that_is_set_stops_no_backoff_and_names_nobody(step: float) -> None:
    seconds, jump = [0.0], [0.0]
    clock = SteadyClock(lambda: seconds[0], lambda: 1000.0 + seconds[0] + jump[0])
    scheduler = Scheduler(ClusterState(), build_profiles(muster_config(), FACTORIES, KNOWN_PLUGINS))
    loop = Loop(scheduler, (), [PODS], SchedulerMetrics("test"), wall=clock, monotonic=lambda: seconds[0])
    loop.dispatcher = Carried()
    for item in (Event("SYNCED", PODS), seen(PODS, pod())):
        loop.inbox.put(item)
    loop.turn(0.0)
    scheduler.queue.undone("p", clock())
    assert scheduler.queue.next_time() == 1001.0
    jump[0] = step
    turns = 0
    while scheduler.queue.next_time() == 1001.0:
        # No system wakes a program at the very moment.
        seconds[0] += max(loop.timeout(), 0.001)
        loop.turn(0.0)
        turns += 1
    assert (seconds[0] <= 2.1, turns <= 20, loop.schedule.stuck) == (True, True, ())
