"""Runs the jobs of a trace through the scheduler: its real engine, on a clock that jumps from event to event.

There are no API server and no controllers: pods are bound, end and are evicted at once. A job whose pod is
evicted stops as a whole, and waits again with what was left at its last checkpoint.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from sandbox.replay.figures import JobRecord, Timeline
from sandbox.replay.policies import GPU, ReplayPolicy
from sandbox.replay.trace import TraceJob
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.decisions import Evicted, Placed
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model.groups.gang import Gang, GroupRef, parse_gang
from scheduler_core.model.names import GROUP_NAME_ANNOTATION, MUSTER_SCHEDULER
from scheduler_core.model.node import Node, parse_node
from scheduler_core.model.pods.pod import Pod, parse_pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState

# Steps at one moment: more than any cluster needs to come to rest.
_MOST_STEPS: Final = 10_000
_RUNNING: Final = "Running"

Progress = Callable[[int], None]


@dataclass(frozen=True)
class ClusterShape:
    """Equal nodes."""

    nodes: int = 48
    gpus_per_node: int = 8

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True)
class ReplayOutcome:
    """What became of the jobs, in the order of the trace, and the use of the cluster."""

    records: list[JobRecord]
    timeline: Timeline


class _RunningJob:
    """A job in the cluster: its pods, those of them with a node, and since when all have one."""

    __slots__ = ("attempt", "bound", "gang", "left", "number", "pods", "queued", "started")

    def __init__(self, number: int, left: float) -> None:
        self.number = number
        self.left = left
        self.queued = 0.0
        self.attempt = 0
        self.gang: Gang | None = None
        self.pods: dict[str, Pod] = {}
        self.bound = 0
        self.started: float | None = None


def pod_sizes(job: TraceJob, gpus_per_node: int) -> list[int]:
    """GPUs of each pod: as few pods as nodes allow, as equal as can be, unless the trace says how many."""
    pods = job.pods or -(-job.gpus // gpus_per_node)
    size, larger = divmod(job.gpus, pods)
    return [size + 1] * larger + [size] * (pods - larger)


class VirtualCluster:
    """A cluster of equal nodes and these quotas under a policy; `run` replays jobs once.

    `checkpoint`: seconds of work after which a job saves what it has done, 0 for never.
    """

    def __init__(
        self,
        shape: ClusterShape,
        quotas: Iterable[ElasticQuota],
        policy: ReplayPolicy,
        *,
        checkpoint: float = 1800.0,
    ) -> None:
        self._shape = shape
        self._checkpoint = checkpoint
        self.scheduler = Scheduler(
            ClusterState(),
            build_profiles(policy.config(), FACTORIES, KNOWN_PLUGINS),
            initial_backoff=0.0,
            max_backoff=0.0,
            flush_after=math.inf,
        )
        for number in range(shape.nodes):
            self.scheduler.put(_node(number, shape.gpus_per_node), 0.0)
        for quota in policy.quotas(quotas):
            self.scheduler.put(quota, 0.0)
        self._templates: dict[int, Pod] = {}
        self._gang = parse_gang({"metadata": {"name": "job", "namespace": "any"}, "spec": {"minMember": 1}})
        # Jobs that wait or run, by number and by the uid of their pods.
        self._running: dict[int, _RunningJob] = {}
        self._jobs: dict[str, _RunningJob] = {}
        self._ends: list[tuple[float, int, int]] = []
        self._used = self._waiting = 0

    def run(self, jobs: Sequence[TraceJob], progress: Progress = lambda ended: None) -> ReplayOutcome:
        """Replay the jobs until all ended that can. `progress` is told how many have ended or never start."""
        self._trace = jobs
        records = [JobRecord(job.quota, job.gpus, job.submit, job.duration) for job in jobs]
        self._records = records
        self._timeline = Timeline(max(jobs[-1].submit, 1.0))
        coming, before = 0, 0.0
        while True:
            now = self._next_time(jobs[coming].submit if coming < len(jobs) else math.inf)
            if now == math.inf:
                break
            self._timeline.add(before, now, self._used, self._waiting)
            before = now
            while self._ends and self._ends[0][0] <= now:
                self._end(*heapq.heappop(self._ends))
            while coming < len(jobs) and jobs[coming].submit <= now:
                if self._can_start(jobs[coming]):
                    made = self._running[coming] = _RunningJob(coming, jobs[coming].duration)
                    self._submit(made, now)
                coming += 1
            self._decide(now)
            progress(coming - len(self._running))
        return ReplayOutcome(records, self._timeline)

    def _next_time(self, submit: float) -> float:
        ends = self._ends[0][0] if self._ends else math.inf
        due = self.scheduler.queue.next_time()
        return min(submit, ends, math.inf if due is None else due)

    def _can_start(self, job: TraceJob) -> bool:
        """Whether the empty cluster and the whole quota can hold the job."""
        sizes = pod_sizes(job, self._shape.gpus_per_node)
        per_node = self._shape.gpus_per_node // sizes[0]
        quota = self.scheduler.state.ledger.quota_of(job.quota)
        most = quota.max.get(GPU, job.gpus) if quota is not None else job.gpus
        return len(sizes) <= per_node * self._shape.nodes and job.gpus <= most

    # Jobs come, start, end and are evicted

    def _submit(self, running: _RunningJob, now: float) -> None:
        """Create the pods of a job; those of one that was evicted keep its age."""
        number = running.number
        job = self._trace[number]
        name = f"j{number}"
        sizes = pod_sizes(job, self._shape.gpus_per_node)
        running.queued, running.started, running.bound = now, None, 0
        annotations: dict[str, str] = {}
        if len(sizes) > 1:
            annotations = {GROUP_NAME_ANNOTATION: name}
            if running.gang is None:
                ref = GroupRef(self._gang.ref.dialect, job.quota, name)
                running.gang = replace(
                    self._gang, ref=ref, uid=name, created=job.submit, min_members=len(sizes)
                )
                self.scheduler.put(running.gang, now)
        running.pods = {}
        for index, size in enumerate(sizes):
            pod = replace(
                self._template(size),
                namespace=job.quota,
                name=f"{name}-{running.attempt}-{index}",
                uid=f"{name}-{running.attempt}-{index}",
                annotations=annotations,
                created=job.submit,
                priority=job.priority,
            )
            running.pods[pod.uid] = pod
            self._jobs[pod.uid] = running
        self._waiting += job.gpus
        for pod in list(running.pods.values()):
            self.scheduler.put(pod, now)

    def _template(self, gpus: int) -> Pod:
        """A pod of this size, of which others share what follows from its requests."""
        found = self._templates.get(gpus)
        if found is None:
            container = {"name": "main", "resources": {"requests": {GPU: str(gpus)}}}
            spec = {"schedulerName": MUSTER_SCHEDULER, "containers": [container]}
            found = self._templates[gpus] = parse_pod({"metadata": {"name": "job"}, "spec": spec})
        return found

    def _decide(self, now: float) -> None:
        """Let the scheduler decide until nothing changes, and carry out what it decides."""
        for _ in range(_MOST_STEPS):
            evicted: dict[int, _RunningJob] = {}
            changed = False
            for decision in self.scheduler.step(now):
                if isinstance(decision, Placed):
                    changed = True
                    self._bind(decision, now)
                elif isinstance(decision, Evicted):
                    victim = self._jobs[decision.pod.uid]
                    evicted[victim.number] = victim
            for victim in evicted.values():
                self._evict(victim, now)
            if not changed and not evicted:
                return
        raise RuntimeError(f"still not at rest after {_MOST_STEPS} steps at {now}")

    def _bind(self, decision: Placed, now: float) -> None:
        running = self._jobs[decision.pod.uid]
        pod = replace(running.pods[decision.pod.uid], node_name=decision.node, phase=_RUNNING, start_time=now)
        running.pods[pod.uid] = pod
        self.scheduler.put(pod, now)
        running.bound += 1
        if running.bound == len(running.pods):
            gpus = self._trace[running.number].gpus
            running.started = now
            self._records[running.number].waited += now - running.queued
            self._used += gpus
            self._waiting -= gpus
            heapq.heappush(self._ends, (now + running.left, running.number, running.attempt))

    def _end(self, at: float, number: int, attempt: int) -> None:
        found = self._running.get(number)
        if found is None or found.attempt != attempt:
            return
        self._stop(found, at)
        del self._running[number]
        if found.gang is not None:
            self.scheduler.remove(found.gang, at)
        self._records[number].ended = at

    def _evict(self, running: _RunningJob, now: float) -> None:
        """Stop a job that lost a pod, and let it wait with the work since its last checkpoint undone."""
        record = self._records[running.number]
        self._stop(running, now)
        if running.started is not None:
            ran = now - running.started
            saved = ran - ran % self._checkpoint if self._checkpoint > 0 else 0.0
            record.lost += (ran - saved) * record.gpus
            running.left -= saved
        record.evictions += 1
        running.attempt += 1
        self._submit(running, now)

    def _stop(self, running: _RunningJob, now: float) -> None:
        gpus = self._trace[running.number].gpus
        if running.started is not None:
            self._used -= gpus
        else:
            self._waiting -= gpus
        for uid, pod in running.pods.items():
            del self._jobs[uid]
            self.scheduler.remove(pod, now)


def _node(number: int, gpus: int) -> Node:
    allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}
    return parse_node({"metadata": {"name": f"n{number:04}"}, "status": {"allocatable": allocatable}})
