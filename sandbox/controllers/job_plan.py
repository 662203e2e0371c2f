"""What a Job needs next: a pure function from the Job, its pods and what has finished so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sandbox.controllers.job_failures import verdict_of
from sandbox.controllers.workload import is_active, is_ready, phase_of
from sandbox.objects import Obj

INDEX_KEY = "batch.kubernetes.io/job-completion-index"
_FIRST_BACKOFF = 0.5
_LONGEST_BACKOFF = 10.0


@dataclass(slots=True)
class Tally:
    """Pods of one Job that finished, by uid, with their completion index (None in NonIndexed Jobs).

    `removed` are pods whose end is no failure: the controller itself deleted them, or the podFailurePolicy
    says so. `fatal` says why the policy fails the Job, "" if it does not.
    """

    succeeded: dict[str, int | None] = field(default_factory=dict)
    failed: dict[str, int | None] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    fatal: str = ""

    def note(self, pod: Obj, policy: Obj | None = None) -> None:
        """Count a pod if it has finished; a pod is counted once."""
        uid, phase = pod["metadata"]["uid"], phase_of(pod)
        if phase == "Succeeded":
            self.succeeded[uid] = index_of(pod)
        elif phase == "Failed" and uid not in self.removed and uid not in self.failed:
            verdict = verdict_of(policy, pod)
            if verdict.action == "Ignore":
                self.removed.add(uid)
                return
            self.failed[uid] = index_of(pod)
            self.fatal = self.fatal or verdict.message

    def done_indexes(self) -> set[int]:
        """Completion indexes that have succeeded."""
        return {index for index in self.succeeded.values() if index is not None}


@dataclass(frozen=True, slots=True)
class Plan:
    """Pods to make (by index in Indexed Jobs) and to delete, and the verdict on the Job."""

    create: tuple[int | None, ...] = ()
    delete: tuple[Obj, ...] = ()
    outcome: str = ""
    reason: str = ""
    message: str = ""


def index_of(pod: Obj) -> int | None:
    """The pod's completion index."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX_KEY, "")
    return int(text) if text.isdigit() else None


def is_indexed(job: Obj) -> bool:
    """completionMode Indexed."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def is_finished(job: Obj) -> bool:
    """Complete or Failed."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in conditions)


def succeeded_count(job: Obj, tally: Tally) -> int:
    """Succeeded pods; in an Indexed Job the indexes below `completions` that succeeded."""
    if not is_indexed(job):
        return len(tally.succeeded)
    completions = int(job["spec"].get("completions") or 0)
    return sum(index < completions for index in tally.done_indexes())


def plan(job: Obj, pods: Sequence[Obj], tally: Tally, deadline_passed: bool = False) -> Plan:
    """The next step. `deadline_passed` says that activeDeadlineSeconds are over."""
    spec = job["spec"]
    active = [pod for pod in pods if is_active(pod)]
    if is_finished(job):
        return Plan(delete=tuple(active))
    if tally.fatal:
        return Plan(delete=tuple(active), outcome="Failed", reason="PodFailurePolicy", message=tally.fatal)
    if len(tally.failed) > int(spec.get("backoffLimit", 6)):
        text = "Job has reached the specified backoff limit"
        return Plan(delete=tuple(active), outcome="Failed", reason="BackoffLimitExceeded", message=text)
    if deadline_passed:
        text = "Job was active longer than specified deadline"
        return Plan(delete=tuple(active), outcome="Failed", reason="DeadlineExceeded", message=text)
    succeeded = succeeded_count(job, tally)
    if _complete(job, succeeded, len(active)):
        text = "Reached expected number of succeeded pods"
        return Plan(delete=tuple(active), outcome="Complete", reason="CompletionsReached", message=text)
    if spec.get("suspend"):
        return Plan(delete=tuple(active))
    return _scale(job, active, tally, _wanted(job, succeeded, len(active)))


def _complete(job: Obj, succeeded: int, active: int) -> bool:
    completions = job["spec"].get("completions")
    if completions is None:
        return succeeded > 0 and active == 0
    return succeeded >= int(completions)


def _wanted(job: Obj, succeeded: int, active: int) -> int:
    spec = job["spec"]
    parallelism = int(spec.get("parallelism", 1))
    completions = spec.get("completions")
    if completions is None:
        return min(active, parallelism) if succeeded else parallelism
    return min(parallelism, int(completions) - succeeded)


def _scale(job: Obj, active: list[Obj], tally: Tally, wanted: int) -> Plan:
    if len(active) > wanted:
        order = sorted(active, key=lambda pod: (is_ready(pod), -(index_of(pod) or 0)))
        return Plan(delete=tuple(order[: len(active) - wanted]))
    missing = wanted - len(active)
    if not is_indexed(job):
        return Plan(create=(None,) * missing)
    taken = {index_of(pod) for pod in active} | tally.done_indexes()
    free = (index for index in range(int(job["spec"].get("completions") or 0)) if index not in taken)
    return Plan(create=tuple(index for index, _ in zip(free, range(missing), strict=False)))


def backoff_seconds(failed: int) -> float:
    """How long a Job waits after its n-th failed pod before it makes another."""
    return 0.0 if failed == 0 else min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2.0 ** (failed - 1))


def status_of(job: Obj, pods: Iterable[Obj], tally: Tally, verdict: Plan, now: str) -> Obj:
    """The Job's status. `now` is RFC 3339."""
    old = job.get("status") or {}
    pods = list(pods)
    active = [pod for pod in pods if is_active(pod)]
    suspended = bool(job["spec"].get("suspend")) and not is_finished(job)
    status: Obj = {
        **{key: value for key, value in old.items() if key not in ("active", "ready", "terminating")},
        "ready": sum(is_ready(pod) for pod in active),
        "terminating": sum(bool(pod["metadata"].get("deletionTimestamp")) for pod in pods),
        "uncountedTerminatedPods": {},
    }
    counts = {
        "active": len(active),
        "succeeded": succeeded_count(job, tally),
        "failed": len(tally.failed),
    }
    status |= {name: count for name, count in counts.items() if count}
    if is_indexed(job) and tally.done_indexes():
        status["completedIndexes"] = ranges_text(tally.done_indexes())
    if suspended:
        status.pop("startTime", None)
    else:
        status.setdefault("startTime", now)
    conditions = _conditions(old.get("conditions") or [], suspended, verdict, now)
    if conditions:
        status["conditions"] = conditions
    if verdict.outcome == "Complete":
        status["completionTime"] = now
    return status


def _conditions(old: list[Obj], suspended: bool, verdict: Plan, now: str) -> list[Obj]:
    def condition(kind: str, value: bool, reason: str, message: str) -> Obj:
        return {
            "type": kind,
            "status": str(value),
            "reason": reason,
            "message": message,
            "lastProbeTime": now,
            "lastTransitionTime": now,
        }

    conditions = list(old)
    was = next((c for c in conditions if c["type"] == "Suspended"), None)
    if suspended != (was is not None and was["status"] == "True"):
        conditions = [c for c in conditions if c["type"] != "Suspended"]
        text = ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
        conditions.append(condition("Suspended", suspended, *text))
    if verdict.outcome:
        before = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[verdict.outcome]
        for kind in (before, verdict.outcome):
            conditions.append(condition(kind, True, verdict.reason, verdict.message))
    return conditions


def ranges_text(indexes: Iterable[int]) -> str:
    """`0,2-5`, the form of completedIndexes."""
    found: list[list[int]] = []
    for index in sorted(indexes):
        if found and found[-1][1] == index - 1:
            found[-1][1] = index
        else:
            found.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" if b > a + 1 else f"{a},{b}" for a, b in found)
