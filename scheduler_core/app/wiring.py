"""Composition root of the scheduler: builds and connects its parts."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Final, TypeVar

from scheduler_core.app.api_dispatcher import ApiDispatcher
from scheduler_core.app.bounded_reader import BOUNDED, BoundedReader, Selecting
from scheduler_core.app.entry_points import Plugins, load_plugins, load_solvers
from scheduler_core.app.extenders.chain import ExtenderChain
from scheduler_core.app.extenders.metrics import ExtenderMetrics
from scheduler_core.app.failures.event_aggregator import aggregation_object
from scheduler_core.app.failures.malformed_pods import MalformedPods
from scheduler_core.app.history_end import EndingWriter, store_rest
from scheduler_core.app.load_reporter import LoadReporter, LoadView, load_view
from scheduler_core.app.loop.clock import SteadyClock
from scheduler_core.app.loop.inbox import ExtenderAnswered, StateQuery
from scheduler_core.app.loop.loop import Loop
from scheduler_core.app.loop.progress import Watchdog, call_stack
from scheduler_core.app.metrics.metrics import SampledMetrics, SchedulerMetrics, WatchMetrics
from scheduler_core.app.metrics.quota_seconds import QuotaSecondsMetrics, ResourceSeconds
from scheduler_core.app.metrics.sample import Sample, take_sample
from scheduler_core.app.raw_nodes import RawNodes
from scheduler_core.config import SchedulerConfiguration
from scheduler_core.controllers.controller import Controller
from scheduler_core.controllers.displacement_notices import DisplacementNotices
from scheduler_core.controllers.gang_budgets import GangBudgets, protecting
from scheduler_core.controllers.gang_lifecycle import GangLifecycle
from scheduler_core.controllers.gang_status import GangStatusController
from scheduler_core.controllers.node_metric_policy import NodeMetricPolicy
from scheduler_core.controllers.problem_events import AnnotationProblems, CollectPolicyProblems
from scheduler_core.controllers.quota_flavor_status import QuotaFlavorStatus
from scheduler_core.controllers.quota_group_status import QuotaGroupStatus
from scheduler_core.controllers.quota_history import QuotaHistory
from scheduler_core.controllers.quota_status import QuotaStatus, enforcing
from scheduler_core.controllers.topology_group_status import TopologyGroupStatus
from scheduler_core.engine.profile_settings import wants_composites
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.errors import ModelError, MusterError
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.registry import build_profiles
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import NotFound
from scheduler_core.kube.server_version import ServerRule
from scheduler_core.kube.watch.reading import ObjectReader, ReadObject
from scheduler_core.kube.watch.reflector import Reflector, level_of
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.kube.writes.recorder import EventRecorder
from scheduler_core.kube.writes.writer import ApiWriter
from scheduler_core.logs import fields
from scheduler_core.model.config_map import parse_config_map
from scheduler_core.model.kinds import CONFIG_MAPS, PODS, Resource
from scheduler_core.model.names import DEFAULT_SCHEDULER
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.pods.pod_reader import PodReader, RawSpecPod
from scheduler_core.model.watched import COMPOSITES, OPTIONAL, WATCHED, Parse
from scheduler_core.plugins.extenders import Extenders
from scheduler_core.state.cluster import ClusterState

log = logging.getLogger(__name__)

T = TypeVar("T")
VERSION: Final = "0.1.0"
ANSWER_SECONDS: Final = 5.0


class LoopBusy(MusterError):
    """The loop did not answer a query in time."""


class RunningScheduler:
    """A scheduler for one API server: `start` watches, `lead` schedules, `stop_deciding` and `close` end
    both.

    `may_write` tells whether this process leads now.
    """

    def __init__(
        self,
        config: SchedulerConfiguration,
        client: Client,
        identity: str,
        *,
        may_write: Callable[[], bool] = lambda: True,
        wall: Callable[[], float] | None = None,
        plugins: Plugins | None = None,
        manage_node_metrics: bool = False,
        report_node_metrics: bool = False,
    ) -> None:
        plugins = plugins or load_plugins()
        beside = Extenders(config.extenders) if config.extenders else None
        profiles = build_profiles(config, plugins.factories, plugins.points, beside)
        scheduler = _scheduler(config, profiles)
        wall = wall or SteadyClock()
        self._wall = wall
        self.metrics = SchedulerMetrics(VERSION, profiles)
        self._watched = (*WATCHED[:-1], COMPOSITES, WATCHED[-1]) if wants_composites(profiles) else WATCHED
        resources = [resource for resource, _ in self._watched]
        history_namespace = config.leader_election.resource_namespace
        self.history = QuotaHistory(scheduler.state, scheduler.queue.demand, history_namespace, identity)
        controllers = [*own_controllers(profiles), self.history]
        if manage_node_metrics or report_node_metrics:
            policy = NodeMetricPolicy(only_own=not manage_node_metrics, creates=not report_node_metrics)
            controllers += [policy, CollectPolicyProblems()]
        self.loop = Loop(scheduler, controllers, resources, self.metrics, may_decide=may_write, wall=wall)
        # Reads, and writes of several requests, share the rate limit of bindings; events have a separate
        # limit of the same rate.
        events_limiter = client.limiter.clone() if client.limiter is not None else None
        self.writer = ApiWriter(client, may_write=may_write, limiters=(client.limiter, events_limiter))
        self.recorder = EventRecorder(
            client,
            writer=self.writer,
            limiter=events_limiter,
            on_error=partial(log.warning, "events: %s"),
            wall=wall,
        )
        self._ending = EndingWriter(client, history_namespace, may_write)
        self._watchdog = Watchdog(self.loop.heartbeat)
        self.metrics.oldest_event.set_function(self.loop.lag.age)
        watching = Client(client.session)
        rule = ServerRule(Client(client.session, retry_budget=0.0))
        pods = PodReader(tell=self._read_in_part, rule=rule)
        self.node_texts = RawNodes(watching) if _want_nodes(config) else None
        self.dispatcher = ApiDispatcher(
            client,
            self.writer,
            self.recorder,
            self.loop.inbox.put,
            identity,
            self.metrics,
            wall,
            waiting=scheduler.queue.get,
            parse=pods.parse,
            home=partial(aggregation_object, scheduler.state),
            extenders=self._extender_calls(config, client) if config.extenders else None,
        )
        record, submit = self.recorder.record, self.dispatcher.submit_write
        read = partial(_read_pod, pods)
        self.malformed_pods = MalformedPods(profiles, submit, record, identity, wall, read)
        self.reflectors = self._reflectors(watching, pods, rule.followed(), history_namespace)
        self.reporter = (
            LoadReporter(watching, self._load_view, may_write, wall) if report_node_metrics else None
        )
        self.metrics.add(WatchMetrics(self.reflectors, lambda: self.loop.synced))
        self.metrics.add(SampledMetrics(self.sample))
        self.metrics.add(QuotaSecondsMetrics(self._quota_seconds))
        self._thread = threading.Thread(target=self.loop.run, name="loop", daemon=True)

    def _extender_calls(self, config: SchedulerConfiguration, client: Client) -> ExtenderChain:
        """The caller of the HTTP extenders; its reads of pods have a separate rate limit."""
        limiter = client.limiter.clone() if client.limiter is not None else None
        reading, put = Client(client.session, limiter=limiter), self.loop.inbox.put
        return ExtenderChain(
            config.extenders,
            lambda answer: put(ExtenderAnswered(answer)),
            lambda pod: reading.get(PODS, pod.namespace, pod.name),
            self.node_texts.get if self.node_texts is not None else lambda name: None,
            ExtenderMetrics(self.metrics.registry),
        )

    def _reflectors(
        self, client: Client, pods: PodReader, differs: Callable[[], bool], history_namespace: str
    ) -> list[Reflector]:
        """One reflector per watched resource; all send events to the loop's inbox.

        `differs` tells whether `pods` reads by another rule than before.
        """
        readers: dict[Resource, Parse | ObjectReader] = dict(self._watched)
        readers[PODS] = ObjectReader(RawSpecPod, self.malformed_pods.make, differs)
        topologies = self.loop.scheduler.state.topology.namespaces
        readers[CONFIG_MAPS] = partial(
            parse_config_map, history_namespace=history_namespace, topologies=topologies
        )
        put = self.loop.inbox.put
        forgetting: dict[Resource, Callable[[str], None]] = {PODS: pods.forget}
        for resource, parse, most, smaller in BOUNDED:
            bounded = BoundedReader(parse, most, smaller, self._read_in_part)
            readers[resource], forgetting[resource] = bounded.read, bounded.forget

        def put_and_forget(forget: Callable[[str], None], event: Event) -> None:
            if event.type == "DELETED":
                forget(event.uid)
            put(event)

        return [
            Reflector(
                client,
                resource,
                reader,
                partial(put_and_forget, forgetting[resource]) if resource in forgetting else put,
                on_malformed=self._malformed,
                on_error=partial(report_watch, resource),
            )
            for resource, reader in readers.items()
        ]

    def _all_reflectors(self) -> list[Reflector]:
        return [*self.reflectors, *([self.node_texts.reflector] if self.node_texts is not None else [])]

    def start(self) -> None:
        """Fill the state from the API; scheduling starts with `lead`."""
        for reflector in self._all_reflectors():
            reflector.start()
        self.writer.start()
        self.recorder.start()
        self._thread.start()

    def lead(self) -> None:
        """Start to schedule."""
        self.metrics.leader.set(1)
        self.loop.dispatcher = self.dispatcher
        self.malformed_pods.lead()
        if self.reporter is not None:
            self.reporter.start()

    def stop_deciding(self, timeout: float) -> None:
        """Stop scheduling and finish bindings in flight, for at most `timeout` seconds."""
        self.loop.stop()
        self._thread.join(timeout)
        if self.loop.dispatcher is not None and not self._thread.is_alive():
            store_rest(self.history, self.loop.scheduler.state, self._ending, self._wall())
        self.dispatcher.stop(timeout)
        self.metrics.leader.set(0)

    def close(self, timeout: float) -> None:
        """Post the queued events, for at most `timeout` seconds, and end all threads."""
        if self.reporter is not None:
            self.reporter.stop(timeout)
        for reflector in self._all_reflectors():
            reflector.stop()
        self.writer.stop(timeout)
        self.recorder.stop(timeout)

    # Queries from other threads

    def ask(self, question: Callable[[Scheduler], T]) -> T:
        """The result of a function that runs on the loop's thread. Raises LoopBusy."""
        answer: Future[T] = Future()

        def act(scheduler: Scheduler) -> None:
            try:
                answer.set_result(question(scheduler))
            except MemoryError:
                raise
            except Exception as error:
                # An exception of the query is for its caller; the loop goes on.
                answer.set_exception(error)

        self.loop.inbox.put(StateQuery(act))
        try:
            return answer.result(ANSWER_SECONDS)
        except TimeoutError:
            raise LoopBusy(f"the scheduling loop did not answer within {ANSWER_SECONDS:g} s") from None

    def _load_view(self) -> LoadView:
        """The state for the load reporter. Raises LoopBusy."""
        return self.ask(load_view)

    def sample(self) -> Sample | None:
        """Gauges of this moment, or None if the loop did not answer in time."""
        try:
            return self.ask(lambda scheduler: take_sample(scheduler, self._wall()))
        except LoopBusy:
            return None

    def _quota_seconds(self) -> ResourceSeconds:
        """What quotas did since the start; empty if the loop did not answer in time."""
        try:
            return self.ask(lambda scheduler: self.history.totals(self._wall()))
        except LoopBusy:
            return {}

    def problem(self) -> str:
        """Why the process cannot work any more, or empty."""
        if not self._thread.is_alive():
            return "the scheduling loop ended"
        if hangs := self._watchdog.look():
            return hangs
        for reflector in self._all_reflectors():
            if not reflector.alive:
                return f"the watch of {reflector.resource.plural} ended"
        return "" if self.writer.alive else "the writer ended"

    def doing(self) -> str:
        """The call stack of the loop's thread, for the diagnosis of a hang."""
        return call_stack(self._thread)

    def unsynced(self) -> str:
        """The resources that have not been listed yet, or empty."""
        waited_for = (item for item in self._all_reflectors() if not item.synced.is_set())
        names = dict.fromkeys(reflector.resource.plural for reflector in waited_for)
        return f"not listed yet: {', '.join(names)}" if names else ""

    def _malformed(self, error: ModelError) -> None:
        log.warning("malformed object: %s", error, extra=fields(kind=error.kind))
        self.metrics.malformed(error.kind)

    def _read_in_part(self, obj: Pod | Selecting) -> None:
        report_part(obj, self.metrics.malformed)


def report_part(obj: Pod | Selecting, count: Callable[[str], None]) -> None:
    """Log an object that counts without what is too large of it; `count` takes the kind."""
    kind = type(obj).__name__
    log.warning("read in part: %s", obj.left_out, extra=fields(kind=kind))
    count(kind)


def _read_pod(pods: PodReader, read: ReadObject) -> Pod:
    if read.wire is None:
        return pods.parse(read.raw())
    return pods.make(read.wire, read.raw)


def report_watch(resource: Resource, error: Exception) -> None:
    """Log what restarted a watch. That a cluster does not serve an optional kind is no problem of it."""
    if isinstance(error, NotFound) and resource in OPTIONAL:
        text = "%s.%s: not served by this cluster; followed from the moment it is"
        log.info(text, resource.plural, resource.group)
    else:
        log.log(level_of(error), "watching: %s", error)


def _want_nodes(config: SchedulerConfiguration) -> bool:
    """Whether an extender needs whole nodes."""
    return any(
        not extender.node_cache_capable and (extender.filter_verb or extender.prioritize_verb)
        for extender in config.extenders
    )


def _scheduler(config: SchedulerConfiguration, profiles: Mapping[str, Profile]) -> Scheduler:
    """The engine with an empty cluster."""
    scheduler = Scheduler(
        ClusterState(),
        profiles,
        initial_backoff=float(config.pod_initial_backoff_seconds),
        max_backoff=float(config.pod_max_backoff_seconds),
        clock=time.perf_counter,
    )
    scheduler.state.topology.solvers = load_solvers()
    return scheduler


def own_controllers(profiles: Mapping[str, Profile]) -> list[Controller]:
    """The controllers that run in every process."""
    return [
        DisplacementNotices(),
        QuotaStatus(enforced=enforcing(profiles)),
        QuotaFlavorStatus(),
        QuotaGroupStatus(),
        GangStatusController(others={DEFAULT_SCHEDULER} - profiles.keys()),
        GangLifecycle(),
        GangBudgets(protecting(profiles)),
        TopologyGroupStatus(),
        AnnotationProblems(),
    ]
