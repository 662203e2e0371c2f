"""Groups on random clusters: whole or not at all, within what nodes have, under their strict rules."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

from scheduler_core.simulate.run import run_scenario
from scheduler_core.simulate.scenario import load_scenarios
from tests.support.every import every_seed
from tests.support.searches import cases

Obj = dict[str, Any]
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "s",
            "plugins": {"multiPoint": {"enabled": [{"name": "ClusterTopologyPlacementGroup"}]}},
        }
    ],
}


def config_map(name: str, label: str, data: dict[str, str]) -> Obj:
    meta = {"name": name, "namespace": "default", "labels": {label: ""}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def pod(name: str, group: str, priority: int) -> Obj:
    labels = {"sakkara.group.name": group} if group else {}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "s", "priority": priority, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


class Plan:
    """A random cluster of racks, groups with random rules, and pods beside them."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.cpu = {f"node-{index}": chance.randint(0, 5) for index in range(chance.randint(1, 9))}
        self.rack = {name: f"rack-{chance.randrange(3)}" for name in self.cpu}
        self.groups: dict[str, tuple[int, Obj, int]] = {}
        for index in range(chance.randint(1, 4)):
            size, priority = chance.randint(1, 8), chance.choice((index, index, chance.randint(0, 3)))
            self.groups[f"g{index}"] = (size, self._constraints(chance), priority)
        self.missing = {name for name in self.groups if chance.random() < 0.2}
        self.singles = chance.randint(0, 3)

    def _constraints(self, chance: random.Random) -> Obj:
        rules: Obj = {}
        for level in ("rack", "node"):
            rule: Obj = {"type": chance.choice(("pack", "spread"))}
            if chance.random() < 0.2:
                rule["partitions"] = chance.randint(1, 3)
            if chance.random() < 0.3:
                rule["max"] = chance.randint(1, 4)
            if chance.random() < 0.2:
                rule["factor"] = 2
            rules[level] = rule
        return rules

    def nodes(self) -> list[Obj]:
        found = []
        for name, cpu in self.cpu.items():
            room = {"cpu": str(cpu), "memory": "8Gi", "pods": "20"}
            status = {"allocatable": room, "capacity": room}
            found.append({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status})
        return found

    def scenario(self) -> Obj:
        tree: dict[str, Obj] = {}
        for name, rack in self.rack.items():
            tree.setdefault(rack, {})[name] = {}
        data = {"level-names": '["rack", "node"]', "tree": json.dumps(tree)}
        steps: list[Obj] = [{"create": [pod(f"single-{n}", "", 9) for n in range(self.singles)]}]
        for name, (size, constraints, priority) in self.groups.items():
            text = {"name": name, "size": str(size), "priority": str(priority)}
            made = config_map(name, "sakkara.group", text | {"constraints": json.dumps(constraints)})
            members = size - (name in self.missing)
            pods = [pod(f"{name}-{index}", name, priority) for index in range(members)]
            steps.append({"create": [made, *pods]})
        objects = [*self.nodes(), config_map("t", "sakkara.topology", data)]
        return {"name": "random", "config": CONFIG, "objects": objects, "steps": steps}


def allowed(rule: Obj, counts: list[int]) -> bool:
    """Whether the counts of used units below one parent keep the strict rules of their level."""
    parts = rule.get("partitions")
    return (parts is None or len(counts) == parts) and all(
        count <= rule.get("max", count) and count % rule.get("factor", 1) == 0 for count in counts
    )


@every_seed(range(cases(150)), each=30)
def test_groups_are_whole_within_the_nodes_and_under_their_rules(seed: int) -> None:
    plan = Plan(seed)
    (scenario,) = load_scenarios(json.dumps(plan.scenario()))
    for step in run_scenario(scenario)["steps"]:
        bound = {name.partition("/")[2]: node for name, node in step["bound"].items()}
        for node, used in Counter(bound.values()).items():
            assert used <= plan.cpu[node]
        evicted = {item["pod"].partition("/")[2] for item in step["evicted"]}
        assert not any(name.startswith("single") for name in evicted)
        for name, (size, constraints, _) in plan.groups.items():
            nodes = [node for pod, node in bound.items() if pod.startswith(f"{name}-")]
            assert len(nodes) in (0, size)
            gone = {pod for pod in evicted if pod.startswith(f"{name}-")}
            assert len(gone) in (0, size)
            if not nodes:
                continue
            racks = Counter(plan.rack[node] for node in nodes)
            assert allowed(constraints["rack"], list(racks.values()))
            for rack in racks:
                below = Counter(node for node in nodes if plan.rack[node] == rack)
                assert allowed(constraints["node"], list(below.values()))


@every_seed(range(0, 150, 15))
def test_the_same_scenario_comes_out_the_same(seed: int) -> None:
    (scenario,) = load_scenarios(json.dumps(Plan(seed).scenario()))
    assert run_scenario(scenario) == run_scenario(scenario)
