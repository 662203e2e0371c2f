"""The rejection of a pod is reused for equal pods only where quota that is held treats them alike."""

from __future__ import annotations

from scheduler_core.engine.decisions import Rejected
from scheduler_core.model.names import CAPACITY_SCHEDULING
from tests.support.builders import make_group, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, member, placed


def test_a_pod_before_a_group_that_holds_quota_is_not_refused_as_those_behind_it() -> None:
    made = GangScheduler([8])
    made.scheduler.put(make_quota("a/q").min(cpu=4).max(cpu=4).obj(), made.now)
    holding = make_group("a/g").uid("g").needs(2).created(50).annotation("muster.dev/hold-quota", "10m")
    made.scheduler.put(holding.obj(), made.now)
    made.put(member("waits", cpu=2).created(50))
    made.step()
    made.put(make_pod("a/behind").requests(cpu=1).created(60))
    assert placed(made.step()) == {}
    made.put(make_pod("a/before").requests(cpu=1).created(40))
    assert placed(made.step()) == {"before": "n0"}


def test_a_pod_that_is_not_tried_is_told_which_plugin_refuses_it() -> None:
    made = GangScheduler([8])
    made.scheduler.put(make_quota("a/q").min(cpu=1).max(cpu=1).obj(), made.now)
    made.put(*(make_pod(f"a/p{number}").requests(cpu=1) for number in range(4)))
    rejected = [found for found in made.step() if isinstance(found, Rejected)]
    # Only the first of them was tried; it keeps the whole diagnosis.
    assert [found.diagnosis is not None for found in rejected] == [True, False, False]
    assert {found.refused_by for found in rejected} == {CAPACITY_SCHEDULING}
