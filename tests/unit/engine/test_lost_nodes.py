"""Pods on nodes that are gone or silent: nobody would end them, so nobody evicts them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler_core.model.names import LABEL_HOSTNAME
from scheduler_core.model.node import UNREACHABLE_TAINT_KEY, Node
from tests.support.builders import NodeBuilder, PodBuilder, make_group, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted, placed
from tests.unit.engine.gang.test_group_preemption import ALL, gang_of, group, native, waits
from tests.unit.engine.topology_scheduler import TopologyScheduler, members
from tests.unit.engine.topology_scheduler import member as on_tree

LATER = 20.0
YEAR = 31_536_000
SILENT = "its kubelet is silent"
GONE = "it is gone"


def node(name: str, cpu: int = 1) -> NodeBuilder:
    return make_node(name).allocatable(cpu=cpu)


def lose(made: GangScheduler | TopologyScheduler, lost: Node, how: str) -> None:
    if how == GONE:
        made.scheduler.remove(lost, made.now)
    else:
        taints = make_node("any").taint(UNREACHABLE_TAINT_KEY).obj().taints
        made.scheduler.put(msgspec.structs.replace(lost, taints=taints), made.now)


def runs(key: str, on: str, priority: int = 0) -> PodBuilder:
    made = make_pod(key).uid(key.rpartition("/")[2]).requests(cpu=1).priority(priority)
    return made.on(on).started(900.0)


def claim(name: str = "claims", priority: int = 0) -> PodBuilder:
    return make_pod(f"a/{name}").uid(name).requests(cpu=1).priority(priority)


def borrowed(*nodes: str, cpus: int, spare: int = 1) -> GangScheduler:
    """a has all CPUs but the spare ones as its min; b borrows one on each of the nodes.

    The pods of the first nodes started last.
    """
    made = GangScheduler([1] * cpus)
    made.put(make_quota("a/quota").min(cpu=cpus - spare))  # type: ignore[arg-type]
    made.put(make_quota("b/quota").min(cpu=0))  # type: ignore[arg-type]
    made.put(*(runs(f"b/on-{name}", name).started(900.0 - age) for age, name in enumerate(nodes)))
    return made


def only_on(made: GangScheduler, name: str, pod: PodBuilder) -> None:
    """A pod that may use one node only."""
    made.scheduler.put(node(name).labels(its="own").obj(), made.now)
    made.put(pod.selector(its="own"))


@pytest.mark.parametrize("how", [SILENT, GONE])
def test_a_claim_takes_a_pod_that_somebody_can_end(how: str) -> None:
    """Quota is short, and its node is free: any of the pods would do."""
    made = borrowed("n0", "n1", "n2", cpus=3)
    lose(made, node("n0").obj(), how)
    only_on(made, "n3", claim())
    assert evicted(made.step()) == {"on-n1"}


@pytest.mark.parametrize("how", [SILENT, GONE])
def test_a_claim_does_not_wait_for_what_others_borrow_on_lost_nodes(how: str) -> None:
    made = borrowed("n0", "n1", cpus=3)
    lose(made, node("n0").obj(), how)
    made.put(claim())
    decisions = made.step()
    assert (evicted(decisions), placed(decisions)) == (set(), {"claims": "n2"})


@pytest.mark.parametrize("how", [SILENT, GONE])
def test_a_claim_takes_a_pod_of_a_lost_node_when_that_comes_back(how: str) -> None:
    made = borrowed("n0", "n1", cpus=2, spare=0)
    lose(made, node("n0").obj(), how)
    lose(made, node("n1").obj(), how)
    made.put(claim())
    assert evicted(made.step()) == set()
    assert evicted(made.step(LATER)) == set()
    made.scheduler.put(node("n0").obj(), made.now)
    assert evicted(made.step(LATER)) == {"on-n0"}


@pytest.mark.parametrize("how", [SILENT, GONE])
def test_a_quota_short_at_its_max_takes_its_own_pod_that_somebody_can_end(how: str) -> None:
    made = GangScheduler([1, 1, 1])
    made.put(make_quota("a/quota").min(cpu=2).max(cpu=2))  # type: ignore[arg-type]
    made.put(runs("a/lost", "n0"), runs("a/there", "n1", priority=1))
    lose(made, node("n0").obj(), how)
    only_on(made, "n2", claim(priority=9))
    assert evicted(made.step()) == {"there"}


@pytest.mark.parametrize("how", [SILENT, GONE])
def test_a_gang_that_falls_below_its_minimum_goes_without_members_on_lost_nodes(how: str) -> None:
    made = borrowed(cpus=4, spare=0)
    made.put(make_group("b/old").uid("old").needs(3))  # type: ignore[arg-type]
    made.put(*(runs(f"b/on-n{number}", f"n{number}").group("old") for number in range(3)))
    lose(made, node("n0").obj(), how)
    made.put(claim("c0"), claim("c1"))
    assert evicted(made.step()) == {"on-n1", "on-n2"}


@pytest.mark.parametrize("how", [SILENT, GONE])
def test_a_native_group_takes_a_whole_group_without_members_on_lost_nodes(how: str) -> None:
    made = GangScheduler([1, 1, 1])
    put_all(made, group("old", priority=0, **ALL), group("g", **gang_of(2)))
    put_all(made, *(native(runs(f"a/on-n{number}", f"n{number}"), "old") for number in range(3)))
    lose(made, node("n0").obj(), how)
    put_all(made, waits("m0"), waits("m1"))
    assert evicted(made.step()) == {"on-n1", "on-n2"}


def put_all(made: GangScheduler, *objects: Any) -> None:
    for item in objects:
        made.scheduler.put(item, made.now)


@pytest.mark.parametrize("how", [SILENT, GONE])
def test_a_group_on_the_topology_takes_members_that_somebody_can_end(how: str) -> None:
    made = TopologyScheduler(1, 1, 1, 1)
    made.group("old", 2, "{}", priority="0")
    made.put(*(on_tree("old", number).on(f"n{number}") for number in range(2)))
    lose(made, node("n0").obj(), how)
    made.group("g", 3, "{}", priority="5")
    made.put(*(pod.priority(5) for pod in members("g", 3, 1)))
    assert evicted(made.step()) == {"old-1"}


@pytest.mark.parametrize("how", [GONE, SILENT])
def test_who_was_deleted_on_a_lost_node_is_evicted_once_it_is_back(how: str) -> None:
    """b/on-n0 ends in a year, and could end sooner: nobody but the node that comes back tells a/claims."""
    made = borrowed("n0", cpus=1, spare=0)
    there = node("n0").obj()
    lose(made, there, how)
    made.put(claim())
    made.step()
    late = runs("b/on-n0", "n0").deleting(made.now + YEAR)
    late.meta["deletionGracePeriodSeconds"] = YEAR
    made.put(late)
    assert evicted(made.step(LATER)) == set()
    made.scheduler.put(there, made.now)
    assert evicted(made.step(LATER)) == {"on-n0"}


@pytest.mark.parametrize("how", ["gone", "cordoned"])
def test_whose_node_is_lost_takes_no_quota_from_who_is_tried_first(how: str) -> None:
    """a/late waits for n0, and cannot run elsewhere; with it there is no quota for a/early beside b/stays."""
    made = GangScheduler([2, 4])
    made.put(make_quota("a/quota").min(cpu=4), make_quota("b/quota").min(cpu=0))  # type: ignore[arg-type]
    goes, stays = (make_pod(f"b/{name}").uid(name).requests(cpu=2).started(1.0) for name in ("goes", "stays"))
    late = make_pod("a/late").uid("late").requests(cpu=2).created(2).selector(**{LABEL_HOSTNAME: "n0"})
    made.put(goes.on("n0"), stays.on("n1"), late)
    assert evicted(made.step()) == {"goes"}
    node = make_node("n0").allocatable(cpu=2)
    if how == "gone":
        made.scheduler.remove(node.obj(), made.now)
    else:
        made.scheduler.put(node.unschedulable().obj(), made.now)
    made.scheduler.remove(goes.obj(), made.now)
    made.put(make_pod("a/early").uid("early").requests(cpu=2).created(1))
    decisions = made.step(20.0)
    assert (placed(decisions), evicted(decisions)) == ({"early": "n1"}, set())
    assert made.state.nominations.node_of("late") == ""


def test_a_new_process_gives_up_nominated_nodes_that_are_lost_before_it_tries_others() -> None:
    made = GangScheduler()
    made.scheduler.put(make_node("n1").allocatable(cpu=4).obj(), made.now)
    made.put(make_quota("a/quota").min(cpu=4), make_quota("b/quota").min(cpu=0))  # type: ignore[arg-type]
    late = make_pod("a/late").uid("late").requests(cpu=2).created(2).selector(**{LABEL_HOSTNAME: "n0"})
    made.put(make_pod("b/stays").uid("stays").requests(cpu=2).started(1.0).on("n1"), late.nominated("n0"))
    made.put(make_pod("a/early").uid("early").requests(cpu=2).created(1))
    decisions = made.step()
    assert (placed(decisions), evicted(decisions)) == ({"early": "n1"}, set())
