"""Job controller."""

from __future__ import annotations

from sandbox.controllers.job_plan import (
    INDEX_KEY,
    FinishedPods,
    JobPlan,
    backoff_seconds,
    is_finished,
    plan,
    status_of,
)
from sandbox.controllers.owner_index import OwnerIndex, controller_of
from sandbox.controllers.workload import Key, WorkloadController, pod_from
from sandbox.kinds.builtin import JOBS
from sandbox.objects import Obj, at, now, rfc3339
from sandbox.store.metadata import generated_name
from sandbox.store.object_store import EventType
from sandbox.store.registry import Registry
from scheduler_core.model.timestamps import parse_time


class JobController(WorkloadController):
    """Runs Jobs to completion. Finished pods are counted when they finish, even if they are deleted later.

    `speed` divides activeDeadlineSeconds, ttlSecondsAfterFinished and the delay before a new pod after a
    failed one.
    """

    kind = JOBS
    component = "job-controller"

    def __init__(self, registry: Registry, owners: OwnerIndex, *, speed: float = 1.0) -> None:
        super().__init__(registry, owners)
        self._speed = speed
        self._tallies: dict[str, FinishedPods] = {}
        self._retry_at: dict[str, tuple[int, float]] = {}

    def _on_part(self, event: EventType, obj: Obj, old: Obj | None) -> None:
        owner = controller_of(obj)
        if owner and owner.get("kind") == "Job":
            job = self.store.get(JOBS, obj["metadata"]["namespace"], owner["name"]) or {}
            self._tallies.setdefault(owner["uid"], FinishedPods()).note(
                obj, at(job, "spec", "podFailurePolicy"), gone=event == "DELETED"
            )
        super()._on_part(event, obj, old)

    def _on_own(self, event: EventType, obj: Obj, old: Obj | None) -> None:
        if event == "DELETED":
            self._tallies.pop(obj["metadata"]["uid"], None)
            self._retry_at.pop(obj["metadata"]["uid"], None)
        super()._on_own(event, obj, old)

    async def reconcile(self, key: Key) -> float | None:
        """Create, delete and count pods; delete the Job after ttlSecondsAfterFinished."""
        job = self.current(key)
        if job is None:
            return None
        pods = self.pods_of(job)
        tally = self._tallies.setdefault(job["metadata"]["uid"], FinishedPods())
        for pod in pods:
            tally.note(pod, job["spec"].get("podFailurePolicy"))
        left = self._seconds_left(job, "startTime", job["spec"].get("activeDeadlineSeconds"))
        step = plan(job, pods, tally, deadline_passed=left is not None and left <= 0)
        for pod in step.delete:
            tally.removed.add(pod["metadata"]["uid"])
            await self.delete_pod(job, pod)
        again = await self._create(job, step, len(tally.failed)) if step.create else None
        await self.write_status(job, status_of(job, self.pods_of(job), tally, step, rfc3339(now())))
        if step.outcome:
            await self._record_events(job, step)
        if is_finished(job):
            return await self._expire(key, job)
        return again if again is not None else left

    async def _create(self, job: Obj, step: JobPlan, failed: int) -> float | None:
        uid = job["metadata"]["uid"]
        moment = now().timestamp()
        seen, ready_at = self._retry_at.get(uid, (0, 0.0))
        if seen != failed:
            ready_at = moment + backoff_seconds(failed) / self._speed
            self._retry_at[uid] = (failed, ready_at)
        if moment < ready_at:
            return ready_at - moment
        for index in step.create:
            await self.create_pod(job, job_pod(job, index))
        return None

    async def _record_events(self, job: Obj, step: JobPlan) -> None:
        if step.outcome == "Complete":
            await self.recorder.record(job, "Normal", "Completed", "Job completed")
        else:
            await self.recorder.record(job, "Warning", step.reason, step.message)

    async def _expire(self, key: Key, job: Obj) -> float | None:
        finished = [c for c in job["status"]["conditions"] if c["type"] in ("Complete", "Failed")]
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return None
        left = int(ttl) / self._speed - _age(finished[-1]["lastTransitionTime"])
        if left > 0:
            return left
        options = {"propagationPolicy": "Background", "preconditions": {"uid": job["metadata"]["uid"]}}
        await self.registry.delete(JOBS, *key, options=options)
        return None

    def _seconds_left(self, job: Obj, since: str, limit: object) -> float | None:
        started = at(job, "status", since)
        if limit is None or started is None or is_finished(job):
            return None
        return float(str(limit)) / self._speed - _age(started)


def _age(moment: str) -> float:
    return now().timestamp() - parse_time(moment)


def job_pod(job: Obj, index: int | None) -> Obj:
    """A pod of the Job; in an Indexed Job with its index in annotation, label, host name and environment."""
    name = job["metadata"]["name"]
    if index is None:
        return pod_from(job, job["spec"]["template"], generateName=f"{name}-")
    pod = pod_from(job, job["spec"]["template"], name=generated_name(f"{name}-{index}-"))
    pod["metadata"]["annotations"][INDEX_KEY] = str(index)
    pod["metadata"]["labels"][INDEX_KEY] = str(index)
    spec = pod["spec"]
    spec["hostname"] = f"{name}-{index}"
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX_KEY}']"}}
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        env = container.get("env") or []
        if not any(entry.get("name") == "JOB_COMPLETION_INDEX" for entry in env):
            container["env"] = [*env, {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}]
    return pod
