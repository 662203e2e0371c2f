"""Pod status as a kubelet writes it: pure functions from a pod to its next status."""

from __future__ import annotations

from typing import Any

from sandbox.objects import Obj

FINISHED = ("Succeeded", "Failed")
RUN_SECONDS = "sandbox.muster.dev/run-seconds"
EXIT_CODE = "sandbox.muster.dev/exit-code"
STOP_SECONDS = "sandbox.muster.dev/stop-seconds"


def seconds_of(pod: Obj, annotation: str) -> float | None:
    """The non-negative number in an annotation; None if it is missing or invalid."""
    text = (pod["metadata"].get("annotations") or {}).get(annotation, "")
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e9 else None


def lifetime_of(pod: Obj) -> tuple[float, int, str] | None:
    """Running time in seconds, exit code, and status reason ("" if the pod ends by itself).

    None for a pod that runs until it is deleted.
    """
    own = seconds_of(pod, RUN_SECONDS)
    deadline = pod["spec"].get("activeDeadlineSeconds")
    if own is not None and (deadline is None or own <= deadline):
        return own, int(seconds_of(pod, EXIT_CODE) or 0), ""
    return None if deadline is None else (float(deadline), 137, "DeadlineExceeded")


def running(pod: Obj, now: str, pod_ip: str, host_ip: str) -> Obj:
    """Status of a pod whose containers have started; `now` is RFC 3339, `host_ip` the node's address."""
    old = pod.get("status") or {}
    spec = pod["spec"]
    started = {"running": {"startedAt": now}}
    done = {"terminated": _terminated(0, "Completed", now, now)}
    init = spec.get("initContainers") or ()
    status = {
        **old,
        "phase": "Running",
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "startTime": old.get("startTime", now),
        "conditions": _conditions(old, now, ready=True),
        "containerStatuses": [_container(c, started, ready=True) for c in spec.get("containers") or ()],
        "observedGeneration": pod["metadata"].get("generation", 1),
    }
    if init:
        status["initContainerStatuses"] = [
            _container(c, started if c.get("restartPolicy") == "Always" else done, ready=True) for c in init
        ]
    return status


def ended(pod: Obj, now: str, exit_code: int, reason: str = "") -> Obj:
    """Status of a pod whose containers have ended: Succeeded for exit code 0, otherwise Failed."""
    old = pod.get("status") or {}
    why = "Completed" if exit_code == 0 else "Error"
    state = {"terminated": _terminated(exit_code, why, old.get("startTime", now), now)}
    status = {
        **old,
        "phase": "Succeeded" if exit_code == 0 else "Failed",
        "conditions": _conditions(
            old, now, ready=False, reason="PodCompleted" if exit_code == 0 else "PodFailed"
        ),
        "containerStatuses": [_container(c, state, ready=False) for c in pod["spec"].get("containers") or ()],
    }
    if reason:
        status["reason"] = reason
        status["message"] = "Pod was active on the node longer than the specified deadline"
    return status


def rejected(pod: Obj, now: str, resource: str, asked: int, used: int, capacity: int) -> Obj:
    """Status of a pod that exceeds its node's capacity, with the message of the kubelet's admission."""
    text = (
        f"Pod was rejected: Node didn't have enough resource: {resource}, "
        f"requested: {asked}, used: {used}, capacity: {capacity}"
    )
    old = pod.get("status") or {}
    return {
        **old,
        "phase": "Failed",
        "reason": f"OutOf{resource}",
        "message": text,
        "startTime": now,
        "conditions": _scheduled(old.get("conditions") or [], now),
    }


def _scheduled(conditions: list[Obj], now: str) -> list[Obj]:
    """Conditions with PodScheduled; a pod that was created with spec.nodeName gets it from the kubelet."""
    if any(c.get("type") == "PodScheduled" and c.get("status") == "True" for c in conditions):
        return conditions
    others = [condition for condition in conditions if condition.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    return [*others, scheduled]


def resized(pod: Obj) -> Obj | None:
    """Status after an in-place resize; None if the status already shows the requested resources."""
    old = pod.get("status") or {}
    by_name = {c["name"]: c.get("resources") or {} for c in pod["spec"].get("containers") or ()}
    statuses = []
    for entry in old.get("containerStatuses") or ():
        wanted = by_name.get(entry["name"], {})
        statuses.append({**entry, **_resources(wanted)})
    if statuses == (old.get("containerStatuses") or []):
        return None
    return {
        **old,
        "containerStatuses": statuses,
        "observedGeneration": pod["metadata"].get("generation", 1),
    }


def _terminated(code: int, reason: str, started: str, finished: str) -> Obj:
    return {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": finished}


def _container(container: Obj, state: Obj, *, ready: bool) -> Obj:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "containerID": f"sandbox://{container['name']}",
        "state": state,
        "lastState": {},
        "ready": ready,
        "started": "running" in state,
        "restartCount": 0,
        **_resources(container.get("resources") or {}),
    }


def _resources(resources: Obj) -> Obj:
    requests = resources.get("requests")
    return {
        "resources": {key: value for key, value in resources.items() if key in ("requests", "limits")},
        **({"allocatedResources": requests} if requests else {}),
    }


def _conditions(old: Obj, now: str, *, ready: bool, reason: str = "") -> list[Obj]:
    own: dict[str, Any] = dict.fromkeys(("PodReadyToStartContainers", "Initialized"), True)
    own |= dict.fromkeys(("Ready", "ContainersReady"), ready)
    kept = [condition for condition in old.get("conditions") or () if condition.get("type") not in own]
    for name, value in own.items():
        condition: Obj = {
            "type": name,
            "status": "True" if value else "False",
            "lastProbeTime": None,
            "lastTransitionTime": now,
        }
        if reason and not value:
            condition["reason"] = reason
        kept.append(condition)
    return _scheduled(kept, now)
