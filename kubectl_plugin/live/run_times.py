"""What the objects of a live cluster say of how long pods run: finished pods, and Jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from kubectl_plugin.cluster.reading import ListClient, ListScope, list_or_none
from kubectl_plugin.live.lists import KindList
from scheduler_core.answers.eta.run_times import SUCCEEDED, FinishedPod, JobTimes
from scheduler_core.decoding import decode
from scheduler_core.model.kinds import JOBS, PODS
from scheduler_core.model.timestamps import epoch


class _Meta(msgspec.Struct, frozen=True):
    name: str
    namespace: str = "default"


class _Terminated(msgspec.Struct, frozen=True, rename="camel"):
    finished_at: datetime | None = None


class _State(msgspec.Struct, frozen=True):
    terminated: _Terminated | None = None


class _Container(msgspec.Struct, frozen=True):
    state: _State | None = None


class _PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    container_statuses: tuple[_Container, ...] | None = None


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta
    status: _PodStatus = _PodStatus()


class _JobSpec(msgspec.Struct, frozen=True, rename="camel"):
    active_deadline_seconds: int | None = None
    completions: int | None = None
    parallelism: int | None = None


class _JobStatus(msgspec.Struct, frozen=True, rename="camel"):
    start_time: datetime | None = None
    completion_time: datetime | None = None
    succeeded: int | None = None
    active: int | None = None


class _Job(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _JobSpec = _JobSpec()
    status: _JobStatus = _JobStatus()


def finished_pods(lists: Sequence[KindList]) -> Iterator[FinishedPod]:
    """The pods of lists that have succeeded, as far as they say when."""
    for kind in lists:
        if kind.resource.plural != PODS.plural:
            continue
        yield from (found for raw in kind.items or () if (found := finished_pod(raw)) is not None)


def finished_pod(raw: bytes | msgspec.Raw) -> FinishedPod | None:
    """A pod that has succeeded, if it says when; None for any other pod."""
    if SUCCEEDED.encode() not in bytes(raw):
        return None
    pod = decode(raw, _Pod)
    ended = _ended(pod.status)
    if pod.status.phase != SUCCEEDED or ended is None:
        return None
    return FinishedPod(f"{pod.metadata.namespace}/{pod.metadata.name}", ended)


def _ended(status: _PodStatus) -> float | None:
    states = (item.state for item in status.container_statuses or ())
    ends = (
        item.terminated.finished_at for item in states if item is not None and item.terminated is not None
    )
    return max((moment for end in ends if (moment := epoch(end)) is not None), default=None)


def read_jobs(client: ListClient, namespace: str) -> tuple[list[JobTimes], str]:
    """The Jobs that the user may list, and what of them is missing. Raises the ApiError tree."""
    found = list_or_none(client, JOBS, ListScope())
    missing = ""
    if found is None:
        missing = f"jobs outside the namespace {namespace}"
        found = list_or_none(client, JOBS, ListScope(namespace))
        if found is None:
            return [], "jobs"
    return [job_times(raw) for raw in found], missing


def job_times(raw: bytes | msgspec.Raw) -> JobTimes:
    """What a Job says of the run times of its pods."""
    job = decode(raw, _Job)
    status, spec = job.status, job.spec
    more = 0
    if spec.completions is not None and status.completion_time is None:
        more = max(0, spec.completions - (status.succeeded or 0) - (status.active or 0))
    return JobTimes(
        job.metadata.namespace,
        job.metadata.name,
        epoch(status.start_time),
        epoch(status.completion_time),
        spec.active_deadline_seconds,
        more,
    )
