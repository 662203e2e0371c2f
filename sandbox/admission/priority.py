"""Priority plugin: resolves `priorityClassName`, and allows one global default PriorityClass at most."""

from __future__ import annotations

from collections.abc import Iterable

from sandbox import errors
from sandbox.kinds import native_groups
from sandbox.kinds.builtin import PRIORITY_CLASSES
from sandbox.objects import Obj
from sandbox.store.object_store import ObjectStore
from sandbox.store.requests import AdmissionRequest

PREEMPT = "PreemptLowerPriority"


def _system_class(name: str, value: int, description: str) -> Obj:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": PREEMPT,
        "description": description,
    }


SYSTEM_CLASSES = (
    _system_class("system-cluster-critical", 2_000_000_000, "For pods that the cluster needs on any node."),
    _system_class(
        "system-node-critical",
        2_000_001_000,
        "For pods that their node needs; the highest priority.",
    ),
)
_BY_NAME = {obj["metadata"]["name"]: obj for obj in SYSTEM_CLASSES}


class PriorityResolution:
    """Resolves the PriorityClasses in the store; the two system classes always exist."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def mutate(self, req: AdmissionRequest) -> None:
        """Set `priority` and `preemptionPolicy` of a new pod or group in place.

        Raises StatusError (Forbidden).
        """
        if req.operation != "CREATE" or req.subresource or req.obj is None:
            return
        if req.kind.storage in native_groups.GROUPS:
            self._resolve_group(req, req.obj["spec"], native_groups.is_alpha2(req.obj))
        elif req.kind.storage == "pods":
            self._resolve_pod(req, req.obj["spec"])

    def _resolve_group(self, req: AdmissionRequest, spec: Obj, alpha2: bool) -> None:
        found = self._class_of(req, spec.get("priorityClassName") or "")
        value = int(found.get("value", 0)) if found else 0
        if spec.get("priority") not in (None, value):
            what = (
                "composite pod group"
                if req.kind.storage == native_groups.COMPOSITE_POD_GROUPS
                else "pod group"
            )
            text = (
                f"priority set in the {what} ({spec['priority']}) must match the priority computed ({value}) "
                "based on the priority class set in the spec"
            )
            raise errors.forbidden(req.kind, req.name, text)
        if found:
            spec["priorityClassName"] = found["metadata"]["name"]
        spec["priority"] = value
        if alpha2:
            return
        policy = str(found.get("preemptionPolicy") or PREEMPT) if found else PREEMPT
        _agree(req, "string value of PreemptionPolicy", spec.get("preemptionPolicy"), policy, "pod group")
        spec["preemptionPolicy"] = policy

    def _resolve_pod(self, req: AdmissionRequest, spec: Obj) -> None:
        found = self._class_of(req, spec.get("priorityClassName") or "")
        value = int(found.get("value", 0)) if found else 0
        policy = str(found.get("preemptionPolicy") or PREEMPT) if found else PREEMPT
        _agree(req, "integer value of priority", spec.get("priority"), value)
        _agree(req, "string value of PreemptionPolicy", spec.get("preemptionPolicy"), policy)
        if found:
            spec["priorityClassName"] = found["metadata"]["name"]
        spec["priority"] = value
        spec["preemptionPolicy"] = policy

    def _class_of(self, req: AdmissionRequest, name: str) -> Obj | None:
        if not name:
            return global_default(self._store.iterate(PRIORITY_CLASSES))
        found = self._store.get(PRIORITY_CLASSES, "", name) or _BY_NAME.get(name)
        if found is None:
            raise errors.forbidden(req.kind, req.name, f"no PriorityClass with name {name} was found")
        return found

    def validate(self, req: AdmissionRequest) -> None:
        """Raises StatusError (Forbidden) for a second global default."""
        if req.kind.storage != PRIORITY_CLASSES.storage or not (req.obj and req.obj.get("globalDefault")):
            return
        for other in self._store.iterate(PRIORITY_CLASSES):
            name = other["metadata"]["name"]
            if other.get("globalDefault") and name != req.name:
                text = f"PriorityClass {name} is already marked as default. Only one default can exist"
                raise errors.forbidden(req.kind, req.name, text)


def global_default(classes: Iterable[Obj]) -> Obj | None:
    """The PriorityClass for pods without a class: the global default with the lowest value."""
    defaults = [obj for obj in classes if obj.get("globalDefault")]
    return min(defaults, key=lambda obj: int(obj.get("value", 0)), default=None)


def _agree(req: AdmissionRequest, what: str, given: object, computed: object, owner: str = "pod") -> None:
    if given is not None and given != computed:
        text = (
            f"the {what} ({given}) must not be provided in {owner} spec; "
            f"priority admission controller computed {computed} from the given PriorityClass name"
        )
        raise errors.forbidden(req.kind, req.name, text)
