"""How objects go: preconditions, finalizers, propagation, and the grace of pods and namespaces."""

from __future__ import annotations

import datetime as dt

from sandbox import crd, errors, pods
from sandbox.kinds import ApiKind, KindTable
from sandbox.objects import Obj, at, now, rfc3339, with_meta
from sandbox.store import Version

_PROPAGATION = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}
_PRECONDITIONS = (
    ("uid", "UID", "deleted and then recreated"),
    ("resourceVersion", "ResourceVersion", "modified"),
)
_CRD_STORAGE = "customresourcedefinitions.apiextensions.k8s.io"


def check_preconditions(kind: ApiKind, version: Version, wanted: Obj) -> None:
    """Raises Conflict where uid or resourceVersion are not those of the stored object."""
    meta = version.obj["metadata"]
    for key, label, guess in _PRECONDITIONS:
        if wanted.get(key) and wanted[key] != meta[key]:
            text = (
                f"the {label} in the precondition ({wanted[key]}) does not match the {label} in record "
                f"({meta[key]}). The object might have been {guess}"
            )
            raise errors.conflict(kind, version.name, text)


def marked(kind: ApiKind, obj: Obj, options: Obj) -> Obj | None:
    """The object on its way out, or None if it may vanish at once.

    Returns `obj` itself if its deletion has begun and this request changes nothing.
    """
    finalizers = _finalizers(obj, options)
    grace = pods.deletion_grace(obj, options.get("gracePeriodSeconds")) if kind.storage == "pods" else 0
    held = bool(finalizers) or bool(_namespace_finalizers(kind, obj))
    if not grace and not held:
        return None
    meta = obj["metadata"]
    if meta.get("deletionTimestamp"):
        remaining = meta.get("deletionGracePeriodSeconds") or 0
        if grace >= remaining and finalizers == (meta.get("finalizers") or []):
            return obj
        grace = min(grace, remaining)
    result = with_meta(
        obj,
        finalizers=finalizers or None,
        deletionTimestamp=rfc3339(now() + dt.timedelta(seconds=grace)),
        deletionGracePeriodSeconds=grace,
    )
    if kind.generation and not meta.get("deletionTimestamp"):
        result["metadata"]["generation"] = meta.get("generation", 0) + 1
    if kind.storage == "namespaces":
        result["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
    return result


def _finalizers(obj: Obj, options: Obj) -> list[str]:
    """The finalizers that remain when the propagation policy has had its say."""
    present = list(obj["metadata"].get("finalizers") or ())
    policy = options.get("propagationPolicy")
    if policy is None and options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    if policy is None:
        return present
    if policy not in (*_PROPAGATION, "Background"):
        choices = ("Foreground", "Background", "Orphan", "nil")
        cause = errors.not_supported("propagationPolicy", policy, choices)
        raise errors.StatusError(
            422,
            "Invalid",
            f'DeleteOptions.meta.k8s.io "" is invalid: {cause}',
            {"group": "meta.k8s.io"},
            [cause],
        )
    wanted = _PROPAGATION.get(policy)
    kept = [name for name in present if name not in _PROPAGATION.values() or name == wanted]
    return [*kept, wanted] if wanted and wanted not in kept else kept


def _namespace_finalizers(kind: ApiKind, obj: Obj) -> list[str]:
    return (at(obj, "spec", "finalizers") or []) if kind.storage == "namespaces" else []


def is_finished(kind: ApiKind, obj: Obj) -> bool:
    """Whether an object whose deletion has begun has nothing left that holds it."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers") or _namespace_finalizers(kind, obj):
        return False
    return not (kind.storage == "pods" and meta.get("deletionGracePeriodSeconds"))


def instances(kinds: KindTable, kind: ApiKind, obj: Obj) -> ApiKind | None:
    """The custom kind whose objects go with `obj`, if that is a definition."""
    return crd.instances_of(kinds, obj) if kind.storage == _CRD_STORAGE else None


def namespace_forbidden(kind: ApiKind, name: str) -> None:
    """The namespaces that every cluster needs cannot be deleted. Raises Forbidden."""
    if kind.storage == "namespaces" and name in ("default", "kube-system", "kube-public"):
        raise errors.forbidden(kind, name, "this namespace may not be deleted")
