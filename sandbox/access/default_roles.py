"""Roles that a cluster with RBAC begins with: cluster-admin, admin, edit, view and what everybody may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sandbox.access.authorizer import EVERY_PATH, EVERYTHING
from sandbox.access.identity import AUTHENTICATED, MASTERS
from sandbox.objects import Obj

_API: Final = "rbac.authorization.k8s.io"
_AGGREGATE: Final = f"{_API}/aggregate-to-"
_READ: Final = ["get", "list", "watch"]
_WRITE: Final = ["create", "delete", "deletecollection", "patch", "update"]
# What `view` reads and `edit` writes, by API group. Secrets only `edit` reads.
_SEEN: Final = {
    "": [
        *(
            "configmaps",
            "endpoints",
            "persistentvolumeclaims",
            "pods",
            "replicationcontrollers",
            "serviceaccounts",
        ),
        "services",
    ],
    "apps": ["daemonsets", "deployments", "replicasets", "statefulsets"],
    "autoscaling": ["horizontalpodautoscalers"],
    "batch": ["cronjobs", "jobs"],
    "networking.k8s.io": ["ingresses", "networkpolicies"],
    "policy": ["poddisruptionbudgets"],
}
_SEEN_ONLY: Final = {
    "": [
        "events",
        "limitranges",
        "namespaces",
        "pods/log",
        "pods/status",
        "resourcequotas",
        "resourcequotas/status",
    ]
}
_PATHS: Final = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/", "/"]


def default_roles() -> Iterator[Obj]:
    """ClusterRoles and their bindings."""
    yield _role("cluster-admin", [EVERYTHING, EVERY_PATH])
    yield _binding("cluster-admin", MASTERS)
    for name in ("admin", "edit", "view"):
        below = {"edit": "admin", "view": "edit"}.get(name)
        yield _aggregated(name, below)
    yield _role(
        "system:aggregate-to-view",
        [_rule(group, kinds, _READ) for table in (_SEEN, _SEEN_ONLY) for group, kinds in table.items()],
        to="view",
    )
    edit = [_rule(group, kinds, _WRITE) for group, kinds in _SEEN.items()]
    edit += [
        _rule("", ["secrets"], [*_READ, *_WRITE]),
        _rule("", ["pods/eviction", "serviceaccounts/token"], ["create"]),
        _rule("", ["serviceaccounts"], ["impersonate"]),
        _rule("apps", ["deployments/scale", "replicasets/scale", "statefulsets/scale"], [*_READ, *_WRITE]),
    ]
    yield _role("system:aggregate-to-edit", edit, to="edit")
    rights = [_rule(_API, ["roles", "rolebindings"], [*_READ, *_WRITE])]
    rights.append(_rule("authorization.k8s.io", ["localsubjectaccessreviews"], ["create"]))
    yield _role("system:aggregate-to-admin", rights, to="admin")
    yield _role("system:discovery", [{"verbs": ["get"], "nonResourceURLs": _PATHS}])
    yield _binding("system:discovery", AUTHENTICATED)
    reviews = _rule(
        "authorization.k8s.io", ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["create"]
    )
    own = _rule("authentication.k8s.io", ["selfsubjectreviews"], ["create"])
    yield _role("system:basic-user", [reviews, own])
    yield _binding("system:basic-user", AUTHENTICATED)


def _rule(group: str, resources: list[str], verbs: list[str]) -> Obj:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _role(name: str, rules: list[Obj], *, to: str = "") -> Obj:
    labels = {f"{_AGGREGATE}{to}": "true"} if to else {}
    return _object("ClusterRole", name, labels, rules=[dict(rule) for rule in rules])


def _aggregated(name: str, above: str | None) -> Obj:
    """A role of what has its label; all of it belongs to the role above, too."""
    selectors = [{"matchLabels": {f"{_AGGREGATE}{name}": "true"}}]
    labels = {f"{_AGGREGATE}{above}": "true"} if above else {}
    return _object("ClusterRole", name, labels, aggregationRule={"clusterRoleSelectors": selectors})


def _binding(name: str, group: str) -> Obj:
    subject = {"apiGroup": _API, "kind": "Group", "name": group}
    role = {"apiGroup": _API, "kind": "ClusterRole", "name": name}
    return _object("ClusterRoleBinding", name, {}, subjects=[subject], roleRef=role)


def _object(kind: str, name: str, labels: dict[str, str], **fields: object) -> Obj:
    meta = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": f"{_API}/v1", "kind": kind, "metadata": meta, **fields}
