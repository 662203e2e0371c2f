"""The report of a simulated cluster as JSON: where pods are, why they wait, what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler_core.model import names
from scheduler_core.simulate.groups import budgets_report, conditions_report, group_statuses, groups_report
from scheduler_core.simulate.objects import key_of

if TYPE_CHECKING:
    from scheduler_core.simulate.world import Simulation


def report(simulation: Simulation) -> dict[str, Any]:
    """The state, and what happened since the last `forget_happenings` (docs/cli.md, `simulate`)."""
    bound: dict[str, str] = {}
    pending: dict[str, dict[str, str]] = {}
    for obj in simulation.objects.all("Pod"):
        key = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
        node = obj["spec"].get("nodeName")
        if node:
            bound[key] = node
        else:
            pending[key] = _why(simulation, key, obj)
    statuses = {
        simulation.objects.label(key_of(obj)): obj["status"]
        for kind in ("ElasticQuota", "PodGroup")
        for obj in simulation.objects.all(kind)
        if obj.get("status")
    }
    return {
        "bound": bound,
        "pending": pending,
        "evicted": [
            {"pod": item.pod.key, "for": item.preemptor.key, "reason": item.message}
            for item in simulation.evicted
        ]
        + [
            {"pod": f"{write.namespace}/{write.name}", "for": "", "reason": write.message}
            for write in simulation.restarted
        ],
        "status": statuses | group_statuses(simulation.objects.all("ConfigMap")),
        "conditions": conditions_report(simulation.objects),
        "groups": groups_report(simulation.state),
        "budgets": budgets_report(simulation.state),
        "nodeMetrics": {
            obj["metadata"]["name"]: obj.get("spec") or {} for obj in simulation.objects.all("NodeMetric")
        },
        "events": simulation.events,
    }


def _why(simulation: Simulation, key: str, obj: dict[str, Any]) -> dict[str, str]:
    rejected = simulation.rejected.get(key)
    if rejected is not None:
        return {"reason": rejected.reason, "message": rejected.message}
    name = obj["spec"].get("schedulerName") or names.DEFAULT_SCHEDULER
    if name not in simulation.scheduler.profiles:
        return {"reason": "NotOurs", "message": f"no profile has the scheduler name {name}"}
    if obj["spec"].get("schedulingGates"):
        gates = ", ".join(str(gate.get("name")) for gate in obj["spec"]["schedulingGates"])
        return {"reason": names.REASON_SCHEDULING_GATED, "message": f"waiting for scheduling gates: {gates}"}
    return {"reason": "", "message": "not tried yet"}
