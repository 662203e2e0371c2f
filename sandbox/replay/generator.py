"""Makes traces that look like two weeks of Philly's (docs/replay.md#a-trace-to-try)."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import Final

from sandbox.replay.trace import TraceJob, from_first

DAYS: Final = 15
JOBS: Final = 25_000
QUOTAS: Final = 15
# GPUs that are busy on average, if no job waits.
MEAN_LOAD: Final = 295.0
_DAY: Final = 86_400.0
MOST_DURATION: Final = 3 * _DAY
# Shares of the jobs by GPUs; by GPUs, the factor of their duration.
_SIZES: Final = {1: 0.775, 2: 0.075, 4: 0.075, 8: 0.055, 16: 0.0135, 32: 0.005, 64: 0.001, 128: 0.0005}
_MEDIAN: Final = 700.0
_SPREAD: Final = 2.1
# A quota has this part of the jobs of the one before it.
_SKEW: Final = 0.80
# Jobs of a batch come together: hyperparameter searches, and what somebody submits before going home.
_BATCH: Final = 6.0
# How much the days of a quota differ (sigma of a lognormal).
_DAYS_SPREAD: Final = 0.9


def generate(
    seed: int, jobs: int = JOBS, *, days: int = DAYS, quotas: int = QUOTAS, load: float = MEAN_LOAD
) -> tuple[TraceJob, ...]:
    """A trace; an equal seed gives an equal trace. `load`: mean number of GPUs that the jobs ask for.

    Quotas have skewed sizes. Jobs come in batches, more of them by day than by night and on some days of a
    quota than on others; durations have a heavy tail and end at three days.
    """
    draw = random.Random(seed)
    counts = _shares([_SKEW**index for index in range(quotas)], jobs)
    made: list[TraceJob] = []
    for index, count in enumerate(counts):
        hours = _hours(draw, days)
        left = count
        while left:
            size = min(left, 1 + int(draw.expovariate(1 / _BATCH)))
            made += _batch(draw, f"vc{index + 1:02}", hours, size)
            left -= size
    return from_first(_scaled(made, load * days * _DAY))


def _shares(weights: Sequence[float], whole: int) -> list[int]:
    """Whole numbers in these proportions, with this sum."""
    bounds, total, sum_so_far = [0], sum(weights), 0.0
    for weight in weights:
        sum_so_far += weight
        bounds.append(round(whole * sum_so_far / total))
    return [high - low for low, high in itertools.pairwise(bounds)]


def _hours(draw: random.Random, days: int) -> list[float]:
    """Cumulated weights of the hours of a quota: its days differ, and afternoons are busier than nights."""
    found, total = [], 0.0
    for _ in range(days):
        busy = draw.lognormvariate(0.0, _DAYS_SPREAD)
        for hour in range(24):
            total += busy * (1.0 - 0.6 * math.cos((hour - 3) / 24 * 2 * math.pi))
            found.append(total)
    return found


def _batch(draw: random.Random, quota: str, hours: Sequence[float], size: int) -> list[TraceJob]:
    """Jobs of one user: they come within minutes, want as many GPUs and last about as long."""
    (hour,) = draw.choices(range(len(hours)), cum_weights=hours)
    at = (hour + draw.random()) * 3600.0
    (gpus,) = draw.choices(tuple(_SIZES), weights=tuple(_SIZES.values()))
    if gpus >= 16:
        # Nobody searches with many large gangs at once.
        size_left, gpus_left = size - 1, 1
    else:
        size_left, gpus_left = size - 1, gpus
    typical = draw.lognormvariate(math.log(_MEDIAN), _SPREAD * 0.8)
    found = []
    for number in range(1 + size_left):
        duration = typical * draw.lognormvariate(0.0, _SPREAD * 0.6)
        found.append(TraceJob(at, duration, gpus if number == 0 else gpus_left, quota))
        at += draw.expovariate(1 / 120.0)
    return found


def _scaled(jobs: Sequence[TraceJob], work: float) -> list[TraceJob]:
    """The jobs with durations stretched so that their work is `work` GPU-seconds, none above three days."""
    low, high = 0.0, 100.0
    for _ in range(40):
        factor = (low + high) / 2
        total = math.fsum(min(job.duration * factor, MOST_DURATION) * job.gpus for job in jobs)
        low, high = (factor, high) if total < work else (low, factor)
    return [
        TraceJob(
            round(job.submit),
            max(1.0, round(min(job.duration * low, MOST_DURATION))),
            job.gpus,
            job.quota,
        )
        for job in jobs
    ]
