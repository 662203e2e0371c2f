"""Printer columns of the built-in kinds: the columns of `kubectl get`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sandbox.durations import age, time_of
from sandbox.kinds import native_groups
from sandbox.objects import Obj, at
from scheduler_core.printing.age import human_duration

Cell = Callable[[Obj, dt.datetime], Any]
NONE = "<none>"


@dataclass(frozen=True, slots=True)
class Column:
    """One column; a column with `priority` above 0 is printed only in wide output."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


def field(name: str, *path: str, unset: Any = NONE, type: str = "string", priority: int = 0) -> Column:
    """A column with the value of one field."""

    def cell(obj: Obj, now: dt.datetime) -> Any:
        value = at(obj, *path)
        return unset if value is None or value == "" else value

    return Column(name, cell, type, description=".".join(path), priority=priority)


def time_since(name: str, *path: str, priority: int = 0) -> Column:
    """A column with the age of a timestamp."""
    return Column(
        name, lambda obj, now: age(at(obj, *path), now), description=".".join(path), priority=priority
    )


def computed(name: str, cell: Callable[[Obj], Any], type: str = "string", priority: int = 0) -> Column:
    """A column computed from the object alone."""
    return Column(name, lambda obj, now: cell(obj), type, description=name, priority=priority)


def pairs(table: Any) -> str:
    """`a=1,b=2`, or `<none>`."""
    return ",".join(f"{key}={value}" for key, value in sorted((table or {}).items())) or NONE


def selector_text(selector: Any) -> str:
    """A label selector as kubectl writes it."""
    if not isinstance(selector, dict):
        return NONE
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for term in selector.get("matchExpressions") or ():
        operator, key = term.get("operator", ""), term.get("key", "")
        values = f"({','.join(term.get('values') or ())})"
        if operator in ("In", "NotIn"):
            parts.append(f"{key} {operator.lower()} {values}")
        else:
            parts.append(key if operator == "Exists" else f"!{key}")
    return ",".join(parts) or NONE


NAME = Column("Name", lambda obj, now: obj["metadata"]["name"], format="name", description="metadata.name")
AGE = time_since("Age", "metadata", "creationTimestamp")
PLAIN = (NAME, AGE)


def pod_reason(pod: Obj) -> str:
    """The STATUS of a pod: its phase, or a reason from its containers or its deletion."""
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
    start = time_of(at(job, "status", "startTime"))
    end = time_of(at(job, "status", "completionTime"))
    if start is None:
        return ""
    return human_duration((now.timestamp() if end is None else end) - start)


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


def _node_status(node: Obj) -> str:
    ready = next((c for c in at(node, "status", "conditions") or () if c.get("type") == "Ready"), None)
    text = {"True": "Ready", "False": "NotReady"}.get((ready or {}).get("status", ""), "Unknown")
    return f"{text},SchedulingDisabled" if at(node, "spec", "unschedulable") else text


def _node_roles(node: Obj) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    roles = [key.removeprefix(prefix) for key in sorted(labels) if key.startswith(prefix)]
    return ",".join(filter(None, roles)) or NONE


def _node_address(wanted: str) -> Callable[[Obj], str]:
    def cell(node: Obj) -> str:
        for address in at(node, "status", "addresses") or ():
            if address.get("type") == wanted:
                return str(address.get("address"))
        return NONE

    return cell


def _hard_and_used(prefix: tuple[str, ...]) -> Callable[[Obj], str]:
    def cell(quota: Obj) -> str:
        hard, used = at(quota, "status", "hard") or {}, at(quota, "status", "used") or {}
        hard = hard or at(quota, "spec", "hard") or {}
        limits = [name for name in sorted(hard) if name.startswith("limits.")]
        shown = limits if prefix else [name for name in sorted(hard) if name not in limits]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in shown)

    return cell


def _event_object(event: Obj) -> str:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _event_last_seen(event: Obj, now: dt.datetime) -> str:
    series = at(event, "series", "lastObservedTime")
    last = (
        series or event.get("lastTimestamp") or event.get("deprecatedLastTimestamp") or event.get("eventTime")
    )
    return age(last or event["metadata"].get("creationTimestamp"), now)


def _modes(obj: Obj) -> str:
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    return ",".join(short.get(mode, mode) for mode in at(obj, "spec", "accessModes") or ())


def _claim_of(volume: Obj) -> str:
    claim = at(volume, "spec", "claimRef")
    return f"{claim.get('namespace')}/{claim.get('name')}" if claim else ""


def _audiences(driver: Obj) -> str:
    requests = at(driver, "spec", "tokenRequests")
    return "<unset>" if requests is None else ",".join(request.get("audience", "") for request in requests)


def _storage_class_name(obj: Obj) -> str:
    default = at(obj, "metadata", "annotations") or {}
    mark = default.get("storageclass.kubernetes.io/is-default-class") == "true"
    return f"{obj['metadata']['name']} (default)" if mark else obj["metadata"]["name"]


def _service_ports(service: Obj) -> str:
    ports = at(service, "spec", "ports") or ()
    return ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or NONE


def _size(*keys: str) -> Callable[[Obj], int]:
    return lambda obj: sum(len(obj.get(key) or ()) for key in keys)


_CREATED = (
    NAME,
    Column("Created At", lambda obj, now: str(obj["metadata"].get("creationTimestamp")), "date"),
)
_WEBHOOKS = (NAME, computed("Webhooks", _size("webhooks"), "integer"), AGE)
COLUMNS: dict[str, tuple[Column, ...]] = {
    "nodes": (
        NAME,
        computed("Status", _node_status),
        computed("Roles", _node_roles),
        AGE,
        field("Version", "status", "nodeInfo", "kubeletVersion", unset=""),
        computed("Internal-IP", _node_address("InternalIP"), priority=1),
        computed("External-IP", _node_address("ExternalIP"), priority=1),
        field("OS-Image", "status", "nodeInfo", "osImage", unset="<unknown>", priority=1),
        field("Kernel-Version", "status", "nodeInfo", "kernelVersion", unset="<unknown>", priority=1),
        field(
            "Container-Runtime",
            "status",
            "nodeInfo",
            "containerRuntimeVersion",
            unset="<unknown>",
            priority=1,
        ),
    ),
    "namespaces": (NAME, field("Status", "status", "phase", unset=""), AGE),
    "events": (
        Column("Last Seen", _event_last_seen),
        field("Type", "type", unset=""),
        field("Reason", "reason", unset=""),
        computed("Object", _event_object),
        computed("Message", lambda e: (e.get("message") or e.get("note") or "").strip()),
        Column("Name", NAME.cell, format="name", priority=1),
    ),
    "configmaps": (NAME, computed("Data", _size("data", "binaryData"), "string"), AGE),
    "secrets": (NAME, field("Type", "type", unset=""), computed("Data", _size("data"), "string"), AGE),
    "serviceaccounts": (NAME, computed("Secrets", _size("secrets"), "string"), AGE),
    "services": (
        NAME,
        field("Type", "spec", "type"),
        field("Cluster-IP", "spec", "clusterIP"),
        computed("External-IP", lambda s: ",".join(at(s, "spec", "externalIPs") or ()) or NONE),
        computed("Port(s)", _service_ports),
        AGE,
        computed("Selector", lambda s: pairs(at(s, "spec", "selector")), priority=1),
    ),
    "resourcequotas": (
        NAME,
        computed("Request", _hard_and_used(())),
        computed("Limit", _hard_and_used(("limits.",))),
        AGE,
    ),
    "limitranges": _CREATED,
    "persistentvolumes": (
        NAME,
        field("Capacity", "spec", "capacity", "storage", unset=""),
        computed("Access Modes", _modes),
        field("Reclaim Policy", "spec", "persistentVolumeReclaimPolicy", unset=""),
        field("Status", "status", "phase", unset=""),
        computed("Claim", _claim_of),
        field("StorageClass", "spec", "storageClassName", unset=""),
        AGE,
    ),
    "persistentvolumeclaims": (
        NAME,
        field("Status", "status", "phase", unset=""),
        field("Volume", "spec", "volumeName", unset=""),
        field("Capacity", "status", "capacity", "storage", unset=""),
        computed("Access Modes", _modes),
        field("StorageClass", "spec", "storageClassName", unset=""),
        AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        NAME,
        field("Value", "value", type="integer"),
        field("Global-Default", "globalDefault", unset=False, type="boolean"),
        AGE,
        field("PreemptionPolicy", "preemptionPolicy"),
    ),
    native_groups.POD_GROUPS: (
        NAME,
        computed("Policy", native_groups.printed_policy),
        computed("Workload", native_groups.printed_workload),
        computed("Status", native_groups.printed_status),
        AGE,
    ),
    native_groups.COMPOSITE_POD_GROUPS: (
        NAME,
        computed("Policy", native_groups.printed_policy),
        computed("Workload", native_groups.printed_workload),
        AGE,
    ),
    "leases.coordination.k8s.io": (NAME, field("Holder", "spec", "holderIdentity", unset=""), AGE),
    "storageclasses.storage.k8s.io": (
        computed("Name", _storage_class_name),
        field("Provisioner", "provisioner", unset=""),
        field("ReclaimPolicy", "reclaimPolicy", unset="Delete"),
        field("VolumeBindingMode", "volumeBindingMode", unset="Immediate"),
        field("AllowVolumeExpansion", "allowVolumeExpansion", unset=False, type="boolean"),
        AGE,
    ),
    "csidrivers.storage.k8s.io": (
        NAME,
        field("AttachRequired", "spec", "attachRequired", unset=True, type="boolean"),
        field("PodInfoOnMount", "spec", "podInfoOnMount", unset=False, type="boolean"),
        field("StorageCapacity", "spec", "storageCapacity", unset=False, type="boolean"),
        computed("TokenRequests", _audiences),
        field("RequiresRepublish", "spec", "requiresRepublish", unset=False, type="boolean"),
        computed("Modes", lambda driver: ",".join(at(driver, "spec", "volumeLifecycleModes") or ()) or NONE),
        AGE,
    ),
    "csistoragecapacities.storage.k8s.io": (
        NAME,
        field("StorageClassName", "storageClassName", unset=""),
        field("Capacity", "capacity", unset="<unset>"),
    ),
    "csinodes.storage.k8s.io": (
        NAME,
        computed("Drivers", lambda node: len(at(node, "spec", "drivers") or ()), "integer"),
        AGE,
    ),
    "customresourcedefinitions.apiextensions.k8s.io": _CREATED,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
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
        AGE,
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
