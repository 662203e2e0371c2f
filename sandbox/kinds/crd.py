"""CustomResourceDefinitions: validation, defaults of names and status, and the kinds that they serve."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from sandbox import errors
from sandbox.cel.rule_compilation import rule_causes
from sandbox.errors import StatusCause
from sandbox.kinds.api_kinds import ApiKind, CustomVersion, KindTable
from sandbox.kinds.builtin import CUSTOM_RESOURCE_DEFINITIONS
from sandbox.objects import Obj, at, condition_now
from sandbox.store.object_store import EventType, ObjectStore
from sandbox.store.structural_schema import has_defaults

APPROVED = "api-approved.kubernetes.io"
_PROTECTED = (".k8s.io", ".kubernetes.io")


def prepare(crd: Obj, old: Obj | None) -> None:
    """Default the names and set the status of a definition before storage, in place."""
    spec = crd.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("names"), dict):
        return
    names = {**spec["names"]}
    kind = str(names.get("kind", ""))
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec = crd["spec"] = {**spec, "names": names}
    spec.setdefault("conversion", {"strategy": "None"})
    status = (old or {}).get("status") or {}
    storage = [v["name"] for v in _versions(crd) if v.get("storage")]
    stored = [
        *status.get("storedVersions", ()),
        *(v for v in storage if v not in status.get("storedVersions", ())),
    ]
    crd["status"] = {
        "acceptedNames": names,
        "storedVersions": stored,
        "conditions": status.get("conditions")
        or [
            condition_now("NamesAccepted", True, "NoConflicts", "no conflicts found"),
            condition_now(
                "Established", True, "InitialNamesAccepted", "the initial names have been accepted"
            ),
        ],
    }


def _versions(crd: Obj) -> list[Obj]:
    return [version for version in at(crd, "spec", "versions") or () if isinstance(version, dict)]


def definition_causes(crd: Obj, old: Obj | None) -> list[StatusCause]:
    """Validation errors of a definition."""
    spec = crd.get("spec")
    if not isinstance(spec, dict):
        return [errors.required("spec")]
    group, names = spec.get("group"), spec.get("names") or {}
    causes = [errors.required(f"spec.{key}") for key in ("group", "scope", "versions") if not spec.get(key)]
    causes += [errors.required(f"spec.names.{key}") for key in ("kind", "plural") if not names.get(key)]
    if causes:
        return causes
    expected = f"{names['plural']}.{group}"
    if crd["metadata"]["name"] != expected:
        text = f'must be spec.names.plural+"."+spec.group ({expected})'
        causes.append(errors.invalid_value("metadata.name", crd["metadata"]["name"], text))
    if spec["scope"] not in ("Cluster", "Namespaced"):
        causes.append(errors.not_supported("spec.scope", spec["scope"], ("Cluster", "Namespaced")))
    if sum(bool(version.get("storage")) for version in _versions(crd)) != 1:
        text = "must have exactly one version marked as storage version"
        causes.append(errors.invalid_value("spec.versions", len(_versions(crd)), text))
    for index, version in enumerate(_versions(crd)):
        causes += _version_causes(version, f"spec.versions[{index}]")
    if not causes:
        causes += _rule_causes(crd, old)
    if f".{group}".endswith(_PROTECTED) and not at(crd, "metadata", "annotations", APPROVED):
        text = f'protected groups must have approval annotation "{APPROVED}", see https://github.com/kubernetes/enhancements/pull/1111'
        causes.append(errors.required(f"metadata.annotations[{APPROVED}]", text))
    if old is not None:
        causes += [
            errors.invalid_value(f"spec.{key}", spec[key], "field is immutable")
            for key in ("group", "scope")
            if spec[key] != old["spec"][key]
        ]
    return causes


def _version_causes(version: Obj, path: str) -> list[StatusCause]:
    causes = [errors.required(f"{path}.name")] if not version.get("name") else []
    schema = at(version, "schema", "openAPIV3Schema")
    if not isinstance(schema, dict):
        causes.append(errors.required(f"{path}.schema.openAPIV3Schema", "schemas are required"))
    elif schema.get("type") != "object":
        field = f"{path}.schema.openAPIV3Schema.type"
        causes.append(errors.invalid_value(field, schema.get("type", ""), "must be object at the root"))
    return causes


def _rule_causes(crd: Obj, old: Obj | None) -> list[StatusCause]:
    """Errors of validation rules that do not compile or cost too much; unchanged schemas are skipped."""
    stored = [at(version, "schema", "openAPIV3Schema") for version in _versions(old or {})]
    schemas = [at(version, "schema", "openAPIV3Schema") for version in _versions(crd)]
    if all(schema == schemas[0] for schema in schemas):
        # kube-apiserver reports one schema for all versions under the former field `spec.validation`.
        return [] if schemas[0] in stored else rule_causes(schemas[0], "spec.validation.openAPIV3Schema")
    return [
        cause
        for index, schema in enumerate(schemas)
        if schema not in stored
        for cause in rule_causes(schema, f"spec.versions[{index}].schema.openAPIV3Schema")
    ]


def kinds_of(crd: Obj) -> list[ApiKind]:
    """The kinds of a definition, one per served version."""
    spec, names = crd["spec"], crd["spec"]["names"]
    storage_version = next(v["name"] for v in spec["versions"] if v.get("storage"))
    kinds = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        subresources = version.get("subresources") or {}
        schema = at(version, "schema", "openAPIV3Schema") or {}
        digest = hashlib.sha256(msgspec.json.encode(schema)).hexdigest() if has_defaults(schema) else ""
        custom = CustomVersion(
            crd_name=crd["metadata"]["name"],
            schema=schema,
            printer_columns=tuple(version.get("additionalPrinterColumns") or ()),
            scale=subresources.get("scale"),
            storage_version=f"{spec['group']}/{storage_version}",
            selectable_fields=tuple(field["jsonPath"] for field in version.get("selectableFields") or ()),
            defaults=digest,
        )
        kinds.append(
            ApiKind(
                spec["group"],
                version["name"],
                names["plural"],
                names["kind"],
                namespaced=spec["scope"] == "Namespaced",
                singular=names.get("singular", ""),
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                subresources=tuple(sorted(subresources)),
                generation=True,
                custom=custom,
            )
        )
    return kinds


def keep_served(store: ObjectStore, kinds: KindTable) -> None:
    """Keep the table of kinds equal to the definitions in the store, from now on."""

    def changed(event: EventType, crd: Obj, old: Obj | None) -> None:
        for kind in _served_by(kinds, crd["metadata"]["name"]):
            kinds.remove(kind)
        if event != "DELETED":
            for kind in kinds_of(crd):
                kinds.add(kind)

    store.subscribe(CUSTOM_RESOURCE_DEFINITIONS, changed)


def _served_by(kinds: KindTable, crd_name: str) -> list[ApiKind]:
    return [kind for kind in kinds if kind.custom and kind.custom.crd_name == crd_name]


def instances_of(kinds: KindTable, crd: Obj) -> ApiKind | None:
    """The kind whose objects are removed with the definition."""
    served: list[Any] = _served_by(kinds, crd["metadata"]["name"])
    return served[0] if served else None
