"""Objects as an API server sends them, and the answers of a small one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from tests.support.stand_in_server import StandInHandler, standing_in

QUOTAS = "apis/scheduling.x-k8s.io/v1alpha1"
PLURALS = {
    "elasticquotas": QUOTAS,
    "pods": "api/v1",
    "resourcequotas": "api/v1",
    "namespaces": "api/v1",
    "nodes": "api/v1",
    "configmaps": "api/v1",
    "events": "apis/events.k8s.io/v1",
    "replicasets": "apis/apps/v1",
    "jobs": "apis/batch/v1",
    "deployments": "apis/apps/v1",
    "endpoints": "api/v1",
    "secrets": "api/v1",
    "leases": "apis/coordination.k8s.io/v1",
    "podgroups": "apis/incubator.scheduling.k8s.io/v1alpha1",
    "customresourcedefinitions": "apis/apiextensions.k8s.io/v1",
    "validatingwebhookconfigurations": "apis/admissionregistration.k8s.io/v1",
    "mutatingwebhookconfigurations": "apis/admissionregistration.k8s.io/v1",
    "reservationledgers": "apis/muster.dev/v1alpha1",
}


def quota_object(namespace: str, name: str = "quota", **spec: dict[str, Any]) -> dict[str, Any]:
    """An ElasticQuota as the server sends it, created at the start of 2026, and enforced by a scheduler."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"{namespace}-{name}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": spec,
        "status": {"conditions": [{"type": "Enforced", "status": "True", "reason": "Oldest"}]},
    }


def pod_object(
    namespace: str, name: str, node: str = "n1", phase: str = "Running", **requests: str
) -> dict[str, Any]:
    """A pod of one container with these requests; an empty node means that it waits."""
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"{namespace}-{name}",
            "resourceVersion": "1",
        },
        "spec": {
            **({"nodeName": node} if node else {}),
            "containers": [{"name": "main", "image": "i", "resources": {"requests": requests}}],
        },
        "status": {"phase": phase},
    }


def resource_quota_object(
    namespace: str, name: str = "native", scopes: list[str] | None = None, **hard: str
) -> dict[str, Any]:
    """A ResourceQuota; `requests_cpu` is written `requests.cpu`."""
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"{namespace}-{name}",
            "resourceVersion": "1",
        },
        "spec": {
            "hard": {key.replace("_", "."): value for key, value in hard.items()},
            "scopes": scopes or [],
        },
    }


class Sent(NamedTuple):
    """A request that is no GET."""

    method: str
    path: str
    query: dict[str, str]
    body: Any


@dataclass
class Api:
    """Objects by plural; `forbidden` holds (plural, namespace) pairs, `requests` what was asked.

    `writes` are the requests that are no GET; `answers` what each method gets, by default an empty object.
    """

    objects: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {key: [] for key in PLURALS})
    forbidden: set[tuple[str, str]] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    writes: list[Sent] = field(default_factory=list)
    answers: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    url: str = ""

    def answer(self, target: str) -> tuple[int, dict[str, Any]]:
        """Status and body of a GET."""
        url = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        self.requests.append((url.path, query))
        parts = url.path.strip("/").split("/")
        if parts == ["version"]:
            return 200, {"gitVersion": "v1.36.0"}
        version = "/".join(parts[1:3]) if parts[0] == "apis" else parts[1]
        if parts == ["api", "v1"]:
            return 200, {"resources": []}
        if parts[0] == "apis" and len(parts) < 4:
            return self._discovery(parts[1], parts[2] if len(parts) == 3 else "")
        parts = parts[3:] if parts[0] == "apis" else parts[2:]
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        plural, name = parts[0], parts[1] if len(parts) > 1 else ""
        if plural in self.unknown or plural not in self.objects:
            return 404, _status(404, "NotFound", "the server could not find the requested resource")
        if (plural, namespace) in self.forbidden:
            return 403, _status(403, "Forbidden", f'{plural} is forbidden: User "me" cannot list {plural}')
        items = [
            o
            for o in self.objects[plural]
            if namespace in ("", o["metadata"].get("namespace")) and o.get("apiVersion", version) == version
            if all(_selects(term, o) for term in query.get("fieldSelector", "").split(","))
            if all(_has_label(term, o) for term in query.get("labelSelector", "").split(","))
        ]
        if not name:
            return 200, {"metadata": {"resourceVersion": "9"}, "items": items}
        for item in items:
            if item["metadata"]["name"] == name:
                return 200, item
        return 404, _status(404, "NotFound", f'{plural}.scheduling.x-k8s.io "{name}" not found')

    def write(self, method: str, target: str, body: Any) -> tuple[int, dict[str, Any]]:
        """Status and body of another method. Nothing is stored."""
        url = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        self.writes.append(Sent(method, url.path, query, body))
        return self.answers.get(method, (200, {}))

    def _discovery(self, group: str, version: str) -> tuple[int, dict[str, Any]]:
        """The versions of a group of which Muster reads several, or the kinds of one of them."""
        if group != "scheduling.k8s.io" or version not in ("", "v1beta1"):
            return 404, _status(404, "NotFound", "the server could not find the requested resource")
        if not version:
            return 200, {"name": group, "versions": [{"version": "v1beta1"}]}
        kinds = [plural for plural in self.objects if plural not in self.unknown]
        return 200, {"resources": [{"name": plural} for plural in kinds]}


def _selects(term: str, obj: dict[str, Any]) -> bool:
    """One term of a field selector; phases are left to the reader, whose tests have finished pods."""
    path, _, wanted = term.partition("=")
    if path.rstrip("!") not in ("metadata.name", "spec.schedulerName", "spec.nodeName"):
        return True
    part, key = path.rstrip("!").split(".")
    return (obj.get(part, {}).get(key, "") == wanted) is not path.endswith("!")


def _has_label(term: str, obj: dict[str, Any]) -> bool:
    """One term of a label selector: a label, or a label with a value."""
    key, equals, wanted = term.partition("=")
    labels = obj["metadata"].get("labels") or {}
    return not key or (key in labels and (not equals or labels[key] == wanted))


def refusal(message: str, code: int = 403, reason: str = "Forbidden") -> tuple[int, dict[str, Any]]:
    """The answer to a request that is refused."""
    return code, _status(code, reason, message)


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


@contextmanager
def serving(api: Api) -> Iterator[Api]:
    """The API server on loopback."""

    class Handler(StandInHandler):
        def do_GET(self) -> None:
            api.headers.append(dict(self.headers.items()))
            self.respond(*api.answer(self.path))

        def other(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(content) if content else None
            self.respond(*api.write(self.command, self.path, body))

        do_POST = do_PUT = do_PATCH = do_DELETE = other

        def respond(self, code: int, body: dict[str, Any]) -> None:
            self.answer(code, json.dumps(body).encode())

    with standing_in(Handler) as api.url:
        yield api


def kubeconfig_of(api: Api, namespace: str) -> dict[str, Any]:
    """A kubeconfig of the server: a token, and the namespace of its context."""
    return {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
        "clusters": [{"name": "c", "cluster": {"server": api.url}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }


@dataclass(frozen=True)
class Done:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


Command = Callable[..., Done]
