"""Quota evaluators: usage of one object in a ResourceQuota, and the scopes of quotas.

Pure functions on dicts, after kube-apiserver's evaluators (pods, services, volume claims, object counts). Pod
requests come from `scheduler_core.model.pods.requests`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sandbox.kinds.pods import qos_class
from sandbox.objects import Obj
from scheduler_core.decoding import convert
from scheduler_core.model.names import POD_RESIZE_PENDING
from scheduler_core.model.pods.requests import (
    PodResourcesWire,
    ResizeStatusWire,
    effective_limits,
    requests_of,
)
from scheduler_core.model.quantity import parse_resource
from scheduler_core.quota.reservations.usage import amounts_text

Amounts = dict[str, int]  # quota resource name to amount, in the resource's own unit (milli for cpu)

_COUNTED = frozenset(
    (
        "configmaps",
        "secrets",
        "services",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
    )
)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_MUST_BE_SET = frozenset(("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"))
_FINISHED = ("Succeeded", "Failed")
_POD_LEVEL = ("allocatedResources", "resources")
_OLD_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
_STORAGE_CLASS = ".storageclass.storage.k8s.io/"


def usage_of(storage: str, obj: Obj) -> Amounts:
    """All quota usage of an object by resource name; `storage` is `pods`, `deployments.apps`, ..."""
    usage = {f"count/{storage}": 1}
    if storage == "pods":
        usage.update(_pod_usage(obj))
    elif storage == "services":
        usage.update(_service_usage(obj))
    elif storage == "persistentvolumeclaims":
        usage.update(_claim_usage(obj))
    elif storage in _COUNTED:
        usage[storage] = 1
    return usage


def is_finished(obj: Obj) -> bool:
    """True if a pod has ended; only its object count is then charged."""
    return (obj.get("status") or {}).get("phase") in _FINISHED


def resize_state(pod: Obj) -> tuple[Any, ...]:
    """The fields of a pod's status that describe its in-place resize."""
    status = pod.get("status") or {}
    listed = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    pending = [c.get("reason") for c in status.get("conditions") or () if c.get("type") == POD_RESIZE_PENDING]
    return pending, [(item.get("allocatedResources"), item.get("resources")) for item in listed]


def _pod_usage(pod: Obj) -> Amounts:
    if is_finished(pod):
        return {}
    wire = convert(pod.get("spec", {}), PodResourcesWire)
    usage: Amounts = {"pods": 1}
    # kube-apiserver's evaluator uses the allocated resources of containers, not those of the pod level.
    status = {key: value for key, value in (pod.get("status") or {}).items() if key not in _POD_LEVEL}
    for name, amount in requests_of({**pod, "status": status}).items():
        usage[f"requests.{name}"] = amount
        if name in _COMPUTE or name.startswith("hugepages-"):
            usage[name] = amount
    for name, amount in effective_limits(wire, convert(status, ResizeStatusWire)).items():
        if name in _COMPUTE:
            usage[f"limits.{name}"] = amount
    return usage


def _service_usage(service: Obj) -> Amounts:
    spec = service.get("spec", {})
    usage: Amounts = {"services": 1}
    if spec.get("type") == "LoadBalancer":
        usage["services.loadbalancers"] = 1
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        ports = spec.get("ports") or ()
        if spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [port for port in ports if port.get("nodePort")]
        usage["services.nodeports"] = len(ports)
    return usage


def _claim_usage(claim: Obj) -> Amounts:
    spec, status = claim.get("spec", {}), claim.get("status") or {}
    requests = (spec.get("resources") or {}).get("requests") or {}
    # After an enlargement that failed, what is asked for may be less than what is allocated.
    allocated = (status.get("allocatedResources") or {}) if "storage" in requests else {}
    size = max(parse_resource("storage", amounts.get("storage", "0")) for amounts in (requests, allocated))
    usage: Amounts = {"persistentvolumeclaims": 1, "requests.storage": size}
    annotations = (claim.get("metadata") or {}).get("annotations") or {}
    storage_class = annotations.get(_OLD_STORAGE_CLASS, spec.get("storageClassName"))
    if storage_class:
        usage[f"{storage_class}{_STORAGE_CLASS}requests.storage"] = size
        usage[f"{storage_class}{_STORAGE_CLASS}persistentvolumeclaims"] = 1
    return usage


def hard_of(quota: Obj) -> Amounts:
    """`spec.hard` as numbers."""
    hard = quota.get("spec", {}).get("hard") or {}
    return {name: parse_resource(name, value, rounding="down") for name, value in hard.items()}


def scopes_match(quota: Obj, storage: str, obj: Obj) -> bool:
    """True if an object matches all scopes of a quota: they select pods, or claims by attributes class."""
    spec = quota.get("spec", {})
    terms = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    terms += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    if not terms:
        return True
    if storage == "persistentvolumeclaims":
        return all(_holds_claim(term, obj) for term in terms)
    return storage == "pods" and all(_in_scope(term, obj.get("spec", {})) for term in terms)


def _in_scope(term: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    scope = term.get("scopeName")
    terminating = spec.get("activeDeadlineSeconds") is not None
    if scope == "Terminating":
        return terminating
    if scope == "NotTerminating":
        return not terminating
    if scope == "BestEffort":
        return qos_class(dict(spec)) == "BestEffort"
    if scope == "NotBestEffort":
        return qos_class(dict(spec)) != "BestEffort"
    if scope == "CrossNamespacePodAffinity":
        return _crosses_namespaces(spec.get("affinity") or {})
    if scope == "PriorityClass":
        return _class_matches(term, spec.get("priorityClassName") or "")
    return False


def _holds_claim(term: Mapping[str, Any], claim: Obj) -> bool:
    """Whether one of the classes matches that a claim asks for, has, or is given."""
    if term.get("scopeName") != "VolumeAttributesClass":
        return False
    spec, status = claim.get("spec", {}), claim.get("status") or {}
    given = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
    names = {spec.get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"), given}
    return any(_class_matches(term, name) for name in names - {None, ""} or {""})


def _class_matches(term: Mapping[str, Any], name: str) -> bool:
    operator, values = term.get("operator"), term.get("values") or ()
    if operator == "In":
        return name in values
    if operator == "NotIn":
        return name not in values
    return (operator == "Exists") == bool(name)


def _crosses_namespaces(affinity: Mapping[str, Any]) -> bool:
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [entry.get("podAffinityTerm") or {} for entry in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


def missing_values(hard: Iterable[str], spec: Mapping[str, Any]) -> dict[str, list[str]]:
    """Quota resources that a pod must set but does not, with the names of its containers.

    A limit counts as the request of a container without a request, as defaulting does it. A pod with
    resources of its own, whichever, needs none in its containers.
    """
    if _set_values(spec):
        return {}
    required = sorted(_MUST_BE_SET.intersection(hard))
    found: dict[str, set[str]] = {}
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        present = _set_values(container)
        for name in required:
            if name not in present:
                found.setdefault(name, set()).add(container.get("name", ""))
    return {name: sorted(containers) for name, containers in found.items()}


def _set_values(holder: Mapping[str, Any]) -> frozenset[str]:
    resources = holder.get("resources") or {}
    limits = resources.get("limits") or {}
    requests = {**limits, **(resources.get("requests") or {})}
    return frozenset(
        [*requests, *(f"requests.{name}" for name in requests), *(f"limits.{name}" for name in limits)]
    )


def refusal_of(name: str, hard: Amounts, used: Amounts, change: Amounts) -> str | None:
    """kube-apiserver's message if a quota cannot take a change of usage, else None.

    Only growing resources are compared, so an exceeded quota does not block changes that do not grow.
    """
    asked = {key: amount for key, amount in change.items() if key in hard and amount > 0}
    over = sorted(key for key, amount in asked.items() if used.get(key, 0) + amount > hard[key])
    if not over:
        return None
    requested, taken, limited = (
        amounts_text({key: values.get(key, 0) for key in over}) for values in (asked, used, hard)
    )
    return f"exceeded quota: {name}, requested: {requested}, used: {taken}, limited: {limited}"


def difference(new: Amounts, old: Amounts) -> Amounts:
    """`new - old`, without zeros."""
    change = {name: new.get(name, 0) - old.get(name, 0) for name in new.keys() | old.keys()}
    return {name: amount for name, amount in change.items() if amount}
