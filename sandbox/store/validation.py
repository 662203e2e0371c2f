"""Validation of built-in kinds other than Pod, as far as Muster and the controllers depend on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from sandbox import errors
from sandbox.errors import StatusCause
from sandbox.kinds import crd, native_groups, pods
from sandbox.kinds.api_kinds import ApiKind
from sandbox.objects import Obj, at
from sandbox.store import metadata
from scheduler_core.model import names
from scheduler_core.model.quantity import is_counted, is_whole, parse_quantity

_NEGATIVE: Final = "must be greater than or equal to 0"
# What ResourceQuotas count as objects, beside pods: integerResources of pkg/apis/core/helper/helpers.go.
_COUNTED: Final = frozenset(
    {
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
Rule = Callable[[Obj, Obj | None], list[StatusCause]]


def causes(kind: ApiKind, obj: Obj, old: Obj | None) -> list[StatusCause]:
    """Validation errors of a built-in object; `old` is None on creation."""
    rule = _RULES.get(kind.storage)
    return rule(obj, old) if rule else []


def _immutable(obj: Obj, old: Obj | None, paths: Iterable[tuple[str, ...]]) -> list[StatusCause]:
    if old is None:
        return []
    return [
        errors.invalid_value(".".join(path), at(obj, *path), "field is immutable")
        for path in paths
        if at(obj, *path) != at(old, *path)
    ]


def _amounts(table: Any, path: str) -> list[StatusCause]:
    """Amounts that are negative, or fractions of what is counted; that they are quantities is known."""
    found = []
    for name, amount in (table or {}).items():
        if parse_quantity(amount, rounding="down") < 0:
            found.append(errors.invalid_value(f"{path}[{name}]", amount, _NEGATIVE))
        if _is_counted(name) and not is_whole(amount):
            found.append(errors.invalid_value(f"{path}[{name}]", amount, "must be an integer"))
    return found


def _is_counted(resource: str) -> bool:
    """Whether a quota takes whole numbers only; of `requests.x/gpu` Kubernetes takes fractions."""
    return resource in _COUNTED or (is_counted(resource) and not resource.startswith(names.REQUESTS_PREFIX))


def _resource_quota(obj: Obj, old: Obj | None) -> list[StatusCause]:
    return _amounts(at(obj, "spec", "hard"), "spec.hard")


def _workload(obj: Obj, old: Obj | None) -> list[StatusCause]:
    selector = at(obj, "spec", "selector")
    if not isinstance(selector, dict):
        return [errors.required("spec.selector")]
    labels = at(obj, "spec", "template", "metadata", "labels") or {}
    wanted = selector.get("matchLabels") or {}
    found = pods.pod_spec_causes(at(obj, "spec", "template", "spec"), "spec.template.spec")
    return found + _label_causes(wanted, labels) + _immutable(obj, old, [("spec", "selector")])


def _label_causes(wanted: Obj, labels: Obj) -> list[StatusCause]:
    """The error of a workload whose selector `wanted` does not match the labels of its template."""
    if all(labels.get(key) == value for key, value in wanted.items()):
        return []
    text = "`selector` does not match template `labels`"
    return [errors.invalid_value("spec.template.metadata.labels", labels, text)]


def _replication_controller(obj: Obj, old: Obj | None) -> list[StatusCause]:
    selector = at(obj, "spec", "selector")
    found = [] if selector else [errors.required("spec.selector")]
    template = at(obj, "spec", "template")
    if not template:
        return [*found, errors.required("spec.template")]
    labels = at(template, "metadata", "labels") or {}
    found += _label_causes(selector or {}, labels)
    return found + pods.pod_spec_causes(template.get("spec"), "spec.template.spec")


def _pod_template(obj: Obj, old: Obj | None) -> list[StatusCause]:
    return pods.pod_spec_causes(at(obj, "template", "spec"), "template.spec")


def _runtime_class(obj: Obj, old: Obj | None) -> list[StatusCause]:
    handler = obj.get("handler") or ""
    found = metadata.label_name_causes("handler", handler) if handler else [errors.required("handler")]
    for name, amount in (at(obj, "overhead", "podFixed") or {}).items():
        if parse_quantity(amount) < 0:
            found.append(errors.invalid_value(f"overhead.limits[{name}]", str(amount), _NEGATIVE))
    return found + _immutable(obj, old, [("handler",)])


def _job(obj: Obj, old: Obj | None) -> list[StatusCause]:
    found = pods.pod_spec_causes(at(obj, "spec", "template", "spec"), "spec.template.spec")
    policy = at(obj, "spec", "template", "spec", "restartPolicy")
    if not found and policy not in ("Never", "OnFailure"):
        path = "spec.template.spec.restartPolicy"
        found.append(errors.required(path, 'valid values: "OnFailure", "Never"'))
    return found + _immutable(obj, old, [("spec", "selector"), ("spec", "completionMode")])


_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_RULE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    f"'KEY_NAME',  or 'key-name', regex used for validation is '{_CONFIG_KEY.pattern}')"
)


def _config_keys(obj: Obj) -> list[StatusCause]:
    """Keys of a ConfigMap or Secret that no file could have."""
    return [
        errors.invalid_value(f"{part}[{key}]", key, _CONFIG_KEY_RULE)
        for part in ("data", "binaryData")
        for key in obj.get(part) or ()
        if not _CONFIG_KEY.fullmatch(key) or key == "." or key.startswith("..") or len(key) > 253
    ]


def _config(obj: Obj, old: Obj | None) -> list[StatusCause]:
    keys = _config_keys(obj)
    if keys or old is None or not old.get("immutable"):
        return keys
    changed = [key for key in ("data", "binaryData", "immutable") if obj.get(key) != old.get(key)]
    return [errors.forbidden_field(key, "field is immutable when `immutable` is set") for key in changed]


def _priority_class(obj: Obj, old: Obj | None) -> list[StatusCause]:
    if old is None or obj.get("value") == old.get("value"):
        return []
    return [errors.forbidden_field("value", "may not be changed in an update.")]


def _webhooks(obj: Obj, old: Obj | None) -> list[StatusCause]:
    found = []
    for index, hook in enumerate(obj.get("webhooks") or ()):
        path = f"webhooks[{index}]"
        if not hook.get("name"):
            found.append(errors.required(f"{path}.name"))
        if hook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            choices = ("None", "NoneOnDryRun")
            found.append(errors.not_supported(f"{path}.sideEffects", hook.get("sideEffects", ""), choices))
        if not hook.get("admissionReviewVersions"):
            found.append(
                errors.required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1")
            )
        timeout = hook.get("timeoutSeconds", 10)
        if not 1 <= timeout <= 30:
            text = "the timeout value must be between 1 and 30 seconds"
            found.append(errors.invalid_value(f"{path}.timeoutSeconds", timeout, text))
    return found


def _budget(obj: Obj, old: Obj | None) -> list[StatusCause]:
    spec = obj.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        text = "minAvailable and maxUnavailable cannot be both set"
        return [errors.invalid_value("spec", "both", text)]
    return []


def _node(obj: Obj, old: Obj | None) -> list[StatusCause]:
    return _amounts(at(obj, "status", "allocatable"), "status.allocatable") + _amounts(
        at(obj, "status", "capacity"), "status.capacity"
    )


_RULES: dict[str, Rule] = {
    "resourcequotas": _resource_quota,
    "deployments.apps": _workload,
    "replicasets.apps": _workload,
    "statefulsets.apps": _workload,
    "daemonsets.apps": _workload,
    "jobs.batch": _job,
    "replicationcontrollers": _replication_controller,
    "podtemplates": _pod_template,
    "runtimeclasses.node.k8s.io": _runtime_class,
    "configmaps": _config,
    "secrets": _config,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    native_groups.POD_GROUPS: native_groups.pod_group_causes,
    native_groups.COMPOSITE_POD_GROUPS: native_groups.composite_causes,
    native_groups.WORKLOADS: native_groups.workload_causes,
    "poddisruptionbudgets.policy": _budget,
    "nodes": _node,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _webhooks,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _webhooks,
    "customresourcedefinitions.apiextensions.k8s.io": crd.definition_causes,
}
