"""Playing a scenario: apply, run scheduler and controllers until idle, compare with what is expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.controllers.annotation_problems import AnnotationProblems
from scheduler_core.controllers.collect_policy_problems import CollectPolicyProblems
from scheduler_core.controllers.gang_lifecycle import GangLifecycle
from scheduler_core.controllers.gang_status import GangStatusController
from scheduler_core.controllers.node_metric_policy import NodeMetricPolicy
from scheduler_core.controllers.quota_status import QuotaStatus
from scheduler_core.controllers.topology_group_status import TopologyGroupStatus
from scheduler_core.engine.decisions import Decision, Evicted, Noticed, Placed, Rejected
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.errors import ConfigError, ModelError
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model import names
from scheduler_core.model.kinds import EVENTS, PODS
from scheduler_core.model.watched import WATCHED, Parse
from scheduler_core.model.writes import Create, Evict, Patch, Write
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.simulate.expect import mismatches
from scheduler_core.simulate.explain import explain_pod
from scheduler_core.simulate.groups import TickClock, group_statuses, groups_report
from scheduler_core.simulate.objects import Change, Objects, label
from scheduler_core.simulate.scenario import Scenario, Step
from scheduler_core.simulate.volumes import settle
from scheduler_core.state.cluster import ClusterState

# More rounds than any lawful scenario needs: reaching it means that decisions go in a circle.
_MAX_ROUNDS: Final = 10_000

PARSERS: Final[dict[tuple[str, str], Parse]] = {
    (resource.api_version, resource.kind): parse for resource, parse in WATCHED
}
_BY_KIND: Final[dict[str, Parse]] = {kind: parse for (_, kind), parse in reversed(PARSERS.items())}


def parser_of(obj: Mapping[str, Any]) -> Parse | None:
    """What reads an object; one without an apiVersion is taken for the first kind of that name."""
    kind = str(obj.get("kind"))
    version = obj.get("apiVersion")
    return PARSERS.get((str(version), kind)) if version else _BY_KIND.get(kind)


class Controller(Protocol):
    """A reconciler, as the simulation runs it."""

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """Writes that are due."""
        ...


class Simulation:
    """A cluster in memory: the objects, the scheduler and the controllers on one clock."""

    def __init__(self, scenario: Scenario) -> None:
        self.now = scenario.now
        self.objects = Objects(lambda: self.now)
        self.state = ClusterState()
        profiles = build_profiles(scenario.config, FACTORIES, KNOWN_PLUGINS)
        # No backoff: a scenario's clock stands still while it runs until idle.
        self.scheduler = Scheduler(
            self.state, profiles, initial_backoff=0.0, max_backoff=0.0, clock=TickClock()
        )
        self.controllers: list[Controller] = [
            QuotaStatus(min_interval=0.0),
            GangStatusController(min_interval=0.0),
            GangLifecycle(),
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

    def observe(self, change: Change) -> None:
        """Hand a changed object to the scheduler; kinds that nobody reads are only stored."""
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
        """Decide, write, observe, until nothing changes any more."""
        for _ in range(_MAX_ROUNDS):
            decisions = self.scheduler.step(self.now)
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
            name = label((about["kind"], about["namespace"], about["name"]))
            reason, note = write.body["reason"], write.body["note"]
            self.events.append({"object": name, "reason": reason, "message": note})
            return False
        changes = self.objects.write(write)
        for change in changes:
            self.observe(change)
            for following in settle(self.objects, change):
                self.observe(following)
        return bool(changes)

    def _carry_out(self, decision: Decision) -> bool:
        if isinstance(decision, Noticed):
            self._notice(f"{decision.kind} {decision.namespace}/{decision.name}", decision)
            return False
        pod = decision.pod
        match decision:
            case Placed():
                self.rejected.pop(pod.key, None)
                for write in (*decision.pre_bind, decision.bind, *decision.post_bind):
                    self._write(write)
                text = f"Successfully assigned {pod.key} to {decision.node}"
                self._event(pod.key, names.EVENT_SCHEDULED, text)
                return True
            case Evicted():
                self.evicted.append(decision)
                self._event(pod.key, names.EVENT_PREEMPTED, decision.message)
                message = decision.message
                return self._write(Evict(pod.namespace, pod.name, pod.uid, names.REASON_PREEMPTION, message))
            case Rejected():
                before = self.rejected.get(pod.key)
                self.rejected[pod.key] = decision
                if before is None or before.message != decision.message:
                    self._event(pod.key, decision.event, decision.message)
                for write in decision.writes:
                    self._write(write)
                return self._nominate(decision)

    def _notice(self, name: str, decision: Noticed) -> None:
        if self.noticed.get(name) != decision.message:
            self.noticed[name] = decision.message
            self.events.append({"object": name, "reason": decision.reason, "message": decision.message})

    def _nominate(self, decision: Rejected) -> bool:
        pod = decision.pod
        if decision.nominated == pod.nominated_node:
            return False
        body = {"status": {"nominatedNodeName": decision.nominated or None}}
        return self._write(Patch(PODS, pod.namespace, pod.name, body, subresource="status", uid=pod.uid))

    def _event(self, pod: str, reason: str, message: str) -> None:
        self.events.append({"object": f"Pod {pod}", "reason": reason, "message": message})


def _apply(simulation: Simulation, step: Step, path: str) -> None:
    for i, obj in enumerate(step.delete):
        simulation.observe(simulation.objects.delete(obj, f"{path}.delete[{i}]"))
    for i, obj in enumerate(step.update):
        simulation.observe(simulation.objects.update(obj, f"{path}.update[{i}]"))
    for i, obj in enumerate(step.create):
        simulation.observe(simulation.objects.create(obj, f"{path}.create[{i}]"))


def _report(simulation: Simulation, index: int) -> dict[str, Any]:
    """The JSON of one step (design, section 7), without mismatches."""
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
        label((kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])): obj["status"]
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
        "groups": groups_report(simulation.state),
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
    """Play all steps; returns {"name", "file", "steps": [...]}.

    With `explain` (a pod's `namespace/name`) every step in which the pod is there says what each plugin
    thinks of each node, as the cluster was before the step's decisions. Raises ConfigError for objects that
    cannot be read or applied.
    """
    try:
        simulation = Simulation(scenario)
        for i, obj in enumerate(scenario.objects):
            simulation.observe(simulation.objects.create(obj, f"objects[{i}]"))
        simulation.run_until_idle()
        steps = []
        for index, step in enumerate(scenario.steps):
            simulation.evicted, simulation.restarted, simulation.events = [], [], []
            simulation.now += step.advance
            _apply(simulation, step, f"steps[{index}]")
            explained = explain_pod(simulation.scheduler, explain, simulation.now) if explain else None
            simulation.run_until_idle()
            report = _report(simulation, index)
            report["mismatches"] = mismatches(step.expect or {}, report)
            if explained is not None:
                report["explain"] = explained
            steps.append(report)
    except ConfigError as error:
        raise ConfigError(error.path, error.problem, kind=error.kind, file=scenario.file) from None
    except ModelError as error:
        raise ConfigError("", str(error), file=scenario.file) from None
    return {"name": scenario.name, "file": scenario.file, "steps": steps}
