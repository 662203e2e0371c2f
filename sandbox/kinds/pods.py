"""Pod strategy: initial status, QoS class, validation, immutable fields, resize and deletion grace period."""

from __future__ import annotations

from typing import Any

from sandbox import errors
from sandbox.errors import StatusCause
from sandbox.objects import Obj, at, condition_now, now, rfc3339, with_condition
from scheduler_core.errors import ModelError
from scheduler_core.model.quantity import parse_resource

_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_UNASSIGNED_MUTABLE = ("nodeSelector", "affinity")
_CONTAINER_LISTS = ("containers", "initContainers")
_QOS_RESOURCES = ("cpu", "memory")
_NOT_EPHEMERAL = "cannot be set for an Ephemeral Container"
_NOT_IN_EPHEMERAL = (
    "ports",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "resources",
    "resizePolicy",
)


def qos_class(spec: Obj) -> str:
    """The QoS class from CPU and memory of the pod level, or of all containers."""
    level = spec.get("resources")
    containers = [c for key in _CONTAINER_LISTS for c in spec.get(key) or () if isinstance(c, dict)]
    holders = [spec] if isinstance(level, dict) else containers
    asked: set[str] = set()
    guaranteed = True
    for holder in holders:
        requests, limits = (_positive(at(holder, "resources", part)) for part in ("requests", "limits"))
        asked |= requests.keys() | limits.keys()
        # A request of zero is another one than the limit; a missing one is the limit.
        named = at(holder, "resources", "requests") or {}
        same = all(
            requests.get(name, 0 if name in named else limit) == limit for name, limit in limits.items()
        )
        guaranteed = guaranteed and limits.keys() == set(_QOS_RESOURCES) and same
    if isinstance(level, dict) and level.get("limits"):
        asked |= {name for c in containers for name in _positive(at(c, "resources", "requests"))}
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(amounts: Any) -> dict[str, int]:
    """Positive amounts of CPU and memory in a resource list; invalid quantities are omitted."""
    found = {}
    for name in _QOS_RESOURCES:
        try:
            value = (
                parse_resource(name, amounts[name]) if isinstance(amounts, dict) and name in amounts else 0
            )
        except ModelError:
            continue
        if value > 0:
            found[name] = value
    return found


def prepare_create(pod: Obj) -> None:
    """Set the status of a new pod in place; the client's status is discarded."""
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(pod.get("spec") or {})}
    if at(pod, "spec", "schedulingGates"):
        message = "Scheduling is blocked due to non-empty scheduling gates"
        pod["status"]["conditions"] = [condition_now("PodScheduled", False, "SchedulingGated", message)]


def create_causes(pod: Obj) -> list[StatusCause]:
    """Validation errors of a new pod's spec."""
    spec = pod["spec"]
    causes = pod_spec_causes(spec, "spec")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        causes.append(errors.forbidden_field("spec.nodeName", text))
    return causes


def pod_spec_causes(spec: Any, path: str) -> list[StatusCause]:
    """Validation errors of a pod spec or of the spec in a pod template."""
    if not isinstance(spec, dict):
        return [errors.required(path)]
    causes: list[StatusCause] = []
    seen: set[str] = set()
    volumes = {volume.get("name") for volume in spec.get("volumes") or () if isinstance(volume, dict)}
    for key in _CONTAINER_LISTS:
        for index, container in enumerate(spec.get(key) or ()):
            place = f"{path}.{key}[{index}]"
            causes += _container_causes(container, place, seen)
            causes += _mount_causes(container, place, volumes)
    if not spec.get("containers"):
        causes.append(errors.required(f"{path}.containers"))
    policies = ("Always", "Never", "OnFailure")
    if spec.get("restartPolicy", "Always") not in policies:
        causes.append(errors.not_supported(f"{path}.restartPolicy", spec["restartPolicy"], policies))
    return causes


def _mount_causes(container: Any, path: str, volumes: set[Any]) -> list[StatusCause]:
    """Mounts of volumes that the pod does not have, and two at one path."""
    causes: list[StatusCause] = []
    seen: set[str] = set()
    mounts = container.get("volumeMounts") if isinstance(container, dict) else None
    for index, mount in enumerate(mounts or ()):
        place, name, target = f"{path}.volumeMounts[{index}]", mount.get("name") or "", mount.get("mountPath")
        if not name:
            causes.append(errors.required(f"{place}.name"))
        if name not in volumes:
            causes.append(StatusCause("FieldValueNotFound", f'Not found: "{name}"', f"{place}.name"))
        if not target:
            causes.append(errors.required(f"{place}.mountPath"))
        elif target in seen:
            causes.append(errors.invalid_value(f"{place}.mountPath", target, "must be unique"))
        seen.add(target or "")
    return causes


def _container_causes(container: Any, path: str, seen: set[str]) -> list[StatusCause]:
    if not isinstance(container, dict):
        return [errors.invalid_value(path, container, "expected an object")]
    causes = []
    name = container.get("name")
    if not name:
        causes.append(errors.required(f"{path}.name"))
    elif name in seen:
        causes.append(StatusCause("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{path}.name"))
    else:
        seen.add(name)
    if not container.get("image"):
        causes.append(errors.required(f"{path}.image"))
    return causes


def update_causes(new: Obj, old: Obj) -> list[StatusCause]:
    """Errors of a PUT or PATCH on the pod that changes immutable fields."""
    spec, before = new["spec"], old["spec"]
    if spec is before or spec == before:
        return []
    causes = pod_spec_causes(spec, "spec")
    changed = {key for key in {*spec, *before} if spec.get(key) != before.get(key)}
    gates = {gate["name"] for gate in before.get("schedulingGates") or ()}
    if "schedulingGates" in changed:
        added = {gate["name"] for gate in spec.get("schedulingGates") or ()} - gates
        changed.discard("schedulingGates")
        if added:
            text = "only deletion is allowed, but found new scheduling gate(s): " + ", ".join(sorted(added))
            causes.append(errors.forbidden_field("spec.schedulingGates", text))
    if "tolerations" in changed and all(
        toleration in (spec.get("tolerations") or ()) for toleration in before.get("tolerations") or ()
    ):
        changed.discard("tolerations")
    if gates:
        changed -= set(_UNASSIGNED_MUTABLE)
    changed.discard("activeDeadlineSeconds")
    for key in _CONTAINER_LISTS:
        if key in changed and _without_images(spec.get(key)) == _without_images(before.get(key)):
            changed.discard(key)
    if changed:
        causes.append(errors.forbidden_field("spec", f"{_IMMUTABLE}: changed {', '.join(sorted(changed))}"))
    return causes


def _without_images(containers: Any) -> list[Any]:
    return [
        {key: value for key, value in container.items() if key != "image"} for container in containers or ()
    ]


def prepare_update(new: Obj, old: Obj) -> None:
    """Update the status after a spec change, in place: without gates, SchedulingGated is removed."""
    if at(old, "spec", "schedulingGates") and not at(new, "spec", "schedulingGates"):
        conditions = [
            condition
            for condition in at(old, "status", "conditions") or ()
            if (condition.get("type"), condition.get("reason")) != ("PodScheduled", "SchedulingGated")
        ]
        new["status"] = {**(old.get("status") or {}), "conditions": conditions}


def resized(old: Obj, new: Obj) -> Obj:
    """pods/resize: the old pod with the containers' resources and resize policies of `new`."""
    wanted = {c.get("name"): c for c in at(new, "spec", "containers") or ()}
    containers = []
    for container in old["spec"]["containers"]:
        source = wanted.get(container["name"], container)
        containers.append({**container, "resources": source.get("resources", container.get("resources", {}))})
    return {**old, "metadata": new["metadata"], "spec": {**old["spec"], "containers": containers}}


def with_ephemeral_containers(old: Obj, new: Obj) -> Obj:
    """pods/ephemeralcontainers: the old pod with the ephemeral containers of `new`."""
    spec = {**old["spec"], "ephemeralContainers": at(new, "spec", "ephemeralContainers") or []}
    return {**old, "metadata": new["metadata"], "spec": spec}


def ephemeral_causes(new: Obj, old: Obj) -> list[StatusCause]:
    """Errors of pods/ephemeralcontainers: unsupported fields, and changed or removed containers."""
    containers = at(new, "spec", "ephemeralContainers") or []
    causes = [
        errors.forbidden_field(f"spec.ephemeralContainers[{index}].{key}", _NOT_EPHEMERAL)
        for index, container in enumerate(containers)
        for key in _NOT_IN_EPHEMERAL
        if container.get(key)
    ]
    now_there = {container.get("name"): container for container in containers}
    for container in at(old, "spec", "ephemeralContainers") or []:
        name = container["name"]
        if now_there.get(name) != container:
            what = "changed" if name in now_there else "removed"
            text = f'existing ephemeral containers "{name}" may not be {what}'
            causes.append(errors.forbidden_field("spec.ephemeralContainers", text))
    return causes


def bound(pod: Obj, node: str, binding_meta: Obj) -> Obj:
    """The pod after its binding to `node`, with the annotations and labels of the Binding."""
    meta = dict(pod["metadata"])
    for key in ("annotations", "labels"):
        if binding_meta.get(key):
            meta[key] = {**(meta.get(key) or {}), **binding_meta[key]}
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": rfc3339(now()),
    }
    return {
        **pod,
        "metadata": meta,
        "spec": {**pod["spec"], "nodeName": node},
        "status": with_condition(pod.get("status") or {}, condition),
    }


def deletion_grace(pod: Obj, asked: int | None) -> int:
    """Grace period of a deleted pod in seconds; 0 if it has ended or was never bound to a node."""
    if not at(pod, "spec", "nodeName") or at(pod, "status", "phase") in ("Succeeded", "Failed"):
        return 0
    if asked is not None:
        return max(asked, 0)
    grace = at(pod, "spec", "terminationGracePeriodSeconds")
    return 30 if grace is None else max(int(grace), 0)


def is_ready(pod: Obj) -> bool:
    """True if the condition Ready is true."""
    conditions = at(pod, "status", "conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
