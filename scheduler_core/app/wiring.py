"""The composition root: everything that a scheduler process is made of, put together."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from scheduler_core.app.clock import SteadyClock
from scheduler_core.app.contracts import Controller
from scheduler_core.app.crowds import home_of
from scheduler_core.app.effects import Effects
from scheduler_core.app.extender_metrics import ExtenderMetrics
from scheduler_core.app.extenders import ExtenderCalls
from scheduler_core.app.load_reporter import LoadReporter, View, load_view
from scheduler_core.app.loop import Loop
from scheduler_core.app.malformed import MalformedPods
from scheduler_core.app.metrics import Metrics, SampledMetrics
from scheduler_core.app.node_texts import NodeTexts
from scheduler_core.app.outcomes import Answered, Ask
from scheduler_core.app.plugin_loading import Plugins, load_plugins
from scheduler_core.app.pod_reader import PodNews, PodReader
from scheduler_core.app.pulse import Watchdog, where
from scheduler_core.app.sample import Sample, take_sample
from scheduler_core.app.solver_loading import load_solvers
from scheduler_core.app.watches import WatchMetrics
from scheduler_core.config import SchedulerConfiguration
from scheduler_core.controllers.annotation_problems import AnnotationProblems
from scheduler_core.controllers.collect_policy_problems import CollectPolicyProblems
from scheduler_core.controllers.gang_budgets import GangBudgets, protecting
from scheduler_core.controllers.gang_lifecycle import GangLifecycle
from scheduler_core.controllers.gang_status import GangStatusController
from scheduler_core.controllers.node_metric_policy import NodeMetricPolicy
from scheduler_core.controllers.quota_status import QuotaStatus, enforcing
from scheduler_core.controllers.topology_group_status import TopologyGroupStatus
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.errors import ModelError, MusterError
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.registry import build_profiles
from scheduler_core.kube.client import Client
from scheduler_core.kube.reading import Reader
from scheduler_core.kube.recorder import Recorder
from scheduler_core.kube.reflector import Reflector
from scheduler_core.kube.tracker import Event
from scheduler_core.kube.writer import Writer
from scheduler_core.logs import fields
from scheduler_core.model.kinds import PODS, Resource
from scheduler_core.model.names import DEFAULT_SCHEDULER
from scheduler_core.model.watched import WATCHED, Parse
from scheduler_core.plugins.extenders import Extenders
from scheduler_core.state.cluster import ClusterState

log = logging.getLogger(__name__)

VERSION: Final = "0.1.0"
_ANSWER_SECONDS: Final = 5.0


class LoopBusy(MusterError):
    """The loop did not answer a question in time."""

    def __str__(self) -> str:
        return f"the scheduling loop did not answer within {_ANSWER_SECONDS:g} s"


class Process:
    """A scheduler on one API server. `start` watches, `lead` decides, `stop_deciding` and `close` end both.

    `may_write` says whether this process leads at this very moment.
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
        scheduler = Scheduler(
            ClusterState(),
            profiles,
            initial_backoff=float(config.pod_initial_backoff_seconds),
            max_backoff=float(config.pod_max_backoff_seconds),
            clock=time.perf_counter,
        )
        scheduler.state.topology.solvers = load_solvers()
        wall = wall or SteadyClock()
        self._wall = wall
        self.metrics = Metrics(VERSION, profiles)
        resources = [resource for resource, _ in WATCHED]
        controllers = _controllers(profiles)
        if manage_node_metrics or report_node_metrics:
            policy = NodeMetricPolicy(only_own=not manage_node_metrics, creates=not report_node_metrics)
            controllers += [policy, CollectPolicyProblems()]
        self.loop = Loop(scheduler, controllers, resources, self.metrics, may_decide=may_write, wall=wall)
        # Reads and writes of several requests share the bindings' rate; events have the same rate again.
        events_limiter = client.limiter.twin() if client.limiter is not None else None
        self.writer = Writer(client, may_write=may_write, limiters=(client.limiter, events_limiter))
        self.recorder = Recorder(
            client, writer=self.writer, limiter=events_limiter, on_error=_events_failed, wall=wall
        )
        self._watchdog = Watchdog(self.loop.pulse)
        self.metrics.oldest_event.set_function(self.loop.lag.age)
        watching = Client(client.session)
        self.node_texts = NodeTexts(watching) if _want_nodes(config) else None
        self.effects = Effects(
            client,
            self.writer,
            self.recorder,
            self.loop.inbox.put,
            identity,
            self.metrics,
            wall,
            waiting=scheduler.queue.get,
            home=partial(home_of, scheduler.state),
            extenders=self._extender_calls(config, client) if config.extenders else None,
        )
        record, submit = self.recorder.record, self.effects.submit_write
        pods = PodReader()
        self.malformed_pods = MalformedPods(profiles, submit, record, identity, wall, pods.make)
        self.reflectors = self._reflectors(watching, pods)
        self.reporter = (
            LoadReporter(watching, self._load_view, may_write, wall) if report_node_metrics else None
        )
        self.metrics.add(WatchMetrics(self.reflectors, lambda: self.loop.synced))
        self.metrics.add(SampledMetrics(self.sample))
        self._thread = threading.Thread(target=self.loop.run, name="loop", daemon=True)

    def _extender_calls(self, config: SchedulerConfiguration, client: Client) -> ExtenderCalls:
        """What asks the extenders; reads of the pods asked about have a rate of their own."""
        limiter = client.limiter.twin() if client.limiter is not None else None
        reading, put = Client(client.session, limiter=limiter), self.loop.inbox.put
        return ExtenderCalls(
            config.extenders,
            lambda answer: put(Answered(answer)),
            lambda pod: reading.get(PODS, pod.namespace, pod.name),
            self.node_texts.get if self.node_texts is not None else lambda name: None,
            ExtenderMetrics(self.metrics.registry),
        )

    def _reflectors(self, client: Client, pods: PodReader) -> list[Reflector]:
        """One per watched resource; all feed the loop's inbox."""
        readers: dict[Resource, Parse | Reader] = dict(WATCHED)
        readers[PODS] = Reader(PodNews, self.malformed_pods.make)
        put = self.loop.inbox.put

        def put_pod(event: Event) -> None:
            pods.forget_deleted(event)
            put(event)

        return [
            Reflector(
                client,
                resource,
                parse,
                put_pod if resource == PODS else put,
                on_malformed=self._malformed,
                on_error=_watch_failed,
            )
            for resource, parse in readers.items()
        ]

    def _all_reflectors(self) -> list[Reflector]:
        return [*self.reflectors, *([self.node_texts.reflector] if self.node_texts is not None else [])]

    def start(self) -> None:
        """Fill the state from the API; decisions wait for `lead`."""
        for reflector in self._all_reflectors():
            reflector.start()
        self.writer.start()
        self.recorder.start()
        self._thread.start()

    def lead(self) -> None:
        """Begin to decide."""
        self.metrics.leader.set(1)
        self.loop.carrier = self.effects
        self.malformed_pods.lead()
        if self.reporter is not None:
            self.reporter.start()

    def stop_deciding(self, timeout: float) -> None:
        """No new decisions; bindings under way are finished, for at most `timeout` seconds."""
        self.loop.stop()
        self._thread.join(timeout)
        self.effects.stop(timeout)
        self.metrics.leader.set(0)

    def close(self, timeout: float) -> None:
        """Post the events that wait, for at most `timeout` seconds, and end all threads."""
        if self.reporter is not None:
            self.reporter.stop(timeout)
        for reflector in self._all_reflectors():
            reflector.stop()
        self.writer.stop(timeout)
        self.recorder.stop(timeout)

    # Questions from other threads

    def ask(self, question: Callable[[Scheduler], Any]) -> Any:
        """The answer of a function that runs on the loop's thread. Raises LoopBusy."""
        answer: Future[Any] = Future()

        def act(scheduler: Scheduler) -> None:
            try:
                answer.set_result(question(scheduler))
            except MemoryError:
                raise
            except Exception as error:
                # A question that cannot be answered is the asker's trouble, not the loop's.
                answer.set_exception(error)

        self.loop.inbox.put(Ask(act))
        try:
            return answer.result(_ANSWER_SECONDS)
        except TimeoutError:
            raise LoopBusy from None

    def _load_view(self) -> View:
        """What the reporter needs. Raises LoopBusy."""
        found: View = self.ask(load_view)
        return found

    def sample(self) -> Sample | None:
        """Gauges of this moment, or None if the loop is too busy to say."""
        try:
            found: Sample = self.ask(take_sample)
        except LoopBusy:
            return None
        return found

    def problem(self) -> str:
        """Why the process is of no use any more, or empty."""
        if not self._thread.is_alive():
            return "the scheduling loop ended"
        if hangs := self._watchdog.look():
            return hangs
        for reflector in self._all_reflectors():
            if not reflector.alive:
                return f"the watch of {reflector.resource.plural} ended"
        return "" if self.writer.alive else "the writer ended"

    def doing(self) -> str:
        """What the loop is at, for whoever wants to know why it hangs."""
        return where(self._thread)

    def unsynced(self) -> str:
        """Which resources have not been listed yet, or empty."""
        waited_for = (item for item in self._all_reflectors() if not item.synced.is_set())
        names = dict.fromkeys(reflector.resource.plural for reflector in waited_for)
        return f"not listed yet: {', '.join(names)}" if names else ""

    def _malformed(self, error: ModelError) -> None:
        log.warning("malformed object: %s", error, extra=fields(kind=error.kind))
        self.metrics.malformed(error.kind)


def _want_nodes(config: SchedulerConfiguration) -> bool:
    """Whether an extender wants to be sent nodes whole."""
    return any(
        not extender.node_cache_capable and (extender.filter_verb or extender.prioritize_verb)
        for extender in config.extenders
    )


def _controllers(profiles: Mapping[str, Profile]) -> list[Controller]:
    """Those that every process has."""
    return [
        QuotaStatus(enforced=enforcing(profiles)),
        GangStatusController(others={DEFAULT_SCHEDULER} - profiles.keys()),
        GangLifecycle(),
        GangBudgets(protecting(profiles)),
        TopologyGroupStatus(),
        AnnotationProblems(),
    ]


def _watch_failed(error: Exception) -> None:
    log.warning("watching: %s", error)


def _events_failed(error: MusterError) -> None:
    log.warning("events: %s", error)
