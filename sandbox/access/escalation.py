"""Nobody gives more rights than they have: the check of those who write roles and bindings (RBAC).

After kube-apiserver's `pkg/registry/rbac` and `k8s.io/component-helpers/auth/rbac/validation`: a role is
split into rules of one verb and one resource, and each must be covered by one rule of the caller. The verbs
`escalate` on roles and `bind` on the role of a binding stand for this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from sandbox import errors
from sandbox.access.authorizer import EVERY_PATH, EVERYTHING, Rbac
from sandbox.access.identity import MASTERS, Attributes, Identity
from sandbox.kinds.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from sandbox.objects import Obj
from sandbox.store.requests import AdmissionRequest

_API: Final = "rbac.authorization.k8s.io"
# Fields of the metadata that a garbage collector changes, on behalf of nobody who has the rights of a role.
_COLLECTED: Final = ("ownerReferences", "finalizers", "managedFields")
_PARTS: Final = (
    ("apiGroups", "APIGroups"),
    ("resources", "Resources"),
    ("nonResourceURLs", "NonResourceURLs"),
    ("resourceNames", "ResourceNames"),
    ("verbs", "Verbs"),
)


class EscalationCheck:
    """Judges requests that write Roles, ClusterRoles and their bindings."""

    def __init__(self, rbac: Rbac) -> None:
        self._rbac = rbac

    def validate(self, req: AdmissionRequest) -> None:
        """Raises Forbidden with kube-apiserver's message, and NotFound where a role is missing."""
        caller = req.context.caller
        if req.obj is None or req.operation not in ("CREATE", "UPDATE") or MASTERS in caller.groups:
            return
        if req.old is not None and _without_collected(req.obj) == _without_collected(req.old):
            return
        if req.kind in (ROLES, CLUSTER_ROLES):
            self._judge_role(req, caller)
        elif req.kind in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
            self._judge_binding(req, caller)

    def _judge_role(self, req: AdmissionRequest, caller: Identity) -> None:
        assert req.obj is not None
        # A request that creates an object names none in its URL.
        name = req.name if req.operation == "UPDATE" else ""
        wanted = Attributes("escalate", _API, req.kind.plural, namespace=req.namespace, name=name)
        if self._rbac.allows(caller, wanted)[0]:
            return
        self._require(req, caller, req.obj.get("rules") or ())
        gathers = _aggregates(req.obj) or _aggregates(req.old or {})
        if gathers and self._lacks(caller, req.namespace, (EVERYTHING, EVERY_PATH)):
            why = "must have cluster-admin privileges to use the aggregationRule"
            raise errors.forbidden(req.kind, req.name, why)

    def _judge_binding(self, req: AdmissionRequest, caller: Identity) -> None:
        assert req.obj is not None
        ref = req.obj.get("roleRef") or {}
        kind = ROLES if ref.get("kind") == "Role" else CLUSTER_ROLES
        name = ref.get("name") or ""
        wanted = Attributes("bind", _API, kind.plural, namespace=req.namespace, name=name)
        if self._rbac.allows(caller, wanted)[0]:
            return
        rules = self._rbac.rules_of(ref, req.namespace)
        if rules is None:
            raise errors.not_found(req.kind, name)
        self._require(req, caller, rules)

    def _require(self, req: AdmissionRequest, caller: Identity, rules: Iterable[Obj]) -> None:
        lacking = self._lacks(caller, req.namespace, rules)
        if lacking:
            lines = "\n".join(sorted({_shown(rule) for rule in _joined(lacking)}))
            why = (
                f'user "{caller.user}" (groups=[{_quoted(caller.groups)}]) is attempting to grant '
                f"RBAC permissions not currently held:\n{lines}"
            )
            raise errors.forbidden(req.kind, req.name, why)

    def _lacks(self, caller: Identity, namespace: str, rules: Iterable[Obj]) -> list[Obj]:
        """The parts of the rules that no rule of the caller covers."""
        held = self._rbac.rules(caller, namespace)
        parts = (part for rule in rules for part in _split(rule))
        return [part for part in parts if not any(_covers(rule, part) for rule in held)]


def _without_collected(obj: Obj) -> Obj:
    meta = {key: value for key, value in obj["metadata"].items() if key not in _COLLECTED}
    return {**obj, "metadata": meta}


def _aggregates(role: Obj) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _split(rule: Obj) -> Iterator[Obj]:
    """Rules of one verb on one resource, or one name of it, or one path."""
    verbs, names = rule.get("verbs") or (), rule.get("resourceNames") or ()
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for verb in verbs:
                part = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                yield from ({**part, "resourceNames": [name]} for name in names) if names else (part,)
    for path in rule.get("nonResourceURLs") or ():
        yield from ({"nonResourceURLs": [path], "verbs": [verb]} for verb in verbs)


def _covers(held: Obj, part: Obj) -> bool:
    """Whether a rule covers one of the split ones."""
    names = held.get("resourceNames") or ()
    if "nonResourceURLs" in part:
        return not names and _has(held, "verbs", part) and _covers_path(held, part["nonResourceURLs"][0])
    if names and not set(part.get("resourceNames") or ("",)) <= set(names):
        return False
    return _has(held, "verbs", part) and _has(held, "apiGroups", part) and _covers_resource(held, part)


def _has(held: Obj, field: str, part: Obj) -> bool:
    words = held.get(field) or ()
    return "*" in words or part[field][0] in words


def _covers_resource(held: Obj, part: Obj) -> bool:
    resource = part["resources"][0]
    below = resource.partition("/")[2]
    also = {"*", resource, f"*/{below}" if below else resource}
    return not also.isdisjoint(held.get("resources") or ())


def _covers_path(held: Obj, path: str) -> bool:
    return any(
        owned == path or (owned.endswith("*") and path.startswith(owned.rstrip("*")))
        for owned in held.get("nonResourceURLs") or ()
    )


def _joined(parts: Iterable[Obj]) -> list[Obj]:
    """Parts that differ by their verb alone as one; those of paths stay as they are."""
    found: dict[Any, Obj] = {}
    for number, part in enumerate(parts):
        key: Any = number
        if "resources" in part:
            key = (part["apiGroups"][0], part["resources"][0], *part.get("resourceNames", ()))
        known = found.setdefault(key, {**part, "verbs": []})
        known["verbs"] = [*known["verbs"], *part["verbs"]]
    return list(found.values())


def _shown(rule: Obj) -> str:
    parts = (f"{name}:[{_quoted(rule[field])}]" for field, name in _PARTS if rule.get(field))
    return f"{{{', '.join(parts)}}}"


def _quoted(words: Iterable[str]) -> str:
    return " ".join(f'"{word}"' for word in words)
