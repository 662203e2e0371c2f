"""Two schedulers and one lease: stolen, deleted, emptied, cut off, suspended, and on clocks that step."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.scheduler.test_scheduler_ha import await_leader
from tests.support.clusters.scheduler import PROGRAM, SchedulerProcess
from tests.support.eventually import eventually
from tests.support.faults.burst import SETTLE_SECONDS, Burst, Losses
from tests.support.faults.clock import Shift
from tests.support.faults.rules import Call, Rule, is_binding
from tests.support.faults.stage import SOME, Stage

pytestmark = pytest.mark.timeout(300)

Record = Callable[[str, int, Losses], None]
STEP_SECONDS = 600.0
# Short, so that others need not wait for long, and long enough for a machine that is busy.
BRIEF = (
    "--leader-elect-lease-duration=10s",
    "--leader-elect-renew-deadline=8s",
    "--leader-elect-retry-period=500ms",
)


class Pair:
    """Two candidates, each behind a door of its own, and the burst between them."""

    def __init__(
        self, stage: Stage, leader: tuple[SchedulerProcess, str], other: tuple[SchedulerProcess, str]
    ) -> None:
        self.leader, self.leader_door = leader
        self.other, self.other_door = other
        self._stage = stage

    def is_renewal(self, call: Call) -> bool:
        """Whether the leader asks about its lease, or writes it."""
        return call.door == self.leader_door and "/leases" in call.path

    def bindings_after_the_other_began(self) -> list[Call]:
        """What the API server took from the old leader after it had taken something from the new one."""
        calls = list(self._stage.journal.calls)
        taken = [call for call in calls if is_binding(call) and call.status == 201]
        first = min((call.number for call in taken if call.door == self.other_door), default=None)
        if first is None:
            return []
        return [call for call in taken if call.door == self.leader_door and call.number > first]


@contextmanager
def pair(
    stage: Stage, burst: Burst, times: tuple[str, ...] = BRIEF, program: tuple[str, ...] = PROGRAM
) -> Iterator[Pair]:
    """Two candidates for a lease in the burst's namespace. They end with the block."""
    flags = (*times, f"--leader-elect-resource-namespace={burst.capped}")
    stage.journal.calls.clear()
    doors = ("first", "second")
    processes = [stage.start(*flags, door=door, elect=True, program=program) for door in doors]
    try:
        leader, other = await_leader(*processes)
        named = dict(zip(map(id, processes), doors, strict=True))
        yield Pair(stage, (leader, named[id(leader)]), (other, named[id(other)]))
    finally:
        for candidate in processes:
            candidate.process.kill()
            candidate.process.wait(60)


def lease_path(burst: Burst) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{burst.capped}/leases/muster-scheduler"


def steal(stage: Stage, burst: Burst) -> None:
    stage.cluster.request("PATCH", lease_path(burst), {"spec": {"holderIdentity": "a-thief"}})


def empty(stage: Stage, burst: Burst) -> None:
    stage.cluster.request("PATCH", lease_path(burst), {"spec": {"holderIdentity": ""}})


def delete(stage: Stage, burst: Burst) -> None:
    stage.cluster.request("DELETE", lease_path(burst))


THEFTS = [
    ("lease stolen by a stranger", steal),
    ("lease emptied by hand", empty),
    ("lease deleted by hand", delete),
]


def churned_until_the_end(burst: Burst, process: SchedulerProcess) -> int | None:
    """The exit code of a scheduler that ends by itself; until then somebody has always something to bind."""

    def ended() -> bool:
        burst.churn()
        return process.process.poll() is not None

    eventually(ended, SETTLE_SECONDS)
    return process.process.poll()


@pytest.mark.parametrize(("sentence", "harm"), THEFTS, ids=[theft[0] for theft in THEFTS])
def test_a_lease_taken_from_its_leader_behind_its_back_makes_no_two_leaders(
    stage: Stage, record: Record, sentence: str, harm: Callable[[Stage, Burst], None]
) -> None:
    burst = stage.unwatched_burst()
    with pair(stage, burst) as two:
        burst.begin()
        burst.await_bound(SOME)
        # The leader learns of nothing, so that only its own clock can stop it.
        stage.journal.add(Rule(two.is_renewal, drop=True))
        harm(stage, burst)
        assert churned_until_the_end(burst, two.leader) == 1
        losses = burst.settle(lambda: two.other)
        assert two.bindings_after_the_other_began() == []
    record(sentence, 1, losses)


def test_a_leader_that_was_suspended_does_nothing_when_it_wakes(stage: Stage, record: Record) -> None:
    burst = stage.unwatched_burst()
    with pair(stage, burst) as two:
        burst.begin()
        burst.await_bound(SOME)
        two.leader.process.send_signal(signal.SIGSTOP)
        try:
            eventually(lambda: two.other.leads, SETTLE_SECONDS)
            losses = burst.settle(lambda: two.other)
        finally:
            two.leader.process.send_signal(signal.SIGCONT)
        assert two.leader.process.wait(SETTLE_SECONDS) == 1
        assert two.bindings_after_the_other_began() == []
    record("leader suspended in the burst, woken under another", 1, losses)


def test_a_leader_that_is_cut_off_gives_way(stage: Stage, record: Record) -> None:
    burst = stage.unwatched_burst()
    with pair(stage, burst) as two:
        burst.begin()
        burst.await_bound(SOME)
        stage.proxy.door(two.leader_door).close()
        assert churned_until_the_end(burst, two.leader) == 1
        losses = burst.settle(lambda: two.other)
        assert two.bindings_after_the_other_began() == []
    record("leader cut off from the API server", 1, losses)


def test_steps_of_the_wall_clock_hold_up_nothing(stage: Stage, record: Record, tmp_path: Path) -> None:
    shift = Shift(tmp_path / "shift")
    burst = stage.unwatched_burst()
    steps = (STEP_SECONDS, -STEP_SECONDS)
    with pair(stage, burst, times=(), program=shift.program) as two:
        burst.begin()
        burst.await_bound(SOME)
        for step in steps:
            shift.step(step)
            losses = burst.settle(lambda: two.leader)
            assert two.leader.leads
            assert losses.all() == []
            burst.refill()
        losses = burst.settle(lambda: two.leader)
        assert two.leader.leads
        assert not two.other.leads
    record("wall clock stepped by +10 and -10 minutes", len(steps), losses)
