"""How long pods run: by deadlines, and by the run times of pods that have finished."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from scheduler_core.model.pods.pod import Pod
from scheduler_core.simulate.world import Simulation

# Fewer finished pods than this say nothing of how long others run.
FEWEST: Final = 3
SUCCEEDED: Final = "Succeeded"
# The kind of pods without a controller.
NO_OWNER: Final = "Pod"


class FinishedPod(msgspec.Struct, frozen=True):
    """A pod (`namespace/name`) that has succeeded, and when its last container ended."""

    pod: str
    ended: float


class JobTimes(msgspec.Struct, frozen=True):
    """What the object of a Job says: `more` pods follow when those that are there have ended."""

    namespace: str
    name: str
    started: float | None = None
    completed: float | None = None
    deadline: int | None = None
    more: int = 0

    @property
    def ends(self) -> float | None:
        """When its deadline ends it; None without one, or if it has not started."""
        return None if self.started is None or self.deadline is None else self.started + self.deadline


class RunTimes(msgspec.Struct, frozen=True):
    """The run times of the finished pods of an owner kind in a namespace, in seconds, the shortest first."""

    namespace: str
    owner_kind: str
    seconds: tuple[float, ...]

    def quantile(self, share: float, beyond: float = 0.0) -> float | None:
        """The run time that this share of the pods did not exceed; None if it is not known.

        Only pods that ran longer than `beyond` count: a pod that has run so long is one of them.
        """
        longer = [item for item in self.seconds if item > beyond]
        if len(self.seconds) < FEWEST or not longer:
            return None
        return longer[max(0, math.ceil(share * len(longer)) - 1)]


class RunTimeRange(msgspec.Struct, frozen=True):
    """All that is known of how long the pods of a cluster run."""

    samples: Mapping[tuple[str, str], RunTimes]
    jobs: Mapping[tuple[str, str], JobTimes]

    def sample_of(self, pod: Pod) -> RunTimes | None:
        """The run times of finished pods like this one."""
        return self.samples.get((pod.namespace, owner_kind(pod)))

    def job_of(self, pod: Pod) -> JobTimes | None:
        """The Job of a pod."""
        owner = pod.controller
        return self.jobs.get((pod.namespace, owner.name)) if owner and owner.kind == "Job" else None

    def deadline_of(self, pod: Pod, started: float) -> float | None:
        """When a pod that started then is ended at the latest, by its deadline or that of its Job."""
        found = [started + pod.lasts] if pod.lasts is not None else []
        job = self.job_of(pod)
        if job is not None and job.deadline is not None:
            found.append((started if job.started is None else job.started) + job.deadline)
        return min(found, default=None)


def owner_kind(pod: Pod) -> str:
    """The kind of a pod's controller; `Pod` without one."""
    return pod.controller.kind if pod.controller is not None else NO_OWNER


def times_of(
    simulation: Simulation, finished: Iterable[FinishedPod], jobs: Sequence[JobTimes]
) -> RunTimeRange:
    """The run times by namespace and owner kind, of finished pods and of Jobs whose pods are gone."""
    ended = {item.pod: item.ended for item in finished}
    found: dict[tuple[str, str], list[float]] = {}
    seen: set[tuple[str, str]] = set()
    for pod in simulation.state.pods.values():
        if pod.controller is not None and pod.controller.kind == "Job":
            seen.add((pod.namespace, pod.controller.name))
        if pod.phase == SUCCEEDED and pod.key in ended and pod.start_time is not None:
            ran = max(0.0, ended[pod.key] - pod.start_time)
            found.setdefault((pod.namespace, owner_kind(pod)), []).append(ran)
    for job in jobs:
        if (job.namespace, job.name) not in seen and job.started is not None and job.completed is not None:
            ran = max(0.0, job.completed - job.started)
            found.setdefault((job.namespace, "Job"), []).append(ran)
    samples = {key: RunTimes(*key, tuple(sorted(seconds))) for key, seconds in found.items()}
    return RunTimeRange(samples, {(job.namespace, job.name): job for job in jobs})
