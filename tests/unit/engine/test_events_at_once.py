"""Pods of a quota that come, change or go at the same moment: whoever they take across the min together is
tried, though none of them does it alone.
"""

from __future__ import annotations

from scheduler_core.model.names import EVICTION_GRACE_LIMIT_SECONDS
from tests.support.builders import GroupBuilder, PodBuilder, make_group, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted, member, placed

# Of a grace period that is longer than what a victim of another quota gets, in seconds.
GRACE = 3600
SOON = 20.0


def runs(key: str, cpu: int, node: str) -> PodBuilder:
    return make_pod(key).uid(key.partition("/")[2]).requests(cpu=cpu).on(node).started(900.0)


def cluster(own: int) -> GangScheduler:
    """Quota a of min `own`; b borrows all of n0; c lends. What a runs is on nodes of their own."""
    made = GangScheduler()
    for quota in (
        make_quota("a/q").min(cpu=own),
        make_quota("b/q").min(cpu=1),
        make_quota("c/q").min(cpu=99),
    ):
        made.scheduler.put(quota.obj(), made.now)
    made.scheduler.put(make_node("n0").allocatable(cpu=6).labels(lent="yes").obj(), made.now)
    made.put(*(runs(f"b/lent{number}", 2, "n0") for number in range(3)))
    return made


def waits_for_its_min(
    *running: PodBuilder, own: int, cpu: int, group: GroupBuilder | None = None
) -> GangScheduler:
    """A pod of `cpu` waits: what `running` use of the min leaves it less than that."""
    made = cluster(own)
    if group is not None:
        made.scheduler.put(group.obj(), made.now)
    for pod in map(PodBuilder.obj, running):
        made.scheduler.put(
            make_node(pod.node_name).allocatable(cpu=pod.requests["cpu"] // 1000).obj(), made.now
        )
    made.put(*running)
    made.put(make_pod("a/waits").uid("waits").requests(cpu=cpu).selector(lent="yes"))
    assert evicted(made.step()) == set()
    return made


def test_pods_that_begin_to_leave_at_once() -> None:
    running = []
    for number in range(4):
        pod = runs(f"a/late{number}", 2, f"m{number}").deleting(1000.0 + EVICTION_GRACE_LIMIT_SECONDS + SOON)
        pod.meta["deletionGracePeriodSeconds"] = GRACE
        running.append(pod)
    made = waits_for_its_min(*running, own=8, cpu=6)
    assert evicted(made.step(SOON + 1.0)) == {"lent0", "lent1", "lent2"}


def test_a_gang_that_is_evicted_as_a_whole() -> None:
    running = [runs(f"a/g{number}", 2, f"m{number}").group("g") for number in range(5)]
    made = waits_for_its_min(*running, own=10, cpu=6, group=make_group("a/g").uid("g").needs(5))
    made.put(make_pod("a/first").uid("first").requests(cpu=2).priority(9))
    found = evicted(made.step(20.0)) | evicted(made.step(20.0))
    assert found == {"lent0", "lent1", "lent2", *(f"g{number}" for number in range(5))}


def test_a_pod_that_is_resized() -> None:
    made = waits_for_its_min(runs("a/large", 8, "m0"), own=10, cpu=6)
    made.put(runs("a/large", 2, "m0"))
    assert evicted(made.step(20.0)) == {"lent0", "lent1", "lent2"}


def test_a_gang_that_starts() -> None:
    """While the min covers the pod, it leaves others of its quota alone; beyond it takes their room."""
    made = GangScheduler()
    for quota in (make_quota("a/q").min(cpu=10), make_quota("c/q").min(cpu=99)):
        made.scheduler.put(quota.obj(), made.now)
    made.scheduler.put(make_node("n0").allocatable(cpu=6).labels(lent="yes").obj(), made.now)
    made.scheduler.put(make_node("m0").allocatable(cpu=5).labels(lent="no").obj(), made.now)
    made.put(runs("a/small", 1, "n0").started(2000.0))
    made.put(make_pod("a/waits").uid("waits").requests(cpu=6).selector(lent="yes").priority(5))
    assert evicted(made.step()) == set()
    made.scheduler.put(make_group("a/g").uid("g").needs(5).obj(), made.now)
    made.put(*(member(f"g{number}").selector(lent="no") for number in range(5)))
    found = [*made.step(20.0), *made.step(20.0)]
    assert (len(placed(found)), evicted(found)) == (5, {"small"})
