"""RuntimeClass plugin: sets overhead, node selector and tolerations of pods with a RuntimeClass."""

from __future__ import annotations

from sandbox import errors
from sandbox.kinds.builtin import RUNTIME_CLASSES
from sandbox.objects import Obj
from sandbox.store.object_store import ObjectStore
from sandbox.store.requests import AdmissionRequest
from scheduler_core.model.resources import parse_resource_list

_DIFFERS = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_ALONE = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class RuntimeClassResolution:
    """Resolves the RuntimeClasses in the store. Raises StatusError (Forbidden) for refused pods."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def mutate(self, req: AdmissionRequest) -> None:
        """Set the fields of a new pod in place. Raises ModelError for an invalid overhead."""
        found = self._class_of(req)
        if found is None or req.obj is None:
            return
        spec = req.obj["spec"]
        overhead = _overhead(found)
        if overhead is not None:
            if spec.get("overhead") and not _same(spec["overhead"], overhead):
                raise errors.forbidden(req.kind, req.name, _DIFFERS)
            spec["overhead"] = dict(overhead)
        scheduling = found.get("scheduling")
        if scheduling:
            _select_nodes(req, spec, scheduling.get("nodeSelector") or {})
            own = list(spec.get("tolerations") or ())
            added = [item for item in scheduling.get("tolerations") or () if item not in own]
            if own or added:
                spec["tolerations"] = [*own, *added]

    def validate(self, req: AdmissionRequest) -> None:
        """Refuse a pod whose overhead differs from that of its class, for example after a webhook."""
        if not _is_new_pod(req) or req.obj is None:
            return
        found = self._class_of(req)
        overhead = _overhead(found) if found else None
        given = req.obj["spec"].get("overhead")
        if overhead is None and given is not None:
            raise errors.forbidden(req.kind, req.name, _ALONE)
        if overhead is not None and not _same(given or {}, overhead):
            raise errors.forbidden(req.kind, req.name, _DIFFERS)

    def _class_of(self, req: AdmissionRequest) -> Obj | None:
        if not _is_new_pod(req) or req.obj is None:
            return None
        name = req.obj["spec"].get("runtimeClassName")
        if name is None:
            return None
        found = self._store.get(RUNTIME_CLASSES, "", name)
        if found is None:
            raise errors.forbidden(req.kind, req.name, f'pod rejected: RuntimeClass "{name}" not found')
        return found


def _is_new_pod(req: AdmissionRequest) -> bool:
    return req.kind.storage == "pods" and req.operation == "CREATE" and not req.subresource


def _overhead(runtime_class: Obj) -> Obj | None:
    """The overhead of a pod of the class; None if the class has none."""
    overhead = runtime_class.get("overhead")
    return None if overhead is None else overhead.get("podFixed") or {}


def _same(left: Obj, right: Obj) -> bool:
    """True if two resource lists have equal amounts, regardless of notation."""
    return parse_resource_list(left, "spec.overhead") == parse_resource_list(right, "overhead.podFixed")


def _select_nodes(req: AdmissionRequest, spec: Obj, wanted: Obj) -> None:
    own = spec.get("nodeSelector") or {}
    for key, value in wanted.items():
        if own.get(key, value) != value:
            text = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {own[key]}"
            )
            raise errors.forbidden(req.kind, req.name, text)
    if own or wanted:
        spec["nodeSelector"] = {**own, **wanted}
