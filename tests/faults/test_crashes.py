"""A scheduler killed with SIGKILL at each step between a decision and its end; a new one takes over."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.support.eventually import eventually
from tests.support.faults.burst import SETTLE_SECONDS, Burst, Losses
from tests.support.faults.rules import Call, Gate, Matches, Rule, is_binding, is_event, is_eviction, watches
from tests.support.faults.stage import SOME, Stage

pytestmark = pytest.mark.timeout(300)

Record = Callable[[str, int, Losses], None]


@dataclass(frozen=True)
class Step:
    """Where the scheduler is when it dies: matching requests are held, `after` the server did them or before.

    The first `passing` of them go through; `anew`: connections break first, so that a watch is among them.
    """

    sentence: str
    matches: Matches
    after: bool = False
    passing: int = 0
    anew: bool = False


def of_gang(call: Call) -> bool:
    return is_binding(call) and "/namespaces/gang-" in call.path


STEPS = [
    Step("killed when the binding is decided and has not arrived", is_binding),
    Step("killed when the binding is accepted and not answered", is_binding, after=True),
    Step(
        "killed when the binding is answered and the watch is behind", watches("pods"), after=True, anew=True
    ),
    Step("killed when the pod is bound and its event is not posted", is_event),
    Step("killed when one of four members is bound", of_gang, passing=1),
    Step("killed when three of four members are bound", of_gang, passing=3, after=True),
]


def kill(stage: Stage) -> None:
    """SIGKILL; what is held then never arrives."""
    stage.process.end(signal.SIGKILL)
    stage.journal.clear()


@pytest.mark.parametrize("step", STEPS, ids=[step.sentence for step in STEPS])
def test_a_scheduler_killed_on_the_way_loses_nothing(stage: Stage, record: Record, step: Step) -> None:
    burst = stage.burst()
    gate = Gate()
    held = Rule(step.matches, after=gate) if step.after else Rule(step.matches, before=gate)
    rules = [Rule(step.matches, times=step.passing), held] if step.passing else [held]
    stage.journal.add(*rules)
    burst.begin()
    if step.anew:
        burst.await_bound(SOME)
        stage.proxy.door("main").break_connections()
        burst.stir()
    eventually(lambda: gate.held, SETTLE_SECONDS, interval=0.01)
    kill(stage)
    record(step.sentence, 1, burst.settle(lambda: stage.process))


EVICTIONS = [
    Step("killed when the victim is chosen and not evicted", is_eviction),
    Step("killed when the victim is evicted and not answered", is_eviction, after=True),
]


@pytest.mark.parametrize("step", EVICTIONS, ids=[step.sentence for step in EVICTIONS])
def test_a_scheduler_killed_while_it_preempts_evicts_one_victim_in_all(
    stage: Stage, record: Record, step: Step
) -> None:
    burst = stage.burst()
    burst.begin()
    assert burst.settle(lambda: stage.process).all() == []
    stage.urgent_class()
    gate = Gate()
    stage.journal.add(Rule(step.matches, after=gate) if step.after else Rule(step.matches, before=gate))
    burst.create(burst.capped, "urgent", priorityClassName="urgent")
    eventually(lambda: gate.held, SETTLE_SECONDS, interval=0.01)
    kill(stage)
    losses = preempted(stage, burst)
    record(step.sentence, 1, losses)


def preempted(stage: Stage, burst: Burst) -> Losses:
    """The steady state once the urgent pod runs in the place of one other."""
    witness = stage.ground.witness
    assert stage.process.page("/readyz")[0] == 200
    eventually(lambda: "urgent" in witness.bound(burst.capped), SETTLE_SECONDS)
    (victim, *_) = burst.gone(burst.capped)
    burst.forget(burst.capped, victim)
    return burst.settle(lambda: stage.process)
