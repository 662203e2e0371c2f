"""Which node is taken, what is kept for whom, and who is tried again after broken code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler_core.engine.gang.search import GangSearch
from scheduler_core.engine.scores.select import BestSlots, best_slot, rotation
from scheduler_core.framework.interface import PostFilterResult
from scheduler_core.framework.queueing.obstacles import PREEMPTION
from scheduler_core.framework.status import unschedulable
from scheduler_core.plugins.capacity_scheduling import CapacityScheduling
from scheduler_core.plugins.node_resources_fit import NodeResourcesFit
from tests.support.builders import make_group, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, member, placed, rejected
from tests.unit.engine.test_pod_cycle import Rig

# Ties

BEST: list[tuple[str, list[int], int, int]] = [
    ("the highest", [1, 5, 3], 0, 1),
    ("of equals the first from the start on", [5, 1, 5], 1, 2),
    ("round the end", [5, 1, 1], 1, 0),
    ("the start itself", [5, 5, 5], 1, 1),
    ("a later one that is higher", [4, 1, 5], 1, 2),
    ("an earlier one that is higher", [5, 1, 4], 1, 0),
    ("nothing is a score", [0, -1], 1, 0),
    ("nobody", [-1, -1], 1, -1),
    ("no node", [], 0, -1),
]


@pytest.mark.parametrize(("total", "start", "slot"), [b[1:] for b in BEST], ids=[b[0] for b in BEST])
def test_the_best_slot(total: list[int], start: int, slot: int) -> None:
    array = np.array(total, dtype=np.int64)
    assert best_slot(array, start) == slot
    assert BestSlots(array).best(start) == slot


def test_the_same_pod_starts_at_the_same_node_and_pods_are_spread() -> None:
    assert rotation("p", 0) == 0
    assert rotation("p", 1) == 0
    starts = {rotation(f"p{number}", 7) for number in range(100)}
    assert starts == set(range(7))
    assert rotation("p", 7) == rotation("p", 7)


def test_leaders_forget_when_they_are_told() -> None:
    total = np.array([1, 2, 3], dtype=np.int64)
    leaders = BestSlots(total)
    assert leaders.best(0) == 2
    total[0] = 9
    leaders.forget()
    assert leaders.best(0) == 0


def test_the_search_prefers_the_best_node() -> None:
    made = GangScheduler([2, 9, 4])
    cycle, now = made.scheduler.cycle, made.now
    pod = make_pod("f/m").uid("m").requests(cpu=1).obj()
    profile = made.scheduler.profiles[pod.scheduler_name]
    total = cycle.feasible(profile, pod, now)
    assert len(set(total.tolist())) == 3
    found = GangSearch(cycle, [(profile, pod)], 1, now).run()
    assert found is not None
    assert found[0][1].slot == int(total.argmax())


def test_a_search_in_vain_holds_nothing_and_one_member_may_be_left_out() -> None:
    made = GangScheduler([2])
    cycle, now = made.scheduler.cycle, made.now
    pods = [make_pod(f"f/m{n}").uid(f"m{n}").requests(cpu=cpu).obj() for n, cpu in enumerate((1, 2, 1))]
    pairs = [(made.scheduler.profiles[pod.scheduler_name], pod) for pod in pods]
    assert GangSearch(cycle, pairs, 3, now).run() is None
    assert made.state.placed == {}
    found = GangSearch(cycle, pairs, 2, now).run()
    assert found is not None
    assert sorted(item.cycle.pod.name for _, item in found) == ["m0", "m2"]


# What is kept


def waiting_gang(need: int = 2) -> GangScheduler:
    """Gang g of 2 pods of 2 CPUs each, after its patience, beside a pod on each of two nodes."""
    made = GangScheduler([2, 2], g=need)
    for number in range(2):
        made.put(make_pod(f"f/x{number}").uid(f"x{number}").requests(cpu=1).priority(9).on(f"n{number}"))
    made.put(*(member(f"m{number}", cpu=2) for number in range(need)))
    made.step()
    made.step(301.0)
    return made


def test_nodes_kept_for_a_gang_are_known_to_be_only_kept() -> None:
    made = waiting_gang()
    kept = [made.state.nominations.get(f"m{number}") for number in range(2)]
    assert [(item.kept, item.group) for item in kept if item is not None] == [(True, "a/g PodGroup")] * 2


def test_a_pod_within_its_min_takes_kept_nodes() -> None:
    made = waiting_gang()
    made.put(make_pod("f/p").uid("p").requests(cpu=1))
    assert placed(made.step()) == {}, "the room is kept"
    made.scheduler.put(make_quota("b/q").min(cpu=4).max(cpu=4).obj(), made.now)
    made.put(make_pod("b/p").uid("bp").requests(cpu=1))
    assert set(placed(made.step(30.0))) == {"p"}


def test_nodes_kept_for_members_that_start_are_released() -> None:
    made = waiting_gang()
    for number in range(2):
        made.scheduler.remove(made.state.pods[f"x{number}"], made.now)
    assert set(placed(made.step(30.0))) == {"m0", "m1"}
    made.put(*(member(f"m{number}", cpu=2).on(f"n{number}") for number in range(2)))
    assert len(made.state.nominations) == 0


# Nodes that are lost


def test_a_gang_whose_nominated_node_is_gone_looks_anew() -> None:
    made = GangScheduler([2, 2], g=2)
    made.put(member("m0", cpu=2), member("m1", cpu=2))
    first = placed(made.step())
    lost = first["m0"]
    made.scheduler.bind_failed(made.state.pods["m0"], made.now)
    made.scheduler.remove(make_node(lost).allocatable(cpu=2).obj(), made.now)
    assert placed(made.step(30.0)) == {}
    made.scheduler.put(make_node("n9").allocatable(cpu=2).obj(), made.now)
    assert placed(made.step(30.0)) == {"m0": "n9"}


# Broken code


def test_a_member_that_broke_a_plugin_is_tried_again_without_any_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = GangScheduler([9], g=1)
    made.put(member("m0"))
    made.step()
    made.put(member("m0").on("n0"))
    broken = {"m1"}
    original = CapacityScheduling.pre_filter

    def breaks(self: Any, cycle: Any) -> Any:
        if cycle.pod.name in broken:
            raise RuntimeError("bug")
        return original(self, cycle)

    monkeypatch.setattr(CapacityScheduling, "pre_filter", breaks)
    made.put(member("m1").requests(cpu=2), member("m2").requests(cpu=20))
    told = rejected(made.step())
    assert told["m1"].reason == "SchedulerError"
    broken.clear()
    assert placed(made.step(15.0)) == {"m1": "n0"}


def test_a_filter_that_broke_once_leaves_no_half_made_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([9])
    made.put(make_pod("a/alone").uid("alone").requests(cpu=2))
    original = NodeResourcesFit.filter

    def breaks(self: Any, cycle: Any, nodes: Any) -> Any:
        raise RuntimeError("bug")

    monkeypatch.setattr(NodeResourcesFit, "filter", breaks)
    assert rejected(made.step())["alone"].reason == "SchedulerError"
    monkeypatch.setattr(NodeResourcesFit, "filter", original)
    assert placed(made.step(15.0)) == {"alone": "n0"}


# Whom a refused pod waits for


def test_a_post_filter_that_has_something_to_say_is_waited_for_as_well() -> None:
    silent = Rig(1, first={"filter": 1}).attempt().diagnosis
    assert silent is not None
    assert (silent.plugins, silent.post_filter) == ({"one"}, "")
    says = PostFilterResult(unschedulable("no"), message="nobody helps")
    told = Rig(1, first={"filter": 1}, second={"post_filter": says}).attempt().diagnosis
    assert told is not None
    assert (told.plugins, told.post_filter) == ({"one", "two", PREEMPTION}, "nobody helps")


# PodGroups on the topology are covered with their constraints; without them a gang is a gang


def test_a_gang_of_one_is_a_pod() -> None:
    made = GangScheduler([1])
    made.scheduler.put(make_group("a/g").needs(1).obj(), made.now)
    made.put(member("m0"), member("m1"))
    decisions = made.step()
    assert (len(placed(decisions)), len(rejected(decisions))) == (1, 1)
