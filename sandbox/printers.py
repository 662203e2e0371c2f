"""What `kubectl get` shows of each built-in kind: the columns of cluster objects, and the table of all."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sandbox.durations import age
from sandbox.objects import Obj, at

Cell = Callable[[Obj, dt.datetime], Any]
NONE = "<none>"


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `priority` above 0 shows only in wide output."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


def field(name: str, *path: str, unset: Any = NONE, type: str = "string", priority: int = 0) -> Column:
    """A column that shows one field."""

    def cell(obj: Obj, now: dt.datetime) -> Any:
        value = at(obj, *path)
        return unset if value is None or value == "" else value

    return Column(name, cell, type, description=".".join(path), priority=priority)


def time_since(name: str, *path: str, priority: int = 0) -> Column:
    """A column that shows how long ago a timestamp was."""
    return Column(
        name, lambda obj, now: age(at(obj, *path), now), description=".".join(path), priority=priority
    )


def computed(name: str, cell: Callable[[Obj], Any], type: str = "string", priority: int = 0) -> Column:
    """A column that does not depend on the time."""
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


def _storage_class_name(obj: Obj) -> str:
    default = at(obj, "metadata", "annotations") or {}
    mark = default.get("storageclass.kubernetes.io/is-default-class") == "true"
    return f"{obj['metadata']['name']} (default)" if mark else obj["metadata"]["name"]


def _service_ports(service: Obj) -> str:
    ports = at(service, "spec", "ports") or ()
    return ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or NONE


def _crd_created(crd: Obj) -> str:
    return str(crd["metadata"].get("creationTimestamp"))


def _size(*keys: str) -> Callable[[Obj], int]:
    return lambda obj: sum(len(obj.get(key) or ()) for key in keys)


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
    "limitranges": (NAME, Column("Created At", lambda o, now: _crd_created(o), "date")),
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
    "leases.coordination.k8s.io": (NAME, field("Holder", "spec", "holderIdentity", unset=""), AGE),
    "storageclasses.storage.k8s.io": (
        computed("Name", _storage_class_name),
        field("Provisioner", "provisioner", unset=""),
        field("ReclaimPolicy", "reclaimPolicy", unset="Delete"),
        field("VolumeBindingMode", "volumeBindingMode", unset="Immediate"),
        field("AllowVolumeExpansion", "allowVolumeExpansion", unset=False, type="boolean"),
        AGE,
    ),
    "csinodes.storage.k8s.io": (
        NAME,
        computed("Drivers", lambda node: len(at(node, "spec", "drivers") or ()), "integer"),
        AGE,
    ),
    "customresourcedefinitions.apiextensions.k8s.io": (
        NAME,
        Column("Created At", lambda crd, now: _crd_created(crd), "date"),
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": (
        NAME,
        computed("Webhooks", _size("webhooks"), "integer"),
        AGE,
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": (
        NAME,
        computed("Webhooks", _size("webhooks"), "integer"),
        AGE,
    ),
}
"""By storage name."""
