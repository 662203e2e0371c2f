"""PodDisruptionBudgets: computed status, and the budget check of evictions."""

from __future__ import annotations

from typing import Any

from sandbox import errors
from sandbox.errors import StatusCause
from sandbox.kinds.builtin import (
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from sandbox.kinds.pods import is_ready
from sandbox.objects import Obj, absolute, at, now, rfc3339, with_condition
from sandbox.store.object_store import ObjectStore

_SCALABLE = {
    kind.kind: kind for kind in (DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS, JOBS)
}
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def needs_budget(pod: Obj) -> bool:
    """False for pods that have ended or not started; their eviction needs no budget."""
    phase = at(pod, "status", "phase")
    return phase not in ("Succeeded", "Failed", "Pending") and not at(pod, "metadata", "deletionTimestamp")


def covers(budget: Obj, pod: Obj) -> bool:
    """True if the budget selects the pod; an empty selector selects all pods of the namespace."""
    return selects(at(budget, "spec", "selector"), pod["metadata"].get("labels") or {})


def selects(selector: Any, labels: dict[str, str]) -> bool:
    """A metav1.LabelSelector on labels; None selects nothing."""
    if not isinstance(selector, dict):
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_term_holds(term, labels) for term in selector.get("matchExpressions") or ())


def _term_holds(term: Obj, labels: dict[str, str]) -> bool:
    key, operator, values = term.get("key", ""), term.get("operator"), term.get("values") or ()
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    return (key in labels) is (operator == "Exists")


def _counted(pod: Obj, budget: Obj) -> bool:
    disrupted = at(budget, "status", "disruptedPods") or {}
    return (
        is_ready(pod)
        and not at(pod, "metadata", "deletionTimestamp")
        and pod["metadata"]["name"] not in disrupted
    )


def status_of(store: ObjectStore, budget: Obj) -> Obj:
    """The budget's status, computed from the current pods."""
    namespace = budget["metadata"]["namespace"]
    covered = [pod for pod in store.iterate(PODS, namespace) if covers(budget, pod)]
    live = [pod for pod in covered if at(pod, "status", "phase") not in ("Succeeded", "Failed")]
    healthy = sum(_counted(pod, budget) for pod in live)
    expected = _expected(store, namespace, live)
    wanted = _desired(budget.get("spec") or {}, expected)
    allowed = max(healthy - wanted, 0)
    names = {pod["metadata"]["name"] for pod in live if not at(pod, "metadata", "deletionTimestamp")}
    disrupted = {
        name: t for name, t in (at(budget, "status", "disruptedPods") or {}).items() if name in names
    }
    status = {
        **(budget.get("status") or {}),
        "currentHealthy": healthy,
        "desiredHealthy": wanted,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        "observedGeneration": budget["metadata"].get("generation", 1),
    }
    status.pop("disruptedPods", None)
    if disrupted:
        status["disruptedPods"] = disrupted
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": status["observedGeneration"],
        "lastTransitionTime": rfc3339(now()),
    }
    return with_condition(status, condition)


def _expected(store: ObjectStore, namespace: str, pods: list[Obj]) -> int:
    """Expected number of pods: the scale of their controllers, and one for each pod without a controller."""
    total = 0
    seen: set[str] = set()
    for pod in pods:
        owner = next((o for o in pod["metadata"].get("ownerReferences") or () if o.get("controller")), None)
        kind = _SCALABLE.get(owner["kind"]) if owner else None
        controller = store.get(kind, namespace, owner["name"]) if kind and owner else None
        if controller is None:
            total += 1
        elif controller["metadata"]["uid"] not in seen:
            seen.add(controller["metadata"]["uid"])
            replicas = at(controller, "spec", "replicas")
            total += at(controller, "spec", "parallelism") or 1 if replicas is None else replicas
    return total


def _desired(spec: Obj, expected: int) -> int:
    if spec.get("maxUnavailable") is not None:
        return max(expected - absolute(spec["maxUnavailable"], expected, up=True), 0)
    if spec.get("minAvailable") is not None:
        return absolute(spec["minAvailable"], expected, up=True)
    return expected


def unready_may_go(budget: Obj, pod: Obj, status: Obj) -> bool:
    """True if an unready pod may be evicted regardless of the budget."""
    if is_ready(pod):
        return False
    if at(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return bool(status["currentHealthy"] >= status["desiredHealthy"] > 0)


def spend(budget: Obj, status: Obj, pod_name: str) -> Obj:
    """The status after one more disruption. Raises TooManyRequests if none is allowed."""
    if status["disruptionsAllowed"] <= 0:
        name, wanted, healthy = budget["metadata"]["name"], status["desiredHealthy"], status["currentHealthy"]
        text = f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        raise errors.too_many_requests(_REFUSED, [StatusCause("DisruptionBudget", text)])
    disrupted = {**(status.get("disruptedPods") or {}), pod_name: rfc3339(now())}
    return {
        **status,
        "disruptionsAllowed": status["disruptionsAllowed"] - 1,
        "disruptedPods": disrupted,
    }
