"""Defects of elastic quota schedulers that must not come back, one test each, through the simulation."""

from __future__ import annotations

from typing import Any

from scheduler_core.config.load import muster_config
from scheduler_core.simulate import run_scenario
from scheduler_core.simulate.scenario import Scenario, ScenarioStep
from tests.support.builders import Builder, make_node, make_pod, make_quota


def play(objects: list[Builder], *steps: dict[str, Any]) -> list[dict[str, Any]]:
    """Reports of the steps; each step is a map of what to create, update or delete."""
    raw = tuple(item.dict() for item in objects)
    played = tuple(
        ScenarioStep(**{what: tuple(item.dict() for item in items)})
        for step in steps or ({"create": []},)
        for what, items in step.items()
    )
    found: list[dict[str, Any]] = run_scenario(Scenario("", "", muster_config(), 1.7e9, raw, played))["steps"]
    return found


def used(report: dict[str, Any], quota: str) -> dict[str, str]:
    found: dict[str, str] = report["status"][f"ElasticQuota {quota}"]["used"]
    return found


def test_defect_1_an_unlisted_resource_of_max_is_unlimited() -> None:
    quota = make_quota("a/q").min(gpu=1).max(gpu=1)
    pod = make_pod("a/p").requests(cpu=2, memory="1Gi", ephemeral_storage="1Gi")
    node = make_node("n").allocatable(cpu=4, memory="4Gi", ephemeral_storage="4Gi")
    (step,) = play([node, quota], {"create": [pod]})
    assert step["bound"] == {"a/p": "n"}


def test_defect_2_a_quota_made_after_its_pods_counts_them_without_a_restart() -> None:
    old = make_pod("a/old").requests(cpu=3).on("n")
    quota, new = make_quota("a/q").min(cpu=4).max(cpu=4), make_pod("a/new").requests(cpu=2)
    first, second = play([make_node("n").allocatable(cpu=8), old], {"create": [quota]}, {"create": [new]})
    assert used(first, "a/q") == {"cpu": "3"}
    assert "used cpu=3 + requested 2 exceeds max=4" in second["pending"]["a/new"]["message"]


def test_defect_3_status_and_enforcement_count_the_same() -> None:
    bound_but_not_running = (
        make_pod("a/slow").requests(cpu=1).spec(overhead={"cpu": "500m"}).on("n", "Pending")
    )
    late = make_pod("a/late").requests(cpu=1)
    quota = make_quota("a/q").min(cpu=2).max(cpu=2)
    (step,) = play([make_node("n").allocatable(cpu=8), quota, bound_but_not_running], {"create": [late]})
    assert used(step, "a/q") == {"cpu": "1500m"}
    assert "used cpu=1500m + requested 1 exceeds max=2" in step["pending"]["a/late"]["message"]


def test_defect_5_no_victim_goes_twice() -> None:
    objects = [make_node("n").allocatable(cpu=4), make_quota("a/q").min(cpu=2), make_quota("b/q").min(cpu=2)]
    lent = [make_pod(f"b/{i}").requests(cpu=1).on("n") for i in range(4)]
    (step,) = play(
        [*objects, *lent], {"create": [make_pod("a/x").requests(cpu=1), make_pod("a/y").requests(cpu=1)]}
    )
    victims = [item["pod"] for item in step["evicted"]]
    assert len(victims) == len(set(victims)) == 2
    assert {"a/x", "a/y"} <= set(step["bound"])


def test_defect_6_the_quota_that_does_not_bind_says_so() -> None:
    quotas = [make_quota("a/old").min(cpu=1).created(1), make_quota("a/new").min(cpu=9).created(2)]
    (step,) = play([make_node("n").allocatable(cpu=4), *quotas])
    conditions = step["status"]["ElasticQuota a/new"]["conditions"]
    assert [(item["type"], item["status"]) for item in conditions] == [("Enforced", "False")]
    assert "ElasticQuota old is older and binds" in conditions[0]["message"]


def test_defect_7_a_resource_that_no_min_names_is_outside_the_sum_of_min() -> None:
    node, quota = make_node("n").allocatable(cpu=4, gpu=4), make_quota("a/q").min(cpu=2)
    (step,) = play([node, quota], {"create": [make_pod("a/p").requests(gpu=4)]})
    assert step["bound"] == {"a/p": "n"}


def test_defect_8_a_refusal_names_quota_resource_and_numbers() -> None:
    node, quota = make_node("n").allocatable(cpu=4), make_quota("a/q").min(cpu=1).max(cpu=1)
    (step,) = play([node, quota], {"create": [make_pod("a/p").requests(cpu=2)]})
    assert "ElasticQuota a/q: used cpu=0 + requested 2 exceeds max=1" in step["pending"]["a/p"]["message"]


def test_defect_9_min_comes_back_from_several_nodes_and_no_one_goes_in_vain() -> None:
    nodes = [make_node(f"n{i}").allocatable(cpu=2) for i in range(3)]
    quotas = [make_quota("a/q").min(cpu=2), make_quota("b/q").min(cpu=1)]
    lent = [make_pod(f"b/p{i}").requests(cpu=1).on(f"n{i}") for i in range(3)]
    (step,) = play([*nodes, *quotas, *lent], {"create": [make_pod("a/p").requests(cpu=2)]})
    assert "a/p" in step["bound"]
    assert len(step["evicted"]) == 2


def test_defect_11_a_nominated_pod_is_remembered_and_preemption_not_repeated() -> None:
    objects = [make_node("n").allocatable(cpu=2), make_quota("a/q").min(cpu=2), make_quota("b/q").min(cpu=0)]
    going = make_pod("b/going").requests(cpu=2).on("n").deleting(1_767_225_600)
    waiting = make_pod("a/p").requests(cpu=2).nominated("n")
    thief = make_pod("b/thief").requests(cpu=2).priority(1000)
    gone = make_pod("b/going")
    first, second = play([*objects, going], {"create": [waiting, thief]}, {"delete": [gone]})
    assert first["evicted"] == second["evicted"] == []
    assert second["bound"] == {"a/p": "n"}
    assert set(second["pending"]) == {"b/thief"}
