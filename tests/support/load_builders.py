"""Builders for load-aware tests: reports of nodes, running pods, and the plugin of some raw arguments."""

from __future__ import annotations

import json
from typing import Any, Self

from scheduler_core.config import load_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model.node_metric import NodeMetric, parse_node_metric
from scheduler_core.model.timestamps import format_micro_time
from scheduler_core.plugins.load_aware import LoadAwareScheduling
from scheduler_core.plugins.registry import FACTORIES
from tests.support.builders import Builder, PodBuilder, Raw, make_pod

NOW = 1_767_225_600.0


class MetricBuilder(Builder):
    """A NodeMetric that was updated at NOW and measured nothing, unless said otherwise."""

    def __init__(self, name: str) -> None:
        super().__init__("slo.koordinator.sh/v1alpha1", "NodeMetric", name, namespaced=False)
        self.raw["status"] = {"updateTime": format_micro_time(NOW), "nodeMetric": {"nodeUsage": {}}}

    def updated(self, seconds: float | None) -> Self:
        if seconds is None:
            self.raw["status"].pop("updateTime", None)
        else:
            self.raw["status"]["updateTime"] = format_micro_time(seconds)
        return self

    def usage(self, **values: Any) -> Self:
        self.raw["status"]["nodeMetric"]["nodeUsage"] = {"resources": values}
        return self

    def system(self, **values: Any) -> Self:
        self.raw["status"]["nodeMetric"]["systemUsage"] = {"resources": values}
        return self

    def percentile(self, duration: str, kind: str, **values: Any) -> Self:
        entries = self.raw["status"]["nodeMetric"].setdefault("aggregatedNodeUsages", [])
        entries.append({"duration": duration, "usage": {kind: {"resources": values}}})
        return self

    def unmeasured(self) -> Self:
        self.raw["status"].pop("nodeMetric")
        return self

    def pod(self, key: str, priority: str = "koord-prod", **values: Any) -> Self:
        namespace, _, name = key.partition("/")
        usage = {"resources": values} if values else {}
        entry = {"namespace": namespace, "name": name, "podUsage": usage, "priority": priority}
        self.raw["status"].setdefault("podsMetric", []).append(entry)
        return self

    def interval(self, seconds: int) -> Self:
        self.part("spec")["metricCollectPolicy"] = {"reportIntervalSeconds": seconds}
        return self

    def obj(self) -> NodeMetric:
        return parse_node_metric(self.dict())


def make_metric(name: str) -> MetricBuilder:
    """The report of a node by name."""
    return MetricBuilder(name)


def condition(kind: str, seconds: float, status: str = "True") -> Raw:
    """A condition of a pod with its transition time."""
    return {"type": kind, "status": status, "lastTransitionTime": format_micro_time(seconds)}


def running(key: str, node: str, scheduled: float = NOW - 10, **requests: Any) -> PodBuilder:
    """A pod that runs on a node, scheduled ten seconds before NOW unless said otherwise."""
    pod = make_pod(key).uid(key).on(node).status(conditions=[condition("PodScheduled", scheduled)])
    return pod.requests(**requests) if requests else pod


def load_aware_plugin(**args: Any) -> LoadAwareScheduling:
    """The plugin as a configuration file with these (camelCase) arguments makes it."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "muster-scheduler",
                "plugins": {"multiPoint": {"enabled": [{"name": "LoadAwareScheduling"}]}},
                "pluginConfig": [{"name": "LoadAwareScheduling", "args": args}],
            }
        ],
    }
    profiles = build_profiles(load_config(json.dumps(document)), FACTORIES, KNOWN_PLUGINS)
    found = [p for p in profiles["muster-scheduler"].filter if isinstance(p, LoadAwareScheduling)]
    return found[0]
