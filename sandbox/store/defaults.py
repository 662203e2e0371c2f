"""Defaulting of built-in kinds, in place, as kube-apiserver does it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final

from sandbox.kinds import native_groups
from sandbox.objects import Obj

Defaulter = Callable[[Obj], None]
_CONTAINERS: Final = ("initContainers", "containers")
# The defaults of a pod's volumes: source, field and value. Modes are 0644.
_VOLUME_DEFAULTS: Final = (
    *((source, "defaultMode", 0o644) for source in ("configMap", "secret", "downwardAPI", "projected")),
    ("hostPath", "type", ""),
)


def _spec(obj: Obj) -> Obj:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        spec = obj["spec"] = {}
    return spec


def _set(target: Obj, **values: Any) -> None:
    for key, value in values.items():
        if target.get(key) is None:
            target[key] = value


def default_pod_spec(spec: Obj) -> None:
    """Set the defaults of a pod spec, also in pod templates."""
    _set(
        spec,
        restartPolicy="Always",
        dnsPolicy="ClusterFirst",
        terminationGracePeriodSeconds=30,
        schedulerName="default-scheduler",
        securityContext={},
    )
    for key in _CONTAINERS:
        containers = spec.get(key)
        if not isinstance(containers, list):
            continue
        for container in containers:
            if isinstance(container, dict):
                _default_container(container)
    volumes = spec.get("volumes")
    for volume in volumes if isinstance(volumes, list) else ():
        if isinstance(volume, dict):
            _default_volume(volume)


def _default_container(container: Obj) -> None:
    image = container.get("image")
    if isinstance(image, str) and "imagePullPolicy" not in container:
        latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
        container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"
    _set(
        container,
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
    )
    _set(container, resources={})
    for port in container.get("ports") or ():
        if isinstance(port, dict):
            port.setdefault("protocol", "TCP")


def _default_volume(volume: Obj) -> None:
    for key, field, value in _VOLUME_DEFAULTS:
        source = volume.get(key)
        if isinstance(source, dict):
            _set(source, **{field: value})


def _requests_from_limits(spec: Obj) -> None:
    """What a pod's container limits it requests; templates stay as they are written."""
    for container in [item for key in _CONTAINERS for item in spec.get(key) or ()]:
        resources = container.get("resources") if isinstance(container, dict) else None
        limits = resources.get("limits") if isinstance(resources, dict) else None
        if isinstance(resources, dict) and isinstance(limits, dict):
            requests = resources.setdefault("requests", {})
            if isinstance(requests, dict):
                for name, amount in limits.items():
                    requests.setdefault(name, amount)


def _pod(obj: Obj) -> None:
    spec = _spec(obj)
    default_pod_spec(spec)
    _requests_from_limits(spec)
    _set(spec, enableServiceLinks=True, serviceAccountName="default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])


def _template(obj: Obj) -> None:
    template = _spec(obj).setdefault("template", {})
    if isinstance(template, dict):
        template.setdefault("metadata", {})
        inner = template.get("spec")
        if isinstance(inner, dict):
            default_pod_spec(inner)


def _deployment(obj: Obj) -> None:
    spec = _spec(obj)
    _set(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = spec.setdefault("strategy", {})
    _set(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _set(strategy.setdefault("rollingUpdate", {}), maxSurge="25%", maxUnavailable="25%")
    _template(obj)


def _replicas(obj: Obj) -> None:
    _set(_spec(obj), replicas=1)
    _template(obj)


def _replication_controller(obj: Obj) -> None:
    _set(_spec(obj), replicas=1)
    template = obj["spec"].get("template")
    if not isinstance(template, dict):
        return
    _template(obj)
    labels = (template.get("metadata") or {}).get("labels")
    if labels:
        if not obj["spec"].get("selector"):
            obj["spec"]["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)


def _pod_template(obj: Obj) -> None:
    inner = (obj.get("template") or {}).get("spec")
    if isinstance(inner, dict):
        default_pod_spec(inner)


def _stateful_set(obj: Obj) -> None:
    _set(_spec(obj), replicas=1, podManagementPolicy="OrderedReady", revisionHistoryLimit=10)
    _template(obj)


def _job(obj: Obj) -> None:
    spec = _spec(obj)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    _set(spec, parallelism=1, backoffLimit=6, completionMode="NonIndexed", suspend=False)
    _set(spec, podReplacementPolicy="TerminatingOrFailed", manualSelector=False)
    _template(obj)
    if spec["manualSelector"] or not isinstance(spec["template"], dict):
        return
    meta = obj["metadata"]
    labels = {
        "batch.kubernetes.io/controller-uid": meta.get("uid", ""),
        "controller-uid": meta.get("uid", ""),
    }
    names = {"batch.kubernetes.io/job-name": meta.get("name", ""), "job-name": meta.get("name", "")}
    if meta.get("uid") and spec.get("selector") is None:
        template_meta = spec["template"].setdefault("metadata", {})
        template_meta["labels"] = {**(template_meta.get("labels") or {}), **labels, **names}
        key = "batch.kubernetes.io/controller-uid"
        spec["selector"] = {"matchLabels": {key: labels[key]}}


def _service(obj: Obj) -> None:
    spec = _spec(obj)
    _set(spec, type="ClusterIP", sessionAffinity="None", internalTrafficPolicy="Cluster")
    _set(spec, clusterIP="None" if spec.get("clusterIP") == "None" else "10.96.0.10")
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    for port in spec.get("ports") or ():
        if isinstance(port, dict):
            _set(port, protocol="TCP", targetPort=port.get("port"))


def _namespace(obj: Obj) -> None:
    _set(_spec(obj), finalizers=["kubernetes"])
    meta = obj["metadata"]
    if meta.get("name"):
        labels = meta.get("labels") or {}
        meta["labels"] = {**labels, "kubernetes.io/metadata.name": meta["name"]}
    if not isinstance(obj.get("status"), dict) or not obj["status"].get("phase"):
        obj["status"] = {"phase": "Active"}


def _secret(obj: Obj) -> None:
    _set(obj, type="Opaque")
    plain = obj.pop("stringData", None)
    if isinstance(plain, dict):
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def _priority_class(obj: Obj) -> None:
    _set(obj, preemptionPolicy="PreemptLowerPriority", value=0)


def _webhooks(obj: Obj) -> None:
    for hook in obj.get("webhooks") or ():
        if not isinstance(hook, dict):
            continue
        _set(hook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
        _set(hook, namespaceSelector={}, objectSelector={})
        if obj.get("kind") == "MutatingWebhookConfiguration":
            _set(hook, reinvocationPolicy="Never")
        for rule in hook.get("rules") or ():
            if isinstance(rule, dict):
                _set(rule, scope="*")
        service = (hook.get("clientConfig") or {}).get("service")
        if isinstance(service, dict):
            _set(service, port=443)


def _admission_policy(obj: Obj) -> None:
    spec = _spec(obj)
    _set(spec, failurePolicy="Fail")
    match = spec.get("matchConstraints")
    if isinstance(match, dict):
        _set(match, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
        for key in ("resourceRules", "excludeResourceRules"):
            for rule in match.get(key) or ():
                if isinstance(rule, dict):
                    _set(rule, scope="*")


def _autoscaler(obj: Obj) -> None:
    _set(_spec(obj), minReplicas=1)


def _claim(obj: Obj) -> None:
    _set(_spec(obj), volumeMode="Filesystem")
    if not obj.get("status"):
        obj["status"] = {"phase": "Pending"}


def _storage_class(obj: Obj) -> None:
    _set(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


DEFAULTERS: dict[str, Defaulter] = {
    "pods": _pod,
    "deployments.apps": _deployment,
    "replicasets.apps": _replicas,
    "replicationcontrollers": _replication_controller,
    "podtemplates": _pod_template,
    "statefulsets.apps": _stateful_set,
    "daemonsets.apps": _template,
    "jobs.batch": _job,
    "services": _service,
    "namespaces": _namespace,
    "secrets": _secret,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    **dict.fromkeys(native_groups.GROUPS, native_groups.default_group),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _webhooks,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _webhooks,
    "mutatingadmissionpolicies.admissionregistration.k8s.io": _admission_policy,
    "validatingadmissionpolicies.admissionregistration.k8s.io": _admission_policy,
    "horizontalpodautoscalers.autoscaling": _autoscaler,
    "persistentvolumeclaims": _claim,
    "storageclasses.storage.k8s.io": _storage_class,
}
"""By storage name."""
