"""Subresources with a body of their own: binding, eviction, scale, finalize and log."""

from __future__ import annotations

from typing import Any

from sandbox import errors
from sandbox.kinds import disruption, pods
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin import POD_DISRUPTION_BUDGETS, PODS, REPLICATION_CONTROLLERS
from sandbox.objects import Obj, at, condition_now, with_condition
from sandbox.store.registry import Registry
from sandbox.store.requests import AdmissionRequest, RequestContext
from scheduler_core.model.names import DISRUPTION_TARGET
from scheduler_core.printing.jsonpath import values_at

SUCCESS: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def bind(registry: Registry, namespace: str, name: str, binding: Obj, context: RequestContext) -> Obj:
    """POST pods/binding: bind the pod. Raises Conflict for a bound or deleted pod, or another UID."""
    node = at(binding, "target", "name")
    uid = at(binding, "metadata", "uid")
    if not node or at(binding, "target", "kind") not in (None, "", "Node"):
        cause = (
            errors.required("target.name")
            if not node
            else errors.not_supported("target.kind", at(binding, "target", "kind"), ("Node", "<empty>"))
        )
        raise errors.StatusError(422, "Invalid", f'Binding "{name}" is invalid: {cause}', None, [cause])

    def place(pod: Obj) -> Obj:
        meta = pod["metadata"]
        if uid and uid != meta["uid"]:
            text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {meta['uid']}"
            raise errors.conflict(PODS, name, text)
        if meta.get("deletionTimestamp"):
            raise errors.conflict(PODS, name, f"pod {name} is being deleted, cannot be assigned to a host")
        assigned = pod["spec"].get("nodeName")
        if assigned:
            raise errors.conflict(PODS, name, f'pod {name} is already assigned to node "{assigned}"')
        if pod["spec"].get("schedulingGates"):
            raise errors.conflict(PODS, name, f"pod {name} has non-empty .spec.schedulingGates")
        return pods.bound(pod, node, binding.get("metadata") or {})

    await registry.modify(PODS, namespace, name, place, subresource="binding", context=context, admit=binding)
    return SUCCESS


async def evict(registry: Registry, namespace: str, name: str, eviction: Obj, context: RequestContext) -> Obj:
    """POST pods/eviction: delete the pod if its disruption budget allows it, else raise TooManyRequests."""
    options = eviction.get("deleteOptions") or {}
    if at(options, "dryRun"):
        context.dry_run = True
    pod = registry.get(PODS, namespace, name)
    request = AdmissionRequest("CREATE", PODS, namespace, name, eviction, None, context, "eviction")
    context.warnings += (await registry.admission.mutate(request))[1]
    context.warnings += await registry.admission.validate(request)
    if disruption.needs_budget(pod):
        _spend_budget(registry, pod, context)
    if not context.dry_run:
        message = "Eviction API: evicting"
        condition = condition_now(DISRUPTION_TARGET, True, "EvictionByEvictionAPI", message)
        await registry.modify(
            PODS,
            namespace,
            name,
            lambda old: {**old, "status": with_condition(old.get("status") or {}, condition)},
            subresource="status",
        )
    await registry.delete(PODS, namespace, name, options=options, context=context)
    return SUCCESS


def _spend_budget(registry: Registry, pod: Obj, context: RequestContext) -> None:
    store = registry.store
    meta = pod["metadata"]
    budgets = [
        budget
        for budget in store.list(POD_DISRUPTION_BUDGETS, meta["namespace"])
        if disruption.covers(budget, pod)
    ]
    if len(budgets) > 1:
        text = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
        raise errors.internal(text)
    for budget in budgets:
        status = disruption.status_of(store, budget)
        if disruption.unready_may_go(budget, pod, status):
            return
        spent = disruption.spend(budget, status, meta["name"])
        if not context.dry_run:
            store.update(POD_DISRUPTION_BUDGETS, {**budget, "status": spent})


def scale_of(kind: ApiKind, obj: Obj) -> Obj:
    """GET scale: the replicas of a workload as an autoscaling/v1 Scale."""
    paths, meta = _scale_paths(kind), obj["metadata"]
    selector = at(obj, "spec", "selector") or {}
    if kind is not REPLICATION_CONTROLLERS:
        selector = selector.get("matchLabels") or {}
    shown = _first(values_at(obj, paths["labelSelectorPath"])) if paths.get("labelSelectorPath") else None
    text = shown or ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            key: meta[key]
            for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
            if key in meta
        },
        "spec": {"replicas": _first(values_at(obj, paths.get("specReplicasPath", ".spec.replicas"))) or 0},
        "status": {
            "replicas": _first(values_at(obj, paths.get("statusReplicasPath", ".status.replicas"))) or 0,
            "selector": text,
        },
    }


def _scale_paths(kind: ApiKind) -> Obj:
    return (kind.custom.scale or {}) if kind.custom else {}


def _first(found: list[Any]) -> Any:
    return found[0] if found else None


def scaled(kind: ApiKind, obj: Obj, scale: Obj) -> Obj:
    """PUT scale: the workload with the Scale's replicas. Raises Invalid for a negative or missing number."""
    replicas = at(scale, "spec", "replicas") or 0
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 0:
        text = "must be greater than or equal to 0"
        raise errors.invalid(
            kind, obj["metadata"]["name"], [errors.invalid_value("spec.replicas", replicas, text)]
        )
    path = _scale_paths(kind).get("specReplicasPath", ".spec.replicas")
    meta = dict(obj["metadata"])
    if at(scale, "metadata", "resourceVersion"):
        meta["resourceVersion"] = scale["metadata"]["resourceVersion"]
    return {**_with_field(obj, path.strip(".").split("."), replicas), "metadata": meta}


def _with_field(obj: Obj, path: list[str], value: Any) -> Obj:
    if len(path) == 1:
        return {**obj, path[0]: value}
    return {**obj, path[0]: _with_field(obj.get(path[0]) or {}, path[1:], value)}


def finalized(namespace: Obj, body: Obj) -> Obj:
    """PUT namespaces/finalize: the namespace with the body's spec.finalizers."""
    return {
        **namespace,
        "spec": {**(namespace.get("spec") or {}), "finalizers": at(body, "spec", "finalizers") or []},
    }


def log_of(registry: Registry, namespace: str, name: str) -> str:
    """GET pods/log: empty for a pod without a node. Raises BadRequest for others, which run no containers."""
    pod = registry.get(PODS, namespace, name)
    if not at(pod, "spec", "nodeName"):
        return ""
    text = "the sandbox runs no containers, so there are no logs"
    raise errors.bad_request(f'container logs for pod "{name}" are not available: {text}')
