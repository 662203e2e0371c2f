"""The queue run forward: pods end, their Jobs create the next ones, and the scheduler places who waits."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from scheduler_core.answers.eta.run_times import SUCCEEDED, RunTimeRange
from scheduler_core.answers.suppositions import waiting_twin
from scheduler_core.answers.why.subject import Goal, reached
from scheduler_core.model.pods.pod import Pod
from scheduler_core.simulate.world import Simulation

# Beyond this nobody plans.
_HORIZON: Final = 366 * 86_400.0
# With more pods than this, ends that follow each other closely are taken together, to bound the runs.
_MANY: Final = 500
_CLOSE: Final = 0.02


class Forecast(msgspec.Struct, frozen=True):
    """When the work starts, in seconds since the epoch; None if it does not start while pods with an end end.

    `message` is what the scheduler then says of its first waiting pod. `endless` counts the pods without a
    known end that hold a node in the end. `ended` counts the pods that ended until then.
    """

    starts: float | None
    message: str = ""
    endless: int = 0
    ended: int = 0


def forecast(
    goal: Goal, waiting: tuple[str, ...], times: RunTimeRange, share: float
) -> Callable[..., Forecast]:
    """A question: when the work starts if pods run as long as this share of the finished ones did."""
    return lambda simulation: _Course(simulation, times, share).until(goal, waiting)


class StartTimes(msgspec.Struct, frozen=True):
    """When each of several goals is reached, in seconds since the epoch; None for those that were not."""

    starts: tuple[float | None, ...]


def start_times(
    goals: Sequence[Goal], times: RunTimeRange, share: float, expired: Callable[[], bool]
) -> Callable[..., StartTimes]:
    """A question: as `forecast`, of several goals in one course; `expired` ends it early."""
    return lambda simulation: _Course(simulation, times, share).until_each(goals, expired)


class _Course:
    """What happens in a simulation from now on."""

    def __init__(self, simulation: Simulation, times: RunTimeRange, share: float) -> None:
        self._simulation = simulation
        self._times = times
        self._share = share
        self._began = simulation.now
        # (end, number, pod): pods with a node whose end is known.
        self._ends: list[tuple[float, int, Pod]] = []
        self._more = Counter({key: job.more for key, job in times.jobs.items()})
        self._numbers = itertools.count()
        self._made = self._ended = self._placed = self._evicted = 0
        for pod in simulation.state.pods.values():
            if pod.assigned and not pod.finished:
                self._note(pod, pod.start_time or pod.created)
            elif not pod.finished:
                self._note_waiting(pod)

    def until(self, goal: Goal, waiting: tuple[str, ...]) -> Forecast:
        """Go on until the work has started, or nothing more ends."""
        while True:
            self._run()
            if reached(self._simulation, goal):
                return Forecast(self._simulation.now, ended=self._ended)
            if not self._ends or self._ends[0][0] > self._began + _HORIZON:
                return self._stuck(waiting)
            self._end_next()

    def until_each(self, goals: Sequence[Goal], expired: Callable[[], bool]) -> StartTimes:
        """Go on until all goals are reached, nothing more ends, or the time for it is over."""
        found: list[float | None] = [None] * len(goals)
        open_goals = dict(enumerate(goals))
        while True:
            self._run()
            for number in [key for key, goal in open_goals.items() if reached(self._simulation, goal)]:
                found[number] = self._simulation.now
                del open_goals[number]
            over = not self._ends or self._ends[0][0] > self._began + _HORIZON
            if not open_goals or over or expired():
                return StartTimes(tuple(found))
            self._end_next()

    def _stuck(self, waiting: tuple[str, ...]) -> Forecast:
        told = (self._simulation.rejected.get(pod) for pod in waiting)
        message = next((rejected.message for rejected in told if rejected is not None), "")
        endless = sum(pod.assigned and not pod.finished for pod in self._simulation.state.pods.values())
        return Forecast(None, message, endless, self._ended)

    def _run(self) -> None:
        """Let the scheduler run. Controllers create pods again that were evicted."""
        simulation = self._simulation
        before = simulation.objects.copy(lambda: simulation.now)
        simulation.run()
        for item in simulation.placed[self._placed :]:
            pod = simulation.known.get(("Pod", item.pod.namespace, item.pod.name))
            if pod is not None and pod.uid == item.pod.uid:
                self._note(pod, simulation.now)
        self._placed = len(simulation.placed)
        evicted = simulation.evicted[self._evicted :]
        self._evicted = len(simulation.evicted)
        for victim in evicted:
            obj = before.get(("Pod", victim.pod.namespace, victim.pod.name))
            if obj is not None and victim.pod.controller is not None:
                self._create_like(obj)
        if evicted:
            self._run()

    def _note(self, pod: Pod, started: float) -> None:
        """Note when a pod that started then ends, if that is known."""
        now = self._simulation.now
        if pod.deleted is not None:
            end: float | None = pod.deleted
        else:
            sample = self._times.sample_of(pod)
            ran = sample.quantile(self._share, now - started) if sample is not None else None
            known = (None if ran is None else started + ran, self._times.deadline_of(pod, started))
            end = min((moment for moment in known if moment is not None), default=None)
        if end is not None:
            self._push(end, pod)

    def _note_waiting(self, pod: Pod) -> None:
        """The deadline of a Job also ends its pods that wait."""
        job = self._times.job_of(pod)
        if job is not None and job.ends is not None:
            self._push(job.ends, pod)

    def _push(self, end: float, pod: Pod) -> None:
        heapq.heappush(self._ends, (max(end, self._simulation.now), next(self._numbers), pod))

    def _end_next(self) -> None:
        """Move the clock to the next end, and let the pods end whose time has come."""
        first = self._ends[0][0]
        until = first
        if len(self._ends) > _MANY:
            until = first + (first - self._began) * _CLOSE
        self._simulation.advance(until - self._simulation.now)
        while self._ends and self._ends[0][0] <= until:
            self._end(heapq.heappop(self._ends)[2])

    def _end(self, pod: Pod) -> None:
        simulation = self._simulation
        key = ("Pod", pod.namespace, pod.name)
        found, obj = simulation.known.get(key), simulation.get(*key)
        if obj is None or found is None or found.uid != pod.uid or found.finished:
            return  # it was evicted meanwhile
        self._ended += 1
        job = self._times.job_of(pod)
        over = job is not None and job.ends is not None and job.ends <= simulation.now
        if pod.deleted is not None or not found.assigned:
            simulation.delete(obj)
            return
        if job is not None and not over and self._more[job.namespace, job.name] > 0:
            self._more[job.namespace, job.name] -= 1
            self._create_like(obj)
        simulation.update({**obj, "status": {**(obj.get("status") or {}), "phase": SUCCEEDED}})

    def _create_like(self, obj: dict[str, Any]) -> None:
        self._made += 1
        twin = waiting_twin(obj, f"{obj['metadata']['name']}-next-{self._made}")
        twin["metadata"]["uid"] = f"{twin['metadata']['name']} ({self._made})"
        self._simulation.create(twin)
        self._note_waiting(
            self._simulation.known["Pod", twin["metadata"]["namespace"], twin["metadata"]["name"]]
        )
