"""A replay as table and as JSON: one line per policy, and per quota on request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from sandbox.replay.figures import Summary, Timeline, by_quota, summary
from sandbox.replay.virtual_cluster import ReplayOutcome

_HEADERS: Final = (
    *("POLICY", "QUOTA", "JOBS", "WAIT", "P50", "P90", "P99", "COMPLETION"),
    *("USED", "EVICTIONS", "LOST", "NEVER", "WORST"),
)


@dataclass(frozen=True)
class PolicyFigures:
    """The figures of one policy; `used` is the part of the GPUs that is in use on average, in percent."""

    policy: str
    whole: Summary
    quotas: Mapping[str, Summary]
    used: float
    timeline: Timeline

    @property
    def worst(self) -> tuple[str, float]:
        """The quota with the longest mean wait, and this wait in hours."""
        name = max(self.quotas, key=lambda quota: self.quotas[quota].waits.mean)
        return name, self.quotas[name].waits.mean


def figures_of(policy: str, outcome: ReplayOutcome, gpus: int) -> PolicyFigures:
    """The figures of a replay on so many GPUs."""
    used = 100 * outcome.timeline.mean_used() / gpus
    return PolicyFigures(policy, summary(outcome.records), by_quota(outcome.records), used, outcome.timeline)


def table(found: Sequence[PolicyFigures], *, per_quota: bool) -> list[str]:
    """The lines of the table. WaitFigures and completion in hours, used and lost in percent."""
    rows: list[Sequence[str]] = []
    for item in found:
        name, wait = item.worst
        rows.append(_row(item.policy, "-", item.whole, f"{item.used:.1f}%", f"{name} {wait:.2f}"))
        for quota, part in item.quotas.items() if per_quota else ():
            rows.append(_row(item.policy, quota, part, "-", "-"))
    headers = [header for header in _HEADERS if per_quota or header != "QUOTA"]
    cells = [row if per_quota else [*row[:1], *row[2:]] for row in rows]
    return _aligned([headers, *cells])


def _row(policy: str, quota: str, part: Summary, used: str, worst: str) -> list[str]:
    waits = part.waits
    hours = (waits.mean, waits.p50, waits.p90, waits.p99, part.completion)
    return [
        *(policy, quota, str(part.jobs), *(f"{value:.2f}" for value in hours)),
        *(used, str(part.evictions), f"{part.lost_percent:.2f}%", str(part.never), worst),
    ]


def _aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    known = list(rows)
    widths = [max(map(len, column)) for column in zip(*known, strict=True)]
    return ["   ".join(map(str.ljust, row, widths)).rstrip() for row in known]


def document(found: Sequence[PolicyFigures]) -> dict[str, Any]:
    """The figures for programs: hours, GPU-hours and percent, and the means per span of time."""
    return {
        "policies": [
            {
                "policy": item.policy,
                **_plain(item.whole),
                "usedPercent": item.used,
                "worstQuota": {"name": item.worst[0], "meanWaitHours": item.worst[1]},
                "quotas": {name: _plain(part) for name, part in item.quotas.items()},
                "timeline": {
                    "spanSeconds": item.timeline.width,
                    "usedGpus": [round(value, 3) for value in item.timeline.used],
                    "waitingGpus": [round(value, 3) for value in item.timeline.waiting],
                },
            }
            for item in found
        ]
    }


def _plain(part: Summary) -> dict[str, Any]:
    return {
        "jobs": part.jobs,
        "waitHours": asdict(part.waits),
        "completionHours": part.completion,
        "evictions": part.evictions,
        "lostGpuHours": part.lost_gpu_hours,
        "lostPercent": part.lost_percent,
        "never": part.never,
    }
