"""Who gives rights on a sandbox with RBAC: nobody gives more than they have, except by escalate and bind."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.access.authorizer import EVERY_PATH, EVERYTHING, Rbac
from sandbox.access.escalation import EscalationCheck
from sandbox.access.identity import ADMIN, AUTHENTICATED, Identity
from sandbox.errors import StatusError
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from sandbox.store.object_store import ObjectStore
from sandbox.store.requests import AdmissionRequest, RequestContext

API = "rbac.authorization.k8s.io"
CAROL = Identity("carol", ("team", AUTHENTICATED))
Obj = dict[str, Any]


def rule(verbs: str, resources: str, group: str = "", *names: str) -> Obj:
    found: Obj = {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
    return {**found, "resourceNames": list(names)} if names else found


def role(name: str, *rules: Obj, **fields: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": "a"}, "rules": list(rules), **fields}


def binding(kind: str, name: str) -> Obj:
    return {
        "metadata": {"name": "b", "namespace": "a"},
        "roleRef": {"apiGroup": API, "kind": kind, "name": name},
    }


def cluster_of(*rules: Obj) -> Rbac:
    """Carol has the rules in namespace a; three roles are there."""
    store = ObjectStore()
    subject = {"kind": "User", "name": "carol", "apiGroup": API}
    for name, given in {
        "held": rules,
        "reads": (rule("get", "pods"),),
        "all": (EVERYTHING, EVERY_PATH),
    }.items():
        store.create(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": list(given)})
    store.create(ROLE_BINDINGS, {**binding("ClusterRole", "held"), "subjects": [subject]})
    return Rbac(store)


def refusal(rbac: Rbac, kind: ApiKind, obj: Obj, old: Obj | None = None, who: Identity = CAROL) -> str:
    """Why the request is refused, with its code; empty if it is not."""
    meta = obj["metadata"]
    namespace = meta["namespace"] if kind.namespaced else ""
    request = AdmissionRequest(
        "CREATE" if old is None else "UPDATE",
        kind,
        namespace,
        meta["name"],
        obj,
        old,
        RequestContext(caller=who),
    )
    try:
        EscalationCheck(rbac).validate(request)
    except StatusError as error:
        return f"{error.code} {error.message}"
    return ""


WRITES = rule("get list create", "pods pods/log")
# What carol holds, the kind of what she writes, and what.
GIVEN = {
    "rights that she has": ([WRITES], ROLES, role("r", rule("list get", "pods"))),
    "rights on one object of those that she has on all": (
        [WRITES],
        ROLES,
        role("r", rule("get", "pods", "", "x")),
    ),
    "rights on a subresource of all resources": (
        [rule("get", "*/log")],
        ROLES,
        role("r", rule("get", "pods/log")),
    ),
    "rights from two rules together": (
        [rule("get", "pods"), rule("list", "pods")],
        ROLES,
        role("r", rule("get list", "pods")),
    ),
    "a role without rules": ([], ROLES, role("r")),
    "a role whose rights she has, bound": ([WRITES], ROLE_BINDINGS, binding("ClusterRole", "reads")),
    "any role, with the verb escalate": ([rule("escalate", "roles", API)], ROLES, role("r", EVERYTHING)),
    "any role bound, with the verb bind": (
        [rule("bind", "clusterroles", API)],
        ROLE_BINDINGS,
        binding("ClusterRole", "all"),
    ),
    "the one role that she may bind": (
        [rule("bind", "clusterroles", API, "all")],
        ROLE_BINDINGS,
        binding("ClusterRole", "all"),
    ),
    "a role that is not there, with the verb bind": (
        [rule("bind", "roles", API)],
        ROLE_BINDINGS,
        binding("Role", "later"),
    ),
    "everything, with all rights": ([EVERYTHING], ROLES, role("r", EVERYTHING)),
}
LEAD = (
    'is forbidden: user "carol" (groups=["team" "system:authenticated"]) '
    "is attempting to grant RBAC permissions"
)
KEPT = {
    "a verb that she lacks": (
        [WRITES],
        ROLES,
        role("r", rule("delete get update", "pods", "")),
        f'roles.{API} "r" {LEAD} not currently held:\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete" "update"]}',
    ),
    "all objects where she has one": (
        [rule("get", "pods", "", "x")],
        ROLES,
        role("r", rule("get", "pods")),
        f'roles.{API} "r" {LEAD} not currently held:\n{{APIGroups:[""], Resources:["pods"], Verbs:["get"]}}',
    ),
    "objects by name": (
        [],
        ROLES,
        role("r", rule("get", "pods", "", "x", "y")),
        f'roles.{API} "r" {LEAD} not currently held:\n'
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["x"], Verbs:["get"]}\n'
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["y"], Verbs:["get"]}',
    ),
    "a role that she may not bind": (
        [WRITES, rule("bind", "clusterroles", API, "reads")],
        ROLE_BINDINGS,
        binding("ClusterRole", "all"),
        f'rolebindings.{API} "b" {LEAD} not currently held:\n'
        '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}',
    ),
    "rights of the whole cluster by those of a namespace": (
        [WRITES],
        CLUSTER_ROLE_BINDINGS,
        binding("ClusterRole", "reads"),
        f'clusterrolebindings.{API} "b" {LEAD} not currently held:\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["get"]}',
    ),
    "a role that is not there": (
        [WRITES],
        ROLE_BINDINGS,
        binding("Role", "later"),
        # The server names the resource of the request.
        f'rolebindings.{API} "later" not found',
    ),
}


@pytest.mark.parametrize(("held", "kind", "obj"), GIVEN.values(), ids=GIVEN)
def test_what_one_may_give(held: list[Obj], kind: ApiKind, obj: Obj) -> None:
    assert refusal(cluster_of(*held), kind, obj) == ""


@pytest.mark.parametrize(("held", "kind", "obj", "message"), KEPT.values(), ids=KEPT)
def test_what_one_may_not_give(held: list[Obj], kind: ApiKind, obj: Obj, message: str) -> None:
    code = 404 if message.endswith("not found") else 403
    assert refusal(cluster_of(*held), kind, obj) == f"{code} {message}"
    assert refusal(cluster_of(*held), kind, obj, who=ADMIN) == ""


def test_whoever_aggregates_has_all_rights() -> None:
    selectors = [{"matchLabels": {"x": "y"}}]
    gathers = role("g", aggregationRule={"clusterRoleSelectors": selectors})
    why = "must have cluster-admin privileges to use the aggregationRule"
    message = f'403 clusterroles.{API} "g" is forbidden: {why}'
    assert refusal(cluster_of(WRITES), CLUSTER_ROLES, gathers) == message
    assert refusal(cluster_of(WRITES), CLUSTER_ROLES, role("g"), gathers) == message


def test_a_change_is_judged_by_all_rights_of_the_role_but_not_one_of_owners_or_finalizers() -> None:
    stored = role("r", EVERYTHING)
    labelled = {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}
    released = {**stored, "metadata": {**stored["metadata"], "finalizers": [], "managedFields": []}}
    assert refusal(cluster_of(WRITES), ROLES, labelled, stored).startswith("403 ")
    assert refusal(cluster_of(WRITES), ROLES, released, stored) == ""
