"""Pods that no node can take, whoever is evicted there: the end of a pod is no reason to try them again."""

from __future__ import annotations

import pytest

from scheduler_core.engine.decisions import Placed, Rejected
from scheduler_core.model.node import Node
from scheduler_core.model.pods.pod import Pod
from tests.support.builders import NodeBuilder, PodBuilder, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, placed

HOST = "kubernetes.io/hostname"


def node(cpu: int = 4) -> NodeBuilder:
    return make_node("n").allocatable(cpu=cpu, pods=10).labels(**{HOST: "n"})


def near(app: str) -> dict[str, object]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def waiting(name: str = "waits") -> PodBuilder:
    return make_pod(f"a/{name}").uid(name).requests(cpu=1)


def running(name: str) -> PodBuilder:
    return make_pod(f"a/{name}").uid(name).requests(cpu=1).on("n").started(900.0)


# A pod, the node, and what changes so that the pod may start.
CASES = [
    pytest.param(
        waiting().selector(disk="fast"), node(), node().labels(disk="fast"), id="no node has its label"
    ),
    pytest.param(waiting(), node().taint("for"), node(), id="it does not tolerate the taint"),
    pytest.param(waiting().requests(cpu=6), node(), node(cpu=8), id="it is larger than the node"),
    pytest.param(
        waiting().spec(affinity=near("it")),
        node(),
        running("other").labels(app="it"),
        id="the pod that it has to be near does not exist",
    ),
]


class Tried:
    """A scheduler whose quota would let the pod evict others, and the pods that it tries."""

    def __init__(self, there: NodeBuilder) -> None:
        self.made = GangScheduler()
        self.put(there.obj(), make_quota("a/quota").min(cpu=20).obj(), running("first").obj())

    def put(self, *objects: Node | Pod | object) -> None:
        for obj in objects:
            self.made.scheduler.put(obj, self.made.now)

    def names(self) -> list[str]:
        return [item.pod.name for item in self.made.step(20.0) if isinstance(item, Placed | Rejected)]


@pytest.mark.parametrize(("pod", "there", "change"), CASES)
def test_the_end_of_a_pod_wakes_nobody_whom_every_node_refuses_for_good(
    pod: PodBuilder, there: NodeBuilder, change: NodeBuilder | PodBuilder
) -> None:
    tried = Tried(there)
    tried.put(pod.obj())
    assert tried.names() == ["waits"]
    tried.made.scheduler.remove(running("first").obj(), tried.made.now)
    assert tried.names() == []
    tried.put(change.obj())
    assert placed(tried.made.step(20.0)) == {"waits": "n"}


def test_one_node_that_evictions_could_open_is_enough_to_be_tried_again() -> None:
    tried = Tried(node(cpu=1))
    tried.put(make_node("m").allocatable(cpu=4).taint("for").obj(), waiting().obj())
    assert tried.names() == ["waits"]
    tried.made.scheduler.remove(running("first").obj(), tried.made.now)
    assert placed(tried.made.step(20.0)) == {"waits": "n"}
