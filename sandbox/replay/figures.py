"""The figures of a replay: waits, completion, utilisation, evictions and lost work."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

HOUR = 3600.0


@dataclass(slots=True)
class JobRecord:
    """What became of a job. Times in seconds; `waited` is all the time in the queue, after evictions, too.

    `lost`: GPU-seconds that were done and had to be done again.
    """

    quota: str
    gpus: int
    submit: float
    duration: float
    ended: float | None = None
    waited: float = 0.0
    evictions: int = 0
    lost: float = 0.0


@dataclass(frozen=True)
class WaitFigures:
    """Mean and percentiles (nearest rank) of waits, in hours."""

    mean: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True)
class Summary:
    """The figures of some jobs. Hours; `lost_percent` is of the work of the jobs that ended.

    `never`: jobs that did not end, since they can never start. They have no wait.
    """

    jobs: int
    waits: WaitFigures
    completion: float
    evictions: int
    lost_gpu_hours: float
    lost_percent: float
    never: int


@dataclass
class Timeline:
    """GPUs in use and GPUs that waiting jobs ask for, as means over equal spans of time."""

    end: float
    spans: int = 400
    used: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.used = [0.0] * self.spans
        self.waiting = [0.0] * self.spans

    @property
    def width(self) -> float:
        """Seconds of one span."""
        return self.end / self.spans

    def add(self, start: float, stop: float, used: int, waiting: int) -> None:
        """These numbers held from `start` to `stop` (seconds); what is after the end is left out."""
        stop = min(stop, self.end)
        width = self.width
        while start < stop:
            index = min(int(start / width), self.spans - 1)
            until = stop if index == self.spans - 1 else min(stop, (index + 1) * width)
            if until <= start:
                index, until = index + 1, min(stop, (index + 2) * width)
            self.used[index] += used * (until - start) / width
            self.waiting[index] += waiting * (until - start) / width
            start = until

    def mean_used(self) -> float:
        """GPUs in use, on average."""
        return sum(self.used) / self.spans


def waits_of(seconds: Iterable[float]) -> WaitFigures:
    """The waits in hours; zeros if there are none."""
    ordered = sorted(seconds)
    if not ordered:
        return WaitFigures(0.0, 0.0, 0.0, 0.0)
    return WaitFigures(
        math.fsum(ordered) / len(ordered) / HOUR,
        *(_rank(ordered, percent) / HOUR for percent in (50, 90, 99)),
    )


def _rank(ordered: Sequence[float], percent: int) -> float:
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def summary(records: Iterable[JobRecord]) -> Summary:
    """The figures of these jobs."""
    everyone = list(records)
    ended = [record for record in everyone if record.ended is not None]
    work = math.fsum(record.duration * record.gpus for record in ended)
    lost = math.fsum(record.lost for record in everyone)
    took = math.fsum(record.waited + record.duration + record.lost / record.gpus for record in ended)
    return Summary(
        jobs=len(everyone),
        waits=waits_of(record.waited for record in ended),
        completion=took / len(ended) / HOUR if ended else 0.0,
        evictions=sum(record.evictions for record in everyone),
        lost_gpu_hours=lost / HOUR,
        lost_percent=100 * lost / work if work else 0.0,
        never=len(everyone) - len(ended),
    )


def by_quota(records: Iterable[JobRecord]) -> dict[str, Summary]:
    """The figures of each quota."""
    found: dict[str, list[JobRecord]] = {}
    for record in records:
        found.setdefault(record.quota, []).append(record)
    return {name: summary(found[name]) for name in sorted(found)}
