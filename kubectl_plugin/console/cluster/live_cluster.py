"""The cluster in memory, kept current by events: what quotas use, and a simulation to ask."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from kubectl_plugin.cluster.cluster_view import ClusterView
from kubectl_plugin.cluster.group_view import VIEW, GroupView, shown_topology
from kubectl_plugin.cluster.node_flavors import names_flavors
from kubectl_plugin.cluster.quota_figures import capacity_of
from kubectl_plugin.cluster.reflectors import FeedEvent
from kubectl_plugin.console.cluster.feeds import Seen
from kubectl_plugin.live.configuration import topology_labels
from scheduler_core.answers.eta.run_times import FinishedPod, JobTimes
from scheduler_core.config import SchedulerConfiguration
from scheduler_core.model.config_map import ConfigMap
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.kinds import CONFIG_MAPS, NAMESPACES, PODS, Resource
from scheduler_core.model.node import Node
from scheduler_core.model.node_metric import NodeMetric
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.pods.requests import CurrentRule, ResizeRule
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.quota_flavor import QuotaFlavor
from scheduler_core.model.quotas.quota_group import QuotaGroup
from scheduler_core.model.quotas.reservation_ledger import ReservationLedger
from scheduler_core.model.quotas.resource_quota import ResourceQuota
from scheduler_core.quota.flavors import OnNode, in_order, on_node
from scheduler_core.simulate.kinds import full_name
from scheduler_core.simulate.objects import Key
from scheduler_core.simulate.world import Simulation

# The kinds whose objects tell which namespaces there are.
_NAMESPACED: Final = frozenset({"namespaces", "elasticquotas", "podgroups", "pods", "configmaps"})
_OF_CAPACITY: Final = frozenset({"nodes", "quotaflavors"})


class LiveCluster:
    """All objects that were watched. One thread applies events; readers hold `lock`.

    `version` grows with every change. `simulation` is the cluster before the scheduler runs: it is to be read
    only, and runs in a process of its own (`questions`). `view` has the figures of `elasticquota get`.
    """

    def __init__(
        self, config: SchedulerConfiguration, now: float, rule: CurrentRule = ResizeRule.newest
    ) -> None:
        self.lock = threading.RLock()
        self.version = 0
        # Changes by kind: its plural name.
        self.changes: Counter[str] = Counter()
        self.view = ClusterView()
        self._rule = rule
        self.simulation = Simulation(config, now, rule())
        self.quotas: dict[str, ElasticQuota] = {}
        self.finished: dict[str, FinishedPod] = {}
        self.jobs: dict[str, JobTimes] = {}
        self.metrics: dict[str, NodeMetric] = {}
        self._nodes: dict[str, Node] = {}
        self._flavors: dict[str, QuotaFlavor] = {}
        self._topology_labels = topology_labels(config)
        self._config_maps: set[str] = set()
        # What each feed that has a ConfigMap said of it last.
        self._told_of: dict[str, dict[str, FeedEvent]] = {}
        self._capacity: tuple[int, dict[str, int]] = (-1, {})
        self._namespaces: tuple[int, frozenset[str]] = (-1, frozenset())
        self._raw = _PodTexts(self.simulation)

    def apply(self, batch: Sequence[FeedEvent], now: float) -> None:
        """Apply events in their order."""
        changes = [item for item in batch if item.event.type != "SYNCED"]
        if not changes and self.version:
            return
        with self.lock:
            self.changes.update(item.event.resource.plural for item in changes)
            self.simulation.now, self.simulation.rule = now, self._rule()
            if self.version:
                for change in changes:
                    self._apply(change, now)
            else:
                self._fill(changes, now)
            self._keep_flavors()
            self._keep_topology()
            self.version += 1

    def version_of(self, kinds: frozenset[str]) -> int:
        """A number that grows with every change of an object of these kinds."""
        return sum(self.changes[kind] for kind in kinds)

    def capacity(self) -> dict[str, int]:
        """What the nodes have of each resource and flavor, in all."""
        version = self.version_of(_OF_CAPACITY)
        if self._capacity[0] != version:
            self._capacity = version, capacity_of(self._nodes.values(), in_order(self._flavors.values()))
        return self._capacity[1]

    def namespaces(self) -> frozenset[str]:
        """The namespaces of all objects that are known."""
        version = self.version_of(_NAMESPACED)
        if self._namespaces[0] != version:
            found = {key[1] or (key[2] if key[0] == NAMESPACES.kind else "") for key in self.simulation.known}
            self._namespaces = version, frozenset(found - {""})
        return self._namespaces[1]

    def node_names(self) -> frozenset[str]:
        """The names of all nodes."""
        return frozenset(self._nodes)

    def groups(self, unread: Sequence[str] = ()) -> GroupView:
        """The groups with nodes and topology, as the commands of `kubectl podgroup` read them."""
        return GroupView(self.simulation.state, self._raw, list(unread))

    def _fill(self, changes: Sequence[FeedEvent], now: float) -> None:
        """The first objects: pods last and at once, which is the quickest."""
        pods: dict[str, FeedEvent] = {}
        for change in changes:
            if change.event.resource == PODS:
                pods[change.event.key] = change
            else:
                self._apply(change, now)
        first = []
        for change in pods.values():
            seen: Seen | None = change.event.obj
            if seen is not None:
                self._adopt(_key_of(change), seen)
                self._count(PODS, change.key, seen)
                first.append(seen.value)
        self.simulation.scheduler.put_first_pods(first, now)

    def _apply(self, change: FeedEvent, now: float) -> None:
        resource, key = change.event.resource, _key_of(change)
        if resource == CONFIG_MAPS:
            change = self._of_two_feeds(change)
        seen: Seen | None = change.event.obj
        if seen is None:
            known = self.simulation.known.pop(key, None)
            self.simulation.objects.restore(key, None)
            self._discount(resource, change.key, known)
            if known is not None:
                self.simulation.scheduler.remove(known, now)
            return
        self._replace(key, seen, now)
        self._adopt(key, seen)
        self._count(resource, change.key, seen)
        if key in self.simulation.known:
            self.simulation.scheduler.put(seen.value, now)

    def _of_two_feeds(self, change: FeedEvent) -> FeedEvent:
        """What is true of a ConfigMap after an event of one feed.

        One with the labels of groups and topologies comes from two, which do not wait for each other. Where
        it loses a label, it is gone from one of them, and is what the other one said last.
        """
        told = self._told_of.setdefault(change.event.key, {})
        if change.event.obj is not None:
            told[change.feed] = change
            return change
        told.pop(change.feed, None)
        if told:
            return next(iter(told.values()))
        del self._told_of[change.event.key]
        return change

    def _replace(self, key: Key, seen: Seen, now: float) -> None:
        """A pod that takes the name of another one: the other one goes first."""
        before = self.simulation.known.get(key)
        if isinstance(before, Pod) and before.uid != seen.value.uid:
            self.simulation.scheduler.remove(before, now)

    def _adopt(self, key: Key, seen: Seen) -> None:
        self.simulation.objects.adopt(key, seen.stored)
        if seen.value is not None and not isinstance(seen.value, ResourceQuota | JobTimes):
            self.simulation.known[key] = seen.value

    def _count(self, resource: Resource, key: tuple[str, str], seen: Seen) -> None:
        """Add an object to the figures of quotas, and to what is known of run times."""
        name = "/".join(key)
        match seen.value:
            case Pod() as pod:
                self.view.put_pod(pod)
                self.finished.pop(name, None)
                if seen.ended is not None:
                    self.finished[name] = FinishedPod(name, seen.ended)
            case ElasticQuota() as quota:
                self.quotas[name] = quota
                self.view.put_quota(quota)
            case QuotaGroup() as group:
                self.view.ledger.put_group(group)
            case QuotaFlavor() as flavor:
                self._flavors[flavor.name] = flavor
            case Node() as node:
                self._nodes[node.name] = node
            case ResourceQuota() as native:
                self.view.put_native(native)
            case ReservationLedger() as ledger:
                self.view.put_ledger(ledger)
            case Gang() as gang:
                self.view.nominations.put_group(gang)
            case ConfigMap():
                self._config_maps.add(name)
            case NodeMetric() as metric:
                self.metrics[metric.name] = metric
            case JobTimes() as job:
                self.jobs[name] = job

    def _discount(self, resource: Resource, key: tuple[str, str], known: Any) -> None:
        namespace, name = key
        whole = f"{namespace}/{name}"
        match known:
            case Pod():
                self.view.remove_pod(namespace, name)
                self.finished.pop(whole, None)
            case ElasticQuota():
                self.quotas.pop(whole, None)
                self.view.remove_quota(namespace, name)
            case QuotaGroup():
                self.view.ledger.remove_group(name)
            case QuotaFlavor():
                self._flavors.pop(name, None)
            case Node():
                self._nodes.pop(name, None)
            case ConfigMap():
                self._config_maps.discard(whole)
            case NodeMetric():
                self.metrics.pop(name, None)
            case ReservationLedger():
                self.view.remove_ledger(namespace, name)
            case Gang() as gang:
                self.view.nominations.remove_group(gang.ref.dialect, namespace, name)
        if resource.plural == "resourcequotas":
            self.view.remove_native(namespace, name)
        elif resource.plural == "jobs":
            self.jobs.pop(whole, None)

    def _keep_flavors(self) -> None:
        """Charge pods by the flavors of their nodes, as far as a quota or group names flavors."""
        used = names_flavors(self.view.limits())
        if not used and not self.view.node_flavors:
            return
        ordered = in_order(self._flavors.values()) if used else []
        found = {name: on_node(ordered, node.labels) for name, node in self._nodes.items()} if used else {}
        now: Mapping[str, OnNode] = {name: flavors for name, flavors in found.items() if flavors}
        before = self.view.node_flavors
        if now == before:
            return
        self.view.node_flavors = now
        changed = {name for name in (*before, *now) if before.get(name) != now.get(name)}
        for pod in self.simulation.state.pods.values():
            if pod.node_name in changed:
                self.view.put_pod(pod)

    def _keep_topology(self) -> None:
        """The tree that `kubectl podgroup topology` shows."""
        topology = self.simulation.state.topology
        namespaces = {name.partition("/")[0] for name in self._config_maps}
        sources = [source for name in namespaces if (source := topology.source(name)) is not None]
        settings = shown_topology(sources, self._topology_labels)
        if settings is None:
            topology.settings.pop(VIEW, None)
        elif topology.settings.get(VIEW) != settings:
            topology.settings[VIEW] = settings


def _key_of(change: FeedEvent) -> Key:
    resource = change.event.resource
    seen: Seen | None = change.event.obj
    if seen is not None and isinstance(seen.value, Pod):
        # The pod's own strings: of tens of thousands of pods, others would take memory.
        return PODS.kind, seen.value.namespace, seen.value.name
    return full_name(resource.kind, resource.api_version), *change.key


class _PodTexts(Mapping[str, bytes]):
    """The JSON of pods by uid, unpacked when somebody reads it."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def __getitem__(self, uid: str) -> bytes:
        pod = self._simulation.state.pods[uid]
        found = self._simulation.objects.get((PODS.kind, pod.namespace, pod.name))
        if found is None:
            raise KeyError(uid)
        return msgspec.json.encode(found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._simulation.state.pods)

    def __len__(self) -> int:
        return len(self._simulation.state.pods)
