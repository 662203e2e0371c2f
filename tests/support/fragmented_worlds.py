"""Small random clusters whose nodes are short rather than quota, to be told in ways that must not matter.

Memory and the number of pods, which no quota names, and the sizes of nodes decide who fits where; teams use
more of one resource than they are guaranteed, and less of another one.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from scheduler_core.simulate import Simulation

Raw = dict[str, Any]
CPU: Final = "cpu"
GPU: Final = "nvidia.com/gpu"
TEAMS: Final = ("a", "b", "c")
QUOTAS: Final = "scheduling.x-k8s.io/v1alpha1"


class Asked(NamedTuple):
    """Work that is created at once: the pods of a team, a gang if there are several."""

    name: str
    team: str
    pods: tuple[Raw, ...]


class Fragmented(NamedTuple):
    """Nodes, the min of each team, pods that run, and work that comes one after another.

    `reserve` is guaranteed to nobody who asks.
    """

    nodes: tuple[Raw, ...]
    minimum: dict[str, dict[str, int]]
    reserve: dict[str, int]
    running: tuple[Raw, ...]
    work: tuple[Asked, ...]

    def quotas(self, group: str = "") -> list[Raw]:
        """The quota of each team, below a group."""
        labels = {"muster.dev/quota-group": group} if group else {}
        return [_quota(team, low, labels) for team, low in self.minimum.items()]

    def total(self) -> dict[str, int]:
        """What the teams are guaranteed together, with the reserve."""
        every = (self.reserve, *self.minimum.values())
        return {name: sum(low.get(name, 0) for low in every) for name in (CPU, GPU)}


def fragmented(seed: int) -> Fragmented:
    """The world of a seed."""
    dice = random.Random(seed)
    nodes = tuple(_node(f"n{number}", dice) for number in range(dice.randint(1, 3)))
    minimum = {team: {CPU: dice.randint(0, 6), GPU: dice.randint(0, 3)} for team in TEAMS}
    reserve = {CPU: dice.choice((0, 4, 20)), GPU: dice.choice((0, 2, 10))}
    running: list[Raw] = []
    for node in nodes:
        free = {name: int(value) for name, value in node["status"]["allocatable"].items()}
        for _ in range(dice.randint(1, 5)):
            team, requests = dice.choice(TEAMS), _requests(dice)
            if all(free[name] >= value for name, value in {**requests, "pods": 1}.items()):
                for name, value in {**requests, "pods": 1}.items():
                    free[name] -= value
                pod = _pod(f"r{len(running)}", team, requests, dice.choice((0, 0, 5)))
                pod["spec"]["nodeName"] = node["metadata"]["name"]
                pod["status"] = {"phase": "Running", "startTime": f"2025-12-31T23:0{len(running) % 10}:00Z"}
                running.append(pod)
    work = tuple(_asked(f"w{number}", dice) for number in range(dice.randint(1, 5)))
    return Fragmented(nodes, minimum, reserve, tuple(running), work)


def _asked(name: str, dice: random.Random) -> Asked:
    team, priority = dice.choice(TEAMS), dice.choice((0, 0, 5))
    size = dice.choice((1, 1, 1, 2, 3))
    same = _requests(dice)
    mixed = dice.random() < 0.3
    pods = [
        _pod(f"{name}-{number}", team, _requests(dice) if mixed else same, priority) for number in range(size)
    ]
    return Asked(name, team, tuple(pods))


def _requests(dice: random.Random) -> dict[str, int]:
    asked = {CPU: dice.choice((0, 1, 1, 2, 3)), GPU: dice.choice((0, 0, 1, 2)), "memory": dice.randint(0, 5)}
    return {name: value for name, value in asked.items() if value} or {CPU: 1}


def _node(name: str, dice: random.Random) -> Raw:
    amounts = {CPU: dice.randint(2, 8), GPU: dice.randint(0, 4), "memory": dice.randint(4, 10)}
    allocatable = {name: str(value) for name, value in {**amounts, "pods": dice.choice((2, 4, 110))}.items()}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": allocatable}}


def _quota(team: str, low: dict[str, int], labels: dict[str, str]) -> Raw:
    spec = {"min": {name: str(value) for name, value in low.items()}}
    meta = {"name": "quota", "namespace": team, "labels": labels}
    return {"apiVersion": QUOTAS, "kind": "ElasticQuota", "metadata": meta, "spec": spec}


def _pod(name: str, team: str, requests: dict[str, int], priority: int) -> Raw:
    container = {"name": "c", "resources": {"requests": {k: str(v) for k, v in requests.items()}}}
    spec = {"schedulerName": "muster-scheduler", "priority": priority, "containers": [container]}
    meta = {"name": name, "namespace": team}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def played(objects: Sequence[Raw], work: Sequence[Sequence[Raw]]) -> list[tuple[dict[str, str], list[str]]]:
    """Who has which node, and who was evicted, after each piece of work."""
    simulation = Simulation()
    for obj in objects:
        simulation.create(copy.deepcopy(obj))
    simulation.run()
    found = []
    for created in work:
        simulation.forget_happenings()
        for obj in created:
            simulation.create(copy.deepcopy(obj))
        simulation.run()
        assert not simulation.overlooked
        report = simulation.report()
        bound = dict(sorted(report["bound"].items()))
        found.append((bound, sorted(item["pod"] for item in report["evicted"])))
    return found
