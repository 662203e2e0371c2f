"""What a caller may do, by the Roles, ClusterRoles and their bindings in the store (RBAC)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Protocol

from sandbox.access.identity import MASTERS, Attributes, Identity, account_user
from sandbox.kinds.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from sandbox.objects import Obj
from sandbox.store.object_store import ObjectStore

EVERYTHING: Final[Obj] = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
EVERY_PATH: Final[Obj] = {"verbs": ["*"], "nonResourceURLs": ["*"]}


class Authorizer(Protocol):
    """Decides requests."""

    def allows(self, caller: Identity, wanted: Attributes) -> tuple[bool, str]:
        """Whether the caller may, and why."""
        ...

    def rules(self, caller: Identity, namespace: str) -> list[Obj]:
        """All rules that hold for the caller in a namespace, those of the whole cluster included."""
        ...


class AllowAll:
    """The authorizer of a sandbox without RBAC."""

    def allows(self, caller: Identity, wanted: Attributes) -> tuple[bool, str]:
        """Always."""
        return True, "the sandbox runs without --rbac"

    def rules(self, caller: Identity, namespace: str) -> list[Obj]:
        """Everything."""
        return [EVERYTHING, EVERY_PATH]


class Rbac:
    """The authorizer of `--rbac`. Members of system:masters may do everything."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def allows(self, caller: Identity, wanted: Attributes) -> tuple[bool, str]:
        """Whether a rule of a role that is bound to the caller allows it, and which binding."""
        if MASTERS in caller.groups:
            return True, ""
        for reason, rule in self._bound(caller, wanted.namespace):
            if _covers(rule, wanted):
                return True, reason
        return False, ""

    def rules(self, caller: Identity, namespace: str) -> list[Obj]:
        """As the protocol says."""
        if MASTERS in caller.groups:
            return [EVERYTHING, EVERY_PATH]
        return [rule for _, rule in self._bound(caller, namespace)]

    def _bound(self, caller: Identity, namespace: str) -> Iterator[tuple[str, Obj]]:
        """The rules that hold for a caller, each with the binding that gives it."""
        bindings = [
            ("ClusterRoleBinding", item, "") for item in self._store.list(CLUSTER_ROLE_BINDINGS, None)
        ]
        if namespace:
            bindings += [
                ("RoleBinding", item, namespace) for item in self._store.list(ROLE_BINDINGS, namespace)
            ]
        for kind, binding, place in bindings:
            if not any(_is(caller, subject, place) for subject in binding.get("subjects") or ()):
                continue
            role = binding.get("roleRef") or {}
            where = f'"{binding["metadata"]["name"]}{f"/{place}" if place else ""}"'
            reason = f'RBAC: allowed by {kind} {where} of {role.get("kind")} "{role.get("name")}"'
            for rule in self.rules_of(role, place) or ():
                yield reason, rule

    def rules_of(self, role: Obj, namespace: str) -> list[Obj] | None:
        """The rules of the role that a `roleRef` names, None where it is not there."""
        if role.get("kind") == "Role":
            found = self._store.get(ROLES, namespace, role.get("name") or "")
        else:
            found = self._store.get(CLUSTER_ROLES, "", role.get("name") or "")
        return list(self._aggregated(found, set())) if found is not None else None

    def _aggregated(self, role: Obj, seen: set[str]) -> Iterable[Obj]:
        """The rules of a role, and of those that it selects: no controller writes these into it."""
        selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
        if not selectors:
            yield from role.get("rules") or ()
        for other in self._store.list(CLUSTER_ROLES, None) if selectors else ():
            name = other["metadata"]["name"]
            if name not in seen and any(_selects(selector, other) for selector in selectors):
                seen.add(name)
                yield from self._aggregated(other, seen)


def _selects(selector: Obj, role: Obj) -> bool:
    labels = role["metadata"].get("labels") or {}
    wanted = selector.get("matchLabels") or {}
    return bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


def _is(caller: Identity, subject: Obj, namespace: str) -> bool:
    kind, name = subject.get("kind"), subject.get("name") or ""
    if kind == "Group":
        return name in caller.groups
    if kind == "ServiceAccount":
        return caller.user == account_user(subject.get("namespace") or namespace, name)
    return kind == "User" and name == caller.user


def _covers(rule: Obj, wanted: Attributes) -> bool:
    if not _has(rule.get("verbs"), wanted.verb):
        return False
    if wanted.path:
        return any(_is_path(url, wanted.path) for url in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames") or ()
    return (
        _has(rule.get("apiGroups"), wanted.group)
        and _has_resource(rule.get("resources") or (), wanted)
        and (not names or wanted.name in names)
    )


def _has(words: Any, word: str) -> bool:
    return any(each in ("*", word) for each in words or ())


def _has_resource(resources: Iterable[str], wanted: Attributes) -> bool:
    also = {"*", wanted.whole_resource}
    if wanted.subresource:
        also.add(f"*/{wanted.subresource}")
    return not also.isdisjoint(resources)


def _is_path(url: str, path: str) -> bool:
    return url in ("*", path) or (url.endswith("*") and path.startswith(url[:-1]))
