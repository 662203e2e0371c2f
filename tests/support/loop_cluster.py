"""A cluster in memory that the scheduling loop itself turns, with the controllers of its process."""

from __future__ import annotations

from collections import deque
from typing import Final, Self

from scheduler_core.app.loop.loop import Loop
from scheduler_core.app.metrics.metrics import SchedulerMetrics
from scheduler_core.app.wiring import own_controllers
from scheduler_core.config import SchedulerConfiguration
from scheduler_core.controllers.controller import Controller
from scheduler_core.controllers.node_metric_policy import NodeMetricPolicy
from scheduler_core.controllers.problem_events import CollectPolicyProblems
from scheduler_core.engine.decisions import Decision, Placed
from scheduler_core.model.pods.requests import ResizeRule
from scheduler_core.model.writes import Write
from scheduler_core.simulate.scenario import START
from scheduler_core.simulate.world import Simulation

# More turns at one moment than any lawful change of a small cluster needs.
MOST_TURNS: Final = 100


class LoopCluster(Simulation):
    """`run` turns the loop until it would sleep; what does not come to rest is an AssertionError."""

    def __init__(
        self,
        config: SchedulerConfiguration | None = None,
        now: float = START,
        rule: ResizeRule = ResizeRule.LARGEST_SUM,
    ) -> None:
        super().__init__(config, now, rule)
        # As in the process, each with its pace.
        controllers = own_controllers(self.scheduler.profiles)
        controllers += [NodeMetricPolicy(needs_config=True), CollectPolicyProblems()]
        self.controllers: list[Controller] = controllers
        self.loop = Loop(self.scheduler, controllers, (), SchedulerMetrics("test"), wall=lambda: self.now)
        self.loop.dispatcher = _Carrier(self)

    def copy(self, config: SchedulerConfiguration | None = None) -> Self:
        """A second cluster, whose process was just started."""
        twin = super().copy(config)
        assert isinstance(twin, type(self))
        return twin

    def run(self, *, messages: bool = True) -> None:
        """Turn the loop until it would sleep; the clock stands still."""
        for _ in range(MOST_TURNS):
            self.loop.turn(0.0)
            if self.loop.timeout() > 0.0:
                assert self.loop.schedule.stuck == (), "parts that are due for ever"
                return
        raise AssertionError(f"{MOST_TURNS} turns, and the loop would not sleep")

    def carry_write(self, write: Write) -> None:
        """Do what a controller writes."""
        self._write(write)


class _Carrier:
    """Carries decisions and writes out at once."""

    def __init__(self, cluster: LoopCluster) -> None:
        self.accepted: deque[tuple[float, Placed]] = deque()
        self.backlog = 0
        self._cluster = cluster

    def submit(self, decision: Decision, timing: object) -> None:
        self._cluster.carry_out(decision)

    def review(self, decision: Decision, timing: object) -> None:
        self._cluster.carry_out(decision)

    def submit_write(self, write: Write) -> None:
        self._cluster.carry_write(write)

    def flush_reports(self, now: float) -> None:
        pass

    def next_time(self) -> float | None:
        return None

    def verify(self, decision: Placed) -> None:
        pass
