"""After any history each gang that runs has its budget, no other group has one, no other pod its label."""

from __future__ import annotations

import random
from typing import Any

from scheduler_core.config import load_config
from scheduler_core.model.names import PROTECTED_GROUP_LABEL
from scheduler_core.simulate.objects import key_of
from scheduler_core.simulate.world import Simulation
from tests.support.every import every_seed
from tests.support.searches import cases

HISTORIES = cases(60)
STEPS = 25
GROUPS = ("g0", "g1")
KEY = "scheduling.k8s.io/group-name"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: batch
  plugins: {multiPoint: {enabled: [{name: CapacityScheduling}, {name: Coscheduling}]}}
  pluginConfig: [{name: Coscheduling, args: {disruptionBudgets: true}}]
"""


def pod(name: str, group: str, mark: str, uid: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "a", "uid": uid, "annotations": {KEY: group}, "labels": {}}
    if mark:
        meta["labels"] = {PROTECTED_GROUP_LABEL: mark}
    spec = {"schedulerName": "batch", "priority": 0, "containers": [{"name": "c"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


class History:
    """A cluster in which groups and their pods come, end and go."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.simulation = Simulation(load_config(CONFIG), 1_700_000_000.0)
        self.serial = 0
        node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "9", "pods": "99"}}}
        self.create({"apiVersion": "v1", "kind": "Node", **node})

    def create(self, obj: dict[str, Any]) -> None:
        if self.simulation.objects.get(key_of(obj)) is None:
            self.simulation.observe(self.simulation.objects.create(obj, "objects"))

    def delete(self, obj: dict[str, Any]) -> None:
        self.simulation.observe(self.simulation.objects.delete(obj, "objects"))

    def step(self) -> None:
        self.simulation.now += 400.0
        self.serial += 1
        self.dice.choice([self.come, self.come, self.come, self.end, self.go, self.group, self.ungroup])()
        if self.dice.random() < 0.5:
            self.simulation.run()

    def come(self) -> None:
        groups = [obj["metadata"]["uid"] for obj in self.simulation.objects.all("PodGroup")]
        mark = self.dice.choice([*groups, "none"]) if self.dice.random() < 0.2 else ""
        group = self.dice.choice([*GROUPS, ""])
        self.create(pod(f"p{self.serial}", group, mark, f"p{self.serial}"))

    def some(self, kind: str) -> dict[str, Any] | None:
        found = self.simulation.objects.all(kind)
        return self.dice.choice(found) if found else None

    def end(self) -> None:
        found = self.some("Pod")
        if found is not None and found["spec"].get("nodeName"):
            phase = self.dice.choice(("Succeeded", "Failed"))
            changed = {**found, "status": {**found["status"], "phase": phase}}
            self.simulation.observe(self.simulation.objects.update(changed, "objects"))

    def go(self) -> None:
        if (found := self.some("Pod")) is not None:
            self.delete(found)

    def group(self) -> None:
        meta = {"name": self.dice.choice(GROUPS), "namespace": "a", "uid": f"u{self.serial}"}
        spec = {"minMembers": self.dice.randint(1, 3)}
        version = "incubator.scheduling.k8s.io/v1alpha1"
        self.create({"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": spec})

    def ungroup(self) -> None:
        if (found := self.some("PodGroup")) is not None:
            self.delete(found)

    def wanted(self) -> dict[str, int]:
        """How many must stay of each group, by its name, counted from the objects alone."""
        found = {}
        for group in self.simulation.objects.all("PodGroup"):
            phases = [
                (item["status"]["phase"], bool(item["spec"].get("nodeName")))
                for item in self.simulation.objects.all("Pod")
                if item["metadata"]["annotations"][KEY] == group["metadata"]["name"]
            ]
            need = group["spec"]["minMembers"] - sum(phase == "Succeeded" for phase, _ in phases)
            if need > 0 and ("Running", True) in phases:
                found[group["metadata"]["name"]] = need
        return found


@every_seed(range(HISTORIES), each=20)
def test_budgets_are_those_of_the_gangs_that_run(seed: int) -> None:
    history = History(seed)
    for _ in range(STEPS):
        history.step()
    history.simulation.now += 400.0
    history.simulation.run()
    objects = history.simulation.objects
    groups = {item["metadata"]["name"]: item["metadata"]["uid"] for item in objects.all("PodGroup")}
    wanted = history.wanted()
    budgets = {
        item["metadata"]["ownerReferences"][0]["name"]: item["spec"]["minAvailable"]
        for item in objects.all("PodDisruptionBudget")
    }
    assert budgets == wanted, f"seed {seed}"
    for item in objects.all("Pod"):
        meta, runs = (
            item["metadata"],
            item["spec"].get("nodeName") and item["status"]["phase"] == "Running",
        )
        group = meta["annotations"][KEY]
        mark = (meta.get("labels") or {}).get(PROTECTED_GROUP_LABEL, "")
        if group in wanted and runs:
            assert mark == groups[group], f"seed {seed}: {meta['name']} has no label"
        elif mark in {groups[name] for name in wanted}:
            assert groups.get(group) == mark, f"seed {seed}: {meta['name']} is marked for {mark}"
