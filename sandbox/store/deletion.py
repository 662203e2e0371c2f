"""Deletion of objects: finalizers, propagation policy, and grace periods of pods and namespaces."""

from __future__ import annotations

import datetime as dt

from sandbox import errors
from sandbox.kinds import crd, pods
from sandbox.kinds.api_kinds import ApiKind, KindTable
from sandbox.objects import Obj, at, now, rfc3339, with_meta

_PROPAGATION = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}
_CRD_STORAGE = "customresourcedefinitions.apiextensions.k8s.io"


def marked(kind: ApiKind, obj: Obj, options: Obj) -> Obj | None:
    """The object with deletion metadata, or None if it can be removed immediately.

    Returns `obj` itself if its deletion has already begun and this request changes nothing.
    """
    finalizers = _finalizers(obj, options)
    grace = pods.deletion_grace(obj, options.get("gracePeriodSeconds")) if kind.storage == "pods" else 0
    held = bool(finalizers) or bool(_namespace_finalizers(kind, obj))
    if not grace and not held:
        return None
    meta, begun = obj["metadata"], now()
    if meta.get("deletionTimestamp"):
        remaining = meta.get("deletionGracePeriodSeconds") or 0
        if grace >= remaining and finalizers == (meta.get("finalizers") or []):
            return obj
        grace = min(grace, remaining)
        begun = dt.datetime.fromisoformat(meta["deletionTimestamp"]) - _duration(remaining)
        if begun + _duration(grace) < now():
            # As on kube-apiserver 1.37: what is over already ends now, with the least grace period.
            grace = min(grace, 1)
            begun = now() - _duration(grace)
    result = with_meta(
        obj,
        finalizers=finalizers or None,
        deletionTimestamp=rfc3339(begun + _duration(grace)),
        deletionGracePeriodSeconds=grace,
    )
    if kind.generation and not meta.get("deletionTimestamp"):
        result["metadata"]["generation"] = meta.get("generation", 0) + 1
    if kind.storage == "namespaces":
        result["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
    return result


def _duration(seconds: int) -> dt.timedelta:
    """Seconds as a duration of Go: nanoseconds in an int64, which wrap around."""
    nanoseconds = (seconds * 10**9 + 2**63) % 2**64 - 2**63
    return dt.timedelta(microseconds=nanoseconds // 1000)


def _finalizers(obj: Obj, options: Obj) -> list[str]:
    """The finalizers of the object after the propagation policy is applied."""
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
    """True if deletion has begun and neither finalizers nor a grace period remain."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers") or _namespace_finalizers(kind, obj):
        return False
    return not (kind.storage == "pods" and meta.get("deletionGracePeriodSeconds"))


def instances(kinds: KindTable, kind: ApiKind, obj: Obj) -> ApiKind | None:
    """The custom kind that is deleted with `obj` if `obj` is a CustomResourceDefinition."""
    return crd.instances_of(kinds, obj) if kind.storage == _CRD_STORAGE else None


def namespace_forbidden(kind: ApiKind, name: str) -> None:
    """Refuse deletion of the namespaces that every cluster needs. Raises Forbidden."""
    if kind.storage == "namespaces" and name in ("default", "kube-system", "kube-public"):
        raise errors.forbidden(kind, name, "this namespace may not be deleted")
