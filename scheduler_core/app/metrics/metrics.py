"""Metrics with the names and labels of kube-scheduler, and those of Muster.

Counters and histograms are updated by events. Gauges are read from a sample of the state, which the loop
takes at each scrape, so that a cluster without scrapes has no cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scheduler_core.app.loop.inbox import Timing
from scheduler_core.app.metrics.histograms import Histogram, Series
from scheduler_core.app.metrics.sample import Sample
from scheduler_core.engine.decisions import Decision, Evicted, Placed, Rejected
from scheduler_core.kube.watch.reflector import Reflector
from scheduler_core.logs import dropped_lines
from scheduler_core.model.names import EVICTION_RULES, REASON_SCHEDULER_ERROR

SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
ERROR: Final = "error"

# kube-scheduler's buckets: powers of two from 1 ms, and from 10 ms for the whole time of a pod.
_SECONDS: Final = tuple(0.001 * 2**power for power in range(15))
_FINE_SECONDS: Final = tuple(0.0001 * 2**power for power in range(15))
_LONG_SECONDS: Final = tuple(0.01 * 2**power for power in range(20))
_VICTIMS: Final = tuple(float(2**power) for power in range(7))
_WAITS: Final = (1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 24 * 3600.0, 7 * 24 * 3600.0)
_MOST_ATTEMPTS: Final = 16


@dataclass(frozen=True, slots=True)
class _ProfileSeries:
    """One profile's series; `results` has the counter and the durations of attempts by result."""

    algorithm: Series
    evaluation: Series
    binding: Series
    results: dict[str, tuple[Any, Series]]


class _ByProfile(dict[str, _ProfileSeries]):
    """Series by profile, created at the first lookup; later lookups cost no call."""

    def __init__(self, make: Callable[[str], _ProfileSeries]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, profile: str) -> _ProfileSeries:
        # If two threads come at once, both get the series that was stored.
        return self.setdefault(profile, self._make(profile))


class _OfQuotas:
    """What happened to the pods of each quota, in a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("namespace", "reason")
        self.evictions = Counter(
            "muster_quota_evictions",
            "Evicted pods by namespace, and by the rule: reclaim, fair or priority.",
            labels,
            registry=registry,
        )
        what = (
            "From a pod's entry into the queue to its binding, of pods under a quota, by what it waited for."
        )
        self.waits = Histogram(("muster_quota_wait_seconds",), what, _WAITS, labels)
        registry.register(self.waits)


def _stuck_parts(registry: CollectorRegistry) -> Gauge:
    what = "1 while a part of the scheduling loop is due, and its turns bring nothing about; by part."
    return Gauge("muster_stuck_part", what, ("part",), registry=registry)


class SchedulerMetrics:
    """All metrics of one process, in their own registry. Methods may be called from any thread.

    `profiles`: the names whose series are exported, with zeros, before the first attempt.
    """

    def __init__(self, version: str, profiles: Iterable[str] = ()) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        labels = ("result", "profile")
        self._attempts = Counter(
            "scheduler_schedule_attempts", "Attempts to schedule pods, by result and profile.", labels, **own
        )
        self._attempt_seconds = self._histogram(
            # The second is the older name.
            (
                "scheduler_scheduling_attempt_duration_seconds",
                "scheduler_e2e_scheduling_duration_seconds",
            ),
            "Scheduling attempts from decision to bound pod.",
            _SECONDS,
            labels,
        )
        self._algorithm_seconds = self._histogram(
            ("scheduler_scheduling_algorithm_duration_seconds",),
            "Durations of scheduling decisions.",
            _FINE_SECONDS,
            ("profile",),
        )
        self._evaluation_seconds = self._histogram(
            ("scheduler_scheduling_algorithm_preemption_evaluation_seconds",),
            "Attempts that ended in a preemption or looked for one.",
            _FINE_SECONDS,
            ("profile",),
        )
        self._sli_seconds = self._histogram(
            ("scheduler_pod_scheduling_sli_duration_seconds",),
            "From a pod's entry into the queue to its binding.",
            _LONG_SECONDS,
            ("attempts",),
        )
        self._binding_seconds = self._histogram(
            ("scheduler_binding_duration_seconds",), "Durations of binding requests.", _SECONDS, ("profile",)
        )
        self._preemptions = Counter(
            "scheduler_preemption_attempts", "Preemptions that were carried out.", **own
        )
        self._victims = self._histogram(
            ("scheduler_preemption_victims",), "Pods evicted per preemption.", _VICTIMS
        ).of()
        self._quotas = _OfQuotas(self.registry)
        self._malformed = Counter(
            "muster_malformed_objects", "Objects not read, or only in part, by kind.", ("kind",), **own
        )
        self._write_failures = Counter(
            "muster_write_failures", "Writes that failed after all safe repetitions.", ("resource",), **own
        )
        self.bound_past = Counter(
            "muster_pods_bound_past_max", "Pods that another client bound above their quota's max.", **own
        )
        self.slow_turns = Counter(
            "muster_slow_turns", "Turns of the scheduling loop that took more than 2 s.", **own
        )
        self._stuck = _stuck_parts(self.registry)
        self.oldest_event = Gauge(
            "muster_oldest_event_age_seconds",
            "Age of the oldest event that waits for the scheduling loop, in seconds.",
            **own,
        )
        self.leader = Gauge("muster_leader", "1 while this process leads.", **own)
        dropped = Gauge("muster_log_lines_dropped", "Log lines dropped since the start.", **own)
        dropped.set_function(dropped_lines)
        Gauge("muster_build_info", "Always 1; the version.", ("version",), **own).labels(version).set(1)
        self._profiles = _ByProfile(self._series)
        for name in profiles:
            self._profiles[name]

    def _histogram(
        self, names: tuple[str, ...], what: str, bounds: tuple[float, ...], labels: tuple[str, ...] = ()
    ) -> Histogram:
        histogram = Histogram(names, what, bounds, labels)
        self.registry.register(histogram)
        return histogram

    def decided(self, decisions: Sequence[Decision], seconds: float) -> None:
        """Record one attempt: its decisions, at least one, and its duration.

        Bindings are recorded when they end.
        """
        # Decisions about other pods come before those about the pod or gang of the attempt.
        self._profiles[decisions[-1].profile].algorithm.observe(seconds)
        victims = 0
        for decision in decisions:
            if isinstance(decision, Rejected):
                result = ERROR if decision.reason == REASON_SCHEDULER_ERROR else UNSCHEDULABLE
                series = self._profiles[decision.profile]
                _count(series, result, seconds)
                series.evaluation.observe(seconds)
            elif isinstance(decision, Evicted):
                victims += 1
                self._quotas.evictions.labels(decision.pod.namespace, decision.why).inc()
        if victims:
            self._preemptions.inc()
            self._victims.observe(victims)

    def bound(self, decision: Placed, timing: Timing, now: float) -> None:
        """Record a pod that was bound at `now`."""
        binding = max(0.0, now - timing.decided)
        series = self._profiles[decision.profile]
        series.binding.observe(binding)
        _count(series, SCHEDULED, timing.algorithm + binding)
        attempts = f"{timing.attempts}" if timing.attempts < _MOST_ATTEMPTS else f"{_MOST_ATTEMPTS}+"
        self._sli_seconds.of(attempts).observe(max(0.0, now - timing.since))
        if timing.waited_for:
            waits = self._quotas.waits.of(decision.pod.namespace, timing.waited_for)
            waits.observe(max(0.0, now - timing.since))

    def bind_failed(self, decision: Placed, timing: Timing, now: float) -> None:
        """Record a binding that was refused or lost."""
        _count(self._profiles[decision.profile], ERROR, timing.algorithm + max(0.0, now - timing.decided))

    def quota_seen(self, namespace: str) -> None:
        """Export the evictions of a quota with zeros.

        Prometheus sees no increase where a series begins above 0.
        """
        for rule in EVICTION_RULES:
            self._quotas.evictions.labels(namespace, rule)

    def wait_begins(self, namespace: str, waits_for: str) -> None:
        """Export the waits of this reason before the first of them ends, for the same reason."""
        self._quotas.waits.of(namespace, waits_for)

    def part_stuck(self, part: str, *, stuck: bool) -> None:
        """Record whether a part of the scheduling loop is stuck."""
        self._stuck.labels(part).set(stuck)

    def malformed(self, kind: str) -> None:
        """Record an object that could not be parsed."""
        self._malformed.labels(kind or "unknown").inc()

    def write_failed(self, resource: str) -> None:
        """Record a write that failed after all safe repetitions: `pods/binding`, `elasticquotas/status`."""
        self._write_failures.labels(resource).inc()

    def add(self, collector: Collector) -> None:
        """Add a collector to every scrape."""
        self.registry.register(collector)

    def _series(self, profile: str) -> _ProfileSeries:
        results = {
            result: (self._attempts.labels(result, profile), self._attempt_seconds.of(result, profile))
            for result in (SCHEDULED, UNSCHEDULABLE, ERROR)
        }
        return _ProfileSeries(
            self._algorithm_seconds.of(profile),
            self._evaluation_seconds.of(profile),
            self._binding_seconds.of(profile),
            results,
        )


def _count(series: _ProfileSeries, result: str, seconds: float) -> None:
    attempts, durations = series.results[result]
    attempts.inc()
    durations.observe(seconds)


class SampledMetrics(Collector):
    """Gauges of a sample; `take` requests one from the loop, and returns None if the loop does not answer in
    time.
    """

    def __init__(self, take: Any) -> None:
        self._take = take

    def describe(self) -> Iterable[Metric]:
        """Nothing: a registration must not wait for the loop."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The gauges of one sample."""
        sample: Sample | None = self._take()
        if sample is None:
            return
        yield _family("scheduler_pending_pods", "Waiting pods, by queue.", ("queue",), sample.pending)
        yield _family("scheduler_cache_size", "Objects in the cache.", ("type",), sample.cache)
        moves = CounterMetricFamily(
            "scheduler_queue_incoming_pods", "Pods that entered a queue.", labels=("queue", "event")
        )
        for (part, event), value in sample.incoming.items():
            moves.add_metric((part, event), value)
        yield moves
        for name, values in sample.quotas.items():
            what = f"{name} of ElasticQuotas; CPU in cores, memory in bytes."
            yield _family(f"muster_quota_{name}", what, ("namespace", "resource"), values)
        what = "Weighted share of ElasticQuotas in what can be borrowed."
        yield _family("muster_quota_share", what, ("namespace", "quota"), sample.shares)
        what = (
            "What ElasticQuotas may use if what is borrowed is shared fairly; CPU in cores, memory in bytes."
        )
        yield _family("muster_quota_entitled", what, ("namespace", "quota", "resource"), sample.entitled)
        for name, values in sample.groups.items():
            what = f"{name} of QuotaGroups; CPU in cores, memory in bytes."
            yield _family(f"muster_quota_group_{name}", what, ("group", "resource"), values)
        yield _family("muster_gangs", "PodGroups, by the phase that they show.", ("phase",), sample.gangs)
        what = "How long the oldest pod or gang has waited, by namespace; those behind a gate do not count."
        yield _family("muster_longest_wait_seconds", what, ("namespace", "unit"), sample.longest_waits)
        missing = GaugeMetricFamily("muster_nodes_without_allocatable", "Nodes that report no resources.")
        missing.add_metric((), sample.nodes_without_allocatable)
        yield missing


def _family(name: str, what: str, labels: tuple[str, ...], values: dict[Any, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, what, labels=labels)
    for key, value in values.items():
        family.add_metric(key if isinstance(key, tuple) else (key,), value)
    return family


class WatchMetrics(Collector):
    """Whether the cache is complete, how old its watches are, and why they were restarted."""

    def __init__(self, reflectors: Sequence[Reflector], synced: Callable[[], bool]) -> None:
        self._reflectors = reflectors
        self._synced = synced

    def describe(self) -> Iterable[Metric]:
        """The families without values."""
        return self._families()

    def collect(self) -> Iterator[Metric]:
        """The metrics of all watches."""
        synced, stale, restarts = families = self._families()
        synced.add_metric((), float(self._synced()))
        for reflector in self._reflectors:
            name = reflector.resource.plural
            stale.add_metric((name,), reflector.staleness())
            for reason, count in dict(reflector.restarts).items():
                restarts.add_metric((name, reason), count)
        yield from families

    def _families(self) -> tuple[GaugeMetricFamily, GaugeMetricFamily, CounterMetricFamily]:
        return (
            GaugeMetricFamily("muster_cache_synced", "1 once every watched resource was listed."),
            GaugeMetricFamily(
                "muster_cache_staleness_seconds",
                "Seconds since the last byte of a watch; up to 40 on an idle watch.",
                labels=("resource",),
            ),
            CounterMetricFamily(
                "muster_watch_restarts", "Restarts of watches, by reason.", labels=("resource", "reason")
            ),
        )
