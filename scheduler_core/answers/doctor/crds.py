"""Checks that the CRDs of the server serve and keep the fields that Muster reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scheduler_core.answers.doctor.findings import HealthFinding, Severity
from scheduler_core.model.kinds import (
    ELASTIC_QUOTAS,
    POD_GROUPS,
    QUOTA_FLAVORS,
    QUOTA_GROUPS,
    RESERVATION_LEDGERS,
    Resource,
)
from scheduler_core.model.watched import OPTIONAL

# The fields by kind. A server drops fields that its CRD does not have.
FIELDS: Final[dict[Resource, dict[str, tuple[str, ...]]]] = {
    ELASTIC_QUOTAS: {
        "spec": ("min", "max"),
        "status": ("observedGeneration", "used", "summary", "lastReclaim", "history", "conditions"),
    },
    POD_GROUPS: {
        "spec": ("minMembers", "minMembersFrom", "totalResources", "policy"),
        "status": (
            "observedGeneration",
            "phase",
            "admitted",
            "running",
            "succeeded",
            "failed",
            "conditions",
        ),
    },
    QUOTA_FLAVORS: {
        "spec": ("resource", "nodeSelector", "cost"),
        "status": ("observedGeneration", "nodes", "capacity", "used", "conditions"),
    },
    QUOTA_GROUPS: {
        "spec": ("parent", "min", "max", "weight", "lendable"),
        "status": ("observedGeneration", "used", "borrowed", "lent", "conditions"),
    },
    RESERVATION_LEDGERS: {"spec": ("podsVersion", "holds", "charges"), "status": ("held",)},
}
# Helm installs CRDs once and never upgrades them.
_HELPS: Final = "kubectl apply --server-side --force-conflicts -f charts/muster/crds/"


def crd_name(resource: Resource) -> str:
    """The name of the CustomResourceDefinition of a kind."""
    return f"{resource.plural}.{resource.group}"


def check_crd(resource: Resource, stored: Mapping[str, Any] | None) -> list[HealthFinding]:
    """What a CRD lacks. None: there is none of that name."""
    subject = f"CustomResourceDefinition {crd_name(resource)}"
    if stored is None:
        severity: Severity = "warning" if resource in OPTIONAL else "error"
        return [HealthFinding(severity, subject, "does not exist", _HELPS)]
    versions = (stored.get("spec") or {}).get("versions") or ()
    served = [item for item in versions if item.get("name") == resource.version and item.get("served")]
    if not served:
        return [HealthFinding("error", subject, f"does not serve {resource.version}", _HELPS)]
    lacks = _dropped(resource, (served[0].get("schema") or {}).get("openAPIV3Schema") or {})
    if not lacks:
        return []
    problem = f"is of another version: it drops {', '.join(lacks)}"
    return [HealthFinding("warning", subject, problem, _HELPS)]


def _dropped(resource: Resource, schema: Mapping[str, Any]) -> list[str]:
    """The fields that a schema does not keep."""
    found = []
    for part, fields in FIELDS[resource].items():
        known = (schema.get("properties") or {}).get(part) or {}
        if not any(level.get("x-kubernetes-preserve-unknown-fields") for level in (schema, known)):
            found += [f"{part}.{field}" for field in fields if field not in (known.get("properties") or {})]
    return found
