"""A cluster in memory: objects, scheduler and controllers on one clock. The public class is `Simulation`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from scheduler_core.config import SchedulerConfiguration
from scheduler_core.config.args.solvers import solver_errors
from scheduler_core.config.load import muster_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.controllers.controller import Controller
from scheduler_core.controllers.displacement_notices import DisplacementNotices
from scheduler_core.controllers.gang_budgets import GangBudgets, protecting
from scheduler_core.controllers.gang_lifecycle import GangLifecycle
from scheduler_core.controllers.gang_status import GangStatusController
from scheduler_core.controllers.node_metric_policy import NodeMetricPolicy
from scheduler_core.controllers.problem_events import AnnotationProblems, CollectPolicyProblems
from scheduler_core.controllers.quota_flavor_status import QuotaFlavorStatus
from scheduler_core.controllers.quota_group_status import QuotaGroupStatus
from scheduler_core.controllers.quota_status import QuotaStatus, enforcing
from scheduler_core.controllers.topology_group_status import TopologyGroupStatus
from scheduler_core.engine.decisions import (
    Asked,
    Decision,
    Evicted,
    Noticed,
    Placed,
    Rejected,
    eviction_of,
)
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.errors import ConfigError, ModelError
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model import names
from scheduler_core.model.kinds import EVENTS, PODS, Resource
from scheduler_core.model.pods.pod import Pod, parse_pod
from scheduler_core.model.pods.pod_reader import PodReader
from scheduler_core.model.pods.requests import ResizeRule
from scheduler_core.model.writes import Create, Evict, Patch, Write
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.simulate.groups import TickClock
from scheduler_core.simulate.kinds import full_name, parser_of
from scheduler_core.simulate.objects import Change, Key, Objects, Unread, key_of
from scheduler_core.simulate.report import report
from scheduler_core.simulate.scenario import START
from scheduler_core.simulate.volumes import settle
from scheduler_core.state.cluster import ClusterState
from scheduler_core.topology.solvers import SOLVERS

# More rounds than any scenario needs: reaching the limit means that decisions repeat endlessly.
_MAX_ROUNDS: Final = 10_000
# Units tried in a round, so that endlessly repeating decisions come to an end.
_MOST_TRIES: Final = 10_000
# Waiting units reviewed at the end of a step, as their messages may be outdated.
_MOST_LOOKS: Final = 1000


class Simulation:
    """A cluster in memory, with the scheduler and its controllers; no API server, no threads, no clock.

    Write objects with `create`, `update` and `delete`, as dicts in the form of the Kubernetes API; then `run`
    until nothing changes, and read the result with `report`, or object by object with `get`. A write that
    fails changes nothing. `advance` moves the clock. Equal objects and an equal time give equal results.
    `copy` gives a second cluster with the same objects, to compare what would happen. docs/python.md has
    examples.

    Jobs and other workloads make no pods: create the pods. `now` is in seconds since the epoch. `rule` says
    what resized pods count for, by the version of the server that the objects are of. Raises ConfigError if a
    plugin's arguments name a solver that does not exist.
    """

    def __init__(
        self,
        config: SchedulerConfiguration | None = None,
        now: float = START,
        rule: ResizeRule = ResizeRule.LARGEST_SUM,
    ) -> None:
        self.now = now
        self.rule = rule
        self.config = muster_config() if config is None else config
        self.objects = Objects(lambda: self.now)
        self.state = ClusterState()
        for error in solver_errors(self.config, SOLVERS):
            raise error
        profiles = build_profiles(self.config, FACTORIES, KNOWN_PLUGINS)
        # No backoff: the clock stands still while the simulation runs until idle.
        self.scheduler = Scheduler(
            self.state, profiles, initial_backoff=0.0, max_backoff=0.0, clock=TickClock()
        )
        self.controllers: list[Controller] = [
            DisplacementNotices(),
            QuotaStatus(min_interval=0.0, enforced=enforcing(profiles)),
            QuotaFlavorStatus(min_interval=0.0),
            QuotaGroupStatus(min_interval=0.0),
            GangStatusController(min_interval=0.0, others={names.DEFAULT_SCHEDULER} - profiles.keys()),
            GangLifecycle(),
            GangBudgets(protecting(profiles)),
            TopologyGroupStatus(min_interval=0.0),
            AnnotationProblems(),
            CollectPolicyProblems(),
            NodeMetricPolicy(needs_config=True),
        ]
        # Objects as the scheduler knows them.
        self.known: dict[Key, Any] = {}
        self.rejected: dict[str, Rejected] = {}
        self.noticed: dict[str, str] = {}
        self.placed: list[Placed] = []
        self.evicted: list[Evicted] = []
        self.restarted: list[Evict] = []
        self.events: list[dict[str, str]] = []
        # Pods that were tried because something happened, and those that a last look started or evicted for.
        self.awake: set[str] = set()
        self.overlooked: set[str] = set()

    def copy(self, config: SchedulerConfiguration | None = None) -> Simulation:
        """A second cluster with the same objects and time, whose scheduler knows nothing else."""
        twin = type(self)(self.config if config is None else config, self.now, self.rule)
        twin.objects = self.objects.copy(lambda: twin.now)
        twin.known = dict(self.known)
        pods = []
        for obj in twin.known.values():
            if isinstance(obj, Pod):
                pods.append(obj)
            else:
                twin.scheduler.put(obj, twin.now)
        twin.scheduler.put_first_pods(pods, twin.now)
        return twin

    # Objects come and go

    def load(self, resource: Resource, raw: bytes | msgspec.Raw) -> None:
        """Add an object as an API server listed it, with its uid and times. Raises ModelError."""
        for error in self.load_list(resource, (raw,)):
            raise error

    def load_list(self, resource: Resource, raws: Iterable[bytes | msgspec.Raw]) -> list[ModelError]:
        """Add the objects of a kind as an API server listed them; gives the errors of unreadable ones.

        Quickest where all pods come in one call.
        """
        kind = full_name(resource.kind, resource.api_version)
        skipped: list[ModelError] = []
        found: list[Any] = []
        parse = parser_of({"kind": resource.kind, "apiVersion": resource.api_version})
        read = PodReader(rule=lambda: self.rule).read if parse is parse_pod else parse
        adopt, known = self.objects.adopt, self.known
        for raw in raws:
            unread = Unread(raw, resource.kind, resource.api_version)
            if read is None:
                adopt(key_of(unread.read()), unread)
                continue
            try:
                obj = read(raw)
            except ModelError as error:
                skipped.append(error)
                continue
            # Keys of groups end with their dialect.
            namespace, _, name = obj.key.partition(" ")[0].rpartition("/")
            key = (kind, namespace, name)
            adopt(key, unread)
            known[key] = obj
            found.append(obj)
        if resource == PODS:
            self.scheduler.put_first_pods(found, self.now)
        else:
            for obj in found:
                self.scheduler.put(obj, self.now)
        return skipped

    def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """An object by kind, namespace (empty for cluster-wide kinds) and name; None if there is none."""
        return self.objects.get((kind, namespace, name))

    def create(self, obj: Mapping[str, Any], path: str = "") -> Change:
        """Add an object. Raises ConfigError if it exists or has no name, ModelError if it cannot be read."""
        return self._written(self.objects.create, obj, path)

    def update(self, obj: Mapping[str, Any], path: str = "") -> Change:
        """Replace an object whole, status included. Raises ConfigError if it does not exist, ModelError."""
        return self._written(self.objects.update, obj, path)

    def delete(self, ref: Mapping[str, Any], path: str = "") -> Change:
        """Remove the object with this kind, namespace and name. Raises ConfigError if it does not exist."""
        return self._written(self.objects.delete, ref, path)

    def advance(self, seconds: float) -> None:
        """Move the clock. What depends on the time happens in the next `run`."""
        self.now += seconds

    def forget_happenings(self) -> None:
        """Forget what was placed and evicted, and events: the next report has what happens from now on."""
        self.placed = []
        self.evicted, self.restarted, self.events = [], [], []
        self.awake, self.overlooked = set(), set()

    def _written(
        self, write: Callable[[Mapping[str, Any], str], Change], obj: Mapping[str, Any], path: str
    ) -> Change:
        key = key_of(obj)
        before = self.objects.get(key)
        change = write(obj, path)
        try:
            self.observe(change)
        except ModelError:
            self.objects.restore(key, before)
            raise
        return change

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
        obj = parse_pod(change.obj, self.rule) if parse is parse_pod else parse(change.obj)
        self.known[change.key] = obj
        self.scheduler.put(obj, self.now)

    def run(self, *, messages: bool = True) -> None:
        """Decide, write and observe until nothing changes and the messages of waiting pods are current.

        Without `messages` those may be of an earlier moment of the run, which then ends sooner. For messages
        the scheduler looks once more at who waits. Whom such a look starts, no event has woken: `overlooked`.
        """
        looks = _MOST_LOOKS if messages else 0
        for _ in range(_MAX_ROUNDS):
            decisions = self.scheduler.step(self.now, _MOST_TRIES)
            if decisions or not looks:
                self.awake.update(_tried(decisions))
            else:
                looks -= 1
                decisions = self.scheduler.reviews.review(self.now, after=0.0)
                self.overlooked.update(_helped(decisions))
            changed = False
            for decision in decisions:
                changed |= self.carry_out(decision)
            for controller in self.controllers:
                for write in controller.reconcile(self.state, self.now):
                    changed |= self._write(write)
                    if isinstance(write, Evict):
                        self.restarted.append(write)
            if not decisions and not changed:
                return
        raise ConfigError("", f"still not idle after {_MAX_ROUNDS} rounds of decisions")

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

    def carry_out(self, decision: Decision) -> bool:
        """Do what a decision says to the objects; whether that changed any."""
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
                self.placed.append(decision)
                for write in (*decision.pre_bind, decision.bind, *decision.post_bind):
                    self._write(write)
                text = f"Successfully assigned {pod.key} to {decision.node}"
                self._event(f"Pod {pod.key}", names.EVENT_SCHEDULED, text)
                return True
            case Evicted():
                self.evicted.append(decision)
                self._event(f"Pod {pod.key}", names.EVENT_PREEMPTED, decision.message)
                return self._write(eviction_of(decision))
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

    def report(self) -> dict[str, Any]:
        """What has a node, what waits and why, and what happened (docs/cli.md, `simulate`)."""
        return report(self)


def _tried(decisions: Iterable[Decision]) -> set[str]:
    """Keys of the pods that decisions were made about."""
    return {item.pod.key for item in decisions if isinstance(item, Placed | Rejected)} | _helped(decisions)


def _helped(decisions: Iterable[Decision]) -> set[str]:
    """Keys of the pods that decisions start, or for which they evict others."""
    found = {item.pod.key for item in decisions if isinstance(item, Placed)}
    return found | {item.preemptor.key for item in decisions if isinstance(item, Evicted)}
