"""The leader is killed while thousands of pods wait under a full quota."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.test_leaders import pair
from tests.support.clusters.scheduler import SchedulerProcess
from tests.support.eventually import eventually
from tests.support.faults.burst import Losses
from tests.support.faults.ground import Ground, prepared
from tests.support.faults.stage import SOME, Stage

pytestmark = pytest.mark.timeout(600)

Record = Callable[[str, int, Losses], None]
# To write a pod into a kube-apiserver costs twice as much, and its lists come in pages from 500 pods on: here
# in four.
BACKLOG = {"sandbox": 20000, "kube-apiserver": 2000}
# Seconds until a scheduler knows so many pods.
KNOWN = 60.0


@pytest.fixture
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """A server of the test's own: to throw it away costs less than to delete the backlog."""
    with prepared(request.param) as found:
        yield found


@pytest.fixture
def stage(ground: Ground, tmp_path: Path) -> Iterator[Stage]:
    with Stage(ground, tmp_path) as running:
        yield running


def knows(process: SchedulerProcess, backlog: int) -> bool:
    return process.metric("scheduler_pending_pods") >= backlog - 1


def test_a_leader_killed_with_a_backlog_is_followed_by_one_that_goes_on(stage: Stage, record: Record) -> None:
    burst, backlog = stage.unwatched_burst(), BACKLOG[stage.ground.kind]
    full = burst.add_namespace("full", 1)
    burst.create_crowd(full, backlog)
    with pair(stage, burst) as two:
        eventually(lambda: all(knows(each, backlog) for each in (two.leader, two.other)), KNOWN, interval=0.2)
        burst.begin()
        burst.await_bound(SOME)
        two.leader.process.kill()
        eventually(lambda: two.other.leads, KNOWN)
        losses = burst.settle(lambda: two.other)
        assert two.bindings_after_the_other_began() == []
    record(f"leader killed with a backlog of {backlog:,}", 1, losses)
