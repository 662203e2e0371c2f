"""An API server that goes away in the middle of a topology group's placement.

Some members are bound, some are not. Afterwards the group is whole where it was solved, nobody had two nodes,
ranks and results are complete, and who ran before was not disturbed.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import SchedulerProcess, create_node, get_pod
from tests.support.eventually import eventually
from tests.support.faults.burst import SETTLE_SECONDS, Losses
from tests.support.faults.outage import cut_off, noticed, server_down
from tests.support.faults.rules import Call, Gate, Rule, is_binding
from tests.support.faults.stage import Stage
from tests.support.sakkara import CONFIG

pytestmark = pytest.mark.timeout(300)

Record = Callable[[str, int, Losses], None]
SIZE = 8
# One member a CPU. The group before takes the rack of small nodes; eight fit nowhere but on the other one.
CPUS = (1, 1, 1, 3, 3, 2)
SOLVED = {"node-3": 3, "node-4": 3, "node-5": 2}
TREE = {
    "rack-0": {"node-0": {}, "node-1": {}, "node-2": {}},
    "rack-1": {"node-3": {}, "node-4": {}, "node-5": {}},
}
CONSTRAINTS = '{"rack": {"type": "pack", "hard": true}, "node": {"type": "spread"}}'


@dataclass(frozen=True)
class Moment:
    """When the server goes: so many members are bound, the next binding is on its way there or back.

    `restarted`: a real server is killed and starts anew; else it is cut off, the same to its clients.
    """

    sentence: str
    bound: int
    answered: bool = True
    restarted: bool = False
    killed: bool = False


MOMENTS = [
    Moment("API away when one of eight members is bound", 1),
    Moment(
        "API away when four of eight members are bound, the fifth unanswered",
        4,
        answered=False,
        restarted=True,
    ),
    Moment("API away when seven of eight members are bound", 7),
    Moment("API away when three of eight members are bound, the scheduler killed meanwhile", 3, killed=True),
]


class Story:
    """A namespace with two groups, and a scheduler that reads the topology in it."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage = stage
        self.cluster: Cluster = stage.cluster
        self.namespace = self.cluster.namespace("group")
        for number, cpu in enumerate(CPUS):
            create_node(self.cluster, f"node-{number}", str(cpu))
        levels = '["rack", "node"]'
        self._config_map("topology", "t", {"name": "t", "level-names": levels, "tree": json.dumps(TREE)})
        door = stage.proxy.door("main")
        self.config = folder / f"{self.namespace}.yaml"
        text = CONFIG.format(kubeconfig=door.kubeconfig, namespace=self.namespace)
        # One binding after the other, so that the server can go between two of them.
        self.config.write_text(text.replace("qps: 1000, burst: 1000", "qps: 20, burst: 2"))
        self.process = self.start()

    def start(self) -> SchedulerProcess:
        self.process = self.stage.start(f"--config={self.config}")
        return self.process

    def _config_map(self, label: str, name: str, data: dict[str, str]) -> None:
        meta = {"name": name, "labels": {f"sakkara.{label}": ""}}
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        self.cluster.request("POST", path, {"metadata": meta, "data": data})

    def group(self, name: str, size: int, constraints: str = CONSTRAINTS) -> None:
        self._config_map("group", name, {"name": name, "size": str(size), "constraints": constraints})
        for number in range(size):
            container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
            meta = {"name": f"{name}-{number}", "labels": {"sakkara.group.name": name}}
            spec = {"schedulerName": "sakkara", "containers": [container], "terminationGracePeriodSeconds": 0}
            path = f"/api/v1/namespaces/{self.namespace}/pods"
            self.cluster.request("POST", path, {"metadata": meta, "spec": spec})

    def data(self, name: str) -> dict[str, str]:
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/{name}"
        found: dict[str, str] = self.cluster.request("GET", path)["data"]
        return found

    def of_late(self, call: Call) -> bool:
        """A binding of the group that is interrupted."""
        return is_binding(call) and f"/namespaces/{self.namespace}/pods/late-" in call.path

    def await_bound(self, name: str) -> dict[str, str]:
        """The results of a group once they say that it is whole and placed."""

        def written() -> dict[str, str]:
            data = self.data(name)
            assert (data.get("status"), "hopCost" in data) == ("Bound", True), data
            return data

        return eventually(written, SETTLE_SECONDS)

    def run(self, name: str, size: int) -> None:
        """A kubelet would say so: the members run."""
        for number in range(size):
            path = f"/api/v1/namespaces/{self.namespace}/pods/{name}-{number}/status"
            self.cluster.request("PATCH", path, {"status": {"phase": "Running"}})

    def members(self, name: str, size: int) -> dict[str, dict[str, Any]]:
        return {f"{name}-{n}": get_pod(self.cluster, self.namespace, f"{name}-{n}") for n in range(size)}


def losses_of(story: Story, before: dict[str, Any], ran: dict[str, str]) -> Losses:
    """What is wrong with the group that was interrupted, and with the one that ran."""
    found = Losses()
    pods, data = story.members("late", SIZE), story.data("late")
    history = story.stage.ground.witness.bindings(story.namespace)
    found.pods = len(history)
    found.bound_twice = [f"{uid}: {nodes}" for uid, nodes in history.items() if len(nodes) > 1]
    nodes = {name: pod["spec"].get("nodeName", "") for name, pod in pods.items()}
    if Counter(nodes.values()) != SOLVED:
        found.lost.append(f"the group is at {nodes}")
    tried: dict[str, set[str]] = {}
    for call in story.stage.journal.found(story.of_late):
        name = call.path.split("/")[-2]
        tried.setdefault(name, set()).add(json.loads(call.body)["target"]["name"])
    found.bound_twice += [
        f"{name} was sent to {sorted(asked)}" for name, asked in tried.items() if len(asked) > 1
    ]
    found.lost += complete(nodes, pods, data)
    if story.members("early", 3) != before:
        found.lost.append("pods that ran before were changed")
    if story.data("early") != ran:
        found.lost.append(f"results of the group that ran before were {ran}, and are {story.data('early')}")
    return found


def complete(nodes: dict[str, str], pods: dict[str, Any], data: dict[str, str]) -> list[str]:
    """What of ranks, labels and results does not agree with where the members are."""
    wrong: list[str] = []
    labels = {name: pod["metadata"]["labels"] for name, pod in pods.items()}
    ranks = {name: int(label.get("sakkara.member.rank", -1)) for name, label in labels.items()}
    if sorted(ranks.values()) != list(range(SIZE)):
        wrong.append(f"ranks are {ranks}")
    if {label.get("sakkara.member.status") for label in labels.values()} != {"Bound"}:
        wrong.append("a member's label does not say Bound")
    in_order = sorted(ranks, key=ranks.__getitem__)
    away = [nodes[name] != nodes[in_order[0]] for name in in_order]
    if away != sorted(away):
        wrong.append(f"ranks do not grow with the distance: {[nodes[name] for name in in_order]}")
    if data["rank"] != "[" + " ".join(f"({name},{ranks[name]})" for name in in_order) + "]":
        wrong.append(f"rank is {data['rank']}")
    tree: dict[str, Any] = json.loads(data["placement"])["root"]["rack-1"]
    if {name: node for node, there in tree.items() for name in there} != nodes:
        wrong.append(f"placement is {tree}")
    for field in ("schedBeginTime", "schedEndTime", "schedTotalTimeMilli", "hopCost", "bestHopCost"):
        if not data.get(field):
            wrong.append(f"{field} is missing")
    return wrong


def interrupted(story: Story, moment: Moment) -> Losses:
    """A group is placed while another one runs, the server goes at that moment and comes back."""
    stage = story.stage
    story.group("early", 3)
    story.await_bound("early")
    story.run("early", 3)
    before, ran = story.members("early", 3), story.data("early")
    gate = Gate()
    held = Rule(story.of_late, before=gate) if moment.answered else Rule(story.of_late, after=gate)
    stage.journal.add(Rule(story.of_late, times=moment.bound), held)
    story.group("late", SIZE)
    eventually(lambda: gate.held, SETTLE_SECONDS, interval=0.01)
    with server_down(stage) if moment.restarted else cut_off(stage), noticed(story.process, "unreachable"):
        stage.journal.clear()
    if moment.killed:
        story.process.end(signal.SIGKILL)
        story.start()
    story.await_bound("late")
    assert story.process.process.poll() is None, "the scheduler did not live through it"
    return losses_of(story, before, ran)


@pytest.mark.parametrize("moment", MOMENTS, ids=[moment.sentence for moment in MOMENTS])
def test_a_group_whose_placement_an_outage_interrupts_is_whole_where_it_was_solved(
    stage: Stage, record: Record, tmp_path: Path, moment: Moment
) -> None:
    story = Story(stage, tmp_path)
    try:
        losses = interrupted(story, moment)
    finally:
        story.process.end(signal.SIGKILL)
    record(moment.sentence, 1, losses)
