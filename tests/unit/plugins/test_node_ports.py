"""NodePorts."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler_core.framework.view import NodeView
from scheduler_core.plugins.node_ports import NodePorts
from tests.support.asking import ask, cluster, cycle_for, fitting, wakes
from tests.support.builders import PodBuilder, make_node, make_pod

TAKEN = {"node(s) didn't have free ports for the requested pod ports"}


def with_port(key: str, port: int, ip: str = "", protocol: str = "TCP") -> PodBuilder:
    listed = [{"hostPort": port, "containerPort": 1, "hostIP": ip, "protocol": protocol}]
    return make_pod(key).containers({"name": "c", "image": "i", "ports": listed})


@pytest.mark.parametrize(
    ("used", "asked", "free"),
    [
        pytest.param((80,), (80,), False, id="the same port"),
        pytest.param((80,), (81,), True, id="another port"),
        pytest.param((80, "", "UDP"), (80,), True, id="another protocol"),
        pytest.param((80, "10.0.0.1"), (80, "10.0.0.2"), True, id="different addresses"),
        pytest.param((80, "10.0.0.1"), (80, "10.0.0.1"), False, id="the same address"),
        pytest.param((80, "10.0.0.1"), (80,), False, id="all addresses are wanted, one is taken"),
        pytest.param((80,), (80, "10.0.0.1"), False, id="all addresses are taken"),
        pytest.param((80,), (0,), True, id="no host port is wanted"),
    ],
)
def test_conflicts(used: tuple, asked: tuple, free: bool) -> None:
    state = cluster(make_node("n").allocatable(cpu="1").obj(), with_port("x/a", *used).on("n").obj())
    assert ask(NodePorts(), state, with_port("x/p", *asked).obj()) == {"n": set() if free else TAKEN}


def test_a_sidecar_holds_its_port_and_an_init_container_does_not() -> None:
    port = [{"hostPort": 80, "containerPort": 80}]
    init = {"name": "i", "image": "i", "ports": port}
    node = make_node("n").allocatable(cpu="1").obj()
    pod = with_port("x/p", 80).obj()
    over = cluster(node, make_pod("x/a").spec(initContainers=[init]).on("n").obj())
    assert fitting(NodePorts(), over, pod) == ["n"]
    sidecar = cluster(
        node, make_pod("x/a").spec(initContainers=[{**init, "restartPolicy": "Always"}]).on("n").obj()
    )
    assert fitting(NodePorts(), sidecar, pod) == []


def test_the_port_is_free_again_when_its_pod_is_gone_and_that_wakes() -> None:
    state = cluster(make_node("n").allocatable(cpu="1").obj(), with_port("x/a", 80).on("n").obj())
    pod = with_port("x/p", 80).obj()
    events = state.remove_pod("x/a")
    assert fitting(NodePorts(), state, pod) == ["n"]
    assert wakes(NodePorts(), state, pod, events)
    assert not wakes(NodePorts(), state, with_port("x/q", 81).obj(), events)


def test_pods_that_a_view_adds_take_the_port() -> None:
    state = cluster(make_node("n").allocatable(cpu="1").obj(), make_node("m").allocatable(cpu="1").obj())
    pod = with_port("x/p", 80).obj()
    cycle = cycle_for(state, pod)
    view = NodeView.all(state.nodes).with_added(np.array([1, 0]), cycle.vector, pod.nonzero)
    assert NodePorts().filter(cycle, view).tolist() == [1, 0]
