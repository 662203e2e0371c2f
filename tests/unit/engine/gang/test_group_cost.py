"""What the cycle of a native group costs: calls must not grow with what does not concern the group."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from scheduler_core.engine.decisions import Evicted, Placed
from scheduler_core.model.groups.native import parse_native_gang
from tests.support.builders import make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler

ZONE = "example.com/zone"


def calls(work: Callable[[], Any]) -> int:
    """How many functions are called, of Python and of C."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def cluster(domains: int) -> GangScheduler:
    """Domains of two nodes of four CPUs each."""
    made = GangScheduler()
    for number in range(2 * domains):
        node = make_node(f"n{number}").allocatable(cpu=4).label(ZONE, f"z{number // 2}")
        made.scheduler.put(node.obj(), made.now)
    return made


def add_group(made: GangScheduler, namespace: str, name: str, size: int, key: str = "") -> None:
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": size}}, "priority": 5}
    if key:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    made.scheduler.put(
        parse_native_gang({"metadata": {"name": name, "namespace": namespace}, "spec": spec}), made.now
    )
    for number in range(size):
        pod = make_pod(f"{namespace}/{name}-{number}").requests(cpu=1).priority(5)
        made.put(pod.spec(schedulingGroup={"podGroupName": name}))


def fill(made: GangScheduler, namespace: str, cpu: str = "1") -> None:
    """Weak pods of so many CPUs, as many as the nodes hold, the first nodes last."""
    for number in reversed(range(made.state.nodes.size)):
        for more in range(int(4 / float(cpu))):
            made.put(make_pod(f"{namespace}/w{number}-{more}").requests(cpu=cpu).on(f"n{number}"))


def preempting(domains: int) -> int:
    """Calls of a cycle in which a group evicts all pods of one domain, of so many."""
    made = cluster(domains)
    fill(made, "a")
    add_group(made, "a", "first", 8, ZONE)
    assert sum(isinstance(item, Evicted) for item in made.step()) == 8
    add_group(made, "a", "second", 8, ZONE)
    decisions: list[Any] = []
    cost = calls(lambda: decisions.extend(made.scheduler.step(made.now)))
    assert sum(isinstance(item, Evicted) for item in decisions) == 8
    return cost


def reclaiming(size: int) -> int:
    """Calls of a cycle in which a group evicts pods of another quota, which hold more than it needs."""
    made = cluster(size // 4)
    made.scheduler.put(make_quota("a/q").min(cpu=size).obj(), made.now)
    made.scheduler.put(make_quota("b/q").min(cpu=0).obj(), made.now)
    fill(made, "b", "1.5")
    add_group(made, "a", "g", size)
    decisions: list[Any] = []
    cost = calls(lambda: decisions.extend(made.scheduler.step(made.now)))
    assert sum(isinstance(item, Evicted) for item in decisions) >= size // 4
    return cost


def starting(domains: int) -> int:
    """Calls of a cycle in which a group starts in one domain, of so many, after another group did."""
    made = cluster(domains)
    add_group(made, "a", "first", 4, ZONE)
    made.step()
    add_group(made, "a", "second", 4, ZONE)
    decisions: list[Any] = []
    cost = calls(lambda: decisions.extend(made.scheduler.step(made.now)))
    assert sum(isinstance(item, Placed) for item in decisions) == 4
    return cost


@pytest.mark.parametrize(
    ("work", "small", "large", "times"),
    [
        pytest.param(preempting, 16, 64, 1.2, id="victims of one domain, among those of four times as many"),
        pytest.param(reclaiming, 64, 256, 6.0, id="four times as many members and victims"),
        pytest.param(starting, 16, 256, 1.4, id="nodes of one domain, among sixteen times as many"),
    ],
)
def test_calls_grow_with_what_the_group_needs(
    work: Callable[[int], int], small: int, large: int, times: float
) -> None:
    work(small)
    assert work(large) < times * work(small)
