"""Load-aware scheduling by the book: raw objects, one node at a time, whole numbers and fractions.

Shares no code with the scheduler.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any

Raw = dict[str, Any]
Amounts = dict[str, int]

SUFFIXES = {"m": Fraction(1, 1000), "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 1000, "": 1}
BANDS = {"prod": (9000, 9999), "mid": (7000, 7999), "batch": (5000, 5999), "free": (3000, 3999)}
SECONDS = {"5m0s": 300, "5m": 300, "10m0s": 600, "30m0s": 1800, "0s": 0}
FACTORS = "scheduling.koordinator.sh/load-estimated-scaling-factors"
AFTER_SCHEDULED = "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled"
AFTER_INITIALIZED = "scheduling.koordinator.sh/load-estimated-seconds-after-initialized"
THRESHOLDS = "scheduling.koordinator.sh/usage-thresholds"
RAW_ALLOCATABLE = "node.koordinator.sh/raw-allocatable"


def amount(resource: str, value: Any) -> int:
    """Milli for cpu, whole for the rest; values in these tests are exact."""
    text = str(value)
    suffix = next(s for s in ("Ki", "Mi", "Gi", "m", "k", "") if text.endswith(s))
    number = Fraction(text.removesuffix(suffix)) * SUFFIXES[suffix]
    return int(number * 1000 if resource == "cpu" else number)


def listed(raw: Mapping[str, Any] | None) -> Amounts:
    return {name: amount(name, value) for name, value in (raw or {}).items()}


def epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def rounded(value: Fraction) -> int:
    """Half away from zero; values are not negative."""
    return int(value + Fraction(1, 2))


def annotations(obj: Raw) -> Mapping[str, str]:
    found: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    return found


def json_map(text: str | None) -> Any:
    try:
        return json.loads(text) if text is not None else None
    except ValueError:
        return None


def percents(value: Any) -> bool:
    """Whether a value is a map of whole percentages, none of them negative."""
    return isinstance(value, dict) and all(
        isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in value.values()
    )


def containers(pod: Raw, which: str) -> Amounts:
    total: Amounts = {}
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        limits = listed(resources.get("limits"))
        values = limits if which == "limits" else limits | listed(resources.get("requests"))
        for name, value in values.items():
            total[name] = total.get(name, 0) + value
    return total


def best_effort(pod: Raw) -> bool:
    """Kubernetes looks at cpu and memory alone."""
    return not any(
        listed((c.get("resources") or {}).get(part)).get(name)
        for c in pod["spec"]["containers"]
        for part in ("requests", "limits")
        for name in ("cpu", "memory")
    )


def band(pod: Raw) -> str:
    """prod, mid, batch, free or none."""
    labels = pod["metadata"].get("labels") or {}
    known = "none"
    if "koordinator.sh/priority-class" in labels:
        name = labels["koordinator.sh/priority-class"].removeprefix("koord-")
        known = name if name in BANDS else "none"
    else:
        priority = pod["spec"].get("priority") or 0
        known = next((name for name, (low, high) in BANDS.items() if low <= priority <= high), "none")
    if known != "none":
        return known
    qos = labels.get("koordinator.sh/qosClass")
    if qos in ("LSE", "LSR", "LS", "SYSTEM"):
        return "prod"
    if qos == "BE":
        return "batch"
    if qos == "SYSTEM":
        return "none"
    return "batch" if best_effort(pod) else "prod"


@dataclass
class World:
    """Raw objects by name; `learned` says when a pod was seen first."""

    nodes: dict[str, Raw] = field(default_factory=dict)
    metrics: dict[str, Raw] = field(default_factory=dict)
    pods: dict[str, Raw] = field(default_factory=dict)
    learned: dict[str, float] = field(default_factory=dict)


class Oracle:
    """Answers for one set of raw arguments."""

    def __init__(self, args: Raw) -> None:
        self.args = args
        aggregated = args.get("aggregated") or {}
        self.factors = {"cpu": 85, "memory": 70} | args.get("estimatedScalingFactors", {})
        self.thresholds = args.get("usageThresholds") or {"cpu": 65, "memory": 95}
        self.prod_thresholds = args.get("prodUsageThresholds") or {}
        self.dominant = args.get("dominantResourceWeight", 0)
        default_weights = {} if self.dominant else {"cpu": 1, "memory": 1}
        self.weights = args.get("resourceWeights") or default_weights
        self.aggregated = aggregated
        named = ("usageThresholds", "prodUsageThresholds", "resourceWeights", "estimatedScalingFactors")
        self.resources = sorted(
            {"cpu", "memory", *args.get("supportedResources", []), *aggregated.get("usageThresholds", {})}
            | {name for part in named for name in args.get(part, {})}
        )

    # Pods

    def estimate(self, pod: Raw) -> Amounts:
        factors: dict[str, int] = dict(self.factors)
        custom = json_map(annotations(pod).get(FACTORS))
        if self.args.get("allowCustomizeEstimation") and percents(custom):
            factors |= custom
        return {r: self.one(pod, r, factors[r]) if r in factors else 0 for r in self.resources}

    def one(self, pod: Raw, resource: str, factor: int) -> int:
        of = band(pod)
        name = resource
        if of == "free" or (of in ("mid", "batch") and resource not in ("cpu", "memory")):
            return {"cpu": 250, "memory": 200 * 2**20}.get(resource, 0) if of == "batch" else 0
        if of in ("mid", "batch"):
            name = f"kubernetes.io/{of}-{resource}"
        requests, limits = containers(pod, "requests"), containers(pod, "limits")
        limit = limits.get(name, 0)
        top = max(requests.get(name, 0), limit)
        if top == 0:
            return 0 if of == "mid" else {"cpu": 250, "memory": 200 * 2**20}.get(resource, 0)
        value = rounded(Fraction(top * factor, 100))
        return min(value, limit) if limit and self.args.get("capEstimatesAtLimit", True) else value

    def moment(self, pod: Raw, kind: str) -> float | None:
        for condition in (pod.get("status") or {}).get("conditions") or []:
            if condition["type"] == kind and condition["status"] == "True":
                return epoch(condition["lastTransitionTime"])
        return None

    def seconds(self, pod: Raw, annotation: str, arg: str) -> int:
        text = annotations(pod).get(annotation)
        if self.args.get("allowCustomizeEstimation") and text is not None and text.isdecimal():
            return int(text)
        return self.args.get(arg) or 0

    def deadline(self, pod: Raw, scheduled: float) -> float:
        initialized = self.moment(pod, "Initialized")
        after = self.seconds(pod, AFTER_INITIALIZED, "estimatedSecondsAfterInitialized")
        if after > 0 and initialized is not None:
            return initialized + after
        after = self.seconds(pod, AFTER_SCHEDULED, "estimatedSecondsAfterPodScheduled")
        return scheduled + after if after > 0 else float("-inf")

    # Nodes

    def capacity(self, node: Raw) -> Amounts:
        values = listed(node["status"]["allocatable"])
        overlay = json_map(annotations(node).get(RAW_ALLOCATABLE))
        if isinstance(overlay, dict):
            values |= listed(overlay)
        return {r: values.get(r, 0) for r in self.resources}

    def limits(self, node: Raw, prod: bool) -> tuple[str, dict[str, int], str, float]:
        """What to look at (prod, aggregated or plain), its thresholds, and the percentile."""
        custom = json_map(annotations(node).get(THRESHOLDS))
        custom = custom if isinstance(custom, dict) else {}
        parts = (custom.get("usageThresholds"), custom.get("prodUsageThresholds"))
        if not all(percents(part or {}) for part in parts):
            custom = {}
        of_prod = custom.get("prodUsageThresholds") or self.prod_thresholds
        if prod and any(of_prod.get(r, 0) for r in self.resources):
            return "prod", of_prod, "", 0
        for part in (custom.get("aggregatedUsage") or {}, self.aggregated):
            if part.get("usageThresholds") and part.get("usageAggregationType"):
                window = SECONDS[part.get("usageAggregatedDuration", "0s")]
                return "aggregated", part["usageThresholds"], part["usageAggregationType"], window
        return "plain", custom.get("usageThresholds") or self.thresholds, "", 0

    def base(self, metric: Raw, kind: str, window: float) -> Amounts | None:
        info = metric["status"]["nodeMetric"]
        plain = listed((info.get("nodeUsage") or {}).get("resources"))
        if not kind:
            return plain
        found = {
            SECONDS[entry["duration"]]: listed((entry["usage"].get(kind) or {}).get("resources"))
            for entry in info.get("aggregatedNodeUsages") or []
        }
        found = {seconds: usage for seconds, usage in found.items() if usage}
        if window:
            return found.get(window)
        return found[max(found)] if found else plain

    def assigned(self, world: World, name: str) -> list[Raw]:
        return [
            pod
            for pod in world.pods.values()
            if pod["spec"].get("nodeName") == name
            and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        ]

    def cache(self, world: World, name: str) -> dict[str, Amounts]:
        """The sums over assigned pods."""
        metric = world.metrics.get(name, {})
        status = metric.get("status") or {}
        updated = epoch(status["updateTime"]) if status.get("updateTime") else float("-inf")
        policy = (metric.get("spec") or {}).get("metricCollectPolicy") or {}
        interval = policy.get("reportIntervalSeconds", 60)
        entries = {f"{e['namespace']}/{e['name']}": e for e in status.get("podsMetric") or []}
        sums = {
            part: dict.fromkeys(self.resources, 0)
            for part in ("prodUsage", "nodeDelta", "prodDelta", "nodeEstimated")
        }
        if self.args.get("prodUsageIncludeSys"):
            own = (status.get("nodeMetric") or {}).get("systemUsage") or {}
            for r in self.resources:
                sums["prodUsage"][r] = listed(own.get("resources")).get(r, 0)
        for pod in self.assigned(world, name):
            key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            entry = entries.get(key, {})
            usage = listed((entry.get("podUsage") or {}).get("resources"))
            at = self.moment(pod, "PodScheduled")
            scheduled = world.learned[pod["metadata"]["uid"]] if at is None else at
            forced = not usage or updated - interval < scheduled or self.deadline(pod, scheduled) > updated
            estimate = self.estimate(pod)
            prod = band(pod) == "prod"
            as_prod = bool(usage) and entry.get("priority") == "koord-prod"
            for r in self.resources:
                delta = max(0, estimate[r] - usage.get(r, 0)) if forced else 0
                sums["nodeEstimated"][r] += estimate[r]
                sums["nodeDelta"][r] += delta
                if prod and as_prod:
                    sums["prodUsage"][r] += usage.get(r, 0)
                    sums["prodDelta"][r] += delta
                elif prod:
                    sums["prodDelta"][r] += estimate[r]
        return sums

    def used(self, world: World, name: str, pod: Raw, look: str, kind: str, window: float) -> Amounts:
        sums, estimate = self.cache(world, name), self.estimate(pod)
        if look == "prod":
            return {r: sums["prodUsage"][r] + sums["prodDelta"][r] + estimate[r] for r in self.resources}
        base = self.base(world.metrics[name], kind, window)
        if base is None:
            return {r: sums["nodeEstimated"][r] + estimate[r] for r in self.resources}
        return {r: base.get(r, 0) + sums["nodeDelta"][r] + estimate[r] for r in self.resources}

    def expired(self, metric: Raw, now: float) -> bool:
        updated = metric["status"].get("updateTime")
        return not updated or now - epoch(updated) >= self.args.get("nodeMetricExpirationSeconds", 180)

    # Answers

    def filter(self, world: World, name: str, pod: Raw, now: float) -> str:
        look, thresholds, kind, window = self.limits(world.nodes[name], band(pod) == "prod")
        metric = world.metrics.get(name)
        missing = (
            "pass"
            if self.args.get("enableScheduleWhenNodeMetricsMissing", True)
            else "node(s) nodeMetric missing"
        )
        if metric is None:
            return missing
        unmeasured = metric["status"].get("nodeMetric") is None
        if not any(thresholds.get(r, 0) for r in self.resources):
            return missing if unmeasured else "pass"
        if self.expired(metric, now):
            passes = self.args.get("enableScheduleWhenNodeMetricsExpired", False)
            return "pass" if passes else "node(s) nodeMetric expired"
        if unmeasured:
            return missing
        used, capacity = self.used(world, name, pod, look, kind, window), self.capacity(world.nodes[name])
        for r in self.resources:
            threshold = thresholds.get(r, 0)
            if not threshold or not capacity[r]:
                continue
            percent = Fraction(used[r] * 100, capacity[r])
            literal = self.args.get("thresholdComparison") == "GreaterOrEqual"
            if percent >= threshold if literal else rounded(percent) > threshold:
                which = "aggregated " if look == "aggregated" else ""
                return f"node(s) {r} {which}usage exceed threshold"
        return "pass"

    def score(self, world: World, name: str, pod: Raw, now: float) -> int:
        metric = world.metrics.get(name)
        if metric is None or self.expired(metric, now) or metric["status"].get("nodeMetric") is None:
            return 0
        prod = band(pod) == "prod" and self.args.get("scoreAccordingProdUsage", False)
        kind = self.aggregated.get("scoreAggregationType", "")
        window = SECONDS[self.aggregated.get("scoreAggregatedDuration", "0s")]
        used = self.used(world, name, pod, "prod" if prod else "plain", kind, window)
        capacity = self.capacity(world.nodes[name])
        points = {
            r: max(0, capacity[r] - used[r]) * 100 // capacity[r] if capacity[r] else 0
            for r in self.resources
        }
        total = sum(weight * points[r] for r, weight in self.weights.items())
        total += self.dominant * min(points.values())
        return total // (sum(self.weights.values()) + self.dominant)
