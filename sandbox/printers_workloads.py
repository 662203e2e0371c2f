"""What `kubectl get` shows of pods and of the kinds that make them."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sandbox.durations import age, human_duration, parse_time
from sandbox.objects import Obj, at
from sandbox.printers import AGE, NAME, NONE, Column, computed, field, selector_text, time_since


def pod_reason(pod: Obj) -> str:
    """The STATUS of a pod: its phase, or what its containers or its deletion say instead."""
    status = pod.get("status") or {}
    reason = status.get("reason") or status.get("phase") or "Unknown"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    for container in reversed(status.get("containerStatuses") or ()):
        state = container.get("state") or {}
        for stage in ("waiting", "terminated"):
            found = (state.get(stage) or {}).get("reason")
            reason = found or reason
    if at(pod, "metadata", "deletionTimestamp"):
        ended = status.get("phase") in ("Succeeded", "Failed")
        return "Unknown" if status.get("reason") == "NodeLost" else reason if ended else "Terminating"
    return str(reason)


def _ready(pod: Obj) -> str:
    statuses = at(pod, "status", "containerStatuses") or ()
    return f"{sum(bool(s.get('ready')) for s in statuses)}/{len(at(pod, 'spec', 'containers') or ())}"


def _restarts(pod: Obj) -> str:
    return str(sum(s.get("restartCount", 0) for s in at(pod, "status", "containerStatuses") or ()))


def _gates(pod: Obj) -> str:
    gates = at(pod, "spec", "readinessGates") or ()
    if not gates:
        return NONE
    conditions = {c.get("type"): c.get("status") for c in at(pod, "status", "conditions") or ()}
    return f"{sum(conditions.get(g.get('conditionType')) == 'True' for g in gates)}/{len(gates)}"


POD_COLUMNS = (
    NAME,
    computed("Ready", _ready),
    computed("Status", pod_reason),
    computed("Restarts", _restarts),
    AGE,
    field("IP", "status", "podIP", priority=1),
    field("Node", "spec", "nodeName", priority=1),
    field("Nominated Node", "status", "nominatedNodeName", priority=1),
    computed("Readiness Gates", _gates, priority=1),
)


def _job_status(job: Obj) -> str:
    for condition in at(job, "status", "conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed", "Suspended"):
            return str(condition["type"])
    return "Suspended" if at(job, "spec", "suspend") else "Running"


def _completions(job: Obj) -> str:
    succeeded = at(job, "status", "succeeded") or 0
    completions, parallelism = at(job, "spec", "completions"), at(job, "spec", "parallelism") or 0
    if completions is not None:
        return f"{succeeded}/{completions}"
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(job: Obj, now: dt.datetime) -> str:
    start = parse_time(at(job, "status", "startTime"))
    end = parse_time(at(job, "status", "completionTime"))
    return human_duration(((end or now) - start).total_seconds()) if start else ""


def _containers(key: str) -> Any:
    def cell(obj: Obj) -> str:
        containers = at(obj, "spec", "template", "spec", "containers") or ()
        return ",".join(str(container.get(key, "")) for container in containers)

    return cell


_WIDE = (
    computed("Containers", _containers("name"), priority=1),
    computed("Images", _containers("image"), priority=1),
    computed("Selector", lambda obj: selector_text(at(obj, "spec", "selector")), priority=1),
)
_REPLICAS = (
    field("Desired", "spec", "replicas", unset=0, type="integer"),
    field("Current", "status", "replicas", unset=0, type="integer"),
    field("Ready", "status", "readyReplicas", unset=0, type="integer"),
)


def _ready_of_wanted(obj: Obj) -> str:
    return f"{at(obj, 'status', 'readyReplicas') or 0}/{at(obj, 'spec', 'replicas') or 0}"


WORKLOAD_COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": POD_COLUMNS,
    "jobs.batch": (
        NAME,
        computed("Status", _job_status),
        computed("Completions", _completions),
        Column("Duration", _duration),
        AGE,
        *_WIDE,
    ),
    "cronjobs.batch": (
        NAME,
        field("Schedule", "spec", "schedule", unset=""),
        field("Timezone", "spec", "timeZone"),
        field("Suspend", "spec", "suspend", unset=False),
        computed("Active", lambda job: len(at(job, "status", "active") or ()), "integer"),
        Column("Last Schedule", lambda job, now: age(at(job, "status", "lastScheduleTime"), now, NONE)),
        AGE,
    ),
    "deployments.apps": (
        NAME,
        computed("Ready", _ready_of_wanted),
        field("Up-to-date", "status", "updatedReplicas", unset=0),
        field("Available", "status", "availableReplicas", unset=0),
        AGE,
        *_WIDE,
    ),
    "replicasets.apps": (NAME, *_REPLICAS, AGE, *_WIDE),
    "replicationcontrollers": (NAME, *_REPLICAS, AGE),
    "statefulsets.apps": (NAME, computed("Ready", _ready_of_wanted), AGE, *_WIDE[:2]),
    "daemonsets.apps": (
        NAME,
        field("Desired", "status", "desiredNumberScheduled", unset=0),
        field("Current", "status", "currentNumberScheduled", unset=0),
        field("Ready", "status", "numberReady", unset=0),
        time_since("Age", "metadata", "creationTimestamp"),
    ),
    "poddisruptionbudgets.policy": (
        NAME,
        field("Min Available", "spec", "minAvailable", unset="N/A"),
        field("Max Unavailable", "spec", "maxUnavailable", unset="N/A"),
        field("Allowed Disruptions", "status", "disruptionsAllowed", unset=0, type="integer"),
        AGE,
    ),
}
"""By storage name."""
