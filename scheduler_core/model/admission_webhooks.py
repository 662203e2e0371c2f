"""Makes the configurations of Muster's webhooks: which requests are sent, and the failurePolicy of each.

- pods (mutating): `Ignore`, 2 s. A pod that does not get its schedulerName is placed by the default scheduler
  and still counts in the quota of its namespace; a cluster that cannot create pods would be worse. Pods of
  other schedulers are sent as well: in a namespace with a quota they are marked as charged at creation.
- jobs (mutating): `Ignore`, 2 s. Without the webhook a Job counts evictions as failures, as it would without
  Muster.
- elasticquotas (create, update): `Fail`, 5 s. While the webhook is unavailable only the few users who edit
  quotas wait, and no invalid quota is stored.
- elasticquotas (delete): `Ignore`. With `Fail`, no namespace could be deleted while the webhook is
  unavailable.
- ConfigMaps of topologies and groups, PodGroups of other API groups that are new, change their spec or have
  annotations of Muster: `Ignore`.
  If the text is invalid, the scheduler keeps the old topology and lets the group wait; results are often
  written back.
- ConfigMaps with the data, but not the label, of a group or topology: `Ignore`, 1 s. They get a warning.
- resourcequotas: `Ignore`. Namespaces are provisioned with them, which must not depend on the webhook.
- podgroups (create, update): `Fail`. The reservation of a group must be written.
- pods (validating; create and `pods/resize`): `Ignore`, as above. Native quota still holds, but a reservation
  may be used up meanwhile. Updates are sent only if they change the group of a pod or its charged mark.

Namespaces that the cluster needs to recover, and that of Muster, are exempt.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from scheduler_core.model.kinds import (
    CONFIG_MAPS,
    ELASTIC_QUOTAS,
    JOBS,
    MUTATING_WEBHOOKS,
    NATIVE_POD_GROUPS,
    POD_GROUPS,
    PODS,
    QUOTA_FLAVORS,
    QUOTA_GROUPS,
    RESOURCE_QUOTAS,
    VALIDATING_WEBHOOKS,
    X_POD_GROUPS,
    Resource,
)
from scheduler_core.model.names import (
    CHARGED_ANNOTATION,
    EXEMPT_LABEL,
    EXEMPT_NAMESPACES,
    GROUP_NAME_ANNOTATION,
    HOLD_QUOTA_ANNOTATION,
    LIFECYCLE_POLICY_ANNOTATION,
    MIRROR_ANNOTATION,
    SAKKARA_GROUP_LABEL,
    SAKKARA_GROUP_NAME_LABEL,
    SAKKARA_TOPOLOGY_LABEL,
    TOPOLOGY_CONSTRAINTS_ANNOTATION,
    X_POD_GROUP_LABEL,
)

NAME: Final = "muster-webhook"
NAME_LABEL: Final = "kubernetes.io/metadata.name"
CONFIGURATIONS: Final = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
# The names of Muster's webhooks in a configuration end in this.
DOMAIN: Final = ".muster.dev"

Entry = dict[str, Any]


@dataclass(frozen=True)
class WebhookEndpoint:
    """The address of the webhook: a base `url`, or a Service (`namespace`, `service`, `port`)."""

    ca: bytes
    url: str = ""
    namespace: str = ""
    service: str = ""
    port: int = 443

    def client_config(self, path: str) -> dict[str, Any]:
        """`clientConfig` for one path."""
        bundle = base64.b64encode(self.ca).decode()
        if self.url:
            return {"caBundle": bundle, "url": self.url.rstrip("/") + path}
        service = {"namespace": self.namespace, "name": self.service, "port": self.port, "path": path}
        return {"caBundle": bundle, "service": service}


def mutating_configuration(
    endpoint: WebhookEndpoint,
    exempt: Iterable[str] = EXEMPT_NAMESPACES,
) -> dict[str, Any]:
    """The MutatingWebhookConfiguration."""
    client, names = endpoint.client_config("/mutate"), list(exempt)
    pods = _entry("pods.mutate.muster.dev", client, PODS, ("CREATE",), names)
    jobs = _entry("jobs.mutate.muster.dev", client, JOBS, ("CREATE",), names)
    for entry in (pods, jobs):
        entry["failurePolicy"] = "Ignore"
        entry["timeoutSeconds"] = 2
        entry["reinvocationPolicy"] = "IfNeeded"
        entry["namespaceSelector"]["matchExpressions"].append(
            {"key": EXEMPT_LABEL, "operator": "NotIn", "values": ["true"]}
        )
    # The PodGroup of a gang from owners.
    pods["sideEffects"] = "NoneOnDryRun"
    pods["matchConditions"] = [{"name": "is-no-mirror-pod", "expression": _is_no_mirror_pod()}]
    return _configuration(MUTATING_WEBHOOKS, [pods, jobs])


def validating_configuration(
    endpoint: WebhookEndpoint, exempt: Iterable[str] = EXEMPT_NAMESPACES
) -> dict[str, Any]:
    """The ValidatingWebhookConfiguration."""
    client = endpoint.client_config("/validate")
    names = list(exempt)
    quotas = _entry("elasticquotas.validate.muster.dev", client, ELASTIC_QUOTAS, ("CREATE", "UPDATE"), names)
    deletion = _entry("elasticquotas.delete.muster.dev", client, ELASTIC_QUOTAS, ("DELETE",), names)
    native = _entry(
        "resourcequotas.validate.muster.dev", client, RESOURCE_QUOTAS, ("CREATE", "UPDATE"), names
    )
    quotas["failurePolicy"] = "Fail"
    deletion["failurePolicy"] = "Ignore"
    native["failurePolicy"] = "Ignore"
    groups = _entry("podgroups.validate.muster.dev", client, POD_GROUPS, ("CREATE", "UPDATE"), names)
    groups["failurePolicy"] = "Fail"
    pods = _entry("pods.validate.muster.dev", client, PODS, ("CREATE",), names)
    resize = _entry("", client, PODS, ("UPDATE",), names)["rules"][0]
    pods["rules"].append({**resize, "resources": ["pods/resize"]})
    pods["failurePolicy"] = "Ignore"
    for reserving in (groups, pods):
        reserving["sideEffects"] = "NoneOnDryRun"
    moves = _entry("pods.moves.muster.dev", client, PODS, ("UPDATE",), names)
    moves["failurePolicy"] = "Ignore"
    moves["matchConditions"] = [{"name": "changes-group-or-charge", "expression": _changes_what_stays()}]
    placement = _placement_entries(client, names)
    tree = _entry("quotagroups.validate.muster.dev", client, QUOTA_GROUPS, ("CREATE", "UPDATE"), names)
    felling = _entry("quotagroups.delete.muster.dev", client, QUOTA_GROUPS, ("DELETE",), names)
    kinds = _entry("quotaflavors.validate.muster.dev", client, QUOTA_FLAVORS, ("CREATE", "UPDATE"), names)
    disuse = _entry("quotaflavors.delete.muster.dev", client, QUOTA_FLAVORS, ("DELETE",), names)
    tree["failurePolicy"] = kinds["failurePolicy"] = "Fail"
    felling["failurePolicy"] = disuse["failurePolicy"] = "Ignore"
    entries = [quotas, deletion, native, groups, pods, moves, *placement, tree, felling, kinds, disuse]
    return _configuration(VALIDATING_WEBHOOKS, entries)


def _entry(
    name: str,
    client_config: dict[str, Any],
    resource: Resource,
    operations: Iterable[str],
    exempt: Iterable[str],
) -> Entry:
    return {
        "name": name,
        "clientConfig": client_config,
        "rules": [
            {
                "apiGroups": [resource.group],
                "apiVersions": list(resource.versions or (resource.version,)),
                "resources": [resource.plural],
                "operations": list(operations),
                "scope": "Namespaced" if resource.namespaced else "Cluster",
            }
        ],
        "namespaceSelector": {
            "matchExpressions": [{"key": NAME_LABEL, "operator": "NotIn", "values": sorted(exempt)}]
        },
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "admissionReviewVersions": ["v1"],
    }


def _placement_entries(client: dict[str, Any], exempt: list[str]) -> list[Entry]:
    """The webhooks of topologies, groups in ConfigMaps and PodGroups, selected by label or annotation."""
    write = ("CREATE", "UPDATE")
    found = []
    for name, label in (("topologies", SAKKARA_TOPOLOGY_LABEL), ("groups", SAKKARA_GROUP_LABEL)):
        entry = _entry(f"{name}.validate.muster.dev", client, CONFIG_MAPS, write, exempt)
        entry["objectSelector"] = {"matchExpressions": [{"key": label, "operator": "Exists"}]}
        found.append(entry)
    entry = _entry("lookalikes.validate.muster.dev", client, CONFIG_MAPS, write, exempt)
    entry["matchConditions"] = [{"name": "lacks-the-label", "expression": _looks_like_ours()}]
    entry["timeoutSeconds"] = 1
    found.append(entry)
    for resource, name in ((X_POD_GROUPS, "x-podgroups"), (NATIVE_POD_GROUPS, "native-podgroups")):
        entry = _entry(f"{name}.validate.muster.dev", client, resource, write, exempt)
        entry["matchConditions"] = [{"name": "asks-muster", "expression": _concerns_muster()}]
        found.append(entry)
    for entry in found:
        entry["failurePolicy"] = "Ignore"
    return found


def _concerns_muster() -> str:
    """CEL: the group is new, its spec changes, or it has annotations of Muster."""
    keys = (TOPOLOGY_CONSTRAINTS_ANNOTATION, LIFECYCLE_POLICY_ANNOTATION, HOLD_QUOTA_ANNOTATION)
    either = " || ".join(f"'{key}' in object.metadata.annotations" for key in keys)
    changed = "!has(oldObject.spec) || object.spec != oldObject.spec"
    return (
        f"oldObject == null || (has(object.spec) && ({changed})) || "
        f"(has(object.metadata.annotations) && ({either}))"
    )


def _looks_like_ours() -> str:
    """CEL: the ConfigMap has the data, but not the label, of a group or a topology."""
    labels = (SAKKARA_TOPOLOGY_LABEL, SAKKARA_GROUP_LABEL)
    labelled = " || ".join(f"'{label}' in object.metadata.labels" for label in labels)
    group = "'size' in object.data && ('constraints' in object.data || 'priority' in object.data)"
    topology = "'tree' in object.data && 'level-names' in object.data"
    return (
        f"has(object.data) && (({group}) || ({topology})) && !(has(object.metadata.labels) && ({labelled}))"
    )


def _is_no_mirror_pod() -> str:
    """CEL: the new pod is not a mirror pod."""
    return f"!(has(object.metadata.annotations) && '{MIRROR_ANNOTATION}' in object.metadata.annotations)"


def _changes_what_stays() -> str:
    """CEL: the update changes the group of the pod, or its charged mark."""
    said = (
        ("annotations", GROUP_NAME_ANNOTATION),
        ("annotations", CHARGED_ANNOTATION),
        ("labels", X_POD_GROUP_LABEL),
        ("labels", SAKKARA_GROUP_NAME_LABEL),
    )
    differences = []
    for part, key in said:
        new, old = (
            f"(has({root}.metadata.{part}) && '{key}' in {root}.metadata.{part} "
            f"? {root}.metadata.{part}['{key}'] : '')"
            for root in ("object", "oldObject")
        )
        differences.append(f"{new} != {old}")
    return " || ".join(differences)


def _configuration(resource: Resource, webhooks: list[Entry]) -> dict[str, Any]:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/name": "muster"}},
        "webhooks": webhooks,
    }
