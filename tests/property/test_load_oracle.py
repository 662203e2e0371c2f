"""The load columns against a slow oracle, after every change of random clusters, under random arguments."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import numpy as np

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.status import Code
from scheduler_core.framework.view import NodeView
from scheduler_core.model.node import parse_node
from scheduler_core.model.node_metric import parse_node_metric
from scheduler_core.model.pods.pod import parse_pod
from scheduler_core.plugins.load_aware import LoadAwareScheduling
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind
from scheduler_core.state.trial import Trial
from tests.support.builders import make_node, make_pod
from tests.support.every import every_seed
from tests.support.load_builders import NOW, condition, load_aware_plugin, make_metric
from tests.support.oracles import load as oracle
from tests.support.oracles.load import Oracle, Raw, World
from tests.support.searches import cases

NODES = ("a", "b", "c", "d")
BANDS = ("koord-prod", "koord-mid", "koord-batch", "koord-free", "other")
TYPES = ("p50", "p95")
WINDOWS = ("5m0s", "10m0s", "30m0s")


def chance(rng: random.Random, percent: int) -> bool:
    return rng.randrange(100) < percent


def percents(rng: random.Random, low: int = 0, names: tuple[str, ...] = ("cpu", "memory")) -> dict[str, int]:
    return {name: rng.randint(low, 100) for name in names if chance(rng, 70)}


def some_args(rng: random.Random) -> Raw:
    """Valid arguments, each present now and then."""
    choices: dict[str, Any] = {
        "nodeMetricExpirationSeconds": rng.choice((60, 180, 300)),
        "enableScheduleWhenNodeMetricsExpired": chance(rng, 50),
        "resourceWeights": {"cpu": rng.randint(1, 9), "memory": rng.randint(1, 9)},
        "dominantResourceWeight": rng.randint(0, 5),
        "usageThresholds": percents(rng),
        "prodUsageThresholds": percents(rng),
        "prodUsageIncludeSys": True,
        "scoreAccordingProdUsage": True,
        "estimatedScalingFactors": percents(rng, 1),
        "estimatedSecondsAfterPodScheduled": rng.choice((0, 30, 200)),
        "estimatedSecondsAfterInitialized": rng.choice((0, 30, 200)),
        "allowCustomizeEstimation": True,
        "supportedResources": ["example.com/disk"],
        "thresholdComparison": "GreaterOrEqual",
        "enableScheduleWhenNodeMetricsMissing": False,
        "capEstimatesAtLimit": False,
        "aggregated": {
            "usageThresholds": percents(rng),
            "usageAggregationType": rng.choice(TYPES),
            "usageAggregatedDuration": rng.choice(("0s", *WINDOWS)),
            "scoreAggregationType": rng.choice(TYPES),
            "scoreAggregatedDuration": rng.choice(("0s", *WINDOWS)),
        },
    }
    return {name: value for name, value in choices.items() if chance(rng, 40)}


def some_node(rng: random.Random, name: str) -> Raw:
    node = make_node(name).allocatable(cpu=rng.randint(4, 16), memory=f"{rng.randint(8, 32)}Gi")
    if chance(rng, 30):
        node.raw["status"]["allocatable"]["example.com/disk"] = "50"
    notes: dict[str, str] = {}
    if chance(rng, 30):
        notes[oracle.RAW_ALLOCATABLE] = rng.choice(('{"cpu": 6}', '{"memory": "12Gi"}', "nonsense", "[]"))
    if chance(rng, 40):
        aggregated = {
            "usageThresholds": percents(rng),
            "usageAggregationType": rng.choice(("", *TYPES)),
            "usageAggregatedDuration": rng.choice(("0s", *WINDOWS)),
        }
        parts = {
            "usageThresholds": percents(rng, names=("cpu", "memory", "example.com/disk")),
            "prodUsageThresholds": percents(rng),
            "aggregatedUsage": aggregated,
        }
        custom = {key: value for key, value in parts.items() if chance(rng, 50)}
        notes[oracle.THRESHOLDS] = (
            json.dumps(custom) if chance(rng, 80) else rng.choice(("{", '{"usageThresholds": {"cpu": -1}}'))
        )
    node.meta["annotations"] = notes
    return node.dict()


def some_usage(rng: random.Random, most: int) -> dict[str, str]:
    values = {
        "cpu": f"{rng.randint(0, most)}m",
        "memory": f"{rng.randint(0, 2 * most)}Mi",
        "example.com/disk": str(rng.randint(0, 60)),
    }
    return {name: value for name, value in values.items() if chance(rng, 80)}


def some_metric(rng: random.Random, name: str, pods: list[str]) -> Raw:
    metric = make_metric(name).updated(NOW - rng.choice((-400, 0, 0, 30, 59, 60, 179, 180, 1000)))
    if chance(rng, 5):
        metric.updated(None)
    if chance(rng, 50):
        metric.interval(rng.choice((10, 60, 300)))
    metric.usage(**some_usage(rng, 12_000)).system(**some_usage(rng, 2_000))
    for window in WINDOWS:
        if chance(rng, 50):
            metric.percentile(window, rng.choice(TYPES), **some_usage(rng, 12_000))
    for key in pods:
        if chance(rng, 60):
            metric.pod(key, rng.choice(("koord-prod", "koord-prod", "koord-mid")), **some_usage(rng, 3_000))
    if chance(rng, 8):
        metric.unmeasured()
    return metric.dict()


def some_pod(rng: random.Random, key: str, node: str = "") -> Raw:
    pod = make_pod(key).uid(key)
    names = rng.choice(
        (
            ("cpu", "memory"),
            ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"),
            ("kubernetes.io/mid-cpu",),
        )
    )
    resources: Raw = {}
    for part in ("requests", "limits"):
        if chance(rng, 60):
            resources[part] = {
                n: f"{rng.randint(0, 3)}{'k' if '-cpu' in n else ''}"
                if "cpu" in n
                else f"{rng.randint(0, 4)}Gi"
                for n in names
            }
    pod.containers({"name": "main", "resources": resources})
    if chance(rng, 30):
        pod.label("koordinator.sh/priority-class", rng.choice(BANDS))
    if chance(rng, 40):
        pod.priority(rng.choice((9000, 9999, 7500, 5000, 3999, 1, 10_000)))
    if chance(rng, 20):
        pod.label("koordinator.sh/qosClass", rng.choice(("LS", "BE", "SYSTEM", "odd")))
    notes = {
        oracle.FACTORS: rng.choice(('{"cpu": 50}', '{"memory": 300}', '{"cpu": 0}', "{", '{"cpu": "x"}')),
        oracle.AFTER_SCHEDULED: rng.choice(("0", "45", "500", "-3", "soon")),
        oracle.AFTER_INITIALIZED: rng.choice(("0", "45", "500", "")),
    }
    pod.meta["annotations"] = {name: text for name, text in notes.items() if chance(rng, 25)}
    conditions = [
        condition(kind, NOW - rng.choice((0, 10, 59, 60, 61, 200, 500)))
        for kind in ("PodScheduled", "Initialized")
        if chance(rng, 60)
    ]
    if node:
        pod.on(node)
    pod.status(conditions=conditions)
    return pod.dict()


class Pair:
    """The state and the raw world, changed alike."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.state = ClusterState()
        self.world = World()
        self.serial = 0

    def change(self) -> None:
        act = self.rng.choice(
            (
                self.put_node,
                self.drop_node,
                self.put_metric,
                self.put_metric,
                self.drop_metric,
                self.add_pod,
                self.add_pod,
                self.add_pod,
                self.drop_pod,
                self.update_pod,
                self.try_and_undo,
            )
        )
        act()

    def put_node(self) -> None:
        name = self.rng.choice(NODES)
        self.world.nodes[name] = some_node(self.rng, name)
        self.state.put_node(parse_node(self.world.nodes[name]))

    def drop_node(self) -> None:
        name = self.rng.choice(NODES)
        if self.world.nodes.pop(name, None) is not None:
            self.state.remove_node(name)

    def put_metric(self) -> None:
        name = self.rng.choice(NODES)
        pods = [f"{p['metadata']['namespace']}/{p['metadata']['name']}" for p in self.world.pods.values()]
        self.world.metrics[name] = some_metric(self.rng, name, pods)
        self.state.put_object(parse_node_metric(self.world.metrics[name]), EventKind.NODE_METRIC)

    def drop_metric(self) -> None:
        name = self.rng.choice(NODES)
        gone = self.world.metrics.pop(name, None)
        if gone is not None:
            self.state.remove_object(parse_node_metric(gone), EventKind.NODE_METRIC)

    def add_pod(self) -> None:
        self.serial += 1
        raw = some_pod(self.rng, f"ns/p{self.serial}", self.rng.choice(NODES))
        learned = NOW - self.rng.choice((0, 30, 90))
        self.world.pods[raw["metadata"]["uid"]] = raw
        self.world.learned[raw["metadata"]["uid"]] = learned
        self.state.put_pod(parse_pod(raw), learned)

    def drop_pod(self) -> None:
        if self.world.pods:
            uid = self.rng.choice(list(self.world.pods))
            del self.world.pods[uid]
            self.state.remove_pod(uid)

    def update_pod(self) -> None:
        """New conditions count; metadata alone does not, and a finished pod leaves."""
        if not self.world.pods:
            return
        uid = self.rng.choice(list(self.world.pods))
        raw = copy.deepcopy(self.world.pods[uid])
        if chance(self.rng, 20):
            raw["status"]["phase"] = "Succeeded"
            self.state.put_pod(parse_pod(raw), NOW)
            del self.world.pods[uid]
        elif chance(self.rng, 30):
            raw["metadata"]["labels"] = {"koordinator.sh/priority-class": "koord-prod"}
            self.state.put_pod(parse_pod(raw), NOW)
        else:
            raw["status"]["conditions"] = [condition("PodScheduled", NOW - self.rng.randrange(500) - 0.5)]
            self.world.pods[uid] = raw
            self.state.put_pod(parse_pod(raw), NOW)

    def try_and_undo(self) -> None:
        with Trial(self.state, NOW) as trial:
            for uid in self.rng.sample(list(self.world.pods), min(3, len(self.world.pods))):
                trial.remove_placed(uid)
            for slot in range(self.state.nodes.size):
                if self.state.nodes.alive[slot]:
                    trial.place(parse_pod(some_pod(self.rng, f"ns/try{slot}")), slot)
            assert self.state.load.check() == []


def answers(
    plugin: LoadAwareScheduling, state: ClusterState, pod: Raw
) -> tuple[dict[str, str], dict[str, int], dict[str, dict[str, Any]]]:
    """The plugin's verdicts, scores and sums by node name."""
    cycle = Cycle(state, parse_pod(pod), np.zeros(4, dtype=np.int64), NOW, "test")
    assert plugin.pre_filter(cycle).code is Code.SUCCESS
    view = NodeView.all(state.nodes)
    bits, scores, reasons = plugin.filter(cycle, view), plugin.score(cycle, view), plugin.reasons(cycle)
    alive = {state.nodes.names[s]: s for s in range(state.nodes.size) if state.nodes.alive[s]}
    some = np.array(sorted(alive.values()), dtype=np.int64)
    part = NodeView(state.nodes, some)
    assert plugin.filter(cycle, part).tolist() == bits[some].tolist()
    assert plugin.score(cycle, part).tolist() == scores[some].tolist()
    verdicts = {
        name: ", ".join(reason.text for i, reason in enumerate(reasons) if int(bits[slot]) >> i & 1) or "pass"
        for name, slot in alive.items()
    }
    details = plugin.details(cycle, list(alive.values()))
    sums = {name: details[slot]["cacheState"] for name, slot in alive.items()}
    return verdicts, {name: int(scores[slot]) for name, slot in alive.items()}, sums


@every_seed(range(cases(120)), each=30)
def test_columns_equal_the_slow_oracle_after_every_change(seed: int) -> None:
    rng = random.Random(seed)
    args = [some_args(rng) for _ in range(2)]
    plugins = [(load_aware_plugin(**each), Oracle(each)) for each in args]
    pair = Pair(rng)
    for name in NODES[:2]:
        pair.world.nodes[name] = some_node(rng, name)
        pair.state.put_node(parse_node(pair.world.nodes[name]))
    for step in range(40):
        pair.change()
        pod = some_pod(rng, "ns/incoming")
        for i, (plugin, book) in enumerate(plugins):
            verdicts, scores, sums = answers(plugin, pair.state, pod)
            world = pair.world
            where = f"step {step}, arguments {args[i]}"
            assert sums.keys() == world.nodes.keys()
            assert sums == {name: book.cache(world, name) for name in sums}, where
            assert verdicts == {n: book.filter(world, n, pod, NOW) for n in verdicts}, where
            assert scores == {n: book.score(world, n, pod, NOW) for n in scores}, where
    assert pair.state.check() == []
