"""Who may do what on a sandbox with RBAC, over real connections: tokens, impersonation, roles, reviews."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandbox.api.server import ServerOptions
from tests.support.clusters.sandbox_server import SandboxServer
from tests.support.clusters.server import RequestFailed, Server, request

Object = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/team-a/pods"
ALICE = {"Impersonate-User": "alice"}


@dataclass(frozen=True)
class Caller:
    """The server, for somebody with a token of their own."""

    url: str
    ca_file: Path
    kubeconfig: Path
    token: str


def with_token(server: SandboxServer, token: str) -> Caller:
    return Caller(server.url, server.ca_file, server.kubeconfig, token)


def call(server: Server, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """The code and the body of an answer: 200 for each that is below 400."""
    try:
        return 200, request(server, method, path, body, headers=[*headers.items()])
    except RequestFailed as refused:
        return refused.status, refused.body


def made(server: SandboxServer, path: str, body: Object) -> None:
    code, answer = call(server, "POST", path, body)
    assert code == 200, answer


def binding(name: str, role: str, kind: str = "User", **subject: str) -> Object:
    return {
        "metadata": {"name": f"{name}-{role}"},
        "subjects": [{"kind": kind, "name": name, **subject}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
    }


def container() -> Object:
    return {"containers": [{"name": "main", "image": "busybox:1"}]}


@pytest.fixture(scope="module")
def server() -> Iterator[SandboxServer]:
    """carol is admin of team-a, alice edits and bob views there; its account robot may get one ConfigMap."""
    with SandboxServer(ServerOptions(rbac=True)) as running:
        for name in ("team-a", "team-b"):
            made(running, "/api/v1/namespaces", {"metadata": {"name": name}})
        made(running, f"{RBAC}/namespaces/team-a/rolebindings", binding("alice", "edit"))
        made(running, f"{RBAC}/namespaces/team-a/rolebindings", binding("bob", "view"))
        made(running, f"{RBAC}/namespaces/team-a/rolebindings", binding("carol", "admin"))
        made(running, "/api/v1/namespaces/team-a/serviceaccounts", {"metadata": {"name": "robot"}})
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["mine"]}
        made(running, f"{RBAC}/clusterroles", {"metadata": {"name": "one"}, "rules": [rule]})
        account = binding("robot", "one", "ServiceAccount", namespace="team-a")
        made(running, f"{RBAC}/namespaces/team-a/rolebindings", account)
        made(running, PODS, {"metadata": {"name": "q"}, "spec": container()})
        yield running


ALLOWED = {
    "an editor creates": ("POST", PODS, ALICE, {"metadata": {"name": "p"}, "spec": container()}),
    "an editor lists": ("GET", PODS, ALICE, None),
    "a viewer lists": ("GET", PODS, {"Impersonate-User": "bob"}, None),
    "a viewer reads the log": ("GET", f"{PODS}/q/log", {"Impersonate-User": "bob"}, None),
    "everybody discovers": ("GET", "/apis", {"Impersonate-User": "eve"}, None),
    "everybody asks who they are": (
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {"Impersonate-User": "eve"},
        {},
    ),
    "an admin of a namespace gives rights that it has": (
        "POST",
        f"{RBAC}/namespaces/team-a/rolebindings",
        {"Impersonate-User": "carol"},
        binding("dan", "edit"),
    ),
    "an administrator by group": (
        "GET",
        "/api/v1/nodes",
        {"Impersonate-User": "eve", "Impersonate-Group": "system:masters"},
        None,
    ),
}
REFUSED = {
    "an editor elsewhere": (
        "GET",
        "/api/v1/namespaces/team-b/pods",
        ALICE,
        'pods is forbidden: User "alice" cannot list resource "pods" in API group "" '
        'in the namespace "team-b"',
    ),
    "an editor in all namespaces": (
        "GET",
        "/api/v1/pods?watch=true",
        ALICE,
        'pods is forbidden: User "alice" cannot watch resource "pods" in API group "" at the cluster scope',
    ),
    "a viewer deletes": (
        "DELETE",
        f"{PODS}/p",
        {"Impersonate-User": "bob"},
        'pods "p" is forbidden: User "bob" cannot delete resource "pods" in API group "" '
        'in the namespace "team-a"',
    ),
    "an editor gives rights": (
        "POST",
        f"{RBAC}/namespaces/team-a/rolebindings",
        ALICE,
        'rolebindings.rbac.authorization.k8s.io is forbidden: User "alice" cannot create '
        'resource "rolebindings" in API group "rbac.authorization.k8s.io" in the namespace "team-a"',
    ),
    "an editor binds": (
        "POST",
        f"{PODS}/p/binding",
        ALICE,
        'pods "p" is forbidden: User "alice" cannot create resource "pods/binding" in API group "" '
        'in the namespace "team-a"',
    ),
    "metrics of the server": ("GET", "/metrics", ALICE, 'forbidden: User "alice" cannot get path "/metrics"'),
    "an apply that would create": (
        "PATCH",
        "/api/v1/namespaces/team-b/configmaps/new",
        {**ALICE, "Content-Type": "application/apply-patch+yaml"},
        'configmaps "new" is forbidden: User "alice" cannot patch resource "configmaps" in API group "" '
        'in the namespace "team-b"',
    ),
}


@pytest.mark.parametrize(("method", "path", "who", "body"), ALLOWED.values(), ids=ALLOWED)
def test_allowed(server: SandboxServer, method: str, path: str, who: dict[str, str], body: Any) -> None:
    code, answer = call(server, method, path, body, **who)
    assert code == 200, answer


@pytest.mark.parametrize(("method", "path", "who", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(server: SandboxServer, method: str, path: str, who: dict[str, str], message: str) -> None:
    body = None if method in ("GET", "DELETE") else {}
    code, answer = call(server, method, path, body, **who)
    assert (code, answer["message"]) == (403, message)


def test_an_admin_of_a_namespace_gives_no_rights_that_it_lacks(server: SandboxServer) -> None:
    path = f"{RBAC}/namespaces/team-a/rolebindings"
    code, answer = call(
        server, "POST", path, binding("dan", "cluster-admin"), **{"Impersonate-User": "carol"}
    )
    assert (code, answer["reason"]) == (403, "Forbidden")
    assert answer["message"] == (
        'rolebindings.rbac.authorization.k8s.io "dan-cluster-admin" is forbidden: user "carol" '
        '(groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
        '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}'
    )


def test_a_token_of_an_account_has_the_rights_of_the_account(server: SandboxServer) -> None:
    made(server, "/api/v1/namespaces/team-a/configmaps", {"metadata": {"name": "mine"}})
    path = "/api/v1/namespaces/team-a/serviceaccounts/robot/token"
    token = request(server, "POST", path, {"spec": {"expirationSeconds": 600}})["status"]["token"]
    robot = with_token(server, token)
    mine, others = (f"/api/v1/namespaces/team-a/configmaps/{name}" for name in ("mine", "others"))
    assert call(robot, "GET", mine)[0] == 200
    assert call(robot, "GET", others)[0] == 403
    review = {"spec": {"token": token}}
    _, answer = call(server, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
    assert answer["status"]["user"]["username"] == "system:serviceaccount:team-a:robot"
    code, refused = call(robot, "GET", mine, **ALICE)
    assert code == 403
    assert refused["message"].startswith(
        'users "alice" is forbidden: User "system:serviceaccount:team-a:robot" '
    )


def test_a_token_lasts_ten_minutes_at_least_and_one_of_nobody_is_refused(server: SandboxServer) -> None:
    path = "/api/v1/namespaces/team-a/serviceaccounts/robot/token"
    assert call(server, "POST", path, {"spec": {"expirationSeconds": 60}})[0] == 422
    assert call(with_token(server, "nobody"), "GET", PODS)[0] == 401
    _, answer = call(server, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x"}})
    assert answer["status"]["authenticated"] is False


REVIEWS = {
    "one's own right": ("selfsubjectaccessreviews", {}, "create", "pods", True),
    "one's own missing right": ("selfsubjectaccessreviews", {}, "create", "resourcequotas", False),
    "another user's right": ("subjectaccessreviews", {"user": "alice"}, "delete", "pods", True),
    "another user's missing right": ("subjectaccessreviews", {"user": "bob"}, "delete", "pods", False),
    "a group's right": ("subjectaccessreviews", {"groups": ["system:masters"]}, "delete", "nodes", True),
}


@pytest.mark.parametrize(("plural", "of", "verb", "resource", "allowed"), REVIEWS.values(), ids=REVIEWS)
def test_reviews_say_what_requests_would_show(
    server: SandboxServer, plural: str, of: Object, verb: str, resource: str, allowed: bool
) -> None:
    wanted = {"namespace": "team-a", "verb": verb, "resource": resource}
    who = ALICE if plural.startswith("self") else {}
    path = f"/apis/authorization.k8s.io/v1/{plural}"
    code, answer = call(server, "POST", path, {"spec": {**of, "resourceAttributes": wanted}}, **who)
    assert (code, answer["status"]["allowed"]) == (200, allowed)


def test_groups_without_a_user_are_no_impersonation(server: SandboxServer) -> None:
    code, answer = call(server, "GET", PODS, **{"Impersonate-Group": "g"})
    assert (code, answer["reason"]) == (400, "BadRequest")


def test_without_rbac_everybody_may_do_everything() -> None:
    with SandboxServer() as running:
        assert call(running, "GET", "/api/v1/nodes", **ALICE)[0] == 200
