"""Random nodes with reports and pods: whether LoadAwareScheduling refuses a pod, why, and how it scores."""

from __future__ import annotations

import json
import random
from typing import Any, Final

from scheduler_core.engine.events import put_object
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.status import Code
from scheduler_core.framework.view import NodeView
from scheduler_core.model.node import parse_node
from scheduler_core.model.node_metric import parse_node_metric
from scheduler_core.model.pods.pod import parse_pod
from scheduler_core.model.timestamps import format_micro_time
from scheduler_core.plugins.load_aware import LoadAwareScheduling
from scheduler_core.state.cluster import ClusterState
from tests.beside.packages.difference import Difference
from tests.beside.rig.world import Raw
from tests.support.load_builders import NOW, load_aware_plugin

_GI: Final = 2**30
_TYPES: Final = ("avg", "p50", "p90", "p95", "p99")
_WINDOWS: Final = ("5m0s", "10m0s", "30m0s")
_BANDS: Final = ("koord-prod", "koord-mid", "koord-batch", "koord-free")
_SCHEDULING: Final = "scheduling.koordinator.sh"


def question(dice: random.Random) -> Raw:
    """A node, its report, pods on it, and a pod that comes."""
    pods = [_pod(dice, f"r{i}", placed=True) for i in range(dice.choice((0, 1, 2, 3, 5)))]
    return {
        "args": _args(dice),
        "node": _node(dice),
        "metric": _metric(dice, pods) if dice.random() < 0.95 else None,
        "pods": pods,
        "pod": _pod(dice, "p", placed=False),
        "now": _moment(0),
    }


def _moment(age: float) -> str:
    return format_micro_time(NOW - age)


def _percents(dice: random.Random, *choices: int) -> Raw:
    names = ("cpu", "memory") if dice.random() < 0.5 else (dice.choice(("cpu", "memory")),)
    return {name: dice.choice(choices) for name in names}


def _args(dice: random.Random) -> Raw:
    found: Raw = {}
    makers: dict[str, Any] = {
        "usageThresholds": lambda: _percents(dice, 0, 20, 40, 65, 95, 100),
        "prodUsageThresholds": lambda: _percents(dice, 10, 30, 55, 80, 120),
        "resourceWeights": lambda: _percents(dice, 1, 2, 7),
        "dominantResourceWeight": lambda: dice.choice((0, 1, 3)),
        "estimatedScalingFactors": lambda: _percents(dice, 1, 50, 85, 100),
        "estimatedSecondsAfterPodScheduled": lambda: dice.choice((0, 60, 600)),
        "estimatedSecondsAfterInitialized": lambda: dice.choice((0, 30, 600)),
        "scoreAccordingProdUsage": lambda: dice.random() < 0.7,
        "prodUsageIncludeSys": lambda: dice.random() < 0.7,
        "allowCustomizeEstimation": lambda: dice.random() < 0.8,
        "enableScheduleWhenNodeMetricsExpired": lambda: dice.random() < 0.5,
        "nodeMetricExpirationSeconds": lambda: dice.choice((60, 180, 300)),
        "aggregated": lambda: _aggregated(dice),
    }
    for name, make in makers.items():
        if dice.random() < 0.35:
            found[name] = make()
    return found


def _aggregated(dice: random.Random) -> Raw:
    found: Raw = {}
    if dice.random() < 0.8:
        found["usageThresholds"] = _percents(dice, 20, 50, 80)
    if dice.random() < 0.8:
        found["usageAggregationType"] = dice.choice(_TYPES)
    if dice.random() < 0.5:
        found["usageAggregatedDuration"] = dice.choice(("5m", "10m", "1h"))
    if dice.random() < 0.6:
        found["scoreAggregationType"] = dice.choice(_TYPES)
    if dice.random() < 0.3:
        found["scoreAggregatedDuration"] = dice.choice(("5m", "30m", "1h"))
    return found


def _node(dice: random.Random) -> Raw:
    allocatable = {
        "cpu": dice.choice(("4", "7500m", "16", "0")),
        "memory": dice.choice(("8Gi", "31G", "64Gi")),
        "pods": "110",
    }
    annotations: Raw = {}
    if dice.random() < 0.2:
        annotations["node.koordinator.sh/raw-allocatable"] = json.dumps({"cpu": dice.choice(("3", "12"))})
    if dice.random() < 0.2:
        annotations[f"{_SCHEDULING}/usage-thresholds"] = json.dumps(_thresholds(dice))
    return {"metadata": {"name": "n", "annotations": annotations}, "status": {"allocatable": allocatable}}


def _thresholds(dice: random.Random) -> Raw:
    found: Raw = {}
    if dice.random() < 0.6:
        found["usageThresholds"] = _percents(dice, 15, 45, 85)
    if dice.random() < 0.6:
        found["prodUsageThresholds"] = _percents(dice, 15, 45, 85)
    if dice.random() < 0.5:
        found["aggregatedUsage"] = {
            "usageThresholds": _percents(dice, 25, 60),
            "usageAggregationType": dice.choice(_TYPES),
        }
        if dice.random() < 0.5:
            found["aggregatedUsage"]["usageAggregatedDuration"] = dice.choice(("5m0s", "10m0s"))
    return found


def _usage(dice: random.Random, cores: int, gigabytes: int) -> Raw:
    if dice.random() < 0.06:
        return {}
    amounts = {
        "cpu": f"{dice.randrange(1 + cores * 1000)}m",
        "memory": dice.choice(
            (str(dice.randrange(gigabytes * _GI)), f"{dice.randrange(gigabytes * 1024)}Mi")
        ),
    }
    if dice.random() < 0.1:
        del amounts[dice.choice(("cpu", "memory"))]
    return {"resources": amounts}


def _metric(dice: random.Random, pods: list[Raw]) -> Raw:
    status: Raw = {}
    if dice.random() < 0.97:
        status["updateTime"] = _moment(dice.choice((0, 5, 40, 59, 61, 150, 179, 181, 400)))
    if dice.random() < 0.95:
        status["nodeMetric"] = {"nodeUsage": _usage(dice, 12, 40)}
        if dice.random() < 0.4:
            status["nodeMetric"]["systemUsage"] = _usage(dice, 2, 4)
        if dice.random() < 0.6:
            windows = dice.sample(_WINDOWS, dice.choice((1, 2, 3)))
            status["nodeMetric"]["aggregatedNodeUsages"] = [_window(dice, window) for window in windows]
    reported = [pod for pod in pods if dice.random() < 0.75]
    status["podsMetric"] = [_reported(dice, pod["metadata"]["name"]) for pod in reported]
    spec: Raw = {}
    if dice.random() < 0.4:
        spec["metricCollectPolicy"] = {"reportIntervalSeconds": dice.choice((20, 60, 120))}
    return {"metadata": {"name": "n"}, "spec": spec, "status": status}


def _window(dice: random.Random, window: str) -> Raw:
    kinds = dice.sample(_TYPES, dice.choice((1, 3, 5)))
    return {"duration": window, "usage": {kind: _usage(dice, 12, 40) for kind in kinds}}


def _reported(dice: random.Random, name: str) -> Raw:
    band = dice.choice(("koord-prod", "koord-prod", "koord-batch", ""))
    return {"namespace": "t", "name": name, "podUsage": _usage(dice, 3, 6), "priority": band}


def _pod(dice: random.Random, name: str, *, placed: bool) -> Raw:
    meta: Raw = {"name": name, "namespace": "t", "uid": name, "labels": {}, "annotations": {}}
    spec: Raw = {"containers": [_container(dice, f"c{i}") for i in range(dice.choice((1, 1, 2)))]}
    if dice.random() < 0.2:
        spec["initContainers"] = [_container(dice, "i")]
    if dice.random() < 0.1:
        spec["overhead"] = {"cpu": "100m"}
    if dice.random() < 0.4:
        spec["priority"] = dice.choice((0, 3500, 5000, 7999, 9000, 9999, 10000))
    if dice.random() < 0.2:
        meta["labels"]["koordinator.sh/priority-class"] = dice.choice((*_BANDS, "other"))
    if dice.random() < 0.3:
        meta["labels"]["koordinator.sh/qosClass"] = dice.choice(("LSE", "LSR", "LS", "BE", "SYSTEM", "x"))
    if dice.random() < 0.08:
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
        meta["ownerReferences"] = [owner]
    for what, values in (("scheduled", ("0", "120")), ("initialized", ("0", "900"))):
        if dice.random() < 0.1:
            key = "pod-scheduled" if what == "scheduled" else what
            meta["annotations"][f"{_SCHEDULING}/load-estimated-seconds-after-{key}"] = dice.choice(values)
    if dice.random() < 0.1:
        factors = json.dumps(_percents(dice, 0, 30, 150))
        meta["annotations"][f"{_SCHEDULING}/load-estimated-scaling-factors"] = factors
    status: Raw = {}
    if placed:
        spec["nodeName"] = "n"
        status["phase"] = "Running" if dice.random() < 0.93 else dice.choice(("Succeeded", "Failed"))
        status["conditions"] = _conditions(dice)
    return {"metadata": meta, "spec": spec, "status": status}


def _conditions(dice: random.Random) -> list[Raw]:
    found = []
    for kind in ("PodScheduled", "Initialized"):
        if dice.random() < 0.85:
            status = "True" if dice.random() < 0.9 else "False"
            age = dice.choice((1, 30, 61, 100, 200, 450, 5000))
            found.append({"type": kind, "status": status, "lastTransitionTime": _moment(age)})
    return found


def _container(dice: random.Random, name: str) -> Raw:
    requests: Raw = {}
    limits: Raw = {}
    prefix = dice.choice(("", "", "", "kubernetes.io/batch-", "kubernetes.io/mid-"))
    for resource, amounts in (("cpu", (0, 1, 333, 1500, 4000)), ("memory", (0, 100, 2**20 + 1, 3 * _GI))):
        plain = resource == "cpu" and not prefix
        least, most = sorted(dice.sample(amounts, 2))
        if dice.random() < 0.6:
            requests[f"{prefix}{resource}"] = f"{least}m" if plain else str(least)
        if dice.random() < 0.4:
            limits[f"{prefix}{resource}"] = f"{most}m" if plain else str(most)
    # As an API server stores it: a limit is the request where there is none, and for these resources always.
    requests = {**requests, **limits} if prefix else {**limits, **requests}
    if prefix:
        limits = dict(requests)
    return {"name": name, "image": "i", "resources": {"requests": requests, "limits": limits}}


def compare(asked: Raw, theirs: dict[str, Any]) -> list[Difference]:
    """What differs for one node and one pod."""
    if "error" in theirs:
        return [Difference("a load is refused", asked, theirs["error"], "taken")]
    refused, score = _decided(asked)
    found = []
    if refused != theirs["refused"]:
        found.append(Difference("why load refuses", asked, theirs["refused"], refused))
    if score != theirs["score"]:
        found.append(Difference("the score of a load", asked, str(theirs["score"]), str(score)))
    return found


def _decided(asked: Raw) -> tuple[str, int]:
    """The reason for which the node is refused, empty if it passes, and its score."""
    plugin: LoadAwareScheduling = load_aware_plugin(**asked["args"])
    state = ClusterState()
    state.put_node(parse_node(asked["node"]))
    if asked["metric"] is not None:
        put_object(state, parse_node_metric(asked["metric"]), NOW)
    for pod in asked["pods"]:
        state.put_pod(parse_pod(pod), NOW)
    pod = parse_pod(asked["pod"])
    cycle = Cycle(state, pod, state.vector(pod), NOW, "p")
    view = NodeView.all(state.nodes)
    skipped = plugin.pre_filter(cycle).code is Code.SKIP
    bits = 0 if skipped else int(plugin.filter(cycle, view)[0])
    reasons = [reason.text for i, reason in enumerate(plugin.reasons(cycle)) if bits >> i & 1]
    return ", ".join(reasons), int(plugin.score(cycle, view)[0])
