"""What wakes whom, what is let in, and what becomes of decisions that the API refuses."""

from __future__ import annotations

import pytest

from scheduler_core.engine.decisions import Rejected
from scheduler_core.engine.queue.scheduling_queue import Part
from scheduler_core.model.names import EVENT_FAILED_SCHEDULING, REASON_UNSCHEDULABLE
from tests.support.builders import PodBuilder, make_group, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted, member, placed, rejected


def single(name: str, cpu: int = 1, namespace: str = "f", priority: int = 0) -> PodBuilder:
    return make_pod(f"{namespace}/{name}").uid(name).requests(cpu=cpu).priority(priority)


# The gate


@pytest.mark.parametrize(
    "gated", [["p0"], ["p1"], ["p0", "p1"], []], ids=lambda names: "+".join(names) or "none"
)
def test_a_gate_keeps_a_gang_out_only_if_it_keeps_every_member_out(gated: list[str]) -> None:
    made = GangScheduler([9], g=1)
    for name in ("p0", "p1"):
        made.put(member(name).gate("wait") if name in gated else member(name))
    unit = made.scheduler.queue.units["a/g PodGroup"]
    assert (unit.part is Part.GATED) is (len(gated) == 2)
    assert set(placed(made.step())) == {"p0", "p1"} - set(gated)


def test_a_member_whose_gate_goes_joins_its_gang() -> None:
    made = GangScheduler([9], g=2)
    made.put(member("p0").gate("wait"), member("p1"))
    assert placed(made.step()) == {}
    made.put(member("p0"))
    assert set(placed(made.step(5.0))) == {"p0", "p1"}


def test_a_gated_pod_is_neither_tried_nor_told() -> None:
    made = GangScheduler([9])
    made.put(single("p").gate("wait"))
    assert made.step() == []
    made.put(single("p"))
    assert placed(made.step()) == {"p": "n0"}


# Whose pods


def test_pods_of_other_schedulers_are_seen_and_not_scheduled() -> None:
    made = GangScheduler([2])
    made.put(single("other").scheduler("else"), single("mine", 2))
    assert placed(made.step()) == {"mine": "n0"}
    made.put(single("more").on("n0"))
    assert made.state.ledger.used("f")["cpu"] == 3000


@pytest.mark.parametrize("how", ["bound", "deleted", "failed", "removed"])
def test_a_pod_that_waits_no_more_is_out_of_the_queue(how: str) -> None:
    made = GangScheduler([1])
    big = make_pod("f/p").uid("p").requests(cpu=2)
    made.put(big)
    made.step()
    assert made.scheduler.queue.has_waiting_units
    match how:
        case "bound":
            made.put(big.on("n0"))
        case "deleted":
            made.put(big.deleting(5.0))
        case "failed":
            made.put(big.status(phase="Failed"))
        case _:
            made.scheduler.remove(big.obj(), made.now)
    assert made.scheduler.queue.units == {}


def test_status_alone_is_no_reason_to_try_again() -> None:
    made = GangScheduler([1])
    big = make_pod("f/p").uid("p").requests(cpu=2)
    made.put(big)
    assert len(made.step()) == 1
    made.put(big.version("9").status(message="x"))
    assert made.step(100.0) == []
    made.put(big.requests(cpu=1))
    assert placed(made.step(1.0)) == {"p": "n0"}


def test_a_limit_of_units_is_kept_and_the_rest_comes_next() -> None:
    made = GangScheduler([9])
    made.put(*(make_pod(f"f/p{n}").uid(f"p{n}").requests(cpu=1).created(n) for n in range(3)))
    assert placed(made.scheduler.step(made.now, 2)).keys() == {"p0", "p1"}
    assert placed(made.scheduler.step(made.now, 2)).keys() == {"p2"}


# Wake-ups


def test_a_pod_that_ends_wakes_who_waits_for_its_room() -> None:
    made = GangScheduler([2])
    running = make_pod("f/old").uid("old").requests(cpu=2).priority(9).on("n0")
    made.put(running)
    made.put(single("p"))
    assert list(rejected(made.step())) == ["p"]
    made.put(running.status(phase="Succeeded"))
    assert placed(made.step(5.0)) == {"p": "n0"}


def test_only_a_node_that_fits_wakes_a_waiting_pod() -> None:
    made = GangScheduler([1])
    made.put(make_pod("f/p").uid("p").requests(cpu=3))
    made.step()
    made.scheduler.put(make_node("n1").allocatable(cpu=3).obj(), made.now)
    assert placed(made.step(5.0)) == {"p": "n1"}


def test_a_placement_wakes_who_wants_to_be_near() -> None:
    made = GangScheduler([4])
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made.put(make_pod("f/web").uid("web").requests(cpu=1).priority(5).spec(affinity=affinity))
    assert list(rejected(made.step())) == ["web"]
    made.put(make_pod("f/db").uid("db").requests(cpu=1).labels(app="db"))
    assert placed(made.step(5.0)) == {"db": "n0", "web": "n0"}


def test_a_quota_that_grows_or_goes_wakes_its_pods() -> None:
    made = GangScheduler([9])
    made.scheduler.put(make_quota("a/q").min(cpu=9).max(cpu=1).obj(), made.now)
    made.put(single("p", 2, "a"), single("q", 3, "a"))
    assert set(rejected(made.step())) == {"p", "q"}
    made.scheduler.put(make_quota("a/q").min(cpu=9).max(cpu=2).obj(), made.now)
    assert placed(made.step(5.0)) == {"p": "n0"}
    made.scheduler.remove(make_quota("a/q").min(cpu=9).max(cpu=2).obj(), made.now)
    assert placed(made.step(20.0)) == {"q": "n0"}


# What the API refuses


def test_a_binding_that_failed_is_taken_back_and_tried_after_a_backoff() -> None:
    made = GangScheduler([1])
    made.put(single("p"))
    made.step()
    assert made.state.ledger.used("f")["cpu"] == 1000
    made.scheduler.bind_failed(made.state.pods["p"], made.now)
    assert (made.state.ledger.used("f")["cpu"], made.step(0.5)) == (0, [])
    assert placed(made.step(1.0)) == {"p": "n0"}


def test_a_binding_that_was_confirmed_cannot_fail_any_more() -> None:
    made = GangScheduler([1])
    made.put(single("p"))
    made.step()
    made.put(make_pod("f/p").uid("p").requests(cpu=1).on("n0"))
    made.scheduler.bind_failed(made.state.pods["p"], made.now)
    made.scheduler.bind_failed(make_pod("f/stranger").uid("s").obj(), made.now)
    assert set(made.state.placed) == {"p"}


def test_an_eviction_that_failed_leaves_the_victim_and_the_preemptor_looks_anew() -> None:
    made = GangScheduler([1])
    made.put(make_pod("f/v").uid("v").requests(cpu=1).on("n0"))
    made.put(single("p", priority=5))
    assert evicted(made.step()) == {"v"}
    assert made.step(400.0) == [] or evicted(made.step()) == set(), "it waits for its victim"
    made.scheduler.evict_failed(made.state.pods["v"], made.state.pods["p"], made.now)
    assert not made.state.table.leaving[made.state.placed["v"].row]
    assert evicted(made.step(30.0)) == {"v"}


# What is said


def test_the_reason_of_a_refusal_is_the_pods_and_that_of_a_group_the_groups() -> None:
    made = GangScheduler([1], g=2)
    made.put(make_pod("f/p").uid("p").requests(cpu=5), member("m0"))
    told = rejected(made.step())
    assert (told["p"].event, told["p"].reason) == (EVENT_FAILED_SCHEDULING, REASON_UNSCHEDULABLE)
    assert told["m0"].event == REASON_UNSCHEDULABLE
    made = GangScheduler([1], g=2)
    made.put(member("m0"), member("m1"))
    assert {item.event for item in rejected(made.step()).values()} == {EVENT_FAILED_SCHEDULING}


def test_members_without_their_group_wait_and_start_with_it() -> None:
    made = GangScheduler([4])
    made.put(member("m0"), member("m1"))
    decisions = made.step()
    assert placed(decisions) == {}
    assert all(isinstance(item, Rejected) for item in decisions)
    made.scheduler.put(make_group("a/g").needs(2).obj(), made.now)
    assert set(placed(made.step(5.0))) == {"m0", "m1"}
    made.scheduler.remove(make_group("a/g").needs(2).obj(), made.now)
    assert set(made.state.placed) == {"m0", "m1"}


def test_a_late_annotation_brings_a_pod_into_its_gang() -> None:
    made = GangScheduler([4], g=2)
    made.put(make_pod("a/m0").uid("m0").requests(cpu=9), member("m1"))
    assert placed(made.step()) == {}
    made.put(member("m0"))
    assert set(placed(made.step(30.0))) == {"m0", "m1"}


def test_the_first_in_the_queue_is_the_first_served() -> None:
    made = GangScheduler([2])
    made.put(single("low", 2), single("high", 2, priority=5))
    decisions = made.step()
    assert (placed(decisions), list(rejected(decisions))) == ({"high": "n0"}, ["low"])
