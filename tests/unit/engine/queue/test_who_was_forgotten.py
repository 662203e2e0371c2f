"""Waiting pods that something helps which has little to do with what refused them first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler_core.engine.decisions import Decision
from scheduler_core.engine.queue.known_refusals import STANDS_FOR_SECONDS
from scheduler_core.engine.queue.unit import QueuedUnit
from tests.support.builders import make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted, placed, rejected


@pytest.mark.parametrize("number", [3, 40])
def test_the_sum_of_min_frees_pods_of_namespaces_where_none_was_ever_placed(number: int) -> None:
    made = GangScheduler([100])
    for index in range(number):
        quota = make_quota(f"ns{index}/q").min(cpu=0 if index else 2).max(cpu=50)
        made.scheduler.put(quota.obj(), made.now)
    first = make_pod("ns0/first").uid("first").requests(cpu=2)
    made.put(first)
    assert placed(made.step()) == {"first": "n0"}
    for index in range(number):
        made.put(make_pod(f"ns{index}/p{index}").uid(f"p{index}").requests(cpu=2).created(index))
    assert placed(made.step()) == {}
    made.scheduler.remove(first.obj(), made.now)
    assert len(placed(made.step(60.0))) == 1


def test_a_pod_that_may_evict_for_max_is_tried_once_the_sum_of_min_admits_it() -> None:
    made = GangScheduler()
    made.scheduler.put(make_node("n").allocatable(cpu=10, memory="20Gi").obj(), made.now)
    made.scheduler.put(make_quota("a/q").min(memory="1Gi").max(cpu=1).obj(), made.now)
    made.scheduler.put(make_quota("b/q").min(cpu=9, memory="1Gi").max(cpu=9).obj(), made.now)
    big = make_pod("b/big").uid("big").requests(cpu=1, memory="2Gi").priority(10)
    made.put(big, make_pod("a/low").uid("low").requests(cpu=1))
    assert set(placed(made.step())) == {"big", "low"}
    made.put(make_pod("a/high").uid("high").requests(cpu=1, memory="2Gi").priority(5))
    assert evicted(made.step()) == set(), "without the low one the sum would be in the way"
    made.scheduler.remove(big.obj(), made.now)
    assert evicted(made.step(60.0)) == {"low"}


@pytest.mark.parametrize(
    ("quotas", "ends"),
    [({"a": (0, 2), "b": (9, 9)}, "a/other"), ({"a": (0, 9), "b": (2, 9)}, "b/other")],
    ids=["max", "sum of min"],
)
def test_a_pod_that_may_wait_for_leaving_pods_is_nominated(
    quotas: dict[str, tuple[int, int]], ends: str
) -> None:
    """One leaves, for whose end somebody else waits; then another pod ends, and both have room."""
    made = GangScheduler([10])
    for namespace, (low, high) in quotas.items():
        made.scheduler.put(make_quota(f"{namespace}/q").min(cpu=low).max(cpu=high).obj(), made.now)
    leaving = make_pod("a/leaving").uid("leaving").requests(cpu=1)
    other = make_pod(ends).uid("other").requests(cpu=1)
    made.put(leaving, other)
    assert set(placed(made.step())) == {"leaving", "other"}
    made.put(make_pod("a/p").uid("p").requests(cpu=2).priority(0))
    assert not rejected(made.step())["p"].nominated
    made.put(make_pod("a/leaving").uid("leaving").requests(cpu=1).on("n0").deleting(made.now))
    assert not rejected(made.step(60.0))["p"].nominated, "one is not enough"
    made.scheduler.remove(other.obj(), made.now)
    assert rejected(made.step(60.0))["p"].nominated == "n0"


def test_what_is_said_of_equals_stands_for_a_short_time() -> None:
    """Answers change with the clock alone, where reports of load expire."""
    made = GangScheduler([1])
    made.put(make_pod("a/p0").uid("p0").requests(cpu=2))
    made.step()
    unit = made.scheduler.queue.units["a/p0"]
    tries: list[str] = []
    schedule = made.scheduler.kept_nodes.schedule

    def counted(tried: QueuedUnit, now: float, how: Callable[..., list[Decision]]) -> list[Decision]:
        tries.append(tried.key)
        return schedule(tried, now, how)

    made.scheduler.kept_nodes.schedule = counted  # type: ignore[method-assign, assignment]
    for name in ("p1", "p2"):
        made.put(make_pod(f"a/{name}").uid(name).requests(cpu=2))
        assert list(rejected(made.step(STANDS_FOR_SECONDS * 0.75))) == [name]
    assert tries == ["a/p2"], "what is said without a try does not renew it"
    assert unit.waits_in is made.scheduler.queue.units["a/p2"].waits_in
