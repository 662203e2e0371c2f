"""Plays a scenario: applies objects, runs scheduler and controllers until idle, compares expectations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from scheduler_core.config.args.solvers import solver_errors
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.controllers.controller import Controller
from scheduler_core.controllers.displacement_notices import DisplacementNotices
from scheduler_core.controllers.gang_budgets import GangBudgets, protecting
from scheduler_core.controllers.gang_lifecycle import GangLifecycle
from scheduler_core.controllers.gang_status import GangStatusController
from scheduler_core.controllers.node_metric_policy import NodeMetricPolicy
from scheduler_core.controllers.problem_events import AnnotationProblems, CollectPolicyProblems
from scheduler_core.controllers.quota_status import QuotaStatus, enforcing
from scheduler_core.controllers.topology_group_status import TopologyGroupStatus
from scheduler_core.engine.decisions import Asked, Decision, Evicted, Noticed, Placed, Rejected
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.errors import ConfigError, ModelError
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model import names
from scheduler_core.model.kinds import EVENTS, PODS
from scheduler_core.model.writes import Create, Evict, Patch, Write
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.simulate.expect import mismatches
from scheduler_core.simulate.explain import explain_pod
from scheduler_core.simulate.groups import (
    TickClock,
    budgets_report,
    conditions_report,
    group_statuses,
    groups_report,
)
from scheduler_core.simulate.kinds import WORKLOADS, parser_of
from scheduler_core.simulate.objects import Change, Objects, key_of, label
from scheduler_core.simulate.quota_review import QuotaReview, written_quota
from scheduler_core.simulate.scenario import Scenario, ScenarioStep
from scheduler_core.simulate.volumes import settle
from scheduler_core.state.cluster import ClusterState
from scheduler_core.topology.solvers import SOLVERS

# More rounds than any scenario needs: reaching the limit means that decisions repeat endlessly.
_MAX_ROUNDS: Final = 10_000

# Units tried in a round, so that endlessly repeating decisions come to an end.
_MOST_TRIES: Final = 10_000
# Waiting units reviewed at the end of a step, as their messages may be outdated.
_MOST_LOOKS: Final = 1000

# An action of a scenario on an object, and the path of that object in the file.
_Write = tuple[Callable[[Mapping[str, Any], str], Change], Mapping[str, Any], str]


class Simulation:
    """A cluster in memory: the objects, the scheduler and the controllers on one clock."""

    def __init__(self, scenario: Scenario) -> None:
        self.now = scenario.now
        self.objects = Objects(lambda: self.now)
        self.state = ClusterState()
        for error in solver_errors(scenario.config, SOLVERS):
            raise error
        profiles = build_profiles(scenario.config, FACTORIES, KNOWN_PLUGINS)
        # No backoff: a scenario's clock stands still while it runs until idle.
        self.scheduler = Scheduler(
            self.state, profiles, initial_backoff=0.0, max_backoff=0.0, clock=TickClock()
        )
        self.controllers: list[Controller] = [
            DisplacementNotices(),
            QuotaStatus(min_interval=0.0, enforced=enforcing(profiles)),
            GangStatusController(min_interval=0.0, others={names.DEFAULT_SCHEDULER} - profiles.keys()),
            GangLifecycle(),
            GangBudgets(protecting(profiles)),
            TopologyGroupStatus(min_interval=0.0),
            AnnotationProblems(),
            CollectPolicyProblems(),
            NodeMetricPolicy(needs_config=True),
        ]
        self.known: dict[tuple[str, str, str], Any] = {}
        self.rejected: dict[str, Rejected] = {}
        self.noticed: dict[str, str] = {}
        self.evicted: list[Evicted] = []
        self.restarted: list[Evict] = []
        self.events: list[dict[str, str]] = []
        self.review = QuotaReview()

    def observe(self, change: Change) -> None:
        """Hand a changed object to the scheduler; kinds that it does not read are only stored."""
        parse = parser_of(change.obj)
        if parse is None:
            return
        if change.gone:
            obj = self.known.pop(change.key, None)
            if obj is not None:
                self.scheduler.remove(obj, self.now)
            return
        obj = parse(change.obj)
        self.known[change.key] = obj
        self.scheduler.put(obj, self.now)

    def run_until_idle(self) -> None:
        """Decide, write and observe until nothing changes and the messages of waiting pods are current."""
        looks = _MOST_LOOKS
        for _ in range(_MAX_ROUNDS):
            decisions = self.scheduler.step(self.now, _MOST_TRIES)
            if not decisions and looks:
                looks -= 1
                decisions = self.scheduler.reviews.review(self.now, after=0.0)
            changed = False
            for decision in decisions:
                changed |= self._carry_out(decision)
            for controller in self.controllers:
                for write in controller.reconcile(self.state, self.now):
                    changed |= self._write(write)
                    if isinstance(write, Evict):
                        self.restarted.append(write)
            if not decisions and not changed:
                return
        raise ConfigError("steps", f"still not idle after {_MAX_ROUNDS} rounds of decisions")

    def _write(self, write: Write) -> bool:
        if isinstance(write, Create) and write.resource == EVENTS:
            about = write.body["regarding"]
            name = self.objects.label(key_of(about))
            self._event(name, write.body["reason"], write.body["note"])
            return False
        changes = self.objects.write(write)
        for change in changes:
            self.observe(change)
            for following in settle(self.objects, change):
                self.observe(following)
        return bool(changes)

    def _carry_out(self, decision: Decision) -> bool:
        if isinstance(decision, Noticed):
            about = {
                "apiVersion": decision.api_version,
                "kind": decision.kind,
                "namespace": decision.namespace,
                "name": decision.name,
            }
            self._notice(self.objects.label(key_of(about)), decision)
            return False
        pod = decision.pod
        match decision:
            case Placed():
                self.rejected.pop(pod.key, None)
                for write in (*decision.pre_bind, decision.bind, *decision.post_bind):
                    self._write(write)
                text = f"Successfully assigned {pod.key} to {decision.node}"
                self._event(f"Pod {pod.key}", names.EVENT_SCHEDULED, text)
                return True
            case Evicted():
                self.evicted.append(decision)
                self._event(f"Pod {pod.key}", names.EVENT_PREEMPTED, decision.message)
                message = decision.message
                return self._write(Evict(pod.namespace, pod.name, pod.uid, names.REASON_PREEMPTION, message))
            case Asked():
                raise ValueError("a simulation calls no HTTP extenders")
            case Rejected():
                before = self.rejected.get(pod.key)
                self.rejected[pod.key] = decision
                if before is None or before.message != decision.message:
                    self._event(f"Pod {pod.key}", decision.event, decision.message)
                for write in decision.writes:
                    self._write(write)
                return self._nominate(decision)

    def _notice(self, name: str, decision: Noticed) -> None:
        if self.noticed.get(name) != decision.message:
            self.noticed[name] = decision.message
            self._event(name, decision.reason, decision.message)

    def _nominate(self, decision: Rejected) -> bool:
        pod = decision.pod
        # The current form: later decisions of one round hold an older form.
        obj = self.objects.get(("Pod", pod.namespace, pod.name)) or {}
        if decision.nominated == ((obj.get("status") or {}).get("nominatedNodeName") or ""):
            return False
        body = {"status": {"nominatedNodeName": decision.nominated or None}}
        return self._write(Patch(PODS, pod.namespace, pod.name, body, subresource="status", uid=pod.uid))

    def _event(self, name: str, reason: str, message: str) -> None:
        self.events.append({"object": name, "reason": reason, "message": message})


def _apply(simulation: Simulation, writes: Iterable[_Write]) -> list[str]:
    """Apply the writes of a scenario; gives warnings, each with its path. Raises ConfigError."""
    done = []
    for write, obj, path in writes:
        try:
            change = write(obj, path)
            simulation.observe(change)
            done.append((change, path, written_quota(change)))
        except ModelError as error:
            raise ConfigError(path, str(error)) from None
    remarks = []
    room = simulation.state.nodes.allocatable_total()
    for change, path, quota in done:
        refused = simulation.review.see(change, quota, room)
        remarks += [f"{path}: the webhook would refuse this: {violation}" for violation in refused]
        if change.key[0] in WORKLOADS and not change.gone:
            remarks.append(f"{path}: {label(change.key)} makes no pods in a simulation; list its pods")
    return remarks


def _writes_of(objects: Objects, step: ScenarioStep, path: str) -> list[_Write]:
    return [
        (write, obj, f"{path}.{verb}[{i}]")
        for verb, write, given in (
            ("delete", objects.delete, step.delete),
            ("update", objects.update, step.update),
            ("create", objects.create, step.create),
        )
        for i, obj in enumerate(given)
    ]


def _report(simulation: Simulation, index: int) -> dict[str, Any]:
    """The report of one step as JSON (docs/cli.md#kubectl-elasticquota-simulate), without mismatches."""
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
        "step": index,
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
        "mismatches": [],
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


def run_scenario(scenario: Scenario, explain: str | None = None) -> dict[str, Any]:
    """Play all steps; returns {"name", "file", "warnings": [...], "steps": [...]}.

    Warnings of `objects` and of each step name input that a cluster would refuse, or that has no effect in a
    simulation.

    With `explain` (a pod's `namespace/name`) every step in which the pod exists has the answers of each
    plugin for each node, computed before the step's decisions. Raises ConfigError for objects that cannot be
    read or applied.
    """
    try:
        simulation = Simulation(scenario)
        create = simulation.objects.create
        given = _apply(simulation, [(create, obj, f"objects[{i}]") for i, obj in enumerate(scenario.objects)])
        simulation.run_until_idle()
        steps = []
        for index, step in enumerate(scenario.steps):
            simulation.evicted, simulation.restarted, simulation.events = [], [], []
            simulation.now += step.advance
            remarks = _apply(simulation, _writes_of(simulation.objects, step, f"steps[{index}]"))
            explained = explain_pod(simulation.scheduler, explain, simulation.now) if explain else None
            simulation.run_until_idle()
            report = _report(simulation, index)
            report["mismatches"] = mismatches(step.expect or {}, report)
            report["warnings"] = remarks
            if explained is not None:
                report["explain"] = explained
            steps.append(report)
    except ConfigError as error:
        raise ConfigError(error.path, error.problem, kind=error.kind, file=scenario.file) from None
    except ModelError as error:
        raise ConfigError("", str(error), file=scenario.file) from None
    if scenario.config.extenders:
        given = [
            "config.extenders: HTTP extenders are not asked here; they refuse and prefer no node",
            *given,
        ]
    return {"name": scenario.name, "file": scenario.file, "warnings": given, "steps": steps}
