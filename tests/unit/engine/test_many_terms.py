"""Thousands of affinity terms of placed pods: what an attempt costs, counted in calls of functions.

A tenant may run hundreds of pods with 64 terms each, which no two have in common. One attempt looked at each
of them, 2 us apiece, for every node on which it tried an eviction, and others waited behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler_core.engine.decisions import Placed, Rejected
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.calls import calls_of
from tests.support.gang_scheduler import GangScheduler, evicted

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERMS = 64


def terms(number: int, **more: Any) -> list[dict[str, Any]]:
    """Terms that select every pod but those with a label value that none has; no two pods share one."""
    said = [{"key": f"k{at}", "operator": "NotIn", "values": [f"{number}"]} for at in range(TERMS)]
    return [{"topologyKey": HOST, "labelSelector": {"matchExpressions": [one]}, **more} for one in said]


def prefers(number: int) -> dict[str, Any]:
    wishes = [{"weight": 1, "podAffinityTerm": term} for term in terms(number)]
    return {"podAffinity": {PREFERRED: wishes}}


def avoids(number: int) -> dict[str, Any]:
    return {"podAntiAffinity": {REQUIRED: terms(number)}}


def prefers_everywhere(number: int) -> dict[str, Any]:
    wishes = [{"weight": 1, "podAffinityTerm": term} for term in terms(number, namespaceSelector={})]
    return {"podAffinity": {PREFERRED: wishes}}


class Beside:
    """Nodes with a pod of namespace a each, which has 64 terms; `carriers` of them."""

    def __init__(self, carriers: int, affinity: Callable[[int], dict[str, Any]], nodes: int = 60) -> None:
        self.made = GangScheduler()
        self.affinity = affinity
        for number in range(nodes):
            node = make_node(f"n{number}").allocatable(cpu=8, memory="64Gi", pods=20)
            self.made.scheduler.put(node.labels(**{HOST: f"n{number}"}).obj(), 0.0)
        for namespace in "ab":
            self.made.scheduler.put(make_quota(f"{namespace}/q").min(cpu=4 * nodes).obj(), 0.0)
        for number in range(nodes):
            pod = make_pod(f"a/r{number}").uid(f"r{number}").requests(cpu=4).on(f"n{number}").started(1.0)
            self.made.put(pod.spec(affinity=affinity(number)) if number < carriers else pod)
        # What is made once is made.
        for namespace in "ab":
            self.attempt(make_pod(f"{namespace}/first").uid(f"{namespace}-first").requests(cpu=1))

    def attempt(self, pod: PodBuilder) -> int:
        self.made.put(pod)
        scheduler, now = self.made.scheduler, self.made.now
        return calls_of(lambda: scheduler.step(now, 1))


@pytest.mark.parametrize(
    ("affinity", "namespace"),
    [
        pytest.param(prefers, "a", id="preferences, and another pod of the namespace"),
        pytest.param(prefers, "b", id="preferences, and a pod of others"),
        pytest.param(avoids, "b", id="anti-affinity, and a pod of others"),
        pytest.param(prefers_everywhere, "b", id="preferences about all namespaces, and a pod of others"),
    ],
)
def test_an_attempt_takes_no_more_calls_where_ten_times_as_many_terms_are_carried(
    affinity: Callable[[int], dict[str, Any]], namespace: str
) -> None:
    few, many = (
        Beside(carriers, affinity).attempt(make_pod(f"{namespace}/p").uid("p").requests(cpu=1))
        for carriers in (5, 50)
    )
    assert many <= few + 20


def test_a_pod_of_others_pays_nothing_for_terms_about_the_own_namespace() -> None:
    none, many = (
        Beside(carriers, prefers).attempt(make_pod("b/p").uid("p").requests(cpu=1)) for carriers in (0, 50)
    )
    # PreFilter and PreScore look whether there are terms about it.
    assert many <= none + 150


def search(carriers: int) -> int:
    """Calls of an attempt that evicts a pod of its own namespace, all of which keep it from their nodes."""
    world = Beside(carriers, avoids)
    decisions: list[Any] = []
    world.made.put(make_pod("a/p").uid("p").requests(cpu=6).priority(10))
    scheduler, now = world.made.scheduler, world.made.now
    found = calls_of(lambda: decisions.extend(scheduler.step(now, 1)))
    assert len(evicted(decisions)) == 1
    return found


def test_victims_that_all_refuse_the_pod_are_looked_for_with_few_calls() -> None:
    """All terms of placed pods were compared with the pod again for each node that was tried.

    16 nodes that refuse the pod by more than resources are tried in both worlds.
    """
    search(20)  # What a process does once, such as compiling expressions, is not counted.
    few, many = search(20), search(60)
    assert many <= 1.2 * few, (few, many)


def test_the_terms_of_a_pod_go_with_it() -> None:
    world = Beside(2, prefers)
    assert len(world.made.state.neighbours.terms_about(make_pod("a/p").obj())) == 2 * TERMS
    for name in ("r0", "r1"):
        world.made.scheduler.remove(make_pod(f"a/{name}").uid(name).on("n0").obj(), 1.0)
    assert not world.made.state.neighbours.have_terms
    decisions = world.made.step()
    assert not [item for item in decisions if isinstance(item, Placed | Rejected)]
