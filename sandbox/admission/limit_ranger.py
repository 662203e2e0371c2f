"""LimitRanger plugin: default requests and limits of containers; bounds of containers, pods and claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sandbox import errors
from sandbox.kinds.builtin import LIMIT_RANGES
from sandbox.objects import Obj
from sandbox.store.object_store import ObjectStore
from sandbox.store.requests import AdmissionRequest
from scheduler_core.decoding import convert
from scheduler_core.model.pods.requests import PodResourcesWire, effective_limits, effective_requests
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.resources import parse_resource_list

Amounts = Mapping[str, int]
_ANNOTATION = "kubernetes.io/limit-ranger"


class LimitRanger:
    """Applies the LimitRanges in the store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def _items(self, req: AdmissionRequest, kind: str) -> list[Obj]:
        return [
            item
            for limit_range in self._store.list(LIMIT_RANGES, req.namespace)
            for item in limit_range.get("spec", {}).get("limits") or ()
            if item.get("type") == kind
        ]

    def mutate(self, req: AdmissionRequest) -> None:
        """Set missing requests and limits of a new pod's containers in place."""
        if req.kind.storage != "pods" or req.operation != "CREATE" or req.subresource or req.obj is None:
            return
        notes: list[str] = []
        for item in self._items(req, "Container"):
            limits, requests = container_defaults(item)
            for container in containers_of(req.obj["spec"]):
                notes += _complete(container, requests, limits)
        if notes:
            annotations = req.obj["metadata"].setdefault("annotations", {})
            annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"

    def validate(self, req: AdmissionRequest) -> None:
        """Raises StatusError (Forbidden) with all violated bounds."""
        if req.obj is None or req.subresource not in ("", "resize"):
            return
        if req.kind.storage == "pods" and (req.operation == "CREATE" or req.subresource == "resize"):
            problems = self._pod_problems(req, req.obj["spec"])
        elif req.kind.storage == "persistentvolumeclaims" and req.operation in ("CREATE", "UPDATE"):
            problems = self._claim_problems(req, req.obj.get("spec", {}))
        else:
            return
        if problems:
            text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise errors.forbidden(req.kind, req.name, text)

    def _pod_problems(self, req: AdmissionRequest, spec: Obj) -> list[str]:
        problems: list[str] = []
        for item in self._items(req, "Container"):
            for container in containers_of(spec):
                resources = container.get("resources") or {}
                requests = parse_resource_list(resources.get("requests"), "requests")
                limits = parse_resource_list(resources.get("limits"), "limits")
                problems += bounds_broken(item, requests, limits)
        items = self._items(req, "Pod")
        if items:
            wire = convert(spec, PodResourcesWire)
            requests, limits = effective_requests(wire), effective_limits(wire)
            for item in items:
                problems += bounds_broken(item, requests, limits)
        return problems

    def _claim_problems(self, req: AdmissionRequest, spec: Obj) -> list[str]:
        requests = parse_resource_list((spec.get("resources") or {}).get("requests"), "requests")
        problems: list[str] = []
        for item in self._items(req, "PersistentVolumeClaim"):
            least = parse_resource_list(item.get("min"), "min")
            most = parse_resource_list(item.get("max"), "max")
            kind = "PersistentVolumeClaim"
            problems += [_below(kind, name, least[name], requests, {}) for name in sorted(least)]
            problems += [_above(kind, name, most[name], {}, requests) for name in sorted(most)]
        return [problem for problem in problems if problem]


def containers_of(spec: Obj) -> Iterable[Obj]:
    """All containers of a pod spec, init containers last."""
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def container_defaults(item: Obj) -> tuple[Obj, Obj]:
    """Default limits (or `max`) and default requests (or these limits, or `min`) of a LimitRange item."""
    limits = {**(item.get("max") or {}), **(item.get("default") or {})}
    requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
    return limits, requests


def _complete(container: Obj, requests: Obj, limits: Obj) -> list[str]:
    resources = container.get("resources") or {}
    added: list[str] = []
    completed = dict(resources)
    for part, defaults in (("requests", requests), ("limits", limits)):
        present = resources.get(part) or {}
        missing = {name: value for name, value in defaults.items() if name not in present}
        if missing:
            completed[part] = {**present, **missing}
            added.append(f"{', '.join(sorted(missing))} {part[:-1]} for container {container.get('name')}")
    container["resources"] = completed
    return added


def bounds_broken(item: Obj, requests: Amounts, limits: Amounts) -> list[str]:
    """The bounds of one item that a container or pod violates, in the messages of kube-apiserver."""
    kind = item["type"]
    least = parse_resource_list(item.get("min"), "min")
    most = parse_resource_list(item.get("max"), "max")
    ratios = parse_resource_list(item.get("maxLimitRequestRatio"), "maxLimitRequestRatio")
    problems = [_below(kind, name, least[name], requests, limits) for name in sorted(least)]
    problems += [_above(kind, name, most[name], requests, limits) for name in sorted(most)]
    problems += [_ratio(kind, name, ratios[name], requests, limits) for name in sorted(ratios)]
    return [problem for problem in problems if problem]


def _below(kind: str, name: str, bound: int, requests: Amounts, limits: Amounts) -> str:
    rule = f"minimum {name} usage per {kind} is {format_resource(name, bound)}"
    if name not in requests:
        return f"{rule}.  No request is specified"
    if limits.get(name, bound) < bound:
        return f"{rule}, but limit is {format_resource(name, limits[name])}"
    if requests[name] < bound:
        return f"{rule}, but request is {format_resource(name, requests[name])}"
    return ""


def _above(kind: str, name: str, bound: int, requests: Amounts, limits: Amounts) -> str:
    rule = f"maximum {name} usage per {kind} is {format_resource(name, bound)}"
    if name not in limits:
        return f"{rule}.  No limit is specified"
    if limits[name] > bound:
        what = "request" if kind == "PersistentVolumeClaim" else "limit"
        return f"{rule}, but {what} is {format_resource(name, limits[name])}"
    if requests.get(name, 0) > bound:
        return f"{rule}, but request is {format_resource(name, requests[name])}"
    return ""


def _ratio(kind: str, name: str, bound: int, requests: Amounts, limits: Amounts) -> str:
    rule = f"{name} max limit to request ratio per {kind} is {format_resource(name, bound)}"
    request, limit = requests.get(name), limits.get(name)
    if not request or limit is None:
        missing = "request is specified or request is 0" if not request else "limit is specified"
        return f"{rule}, but no {missing}"
    # The bound is a plain number; for CPU it was parsed as millicores.
    allowed = bound / 1000 if name == "cpu" else float(bound)
    ratio = limit / request
    return f"{rule}, but provided ratio is {ratio:f}" if ratio > allowed else ""
