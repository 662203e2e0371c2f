"""Of a gang, the members within the min of their quota take back what others borrow; the others do not."""

from __future__ import annotations

import pytest

from scheduler_core.engine.gang.preemption import GangPreemption, preempt_for_gang
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, member

GPU = "nvidia.com/gpu"


def cluster(nodes: dict[str, dict[str, int]], low: dict[str, int], *running: PodBuilder) -> GangScheduler:
    """Quota a guarantees `low`, b guarantees nothing and borrows, and nobody uses what idle guarantees."""
    made = GangScheduler([], g=1)
    for name, amounts in nodes.items():
        made.scheduler.put(make_node(name).allocatable(**amounts).obj(), made.now)
    for quota in (make_quota("a/q").min(**low), make_quota("b/q"), make_quota("idle/q").min(cpu=9, gpu=9)):
        made.scheduler.put(quota.obj(), made.now)
    made.put(*running)
    return made


def runs(name: str, node: str, **amounts: int) -> PodBuilder:
    return make_pod(f"b/{name}").uid(name).requests(**amounts).on(node)


def preempt(made: GangScheduler, need: int, *pods: PodBuilder) -> GangPreemption | None:
    members = [(made.scheduler.profiles[pod.scheduler_name], pod) for pod in (pod.obj() for pod in pods)]
    return preempt_for_gang(made.scheduler.cycle, members, need, made.now)


def told(found: GangPreemption | None) -> tuple[set[str], dict[str, str]] | None:
    """The names of the victims, and the node of each member that starts."""
    if found is None:
        return None
    return {victim.name for victim, _ in found.victims}, {pod.name: node for pod, node, _ in found.nominated}


def asks(name: str, **amounts: int) -> PodBuilder:
    return member(name).requests(**amounts)


def test_a_member_that_would_borrow_evicts_nobody() -> None:
    nodes = {"n0": {"cpu": 1, "memory": 4}, "n1": {"cpu": 1, "memory": 4}}
    made = cluster(nodes, {"cpu": 1}, runs("v", "n0", cpu=1), runs("w", "n1", cpu=1))
    assert told(preempt(made, 2, asks("m0", cpu=1), asks("m1", cpu=1, memory=1))) is None
    assert told(preempt(made, 1, asks("m0", cpu=1), asks("m1", cpu=1, memory=1))) is not None


def test_members_of_one_kind_are_no_exception() -> None:
    """CPUs are within the min for both, GPUs for one; one node lacks CPUs, the other one GPUs."""
    nodes = {"n0": {"cpu": 3, GPU: 2}, "n1": {"cpu": 1, GPU: 2}}
    made = cluster(nodes, {"cpu": 5, GPU: 2}, runs("v", "n0", **{GPU: 1}), runs("w", "n1", cpu=1))
    made.scheduler.put(make_quota("more/q").min(**{GPU: 9}).obj(), made.now)
    assert told(preempt(made, 2, asks("m0", cpu=1, **{GPU: 2}), asks("m1", cpu=1, **{GPU: 2}))) is None


def test_a_member_that_would_borrow_takes_a_free_node_and_leaves_the_eviction_to_another() -> None:
    nodes = {"n0": {"cpu": 1, "memory": 4}, "n1": {"cpu": 1, "memory": 4}}
    made = cluster(nodes, {"cpu": 1}, runs("w", "n1", cpu=1))
    found = preempt(made, 2, asks("m0", cpu=1), asks("m1", cpu=1, memory=1))
    assert told(found) == ({"w"}, {"m0": "n1", "m1": "n0"})


def test_a_member_that_would_borrow_takes_what_a_victim_leaves_over() -> None:
    made = cluster({"n0": {"cpu": 2, "memory": 4}}, {"cpu": 1}, runs("w", "n0", cpu=2))
    found = preempt(made, 2, asks("m0", cpu=1), asks("m1", cpu=1, memory=1))
    assert told(found) == ({"w"}, {"m0": "n0", "m1": "n0"})


@pytest.mark.parametrize("larger_first", [True, False], ids=["the larger one first", "the smaller one first"])
def test_a_spare_member_does_not_start_by_the_right_of_another(larger_first: bool) -> None:
    made = cluster({"n0": {"cpu": 2}}, {"cpu": 1}, runs("w", "n0", cpu=2))
    pods = [asks("large", cpu=2), asks("small", cpu=1)]
    found = preempt(made, 1, *(pods if larger_first else pods[::-1]))
    assert told(found) == ({"w"}, {"small": "n0"})


def test_of_members_that_differ_the_least_of_each_resource_is_no_right() -> None:
    made = cluster({"n0": {"cpu": 2, GPU: 2}}, {"cpu": 1}, runs("w", "n0", cpu=2))
    made.scheduler.put(make_quota("more/q").min(**{GPU: 9}).obj(), made.now)
    assert told(preempt(made, 1, asks("m0", cpu=2), asks("m1", cpu=1, **{GPU: 1}))) is None
