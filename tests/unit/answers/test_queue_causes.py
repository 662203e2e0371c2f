"""The cause that the queue tells is the first check of `why` that blocks."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

import pytest

from scheduler_core.answers.changes import NOTHING
from scheduler_core.answers.queue.waiting import WaitingQueue, WaitingUnit, queue_of
from scheduler_core.answers.why.answer import why
from scheduler_core.answers.why.subject import subject_of
from scheduler_core.answers.worlds import CopiedWorld
from scheduler_core.config import load_config
from scheduler_core.model.names import CHARGED_ANNOTATION, QUOTA_GROUP_LABEL
from scheduler_core.simulate import Simulation
from tests.support.every import every_seed
from tests.support.load_builders import make_metric
from tests.support.searches import cases
from tests.support.situations import GPU, SITUATIONS, Raw, cluster, group, node, pod, quota


def queue(base: Simulation) -> WaitingQueue:
    return CopiedWorld(base).ask(NOTHING, queue_of, WaitingQueue)


def first_blocked(base: Simulation, unit: WaitingUnit) -> str:
    # Of a group that does not exist, its pods can be asked about.
    kind, name = (unit.kind, unit.name) if unit.kind == "Pod" or base.state.gangs.gangs else ("Pod", "g-0")
    subject = subject_of(base, kind, unit.namespace, name)
    rungs = why(CopiedWorld(base), subject).examined.rungs
    return next((rung.name for rung in rungs if rung.state == "blocked"), "")


def compared(base: Simulation) -> Iterator[tuple[str, str, str]]:
    """(name, cause, first check that blocks) of all that waits."""
    for unit in queue(base).units:
        yield unit.name, unit.cause, first_blocked(base, unit)


def one_after_another() -> Simulation:
    pods = [pod("d", f"d-{number}", 1) for number in range(6)]
    return cluster(node("n1"), quota("d", 1, 1), *pods)


def sum_is_used_up() -> Simulation:
    """Nodes and the sum of min are in the way of a gang."""
    busy = [pod("b", f"old-{number}", 8, at=f"n{number}", priority=9) for number in range(2)]
    members = [pod("a", f"g-{number}", 4, "g") for number in range(2)]
    return cluster(
        node("n0"), node("n1"), quota("a", 4, 16), quota("b", 12, 16), *busy, group("g", 2), *members
    )  # fmt: skip


def no_group() -> Simulation:
    return cluster(node("n1"), pod("a", "g-0", 1, "g"), pod("a", "g-1", 1, "g"))


def gated() -> Simulation:
    gates = [{"name": "example.com/later"}]
    return cluster(node("n1"), quota("a", 0, 0), pod("a", "new", 1, schedulingGates=gates))


def beyond_the_minimum() -> Simulation:
    """The members of a gang that has its minimum are tried one by one."""
    return cluster(
        node("n1"), quota("a", 2, 2), group("g", 2), *(pod("a", f"g-{number}", 1, "g") for number in range(5))
    )  # fmt: skip


def loaded() -> Simulation:
    """One node is full besides: the load is checked before."""
    enabled = [{"name": name} for name in ("LoadAwareScheduling", "CapacityScheduling", "Coscheduling")]
    profile = {"schedulerName": "muster-scheduler", "plugins": {"multiPoint": {"enabled": enabled}}}
    version = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    base = Simulation(load_config(json.dumps({**version, "profiles": [profile]})))
    for name in ("n1", "n2"):
        base.create(node(name))
        base.create(make_metric(name).updated(base.now).usage(cpu="63", memory="255Gi").dict())
    for obj in (pod("b", "old", 8, at="n1", priority=9), pod("a", "one", 4), pod("a", "two", 4)):
        base.create(obj)
    for obj in (group("g", 2), pod("a", "g-0", 1, "g"), pod("a", "g-1", 1, "g")):
        base.create(obj)
    return base


def max_of_a_group() -> Simulation:
    """Quotas far from their own max, and the max of the group above them."""
    base = cluster(node("n1", 16), quota("c", 8, 8))
    group_of_quotas = {"kind": "QuotaGroup", "metadata": {"name": "dept"}}
    base.create({**group_of_quotas, "spec": {"min": {GPU: "8"}, "max": {GPU: "9"}}})
    for name in ("a", "b"):
        made = quota(name, 2, 20)
        made["metadata"]["labels"] = {QUOTA_GROUP_LABEL: "dept"}
        base.create(made)
    for number in range(11):
        base.create(pod("a", f"p{number:02}", 1))
    return base


def held_quota() -> Simulation:
    """A group lacks a member, and holds what a later pod asks for."""
    holds = group("g", 3)
    holds["metadata"]["annotations"] = {"muster.dev/hold-quota": "10m"}
    return cluster(
        node("n1"), quota("a", 4, 4), holds, *(pod("a", f"g-{number}", 1, "g") for number in range(2)),
        pod("a", "new", 2)
    )  # fmt: skip


def another_quota_is_full_of_pods_without_a_node() -> Simulation:
    """Pods of another scheduler, charged and without a node, take no min from others."""
    waits = pod("b", "x", 6, schedulerName="other")
    waits["metadata"]["annotations"] = {CHARGED_ANNOTATION: "true"}
    members = [pod("a", f"g-{number}", 1, "g", nodeSelector={"disk": "none"}) for number in range(2)]
    alone = pod("a", "p", 2, nodeSelector={"disk": "none"})
    return cluster(node("n0", 20), quota("a", 4, 8), quota("b", 2, 6), waits, alone, group("g", 2), *members)


def too_large_beside_equals() -> Simulation:
    return cluster(node("n1"), *(pod("a", f"new-{number}", 16) for number in range(3)))


WORLDS: dict[str, Callable[[], Simulation]] = {
    **{name: situation.make for name, situation in SITUATIONS.items()},
    "equal pods above max": one_after_another,
    "the sum of min is used up, and the nodes": sum_is_used_up,
    "the group does not exist": no_group,
    "scheduling gates": gated,
    "members beyond the minimum": beyond_the_minimum,
    "all nodes are busy": loaded,
    "the max of a group of quotas": max_of_a_group,
    "quota that is held for a group": held_quota,
    "another quota is full of pods without a node": another_quota_is_full_of_pods_without_a_node,
    "equal pods that no node holds": too_large_beside_equals,
}


@pytest.mark.parametrize("name", WORLDS)
def test_the_cause_is_the_first_check_that_blocks(name: str) -> None:
    found = list(compared(WORLDS[name]()))
    assert found
    assert [cause for _, cause, _ in found] == [check for _, _, check in found]


@pytest.mark.parametrize(("kind", "name"), [("Pod", "p"), ("PodGroup", "g")], ids=["a pod", "a gang"])
def test_pods_without_a_node_block_nobody_within_its_min(kind: str, name: str) -> None:
    base = another_quota_is_full_of_pods_without_a_node()
    (unit,) = [unit for unit in queue(base).units if unit.name == name]
    assert unit.cause == "nodes"
    rungs = why(CopiedWorld(base), subject_of(base, kind, "a", name)).examined.rungs
    told = [rung for rung in rungs if rung.name == "quota"]
    assert [rung.state for rung in told] == ["ok"]
    assert told[0].text.endswith("all quotas use 2 of sum(min) 6: 4 left")


def test_the_group_of_quotas_is_named_with_its_numbers() -> None:
    base = max_of_a_group()
    rungs = why(CopiedWorld(base), subject_of(base, "Pod", "a", "p09")).examined.rungs
    (told,) = [rung.text for rung in rungs if rung.state == "blocked" and rung.name == "quota"]
    assert "; all quotas of QuotaGroup dept use 9: 10 exceed its max 9" in told


def test_a_max_of_a_group_on_what_its_quotas_do_not_name_is_told() -> None:
    base = max_of_a_group()
    spec = {"min": {GPU: "8"}, "max": {GPU: "20", "cpu": "1"}}
    base.update({"kind": "QuotaGroup", "metadata": {"name": "dept"}, "spec": spec})
    asks = pod("a", "q", 1)
    asks["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    base.create(asks)
    (unit,) = [unit for unit in queue(base).units if unit.name == "q"]
    rungs = why(CopiedWorld(base), subject_of(base, "Pod", "a", "q")).examined.rungs
    (told,) = [rung.text for rung in rungs if rung.state == "blocked" and rung.name == "quota"]
    assert unit.cause == "quota"
    assert "QuotaGroup dept cpu=0 + requested 2 exceeds its max=1" in unit.message
    assert told.endswith("; all quotas of QuotaGroup dept use 0: 2 exceed its max 1")


def with_racks(*objects: Raw) -> Simulation:
    """Two racks with two nodes each, and a gang of three that wants to be spread over racks."""
    tree = '{"r1": {"n1": {}, "n2": {}}, "r2": {"n3": {}, "n4": {}}}'
    base = cluster(
        {
            "kind": "ConfigMap",
            "metadata": {"namespace": "default", "name": "t", "labels": {"sakkara.topology": ""}},
            "data": {"name": "t", "level-names": '["rack", "node"]', "tree": tree},
        },
        *(node(f"n{number}") for number in range(1, 5)),
        *objects,
    )
    base.create(group("g", 3, '{"rack": {"type": "pack"}}'))
    for number in range(3):
        base.create(pod("a", f"g-{number}", 4, "g"))
    return base


@pytest.mark.parametrize("low", [0, 4, 8])
def test_the_topology_is_not_blamed_for_the_quota(low: int) -> None:
    base = with_racks(quota("a", low, 32))
    (unit,) = queue(base).units
    rungs = why(CopiedWorld(base), subject_of(base, "PodGroup", "a", "g")).examined.rungs
    states = {rung.name: rung.state for rung in rungs}
    assert (states["quota"], states["topology"], unit.cause) == ("blocked", "ok", "quota")


def test_the_members_are_told_as_they_are_before_the_run() -> None:
    base = cluster(node("n1"), group("g", 2), *(pod("a", f"g-{number}", 1, "g") for number in range(2)))
    found = why(CopiedWorld(base), subject_of(base, "PodGroup", "a", "g"))
    (told,) = [rung.text for rung in found.examined.rungs if rung.name == "gang"]
    assert found.verdict == "starts"
    assert told == "needs 2 pods together: 2 exist, 0 have a node, 2 wait"


def test_every_equal_pod_is_told_that_the_quota_refuses_it() -> None:
    found = queue(one_after_another()).units
    assert [unit.cause for unit in found] == ["quota"] * 5
    assert {unit.message for unit in found} == {found[0].message}


def random_world(seed: int) -> Simulation:
    """Small nodes and quotas, pods of which some want one node, and gangs of which some lack members."""
    dice = random.Random(seed)
    base = cluster(*(node(f"n{number}", dice.choice((4, 8))) for number in range(dice.randint(1, 3))))
    for space in dice.sample("abc", dice.randint(0, 3)):
        low = dice.randint(0, 8)
        base.create(quota(space, low, low + dice.randint(0, 8)))
    for number in range(dice.randint(0, 2)):
        for member in range(size := dice.randint(2, 4)):
            if dice.random() < 0.9:
                base.create(pod("a", f"g{number}-{member}", dice.choice((1, 2, 4)), f"g{number}"))
        base.create(group(f"g{number}", size))
    for number in range(dice.randint(1, 8)):
        asks = pod(dice.choice("abc"), f"p{number}", dice.choice((1, 2, 4, 8, 16)))
        if dice.random() < 0.1:
            asks["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n0"}
        base.create(asks)
    return base


@every_seed(range(cases(60, least=15)), each=15)
def test_cause_and_check_agree_in_random_clusters(seed: int) -> None:
    for name, cause, check in compared(random_world(seed)):
        # Room may be kept for others, or divided so that pods of several sizes do not fit it.
        blocked = "nodes" if check == "preemption" else check
        assert (name, "nodes" if cause == "kept" else cause) == (name, blocked)
