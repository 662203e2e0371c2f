"""Fills NodeMetrics from the metrics API in clusters without an agent on the nodes.

The annotation `muster.dev/reported-by` marks NodeMetrics that this reporter created. All other NodeMetrics
belong to an agent and are never written. A marked one whose `status.updateTime` is not the last written time
has another writer; it is skipped until its report is older than two report intervals. Each write carries the
resourceVersion that it was computed from, so an agent that writes at the same time wins.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from scheduler_core.app.load_samples import NodeSamples, node_status, resource_map, windows_of
from scheduler_core.controllers.node_metric_policy import new_node_metric, ours
from scheduler_core.decoding import decode
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.errors import ModelError, MusterError
from scheduler_core.kube.client import Client
from scheduler_core.load.priority import band_of
from scheduler_core.model.collect_policy import DEFAULT_AGGREGATE_DURATION, DEFAULT_POLICY
from scheduler_core.model.kinds import NODE_METRICS, Resource
from scheduler_core.model.meta import ApiObject
from scheduler_core.model.names import MUSTER_SCHEDULER, REPORTER_ANNOTATION
from scheduler_core.model.node import Node
from scheduler_core.model.node_metric import NodeMetric, amounts
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.resources import add
from scheduler_core.model.timestamps import format_time
from scheduler_core.model.writes import Patch

log = logging.getLogger(__name__)

NODE_USAGE: Final = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)
POD_USAGE: Final = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
# Interval of requests to the metrics API; the default interval of metrics-server.
SAMPLE_SECONDS: Final = 15.0
# A NodeMetric with another writer is written again after this number of report intervals without an update.
_SILENT_INTERVALS: Final = 2


class LoadView(NamedTuple):
    """The part of the state that the reporter needs: nodes and NodeMetrics by name, placed pods with their
    node.
    """

    nodes: dict[str, Node]
    metrics: dict[str, NodeMetric]
    pods: dict[str, tuple[Pod, str]]


def load_view(scheduler: Scheduler) -> LoadView:
    """The current view; for the loop's thread only."""
    state = scheduler.state
    names = state.nodes.names
    return LoadView(
        {node.name: node for node in state.nodes.nodes if node is not None},
        dict(state.load.metrics),
        {item.pod.key: (item.pod, names[item.slot]) for item in state.placed.values()},
    )


class _ContainerWire(msgspec.Struct, frozen=True):
    usage: dict[str, Any] | None = None


class _UsageWire(ApiObject, frozen=True):
    timestamp: datetime | None = None
    usage: dict[str, Any] | None = None
    containers: tuple[_ContainerWire, ...] | None = None


class LoadReporter:
    """Samples node usage and writes reports. `turn` does it once; `run` does it until `stop`.

    `view` returns the current state; `may_write` tells whether this process leads.
    """

    def __init__(
        self,
        client: Client,
        view: Callable[[], LoadView],
        may_write: Callable[[], bool],
        wall: Callable[[], float],
    ) -> None:
        self._client = client
        self._view = view
        self._may_write = may_write
        self._wall = wall
        self._samples: dict[str, NodeSamples] = {}
        self._written: dict[str, float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self.run, name="load-reporter", daemon=True)

    def start(self) -> None:
        """Start the reporter's thread."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Stop after the write in flight, for at most `timeout` seconds."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def run(self) -> None:
        """Run until stopped; a request that fails is logged and repeated in the next round."""
        while not self._stopped.wait(SAMPLE_SECONDS):
            if self._may_write():
                try:
                    self.turn()
                except MusterError as error:
                    log.warning("reporting load: %s", error)

    def turn(self) -> None:
        """One round: sample all nodes, write the reports that are due. Raises MusterError if the API does not
        answer.
        """
        view, now = self._view(), self._wall()
        self._sample(view)
        due = [name for name in self._samples if self._is_due(view, name, now)]
        if not due:
            return
        pods = self._pod_usage(view)
        for name in due:
            if self._stopped.is_set() or not self._may_write():
                return
            try:
                self._report(view, name, pods.get(name, []))
            except MusterError as error:
                log.warning("reporting load of node %s: %s", name, error)

    # Sampling

    def _list(self, resource: Resource) -> Iterable[_UsageWire]:
        for raw in self._client.list_raw(resource):
            try:
                yield decode(raw, _UsageWire)
            except msgspec.DecodeError as error:
                log.warning("%s cannot be read: %s", resource.kind, error)

    def _sample(self, view: LoadView) -> None:
        self._samples = {name: found for name, found in self._samples.items() if name in view.nodes}
        for item in self._list(NODE_USAGE):
            name = item.metadata.name
            if name not in view.nodes or item.timestamp is None:
                continue
            metric = view.metrics.get(name)
            policy = metric.policy if metric is not None else DEFAULT_POLICY
            aggregate = policy.aggregate_duration or DEFAULT_AGGREGATE_DURATION
            keep = max(aggregate, *windows_of(policy).values(), 0.0)
            usage = _amounts(item.usage)
            if usage is not None:
                found = self._samples.setdefault(name, NodeSamples())
                found.add(item.timestamp.timestamp(), usage, keep)

    def _pod_usage(self, view: LoadView) -> dict[str, list[dict[str, Any]]]:
        """Entries of `status.podsMetric` by node, without pods on unknown nodes."""
        found: dict[str, list[dict[str, Any]]] = {}
        for item in self._list(POD_USAGE):
            meta = item.metadata
            placed = view.pods.get(f"{meta.namespace}/{meta.name}")
            if placed is None:
                continue
            usage: dict[str, int] = {}
            for container in item.containers or ():
                usage = add(usage, _amounts(container.usage) or {})
            pod, node = placed
            entry = {"namespace": meta.namespace, "name": meta.name, "podUsage": resource_map(usage)}
            found.setdefault(node, []).append(entry | {"priority": band_of(pod)})
        return found

    # Reporting

    def _is_due(self, view: LoadView, name: str, now: float) -> bool:
        """Whether a node's report may be written, and there is a newer sample."""
        metric, newest = view.metrics.get(name), self._samples[name].newest
        if metric is None:
            return True
        if not ours(metric) or (metric.update_time is not None and newest <= metric.update_time):
            return False
        if metric.update_time is None:
            return True
        known = self._written.get(name)
        if metric.update_time != known:
            # Another writer, or this reporter before a restart: wait until it has stopped writing.
            return now - metric.update_time >= _SILENT_INTERVALS * metric.report_interval
        return newest - metric.update_time >= metric.report_interval - SAMPLE_SECONDS / 2

    def _report(self, view: LoadView, name: str, pods: list[dict[str, Any]]) -> None:
        metric, samples = view.metrics.get(name), self._samples[name]
        if metric is None:
            mark = {REPORTER_ANNOTATION: MUSTER_SCHEDULER}
            created = self._client.create(new_node_metric(view.nodes[name], DEFAULT_POLICY, mark))
            policy = DEFAULT_POLICY
            version = decode(created, ApiObject).metadata.resource_version
        else:
            policy, version = metric.policy, metric.resource_version
        of_pods: dict[str, int] = {}
        for entry in pods:
            of_pods = add(of_pods, amounts(entry["podUsage"]["resources"], "podUsage"))
        status = {
            "updateTime": format_time(samples.newest),
            "nodeMetric": node_status(samples, policy, of_pods),
            "podsMetric": pods,
        }
        body = {"status": status}
        self._client.patch(
            Patch(NODE_METRICS, "", name, body, subresource="status", resource_version=version)
        )
        self._written[name] = float(int(samples.newest))


def _amounts(raw: dict[str, Any] | None) -> dict[str, int] | None:
    """Usage as integers; None where it cannot be read."""
    try:
        return amounts(raw, "usage")
    except ModelError as error:
        log.warning("usage cannot be read: %s", error)
        return None
