"""Kubernetes' own groups (scheduling.k8s.io): defaults, validation, and conversion of v1alpha2.

Objects are stored as v1beta1, which has all fields of the other versions under the same names, except those
of v1alpha2. The messages are those of kube-apiserver 1.36 (v1alpha2) and 1.37.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from sandbox import errors
from sandbox.errors import StatusCause
from sandbox.objects import Obj, at
from sandbox.store import metadata

GROUP: Final = "scheduling.k8s.io"
STORED: Final = f"{GROUP}/v1beta1"
POD_GROUPS: Final = f"podgroups.{GROUP}"
WORKLOADS: Final = f"workloads.{GROUP}"
COMPOSITE_POD_GROUPS: Final = f"compositepodgroups.{GROUP}"
GROUPS: Final = (POD_GROUPS, COMPOSITE_POD_GROUPS)
CONVERTED: Final = (POD_GROUPS, WORKLOADS)

_V1ALPHA2: Final = f"{GROUP}/v1alpha2"
_HIGHEST: Final = 1_000_000_000
_MOST_CLAIMS: Final = 4
_MOST_TEMPLATES: Final = 8
_DEPTH: Final = 4
# disruptionMode in v1alpha2, and in all later versions.
_MODES: Final[dict[str, Obj]] = {"Pod": {"single": {}}, "PodGroup": {"all": {}}}
_CONDITION_STATUS: Final = ("False", "True", "Unknown")
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
# Of a group all but this is immutable; of a policy only the minimum changes (since 1.37).
_POLICY: Final = "schedulingPolicy"


def is_alpha2(obj: Obj) -> bool:
    """Whether an object has the form of Kubernetes 1.36."""
    return obj.get("apiVersion") == _V1ALPHA2


def default_group(obj: Obj) -> None:
    """Set the defaults of a PodGroup or CompositePodGroup in place."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        spec = obj["spec"] = {}
    # Shared claims have a gate of their own, which is off.
    spec.pop("resourceClaims", None)
    if spec.get("disruptionMode") is None:
        spec["disruptionMode"] = "Pod" if is_alpha2(obj) else {"single": {}}


def shown(obj: Obj, api_version: str) -> Obj:
    """A stored object in another version."""
    if api_version != _V1ALPHA2:
        return {**obj, "apiVersion": api_version}
    return {**obj, "apiVersion": api_version, "spec": _spec_as_alpha2(obj.get("spec") or {})}


def stored(obj: Obj) -> Obj:
    """An object of any version, as stored."""
    spec = obj.get("spec") or {}
    return {**obj, "apiVersion": STORED, **({"spec": _spec_from_alpha2(spec)} if is_alpha2(obj) else {})}


def _spec_as_alpha2(spec: Obj) -> Obj:
    found = {key: value for key, value in spec.items() if key not in ("workloadRef", "preemptionPolicy")}
    if (mode := spec.get("disruptionMode")) is not None:
        found["disruptionMode"] = "PodGroup" if "all" in mode else "Pod"
    if ref := spec.get("workloadRef"):
        named = {"workloadName": ref["workloadName"], "podGroupTemplateName": ref["templateName"]}
        found["podGroupTemplateRef"] = {"workload": named}
    if templates := spec.get("podGroupTemplates"):
        found["podGroupTemplates"] = [_spec_as_alpha2(template) for template in templates]
    return found


def _spec_from_alpha2(spec: Obj) -> Obj:
    found = {key: value for key, value in spec.items() if key != "podGroupTemplateRef"}
    if isinstance(mode := spec.get("disruptionMode"), str):
        found["disruptionMode"] = _MODES[mode]
    if ref := at(spec, "podGroupTemplateRef", "workload"):
        found["workloadRef"] = {
            "workloadName": ref["workloadName"],
            "templateName": ref["podGroupTemplateName"],
        }
    if templates := spec.get("podGroupTemplates"):
        found["podGroupTemplates"] = [_spec_from_alpha2(template) for template in templates]
    return found


def pod_group_causes(obj: Obj, old: Obj | None) -> list[StatusCause]:
    """Validation errors of a PodGroup."""
    spec = obj["spec"]
    found = _group_causes(spec, "spec", "minCount", None if old is None else old["spec"], is_alpha2(obj))
    if spec.get("parentCompositePodGroupName") and not spec.get("workloadRef"):
        text = "must be set when parentCompositePodGroupName is set"
        found.append(errors.required("spec.workloadRef", text))
    return found + _reference_causes(spec) + _condition_causes(obj)


def composite_causes(obj: Obj, old: Obj | None) -> list[StatusCause]:
    """Validation errors of a CompositePodGroup."""
    spec = obj["spec"]
    found = [] if spec.get("workloadRef") else [errors.required("spec.workloadRef")]
    found += _group_causes(spec, "spec", "minGroupCount", None if old is None else old["spec"], False)
    return found + _reference_causes(spec) + _condition_causes(obj)


def workload_causes(obj: Obj, old: Obj | None) -> list[StatusCause]:
    """Validation errors of a Workload."""
    spec = obj.get("spec") or {}
    found = []
    for key in ("kind", "name"):
        if spec.get("controllerRef") is not None and not spec["controllerRef"].get(key):
            found.append(errors.required(f"spec.controllerRef.{key}"))
    single, composite = spec.get("podGroupTemplates") or [], spec.get("compositePodGroupTemplates") or []
    if is_alpha2(obj):
        found += [] if single else [errors.required("spec.podGroupTemplates")]
        if old is not None and single != (old["spec"].get("podGroupTemplates") or []):
            found.append(errors.invalid_value("spec.podGroupTemplates", None, "field is immutable"))
    elif not single and not composite:
        found.append(_one_of("spec", ("podGroupTemplates", "compositePodGroupTemplates"), ()))
    elif single and composite:
        names = ("podGroupTemplates", "compositePodGroupTemplates")
        found.append(_one_of("spec", names, names))
    return found + _template_causes(spec, "spec", old["spec"] if old else None, 1)


def _template_causes(spec: Obj, path: str, old: Obj | None, depth: int) -> list[StatusCause]:
    """Validation errors of the templates of a Workload or of a composite template."""
    found: list[StatusCause] = []
    for field, minimum in (
        ("podGroupTemplates", "minCount"),
        ("compositePodGroupTemplates", "minGroupCount"),
    ):
        templates = spec.get(field) or []
        if not templates and not (old or {}).get(field):
            continue
        before = None if old is None else {item["name"]: item for item in old.get(field) or ()}
        where = f"{path}.{field}"
        if len(templates) > _MOST_TEMPLATES:
            found.append(_too_many(where, len(templates), _MOST_TEMPLATES))
            continue
        names: set[str] = set()
        for index, template in enumerate(templates):
            place, name = f"{where}[{index}]", template.get("name", "")
            if not name:
                found.append(errors.required(f"{place}.name"))
            else:
                found += metadata.label_name_causes(f"{place}.name", name)
            if name in names:
                found.append(StatusCause("FieldValueDuplicate", f'Duplicate value: "{name}"', place))
            names.add(name)
            was = None if before is None else before.get(name)
            if before is not None and was is None:
                found.append(errors.forbidden_field(where, "item may not be added"))
                continue
            found += _group_causes(template, place, minimum, was, False)
            if field.startswith("composite"):
                found += _child_causes(template, place, was, depth)
        if before is not None and not before.keys() <= names:
            found.append(errors.forbidden_field(where, "item may not be removed"))
    return found


def _child_causes(template: Obj, path: str, old: Obj | None, depth: int) -> list[StatusCause]:
    children = template.get("podGroupTemplates") or template.get("compositePodGroupTemplates")
    if not children:
        text = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
        return [errors.invalid_value(path, template.get("name"), text)]
    if depth == _DEPTH:
        return [errors.invalid_value(path, None, f"maximum template hierarchy depth is {_DEPTH}")]
    return _template_causes(template, path, old, depth + 1)


def _group_causes(
    spec: Obj, path: str, minimum: str, old: Obj | None, frozen_policy: bool
) -> list[StatusCause]:
    """Validation errors of the fields that groups and templates have in common."""
    found = []
    if old is not None:
        skipped = {_POLICY, "name", "podGroupTemplates", "compositePodGroupTemplates"}
        changed = [key for key in sorted({*spec, *old} - skipped) if spec.get(key) != old.get(key)]
        found += [errors.invalid_value(f"{path}.{key}", None, "field is immutable") for key in changed]
    found += _policy_causes(spec, f"{path}.{_POLICY}", minimum, old, frozen_policy)
    mode = spec.get("disruptionMode")
    if isinstance(mode, str):
        if mode not in _MODES:
            found.append(errors.not_supported(f"{path}.disruptionMode", mode, tuple(_MODES)))
    elif mode is not None and len(mode) != 1:
        found.append(_one_of(f"{path}.disruptionMode", ("single", "all"), tuple(mode)))
    found += _topology_causes(spec, f"{path}.schedulingConstraints.topology")
    if len(spec.get("resourceClaims") or ()) > _MOST_CLAIMS:
        found.append(_too_many(f"{path}.resourceClaims", len(spec["resourceClaims"]), _MOST_CLAIMS))
    if (spec.get("priority") or 0) > _HIGHEST:
        text = f"must be less than or equal to {_HIGHEST}"
        found.append(errors.invalid_value(f"{path}.priority", spec["priority"], text))
    return found


def _policy_causes(spec: Obj, path: str, minimum: str, old: Obj | None, frozen: bool) -> list[StatusCause]:
    policy = spec.get(_POLICY) or {}
    before = None if old is None else old.get(_POLICY) or {}
    if before is not None and frozen:
        return [] if policy == before else [errors.invalid_value(path, None, "field is immutable")]
    if before is not None and policy.keys() != before.keys():
        found = []
        if policy.get("basic") != before.get("basic"):
            found.append(errors.invalid_value(f"{path}.basic", None, "field is immutable"))
        if (policy.get("gang") is None) != (before.get("gang") is None):
            verb = "cleared" if policy.get("gang") is None else "set"
            text = f"field cannot be {verb} once {'set' if verb == 'cleared' else 'created'}"
            found.append(errors.invalid_value(f"{path}.gang", None, text))
        return found
    if len(policy) != 1:
        return [_one_of(path, ("basic", "gang"), tuple(policy))]
    gang = policy.get("gang")
    count = gang.get(minimum) if gang is not None else 1
    if not count:
        return [errors.required(f"{path}.gang.{minimum}")]
    if count < 1:
        text = "must be greater than or equal to 1"
        return [errors.invalid_value(f"{path}.gang.{minimum}", count, text)]
    return []


def _topology_causes(spec: Obj, path: str) -> list[StatusCause]:
    keys = at(spec, "schedulingConstraints", "topology") or []
    if len(keys) > 1:
        return [_too_many(path, len(keys), 1)]
    found: list[StatusCause] = []
    for index, item in enumerate(keys):
        key = item.get("key", "")
        place = f"{path}[{index}].key"
        found += metadata.label_key_causes(key, place) if key else [errors.required(place)]
    return found


def _reference_causes(spec: Obj) -> list[StatusCause]:
    """Validation errors of the link to a Workload, in either form."""
    found: list[StatusCause] = []
    alpha2: Obj | None = at(spec, "podGroupTemplateRef", "workload")
    for path, ref, template in (
        ("spec.workloadRef", spec.get("workloadRef"), "templateName"),
        ("spec.podGroupTemplateRef.workload", alpha2, "podGroupTemplateName"),
    ):
        if ref is None:
            continue
        for key in ("workloadName", template):
            if not ref.get(key):
                found.append(errors.required(f"{path}.{key}"))
            elif key == template:
                found += metadata.label_name_causes(f"{path}.{key}", ref[key])
            else:
                found += metadata.long_name_causes(f"{path}.{key}", ref[key])
    return found


def _condition_causes(obj: Obj) -> list[StatusCause]:
    """Validation errors of the conditions in the status."""
    found = []
    for index, item in enumerate(at(obj, "status", "conditions") or ()):
        path = f"status.conditions[{index}]"
        if not item.get("type"):
            found.append(errors.required(f"{path}.type"))
        if item.get("status") not in _CONDITION_STATUS:
            found.append(errors.not_supported(f"{path}.status", item.get("status", ""), _CONDITION_STATUS))
        for key in ("lastTransitionTime", "reason"):
            if not item.get(key):
                found.append(errors.required(f"{path}.{key}"))
        if (reason := item.get("reason")) and not _REASON.fullmatch(reason):
            text = f"a condition reason must match the regex '{_REASON.pattern}'"
            found.append(errors.invalid_value(f"{path}.reason", reason, text))
    return found


def _one_of(path: str, members: Sequence[str], given: Sequence[str]) -> StatusCause:
    """The error of a union that has not exactly one member."""
    names = ", ".join(f"`{name}`" for name in members)
    if not given:
        return errors.invalid_value(path, "", f"must specify one of: {names}")
    both = "{" + ", ".join(name for name in members if name in given) + "}"
    return errors.invalid_value(path, both, f"must specify exactly one of: {names}")


def _too_many(path: str, count: int, most: int) -> StatusCause:
    items = "item" if most == 1 else "items"
    return StatusCause("FieldValueTooMany", f"Too many: {count}: must have at most {most} {items}", path)


def printed_policy(obj: Obj) -> Any:
    """Column `Policy` of a group."""
    return "Gang" if at(obj, "spec", _POLICY, "gang") is not None else "Basic"


def printed_workload(obj: Obj) -> Any:
    """Column `Workload` of a group."""
    ref = at(obj, "spec", "workloadRef") or at(obj, "spec", "podGroupTemplateRef", "workload") or {}
    return ref.get("workloadName") or "<none>"


def printed_status(obj: Obj) -> Any:
    """Column `Status` of a PodGroup."""
    known = {item["type"]: item for item in at(obj, "status", "conditions") or ()}
    if "DisruptionTarget" in known:
        return known["DisruptionTarget"].get("reason", "")
    first = known.get("PodGroupInitiallyScheduled") or known.get("PodGroupScheduled")
    if first is None:
        return "Pending"
    return "Scheduled" if first["status"] == "True" else "Unschedulable"
