"""The published rules of other systems as small models, on the same trace (docs/replay.md#other-systems).

A model knows quotas and no nodes: a job starts as a whole if the rule admits it. Waiting jobs of equal quota
and size are equal but for their age. These are models of rules as documents give them, not the programs.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from sandbox.replay.figures import JobRecord, Timeline
from sandbox.replay.policies import GPU
from sandbox.replay.trace import TraceJob
from sandbox.replay.virtual_cluster import ReplayOutcome
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.quota.entitlements import Claimant, entitlements


@dataclass(frozen=True)
class PeerRule:
    """What a system does with its quotas.

    `fair_order`: the lowest share with the work first, else the oldest job. `limit`: a quota uses at most all
    that is free (`sum`), or its fair share as it is now (`share`). `reclaims`: what a quota takes back by
    evicting others: up to its min, or to its fair share. `fair`: evictions among borrowers, by the share that
    is left to the victim (`after`), or that it had before as well (`before`).
    """

    name: str
    fair_order: bool = False
    limit: str = "sum"
    reclaims: str = "min"
    fair: str = ""


RULES: Final = (
    PeerRule("Muster, first come"),
    PeerRule("Muster, fair", fair_order=True, fair="after"),
    PeerRule("Kueue", fair_order=True, fair="before"),
    PeerRule("KAI", fair_order=True),
    PeerRule("Koordinator", limit="share", reclaims="none"),
    PeerRule("YuniKorn", fair_order=True, reclaims="min"),
    PeerRule("Volcano", limit="share", reclaims="share"),
)


class _Work:
    """A job that waits or runs."""

    __slots__ = ("attempt", "left", "number", "queued", "started")

    def __init__(self, number: int, left: float, queued: float) -> None:
        self.number = number
        self.left = left
        self.queued = queued
        self.started = -1.0
        self.attempt = 0


class QuotaModel:
    """Quotas of GPUs under a rule; `run` replays jobs once."""

    def __init__(
        self, quotas: Iterable[ElasticQuota], capacity: int, rule: PeerRule, *, checkpoint: float = 1800.0
    ) -> None:
        found = list(quotas)
        self._rule = rule
        self._capacity = capacity
        self._checkpoint = checkpoint
        self._min = {quota.namespace: quota.min.get(GPU, 0) for quota in found}
        self._max = {quota.namespace: quota.max.get(GPU, capacity) for quota in found}
        self._weight = {quota.namespace: quota.sharing.weight for quota in found}
        self._used = dict.fromkeys(self._min, 0)
        self._asked = dict.fromkeys(self._min, 0)
        self._total = 0
        # What is fair now, until use or demand change.
        self._fair: dict[str, int] | None = None
        self._running: dict[str, dict[int, _Work]] = {name: {} for name in self._min}
        # Waiting work by quota and size, the oldest first.
        self._waiting: dict[tuple[str, int], deque[_Work]] = {}
        self._ends: list[tuple[float, int, int, _Work]] = []

    def run(self, jobs: Sequence[TraceJob]) -> ReplayOutcome:
        """Replay the jobs until all ended that can."""
        self._jobs = jobs
        self._records = [JobRecord(job.quota, job.gpus, job.submit, job.duration) for job in jobs]
        line = Timeline(max(jobs[-1].submit, 1.0))
        coming, before = 0, 0.0
        while coming < len(jobs) or self._ends:
            submit = jobs[coming].submit if coming < len(jobs) else float("inf")
            now = min(submit, self._ends[0][0] if self._ends else float("inf"))
            line.add(before, now, self._total, sum(self._asked.values()))
            before = now
            while self._ends and self._ends[0][0] <= now:
                self._end(*heapq.heappop(self._ends))
            while coming < len(jobs) and jobs[coming].submit <= now:
                self._wait(_Work(coming, jobs[coming].duration, now))
                coming += 1
            self._decide(now)
        return ReplayOutcome(self._records, line)

    def _wait(self, work: _Work, *, first: bool = False) -> None:
        job = self._jobs[work.number]
        if job.gpus > min(self._capacity, self._max[job.quota]):
            return
        line = self._waiting.setdefault((job.quota, job.gpus), deque())
        (line.appendleft if first else line.append)(work)
        self._asked[job.quota] += job.gpus
        self._fair = None

    def _end(self, at: float, number: int, attempt: int, work: _Work) -> None:
        if work.attempt == attempt:
            self._release(work)
            self._records[number].ended = at

    def _release(self, work: _Work) -> None:
        job = self._jobs[work.number]
        del self._running[job.quota][work.number]
        self._used[job.quota] -= job.gpus
        self._fair = None
        self._total -= job.gpus

    def _decide(self, now: float) -> None:
        """Start waiting work until the rule admits no more."""
        refused: set[tuple[str, int]] = set()
        while True:
            open_lines = [key for key, line in self._waiting.items() if line and key not in refused]
            if not open_lines:
                return
            key = min(open_lines, key=self._place) if len(open_lines) > 1 else open_lines[0]
            if self._admits(*key) or self._makes_room(*key, now):
                self._start(key, now)
                # Whoever was refused may fit beside other shares now.
                refused = {other for other in refused if other[0] != key[0]} if self._rule.fair else refused
            else:
                refused.add(key)

    def _place(self, key: tuple[str, int]) -> tuple[object, ...]:
        oldest = self._waiting[key][0].number
        if not self._rule.fair_order:
            return (oldest,)
        borrows = self._borrowed(key[0], key[1])
        return (borrows > 0, self._share(key[0], key[1]) if borrows else Fraction(0), oldest)

    def _borrowed(self, quota: str, more: int) -> int:
        return max(0, self._used[quota] + more - self._min[quota])

    def _share(self, quota: str, more: int) -> Fraction:
        return Fraction(self._borrowed(quota, more)) / (self._weight[quota] or 1)

    def _fair_shares(self) -> dict[str, int]:
        if self._fair is not None:
            return self._fair
        claimants = [
            Claimant(
                name, min(self._used[name] + self._asked[name], self._max[name]), low, self._weight[name]
            )
            for name, low in self._min.items()
        ]
        self._fair = entitlements(self._capacity, claimants)
        return self._fair

    def _admits(self, quota: str, gpus: int) -> bool:
        if self._total + gpus > self._capacity or self._used[quota] + gpus > self._max[quota]:
            return False
        return self._rule.limit == "sum" or self._used[quota] + gpus <= self._fair_shares()[quota]

    def _makes_room(self, quota: str, gpus: int, now: float) -> bool:
        """Evict for the work, if the rule allows it and enough comes free."""
        if self._used[quota] + gpus > self._max[quota]:
            return False
        shares = self._fair_shares() if self._rule.reclaims == "share" else self._min
        if self._rule.reclaims != "none" and self._used[quota] + gpus <= shares[quota]:
            return self._evicts(quota, gpus, now, lambda name, left: left >= shares[name])
        if not self._rule.fair:
            return False
        own = self._share(quota, gpus)
        after = self._evicts(quota, gpus, now, lambda name, left: self._share_of(name, left) >= own)
        if after or self._rule.fair == "after":
            return after
        # The second strategy of Kueue: the share that the victim has before it gives.
        return self._evicts(quota, gpus, now, lambda name, left: self._share(name, 0) > own)

    def _share_of(self, quota: str, used: int) -> Fraction:
        return Fraction(max(0, used - self._min[quota])) / (self._weight[quota] or 1)

    def _evicts(self, quota: str, gpus: int, now: float, may: Callable[[str, int], bool]) -> bool:
        """Evict the youngest work of quotas over their min, the highest share first, as the rule allows."""
        lacks = self._total + gpus - self._capacity
        if lacks <= 0:
            return False
        left = dict(self._used)
        chosen: list[_Work] = []
        others = [name for name in self._min if name != quota and self._borrowed(name, 0)]
        for name in sorted(others, key=lambda other: self._share(other, 0), reverse=True):
            # What has just started stays, or some rules would go on for ever at one moment.
            there = [work for work in self._running[name].values() if work.started < now]
            youngest = sorted(there, key=lambda work: work.started, reverse=True)
            for work in youngest:
                size = self._jobs[work.number].gpus
                whole = left[name] > self._min[name] and may(name, left[name] - size)
                if lacks > 0 and (whole or (self._rule.fair == "" and left[name] - size >= self._min[name])):
                    left[name] -= size
                    lacks -= size
                    chosen.append(work)
        if lacks > 0:
            return False
        for work in chosen:
            self._evict(work, now)
        return True

    def _evict(self, work: _Work, now: float) -> None:
        record = self._records[work.number]
        self._release(work)
        ran = now - work.started
        saved = ran - ran % self._checkpoint if self._checkpoint > 0 else 0.0
        record.lost += (ran - saved) * record.gpus
        record.evictions += 1
        work.left -= saved
        work.attempt += 1
        work.queued = now
        self._wait(work, first=True)

    def _start(self, key: tuple[str, int], now: float) -> None:
        quota, gpus = key
        work = self._waiting[key].popleft()
        self._asked[quota] -= gpus
        self._used[quota] += gpus
        self._fair = None
        self._total += gpus
        work.started = now
        self._running[quota][work.number] = work
        self._records[work.number].waited += now - work.queued
        heapq.heappush(self._ends, (now + work.left, work.number, work.attempt, work))
