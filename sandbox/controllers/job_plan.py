"""Job planning: pure functions that compute the next pods, the verdict and the status of a Job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from sandbox.controllers.workload import is_active, phase_of
from sandbox.kinds.pods import is_ready
from sandbox.objects import Obj, at


class FailureVerdict(NamedTuple):
    """Effect of a failed pod: it counts against backoffLimit, is ignored, or fails the Job with `message`."""

    action: Literal["Count", "Ignore", "FailJob"]
    message: str = ""


def verdict_of(policy: Obj | None, pod: Obj) -> FailureVerdict:
    """The action of the first matching rule of a podFailurePolicy; Count without a match."""
    where = f"{pod['metadata'].get('namespace', '')}/{pod['metadata'].get('name', '')}"
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        why = _exit_code_text(rule.get("onExitCodes"), pod, where) or _condition_text(rule, pod, where)
        if not why:
            continue
        action = rule.get("action")
        if action == "FailJob":
            return FailureVerdict("FailJob", f"{why} matching FailJob rule at index {number}")
        return FailureVerdict("Ignore" if action == "Ignore" else "Count")
    return FailureVerdict("Count")


def _exit_code_text(wanted: Obj | None, pod: Obj, where: str) -> str:
    if not wanted:
        return ""
    for status in at(pod, "status", "containerStatuses") or ():
        code = at(status, "state", "terminated", "exitCode")
        named = wanted.get("containerName") in (None, status["name"])
        if code and named and (code in wanted["values"]) == (wanted["operator"] == "In"):
            return f"Container {status['name']} for pod {where} failed with exit code {code}"
    return ""


def _condition_text(rule: Obj, pod: Obj, where: str) -> str:
    have = {c.get("type"): c.get("status") for c in at(pod, "status", "conditions") or ()}
    for wanted in rule.get("onPodConditions") or ():
        if have.get(wanted["type"]) == wanted.get("status", "True"):
            return f"Pod {where} has condition {wanted['type']}"
    return ""


INDEX_KEY = "batch.kubernetes.io/job-completion-index"
_FIRST_BACKOFF = 0.5
_LONGEST_BACKOFF = 10.0


@dataclass(slots=True)
class FinishedPods:
    """Finished pods of one Job by UID with their completion index (None in NonIndexed Jobs).

    `removed` are pods that do not count as failed: the controller deleted them, or the podFailurePolicy
    ignores them. `fatal` is the reason why the policy fails the Job, or "".
    """

    succeeded: dict[str, int | None] = field(default_factory=dict)
    failed: dict[str, int | None] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    fatal: str = ""

    def note(self, pod: Obj, policy: Obj | None = None, *, gone: bool = False) -> None:
        """Record a pod if it has finished; each pod is recorded once.

        A pod that somebody deleted before it had finished (`gone`) has failed.
        """
        uid, phase = pod["metadata"]["uid"], phase_of(pod)
        if phase == "Succeeded":
            self.succeeded[uid] = index_of(pod)
        elif (phase == "Failed" or gone) and uid not in self.removed and uid not in self.failed:
            verdict = verdict_of(policy, pod)
            if verdict.action == "Ignore":
                self.removed.add(uid)
                return
            self.failed[uid] = index_of(pod)
            self.fatal = self.fatal or verdict.message

    def done_indexes(self) -> set[int]:
        """The completion indexes of succeeded pods."""
        return {index for index in self.succeeded.values() if index is not None}


@dataclass(frozen=True, slots=True)
class JobPlan:
    """Pods to create (by index in Indexed Jobs), pods to delete, and the verdict on the Job."""

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
    """True for completionMode Indexed."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def is_finished(job: Obj) -> bool:
    """True if the Job is Complete or Failed."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in conditions)


def succeeded_count(job: Obj, tally: FinishedPods) -> int:
    """Number of succeeded pods; in an Indexed Job the number of succeeded indexes below `completions`."""
    if not is_indexed(job):
        return len(tally.succeeded)
    completions = int(job["spec"].get("completions") or 0)
    return sum(index < completions for index in tally.done_indexes())


def plan(job: Obj, pods: Sequence[Obj], tally: FinishedPods, deadline_passed: bool = False) -> JobPlan:
    """The next step of a Job; `deadline_passed` is true after activeDeadlineSeconds."""
    spec = job["spec"]
    active = [pod for pod in pods if is_active(pod)]
    if is_finished(job):
        return JobPlan(delete=tuple(active))
    if tally.fatal:
        return JobPlan(delete=tuple(active), outcome="Failed", reason="PodFailurePolicy", message=tally.fatal)
    if len(tally.failed) > int(spec.get("backoffLimit", 6)):
        text = "Job has reached the specified backoff limit"
        return JobPlan(delete=tuple(active), outcome="Failed", reason="BackoffLimitExceeded", message=text)
    if deadline_passed:
        text = "Job was active longer than specified deadline"
        return JobPlan(delete=tuple(active), outcome="Failed", reason="DeadlineExceeded", message=text)
    succeeded = succeeded_count(job, tally)
    if _complete(job, succeeded, len(active)):
        text = "Reached expected number of succeeded pods"
        return JobPlan(delete=tuple(active), outcome="Complete", reason="CompletionsReached", message=text)
    if spec.get("suspend"):
        return JobPlan(delete=tuple(active))
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


def _scale(job: Obj, active: list[Obj], tally: FinishedPods, wanted: int) -> JobPlan:
    if len(active) > wanted:
        order = sorted(active, key=lambda pod: (is_ready(pod), -(index_of(pod) or 0)))
        return JobPlan(delete=tuple(order[: len(active) - wanted]))
    missing = wanted - len(active)
    if not is_indexed(job):
        return JobPlan(create=(None,) * missing)
    taken = {index_of(pod) for pod in active} | tally.done_indexes()
    free = (index for index in range(int(job["spec"].get("completions") or 0)) if index not in taken)
    return JobPlan(create=tuple(index for index, _ in zip(free, range(missing), strict=False)))


def backoff_seconds(failed: int) -> float:
    """Delay in seconds before a new pod after `failed` failed pods."""
    return 0.0 if failed == 0 else min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2.0 ** (failed - 1))


def status_of(job: Obj, pods: Iterable[Obj], tally: FinishedPods, verdict: JobPlan, now: str) -> Obj:
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


def _conditions(old: list[Obj], suspended: bool, verdict: JobPlan, now: str) -> list[Obj]:
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
    """Indexes in the form of completedIndexes: `0,2-5`."""
    found: list[list[int]] = []
    for index in sorted(indexes):
        if found and found[-1][1] == index - 1:
            found[-1][1] = index
        else:
            found.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" if b > a + 1 else f"{a},{b}" for a, b in found)
