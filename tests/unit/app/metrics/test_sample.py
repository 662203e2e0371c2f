"""Values of gauges, from a cluster in memory."""

from __future__ import annotations

from scheduler_core.app.metrics.sample import take_sample
from scheduler_core.simulate import Simulation
from tests.support.situations import Raw, cluster, group, node, pod, quota


def weighted(namespace: str, least: int, weight: str) -> Raw:
    found = quota(namespace, least, 12)
    found["metadata"]["annotations"] = {"muster.dev/weight": weight}
    return found


def sharing() -> Simulation:
    """The sum of min is 12 GPUs, and c leaves 8 idle. 8 pods of a run, with weight 2, and 4 of b wait."""
    running = [pod("a", f"r{number}", 1, at="n1") for number in range(8)]
    waiting = [pod("b", f"w{number}", 1) for number in range(4)]
    return cluster(
        node("n1", 16), weighted("a", 2, "2"), quota("b", 2, 12), quota("c", 8, 12), *running, *waiting
    )


def test_shares_and_entitlements() -> None:
    sample = take_sample(sharing().scheduler, 0.0)
    assert sample.shares == {("a", "quota"): 6 / 12 / 2, ("b", "quota"): 0.0, ("c", "quota"): 0.0}
    found = {key[0]: value for key, value in sample.entitled.items() if key[2] == "nvidia.com/gpu"}
    assert found == {"a": 8.0, "b": 4.0, "c": 0.0}


def test_the_cache_counts_what_is_there() -> None:
    bare = node("n3", 4)
    bare["status"]["allocatable"] = {}
    simulation = cluster(node("n1", 4), node("n2", 4), bare, pod("a", "p", 1, at="n1"), pod("a", "q", 1))
    sample = take_sample(simulation.scheduler, 0.0)
    assert sample.cache == {"nodes": 3.0, "pods": 1.0, "assumed_pods": 0.0}
    assert sample.nodes_without_allocatable == 1
    assert sample.pending["active"] == 1.0
    simulation.delete({"kind": "Node", "metadata": {"name": "n2"}})
    assert take_sample(simulation.scheduler, 0.0).cache["nodes"] == 2.0


def test_gangs_by_the_phase_that_they_show() -> None:
    pending = {**group("g", 2), "status": {"phase": "Pending"}}
    also = {**group("h", 2), "status": {"phase": "Pending"}}
    sample = take_sample(
        cluster(pending, also, {**group("i", 2), "status": {"phase": "Running"}}).scheduler, 0.0
    )
    assert sample.gangs == {"Pending": 2.0, "Running": 1.0}


def test_groups_of_quotas_show_what_they_guarantee_and_what_their_quotas_use() -> None:
    dept = {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "QuotaGroup",
        "metadata": {"name": "dept"},
        "spec": {"min": {"cpu": "4"}, "max": {"nvidia.com/gpu": "9"}},
    }
    team = quota("a", 2, 12)
    team["metadata"]["labels"] = {"muster.dev/quota-group": "dept"}
    found = take_sample(cluster(node("n1", 16), dept, team, pod("a", "p", 3, at="n1")).scheduler, 0.0).groups
    assert found == {
        "min": {("dept", "cpu"): 4.0, ("dept", "nvidia.com/gpu"): 2.0},
        "max": {("dept", "nvidia.com/gpu"): 9.0},
        "used": {("dept", "cpu"): 0.0, ("dept", "nvidia.com/gpu"): 3.0},
    }


def test_the_longest_wait_of_each_namespace_is_told_of_pods_and_of_gangs() -> None:
    gated = pod("b", "gated", 1, schedulingGates=[{"name": "quiet"}])
    simulation = cluster(node("n1", 2), pod("a", "long", 4), gated)
    start = simulation.now
    simulation.advance(30.0)
    for raw in (pod("a", "short", 4), group("g", 2), pod("a", "g-0", 4, "g"), pod("a", "g-1", 4, "g")):
        simulation.create(raw)
    found = take_sample(simulation.scheduler, start + 50.0).longest_waits
    assert found == {("a", "pod"): 50.0, ("a", "gang"): 20.0}
