"""Plays a scenario: applies objects, runs scheduler and controllers until idle, compares expectations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from scheduler_core.errors import ConfigError, ModelError
from scheduler_core.model.kinds import PODS
from scheduler_core.model.pods.pod import parse_pod
from scheduler_core.model.pods.requests import ResizeRule
from scheduler_core.simulate.expect import outcomes
from scheduler_core.simulate.explain import explain_pod
from scheduler_core.simulate.kinds import WORKLOADS
from scheduler_core.simulate.objects import Change, label
from scheduler_core.simulate.quota_review import QuotaReview, written_quota
from scheduler_core.simulate.scenario import Scenario, ScenarioStep
from scheduler_core.simulate.world import Simulation

# An action of a scenario on an object, and the path of that object in the file.
_Write = tuple[Callable[[Mapping[str, Any], str], Change], Mapping[str, Any], str]


def _apply(simulation: Simulation, review: QuotaReview, writes: Iterable[_Write]) -> list[str]:
    """Apply the writes of a scenario; gives warnings, each with its path. Raises ConfigError."""
    done = []
    for write, obj, path in writes:
        try:
            change = write(obj, path)
            done.append((change, path, written_quota(change)))
        except ModelError as error:
            raise ConfigError(path, str(error)) from None
    remarks = []
    room = simulation.state.nodes.allocatable_total()
    for change, path, quota in done:
        refused = review.see(change, quota, room)
        remarks += [f"{path}: the webhook would refuse this: {violation}" for violation in refused]
        if change.key[0] in WORKLOADS and not change.gone:
            remarks.append(f"{path}: {label(change.key)} makes no pods in a simulation; list its pods")
    return remarks


def _writes_of(simulation: Simulation, step: ScenarioStep, path: str) -> list[_Write]:
    return [
        (write, obj, f"{path}.{verb}[{i}]")
        for verb, write, given in (
            ("delete", simulation.delete, step.delete),
            ("update", simulation.update, step.update),
            ("create", simulation.create, step.create),
        )
        for i, obj in enumerate(given)
    ]


def run_scenario(scenario: Scenario, explain: str | None = None) -> dict[str, Any]:
    """Play all steps; returns {"name", "file", "warnings": [...], "steps": [...]}.

    Warnings of `objects` and of each step name input that a cluster would refuse, or that has no effect in a
    simulation.

    With `explain` (a pod's `namespace/name`) every step in which the pod exists has the answers of each
    plugin for each node, computed before the step's decisions. Raises ConfigError for objects that cannot be
    read or applied.
    """
    try:
        rule = scenario.rule or ResizeRule.newest()
        simulation, review = Simulation(scenario.config, scenario.now, rule), QuotaReview()
        create = simulation.create
        objects = [(create, obj, f"objects[{i}]") for i, obj in enumerate(scenario.objects)]
        given = _apply(simulation, review, objects)
        simulation.run()
        steps = []
        for index, step in enumerate(scenario.steps):
            simulation.forget_happenings()
            simulation.advance(step.advance)
            remarks = _apply(simulation, review, _writes_of(simulation, step, f"steps[{index}]"))
            explained = explain_pod(simulation.scheduler, explain, simulation.now) if explain else None
            simulation.run()
            report = {
                "step": index,
                **simulation.report(),
                "awake": sorted(simulation.awake),
                "overlooked": sorted(simulation.overlooked),
            }
            found = outcomes(step.expect or {}, report)
            report["mismatches"] = [text for outcome in found for text in outcome.mismatches]
            report["expectations"] = [msgspec.structs.asdict(outcome) for outcome in found]
            report["warnings"] = remarks
            if explained is not None:
                report["explain"] = explained
            steps.append(report)
    except ConfigError as error:
        raise ConfigError(error.path, error.problem, kind=error.kind, file=scenario.file) from None
    except ModelError as error:
        raise ConfigError("", str(error), file=scenario.file) from None
    if scenario.rule is None and (resized := counted_otherwise(scenario)):
        given = [_which_rule(resized, rule), *given]
    if scenario.config.extenders:
        given = [
            "config.extenders: HTTP extenders are not asked here; they refuse and prefer no node",
            *given,
        ]
    return {"name": scenario.name, "file": scenario.file, "warnings": given, "steps": steps}


def counted_otherwise(scenario: Scenario) -> list[str]:
    """The pods (namespace/name) that count for something else in another version of Kubernetes."""
    objects = [*scenario.objects, *(obj for step in scenario.steps for obj in (*step.create, *step.update))]
    found: dict[str, None] = {}
    for obj in objects:
        if obj.get("kind") == PODS.kind and obj.get("status"):
            pods = [parse_pod(obj, rule) for rule in ResizeRule]
            if any(pod.requests != pods[0].requests for pod in pods):
                found[pods[0].key] = None
    return list(found)


def _which_rule(resized: Sequence[str], rule: ResizeRule) -> str:
    one = len(resized) == 1
    those, count = (f"{resized[0]} is", "counts") if one else (f"{len(resized)} pods are", "count")
    others = ", ".join(f'"{other.version}"' for other in ResizeRule if other is not rule)
    return (
        f"kubernetesVersion: {those} being resized and {count} as in Kubernetes {rule.version}, as the file "
        f"names no version; {others} counts otherwise"
    )


def run_as_it_is(simulation: Simulation, name: str, explain: str | None = None) -> dict[str, Any]:
    """What the scheduler would do now, in the form of `run_scenario`; `bound` has the pods that get a node.

    The simulation is changed. Raises ConfigError where decisions never end.
    """
    explained = explain_pod(simulation.scheduler, explain, simulation.now) if explain else None
    simulation.run()
    report = {"step": 0, **simulation.report()}
    placed = {item.pod.key for item in simulation.placed}
    report["bound"] = {pod: node for pod, node in report["bound"].items() if pod in placed}
    if explained is not None:
        report["explain"] = explained
    return {"name": name, "file": "", "warnings": [], "steps": [report]}
