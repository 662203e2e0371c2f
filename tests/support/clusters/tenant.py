"""A tenant of one namespace with the aggregated role `edit`, and a witness of what the namespace uses.

On the sandbox, which has no users, a tenant is everybody else. On a real kube-apiserver it is somebody whom
the administrator impersonates: every request passes RBAC and admission as that user's own would.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from scheduler_core.model.pods.requests import requests_of
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.server import RequestFailed, request
from tests.support.eventually import eventually
from tests.support.webhooks.try_again import until_decided

Obj = dict[str, Any]
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
RBAC = Path(__file__).parents[3] / "charts" / "muster" / "rbac"
AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-{}"
MERGE = "application/merge-patch+json"
# Longer than any test, also where nothing happens for a long time.
WITNESS_SECONDS = 600


class Undecided(Exception):
    """The server could not decide: the client may try again."""


class Tenant:
    """One user's way to one namespace. `on_behalf` is another user, such as a controller."""

    def __init__(self, cluster: Cluster, namespace: str, user: str, groups: tuple[str, ...] = ()) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.user = user
        self._groups = ("system:authenticated", *groups)

    def request(self, method: str, path: str, body: object = None, kind: str = MERGE) -> Any:
        """One request; `path` is relative to the namespace unless it is absolute. Raises RequestFailed."""
        headers = [("Content-Type", kind)] if method == "PATCH" else []
        if self.cluster.kind != "sandbox":
            headers += [("Impersonate-User", self.user)]
            headers += [("Impersonate-Group", group) for group in self._groups]
        full = path if path.startswith("/") else f"/api/v1/namespaces/{self.namespace}/{path}"
        return request(self.cluster.server, method, full, body, headers=headers)

    def tries(self, method: str, path: str, body: object = None, kind: str = MERGE) -> str:
        """The words of a refusal, an empty text where there is none. Raises Undecided."""
        try:
            self.request(method, path, body, kind)
        except RequestFailed as refused:
            if refused.status >= 500:
                raise Undecided(str(refused)) from None
            return str(refused)
        return ""

    def on_behalf(self, controller: str) -> Tenant:
        """What one of the cluster's controllers does in the namespace, for what the tenant wrote."""
        account = f"system:serviceaccount:kube-system:{controller}"
        groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system")
        return Tenant(self.cluster, self.namespace, account, groups)


class PatientTenant(Tenant):
    """A tenant that asks again while the webhook does not decide; `hasty` is the same without patience."""

    def __init__(self, hasty: Tenant) -> None:
        super().__init__(hasty.cluster, hasty.namespace, hasty.user)
        self.hasty = hasty

    def request(self, method: str, path: str, body: object = None, kind: str = MERGE) -> Any:
        return until_decided(partial(self.hasty.request, method, path, body, kind))

    def on_behalf(self, controller: str) -> Tenant:
        return PatientTenant(self.hasty.on_behalf(controller))


def admit_tenant(cluster: Cluster, namespace: str, user: str = "tenant") -> Tenant:
    """Give a user the role `edit` in a namespace."""
    if cluster.kind != "sandbox":
        _make_user_roles(cluster)
        aggregate(cluster)
        binding = {
            "metadata": {"name": "tenant"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
        cluster.request("POST", path, binding)
    tenant = Tenant(cluster, namespace, user)
    eventually(lambda: tenant.tries("GET", "pods") == "", 40)
    return tenant


def allow(tenant: Tenant, resource: str, *verbs: str) -> None:
    """Give a tenant a right on pods of its namespace that the role `edit` has not."""
    if tenant.cluster.kind == "sandbox":
        return
    place = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{tenant.namespace}"
    rule = {"apiGroups": [""], "resources": [resource], "verbs": list(verbs)}
    tenant.cluster.request("POST", f"{place}/roles", {"metadata": {"name": "more"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "more"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "more"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": tenant.user}],
    }
    tenant.cluster.request("POST", f"{place}/rolebindings", binding)


def aggregate(cluster: Cluster) -> None:
    """What the controller of aggregated roles does for view, edit and admin: no controller runs here."""
    for role in ("view", "edit", "admin"):
        # The narrower of Kubernetes' own roles are parts of the wider ones.
        rules = [
            rule
            for item in cluster.request("GET", ROLES)["items"]
            if (item["metadata"].get("labels") or {}).get(AGGREGATE.format(role)) == "true"
            for rule in item.get("rules") or ()
        ]
        cluster.request("PATCH", f"{ROLES}/{role}", {"rules": rules})


def _make_user_roles(cluster: Cluster) -> None:
    """The chart's additions to Kubernetes' roles."""
    for role, file in (("view", "users-view.yaml"), ("edit", "users-edit.yaml")):
        body = {
            "metadata": {"name": f"muster-{role}", "labels": {AGGREGATE.format(role): "true"}},
            "rules": yaml.safe_load((RBAC / file).read_text())["rules"],
        }
        with suppress(RequestFailed):
            cluster.request("POST", ROLES, body)


class Witness:
    """What the pods of a namespace use of its ElasticQuota, as its history of changes has it.

    `peaks` are the most of each resource that was used at any moment: by pods with a node, and by those that
    another scheduler may give one.
    """

    def __init__(self) -> None:
        self.peaks: dict[str, int] = {}
        self.seen: set[str] = set()
        self._pods: dict[str, Obj] = {}

    def take(self, event: Obj) -> None:
        """One line of a watch."""
        pod = event["object"]
        self.seen.add(pod["metadata"].get("name", ""))
        if event["type"] == "DELETED":
            self._pods.pop(pod["metadata"]["uid"], None)
        elif event["type"] in ("ADDED", "MODIFIED"):
            self._pods[pod["metadata"]["uid"]] = pod
        used: dict[str, int] = {}
        for one in self._pods.values():
            if _counts(one):
                for name, value in requests_of(one).items():
                    used[name] = used.get(name, 0) + value
        for name, value in used.items():
            self.peaks[name] = max(self.peaks.get(name, 0), value)


def _counts(pod: Mapping[str, Any]) -> bool:
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return False
    scheduler = pod["spec"].get("schedulerName")
    return bool(pod["spec"].get("nodeName")) or scheduler not in ("muster-scheduler", "batch")


@contextmanager
def witness(cluster: Cluster, namespace: str) -> Iterator[Witness]:
    """Watches a namespace until the block ends, and until it has seen all that happened in it."""
    found = Witness()
    server = cluster.server
    place = urlsplit(server.url)
    context = ssl.create_default_context(cafile=str(server.ca_file))
    link = http.client.HTTPSConnection(
        place.hostname or "", place.port, timeout=WITNESS_SECONDS, context=context
    )
    start = cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods")["metadata"]["resourceVersion"]
    query = f"watch=true&resourceVersion={start}&timeoutSeconds={WITNESS_SECONDS}"
    path = f"/api/v1/namespaces/{namespace}/pods?{query}"
    link.request("GET", path, headers={"Authorization": f"Bearer {server.token}"})
    line = link.sock
    answer = link.getresponse()

    def follow() -> None:
        with suppress(OSError, ValueError, AttributeError, http.client.HTTPException):
            for text in answer:
                found.take(json.loads(text))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield found
        last = f"last-{namespace}"[:60]
        body = {
            "metadata": {"name": last},
            "spec": {
                "schedulerName": "muster-scheduler",
                "containers": [{"name": "main", "image": "example.com/app:1"}],
            },
        }
        until_decided(partial(cluster.request, "POST", f"/api/v1/namespaces/{namespace}/pods", body))
        # A scheduler may write other pods after it: it need not be the last one that is seen.
        eventually(lambda: last in found.seen)
    finally:
        # Who reads holds the lock that closing asks for: the reader is sent away first.
        with suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)
        thread.join(60)
        link.close()
