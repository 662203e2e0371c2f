"""A scheduler that places groups on a tree of racks, and what tests of groups do with it."""

from __future__ import annotations

import json
from typing import Any

from scheduler_core.config import load_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.decisions import Decision, Evicted, Placed, Rejected
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.interface import Plugin
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model.config_map import ConfigMap, parse_config_map
from scheduler_core.model.names import MUSTER_SCHEDULER
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_node, make_pod

PACKED = '{"rack": {"type": "pack"}}'


class TopologyScheduler:
    """Nodes n0, n1, ... with so many CPUs, two of them in a rack; `quotas`: with CapacityScheduling."""

    def __init__(self, *cpus: int, quotas: bool = False, beside: Plugin | None = None) -> None:
        names = ["ClusterTopologyPlacementGroup", *(["CapacityScheduling"] if quotas else [])]
        profile = {
            "schedulerName": MUSTER_SCHEDULER,
            "plugins": {"multiPoint": {"enabled": [{"name": name} for name in names]}},
        }
        head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        config = load_config(json.dumps({**head, "profiles": [profile]}))
        profiles = build_profiles(config, FACTORIES, KNOWN_PLUGINS, beside)
        self.scheduler = Scheduler(ClusterState(), profiles)
        self.state = self.scheduler.state
        self.now = 100.0
        racks: dict[str, dict[str, Any]] = {}
        for number, cpu in enumerate(cpus):
            self.put(make_node(f"n{number}").allocatable(cpu=cpu))
            racks.setdefault(f"r{number // 2}", {})[f"n{number}"] = {}
        self.plant(racks)

    def plant(self, racks: dict[str, dict[str, Any]]) -> None:
        """Let the tree be this one."""
        data = {"level-names": '["rack", "node"]', "tree": json.dumps(racks)}
        self.scheduler.put(_config_map("t", "default", "sakkara.topology", data), self.now)

    def put(self, *builders: Any) -> None:
        for builder in builders:
            self.scheduler.put(builder.obj(), self.now)

    def group(self, name: str, size: int, constraints: str = PACKED, **more: Any) -> None:
        data = {"name": name, "size": str(size), "constraints": constraints, **more}
        self.scheduler.put(_config_map(name, "a", "sakkara.group", data), self.now)

    def step(self, later: float = 0.0) -> list[Decision]:
        self.now += later
        decisions = self.scheduler.step(self.now)
        assert self.state.check() == []
        return decisions


def _config_map(name: str, namespace: str, label: str, data: dict[str, str]) -> ConfigMap:
    meta = {"name": name, "namespace": namespace, "uid": name, "labels": {label: ""}}
    return parse_config_map({"metadata": meta, "data": data})


def member(group: str, number: int, cpu: int = 1, namespace: str = "a") -> PodBuilder:
    """Pod `group`-`number`."""
    name = f"{group}-{number}"
    pod = make_pod(f"{namespace}/{name}").uid(name).requests(cpu=cpu).created(number)
    return pod.label("sakkara.group.name", group)


def members(group: str, number: int, cpu: int = 1, start: int = 0) -> list[PodBuilder]:
    """Pods `group`-`start` and those that follow."""
    return [member(group, start + index, cpu) for index in range(number)]


def nodes(decisions: list[Decision]) -> dict[str, str]:
    """Placed pods and where."""
    return {item.pod.name: item.node for item in decisions if isinstance(item, Placed)}


def gone(decisions: list[Decision]) -> set[str]:
    """Evicted pods."""
    return {item.pod.name for item in decisions if isinstance(item, Evicted)}


def why(decisions: list[Decision]) -> set[str]:
    """What refused pods are told."""
    return {item.message for item in decisions if isinstance(item, Rejected)}
