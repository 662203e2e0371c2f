"""Pods that the API server does not let go: others are evicted in their place.

A policy may protect them, or etcd takes no change of so large an object. The same pod was chosen again and
again, so that no quota got its min back.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from scheduler_core.engine.decisions import Evicted
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.placed.departures import MOST_REFUSED_SECONDS, REFUSED_SECONDS
from tests.support.builders import PodBuilder, make_group, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted, placed

BACKOFF = 11.0


def borrower(name: str, node: str, age: float, cpu: int = 2) -> PodBuilder:
    return make_pod(f"a/{name}").uid(name).requests(cpu=cpu).on(node).started(age)


def lent(cpus: int = 4) -> GangScheduler:
    """Quota b has all by its min, and a borrows it: two pods on each of two nodes."""
    made = GangScheduler((cpus, cpus))
    made.scheduler.put(make_quota("a/q").min(cpu=0).max(cpu=2 * cpus).obj(), made.now)
    made.scheduler.put(make_quota("b/q").min(cpu=2 * cpus).max(cpu=2 * cpus).obj(), made.now)
    return made


def refused(made: GangScheduler, later: float = 0.0, *, stuck: set[str]) -> set[str]:
    """The victims of one step; the API server refuses to let some of them go."""
    decisions = made.step(later)
    for item in decisions:
        if isinstance(item, Evicted) and item.pod.name in stuck:
            made.scheduler.evict_failed(item.pod, item.preemptor, made.now, refused=True)
    assert made.state.check() == []
    return evicted(decisions)


CLAIMS = {
    "a pod takes its min back": [make_pod("b/p").uid("p").requests(cpu=2)],
    "a more important pod of the same quota": [make_pod("a/p").uid("p").requests(cpu=2).priority(10)],
    "a gang takes its min back": [
        make_pod(f"b/m{at}").uid(f"m{at}").group("g").requests(cpu=1) for at in range(2)
    ],
}


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=list(CLAIMS))
def test_another_victim_goes_in_place_of_one_that_cannot(claim: list[PodBuilder]) -> None:
    made = lent()
    for at in range(2):
        made.put(borrower(f"old{at}", f"n{at}", 1.0 + at), borrower(f"new{at}", f"n{at}", 3.0 + at))
    made.scheduler.put(make_group("b/g").uid("g").needs(2).obj(), made.now)
    made.put(*claim)
    (first,) = refused(made, stuck={"new0", "new1"})
    (second,) = refused(made, BACKOFF, stuck={"new0", "new1"})
    assert {first, second} == {"new0", "new1"}
    (third,) = refused(made, BACKOFF, stuck=set())
    assert third in {"old0", "old1"}


def test_a_pod_that_could_not_go_is_tried_again_later_each_time() -> None:
    made = lent()
    made.put(borrower("x", "n0", 1.0, 4), borrower("y", "n1", 2.0, 4))
    made.put(make_pod("b/p").uid("p").requests(cpu=4))
    tried: list[float] = []
    while made.now < 1000.0 + 40 * MOST_REFUSED_SECONDS and len(tried) < 12:
        if "y" in refused(made, stuck={"x", "y"}):
            tried.append(made.now)
        made.now = max(made.now + BACKOFF, made.state.departures.next_time() or 0.0)
    pauses = [later - earlier for earlier, later in pairwise(tried)]
    assert REFUSED_SECONDS <= pauses[0] < 2 * REFUSED_SECONDS
    assert all(later > 1.5 * earlier for earlier, later in pairwise(pauses[:6]))
    assert MOST_REFUSED_SECONDS <= pauses[-1] < 1.5 * MOST_REFUSED_SECONDS


def test_what_cannot_go_keeps_no_other_quota_from_its_min_where_there_is_room() -> None:
    """As what runs on lost nodes."""
    made = lent()
    made.put(borrower("x", "n0", 1.0, 4), make_pod("b/one").uid("one").requests(cpu=3).on("n1"))
    made.put(make_pod("b/p").uid("p").requests(cpu=2))
    assert refused(made, stuck={"x"}) == {"x"}
    made.scheduler.remove(_pod(made, "one"), made.now)
    assert placed(made.step(BACKOFF)) == {"p": "n1"}


def test_one_that_ends_after_all_is_waited_for() -> None:
    made = lent()
    made.put(borrower("x", "n0", 1.0, 4), borrower("y", "n1", 2.0, 4))
    made.put(make_pod("b/p").uid("p").requests(cpu=4))
    assert refused(made, stuck={"y"}) == {"y"}
    ending = borrower("y", "n1", 2.0, 4).deleting(made.now + 30.0)
    ending.meta["deletionGracePeriodSeconds"] = 30
    made.put(ending)
    assert made.state.ledger.is_leaving("a", "y")
    assert refused(made, BACKOFF, stuck=set()) == set()
    made.scheduler.remove(_pod(made, "y"), made.now)
    assert placed(made.step(BACKOFF)) == {"p": "n1"}


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    made = lent()
    made.put(borrower("x", "n0", 1.0, 4), borrower("y", "n1", 2.0, 4))
    made.put(make_pod("b/p").uid("p").requests(cpu=4))
    assert refused(made, stuck={"y"}) == {"y"}
    made.scheduler.remove(_pod(made, "y"), made.now)
    assert made.state.departures.next_time() is None
    assert list(made.state.departures.stuck) == []


def _pod(made: GangScheduler, uid: str) -> Pod:
    return made.state.placed[uid].pod
