"""Quota that is held for waiting groups: how long, again after a restart, and how the namespace rests."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.controllers.gang_conditions import held_condition
from scheduler_core.controllers.gang_status import GangStatusController
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.groups.native import parse_native_gang
from scheduler_core.model.timestamps import format_time
from scheduler_core.state.gangs.held_quota import NOTHING, effective_hold, held_against
from tests.support.builders import GroupBuilder, make_group, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted, member, placed, rejected

KEY = "a/g PodGroup"


def holding(hold: str = "10m", *, name: str = "g", members: int = 3) -> GroupBuilder:
    return make_group(f"a/{name}").uid(name).needs(members).annotation("muster.dev/hold-quota", hold)


def waiting(hold: str = "10m", **quota: int) -> GangScheduler:
    """Three members of a gang that wait for a pod of the same quota to end."""
    made = GangScheduler([10])
    made.scheduler.put(make_quota("a/q").min(cpu=4, **quota).max(cpu=4, **quota).obj(), made.now)
    made.put(make_pod("a/r").uid("r").requests(cpu=2).on("n0"))
    made.scheduler.put(holding(hold).obj(), made.now)
    made.put(*(member(f"g{number}", cpu=1) for number in range(3)))
    made.step()
    return made


def gang_of(made: GangScheduler) -> Gang:
    return made.state.gangs.gangs[KEY]


def shown(made: GangScheduler) -> dict[str, Any]:
    """The condition QuotaHeld, empty without."""
    found = held_condition(made.state, gang_of(made), made.now)
    return found[0] if found else {}


def restarted(made: GangScheduler) -> GangScheduler:
    """A new process that reads the same objects, with the condition that the last one wrote."""
    [patch] = [write for write in GangStatusController().reconcile(made.state, made.now) if write.name == "g"]
    again = GangScheduler([10])
    again.now = made.now
    for quota in made.state.ledger.quotas():
        again.scheduler.put(quota, again.now)
    group = holding("10m")
    group.raw["status"] = patch.body["status"]
    again.scheduler.put(group.obj(), again.now)
    for pod in made.state.pods.values():
        again.scheduler.put(pod, again.now)
    again.step()
    return again


def test_a_hold_is_told_with_its_amounts_and_its_end() -> None:
    made = waiting()
    assert shown(made) == {
        "type": "QuotaHeld",
        "status": "True",
        "reason": "WaitsToStart",
        "message": f"cpu=3,pods=3; until {format_time(1600.0)} at the latest",
        "lastTransitionTime": format_time(1000.0),
    }
    made.scheduler.remove(made.state.pods["r"], made.now)
    assert set(placed(made.step(later=20.0))) == {"g0", "g1", "g2"}
    assert shown(made) == {}, "it started before anything was told"


def test_a_hold_is_no_longer_than_nodes_may_be_kept() -> None:
    made = waiting("20h")
    assert made.state.gangs.quota_holds.holds[KEY].until == 1000.0 + 3600.0


def test_a_new_process_ends_a_hold_at_the_same_time() -> None:
    made = waiting()
    made.step(later=400.0)
    again = restarted(made)
    assert again.state.gangs.quota_holds.holds[KEY].until == 1600.0
    again.step(later=201.0)
    assert again.state.gangs.quota_holds.holds == {}
    assert shown(again)["reason"] == "LimitReached"


def test_a_new_process_lets_the_namespace_rest() -> None:
    made = waiting()
    made.step(later=600.0)
    assert (shown(made)["status"], shown(made)["lastTransitionTime"]) == ("False", format_time(1600.0))
    made.now += 300.0
    again = restarted(made)
    assert again.state.gangs.quota_holds.holds == {}
    again.step(later=301.0)
    assert KEY in again.state.gangs.quota_holds.holds


def test_a_group_holds_again_after_the_namespace_rested() -> None:
    made = waiting()
    made.step(later=600.0)
    holds = made.state.gangs.quota_holds
    assert (holds.holds, holds.next_time()) == ({}, 2200.0)
    made.step(later=599.0)
    assert holds.holds == {}
    made.step(later=1.0)
    assert holds.holds[KEY].until == 2200.0 + 600.0


@pytest.mark.parametrize("what", ["a new group of the name", "another group", "new pods"])
def test_a_hold_in_vain_cannot_be_renewed_at_once(what: str) -> None:
    made = waiting()
    made.step(later=500.0)
    for number in range(3):
        made.scheduler.remove(made.state.pods[f"g{number}"], made.now)
    if what != "new pods":
        made.scheduler.remove(gang_of(made), made.now)
    made.step()
    holds = made.state.gangs.quota_holds
    name = "h" if what == "another group" else "g"
    if what != "new pods":
        made.scheduler.put(holding(name=name).obj(), made.now)
    made.put(*(member(f"{name}{number}x", cpu=1, gang=name) for number in range(3)))
    made.step(later=1.0)
    assert (holds.holds, holds.next_time()) == ({}, 2000.0)
    made.step(later=499.0)
    assert list(holds.holds) == [f"a/{name} PodGroup"]


def test_a_start_is_not_in_vain() -> None:
    made = waiting()
    made.step(later=500.0)
    made.scheduler.remove(made.state.pods["r"], made.now)
    assert set(placed(made.step(later=20.0))) == {"g0", "g1", "g2"}
    made.scheduler.put(holding(name="h", members=2).obj(), made.now)
    made.put(member("h0", cpu=1, gang="h"))
    made.step()
    assert list(made.state.gangs.quota_holds.holds) == ["a/h PodGroup"]


def test_an_annotation_that_comes_and_goes_begins_and_ends_a_hold() -> None:
    made = waiting()
    made.scheduler.put(make_group("a/g").uid("g").needs(3).obj(), made.now)
    made.put(make_pod("a/late").uid("late").requests(cpu=1))
    assert "late" in placed(made.step())
    assert made.state.gangs.quota_holds.holds == {}
    made.scheduler.put(holding().obj(), made.now)
    made.step(later=1.0)
    assert KEY in made.state.gangs.quota_holds.holds


def test_nothing_is_held_without_a_quota() -> None:
    made = waiting()
    made.scheduler.remove(next(iter(made.state.ledger.quotas())), made.now)
    made.step()
    assert effective_hold(made.state, KEY) == {}
    assert shown(made) == {}


def test_a_group_that_is_gone_holds_nothing_even_before_the_next_step() -> None:
    made = GangScheduler([10])
    made.scheduler.put(make_quota("a/q").min(cpu=4).max(cpu=10).obj(), made.now)
    made.put(make_pod("a/r").uid("r").requests(cpu=2).on("n0"))
    made.scheduler.put(holding().obj(), made.now)
    made.put(*(member(f"g{number}", cpu=1) for number in range(3)))
    made.put(make_pod("a/late").uid("late").created(2000.0).requests(cpu=1))
    assert placed(made.step()) == {}
    made.scheduler.remove(gang_of(made), made.now)
    # What this pod leaves is offered to the pods that wait, before any hold is reviewed.
    made.scheduler.remove(made.state.pods["r"], made.now)
    assert held_against(made.state, made.state.pods["late"]) == NOTHING
    assert set(placed(made.step(later=20.0))) == {"late"}


def test_what_is_nominated_for_a_group_is_not_held_a_second_time() -> None:
    made = waiting()
    late = make_pod("a/late").uid("late").requests(cpu=1).created(2000.0).obj()
    assert held_against(made.state, late).amounts == {"cpu": 3000, "pods": 3}
    state = made.state
    for number in range(2):
        pod = state.pods[f"g{number}"]
        state.nominations.put(pod, "n0", state.vector(pod), group=KEY)
    assert held_against(made.state, late).amounts == {"cpu": 1000, "pods": 1}


def test_a_native_group_tells_its_hold_beside_the_conditions_of_others() -> None:
    made = GangScheduler([10])
    made.scheduler.put(make_quota("a/q").min(cpu=4).max(cpu=4).obj(), made.now)
    made.put(make_pod("a/r").uid("r").requests(cpu=2).on("n0"))
    other = {"type": "Theirs", "status": "True", "reason": "Said", "message": "so"}
    meta = {"name": "n", "namespace": "a", "uid": "n", "annotations": {"muster.dev/hold-quota": "10m"}}
    spec = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    raw = {"metadata": meta, "spec": spec, "status": {"conditions": [other]}}
    made.scheduler.put(parse_native_gang(raw), made.now)
    for number in range(3):
        pod = make_pod(f"a/m{number}").uid(f"m{number}").requests(cpu=1)
        made.put(pod.spec(schedulingGroup={"podGroupName": "n"}))
    made.step()
    [patch] = GangStatusController().reconcile(made.state, made.now)
    found = {item["type"]: item["status"] for item in patch.body["status"]["conditions"]}
    assert found == {"Theirs": "True", "PodGroupInitiallyScheduled": "False", "QuotaHeld": "True"}


ORDERS = [
    pytest.param({"priority": 0, "created": 2000.0}, True, id="a later pod"),
    pytest.param({"priority": 0, "created": -1.0}, False, id="an older pod"),
    pytest.param({"priority": 1, "created": 2000.0}, False, id="a more important pod"),
    pytest.param({"priority": -1, "created": -1.0}, True, id="a less important pod"),
]


@pytest.mark.parametrize(("pod", "waits"), ORDERS)
def test_a_hold_counts_for_those_behind_in_the_queue(pod: dict[str, Any], waits: bool) -> None:
    made = waiting()
    asked = make_pod("a/late").uid("late").priority(pod["priority"]).created(pod["created"]).requests(cpu=1)
    assert bool(held_against(made.state, asked.obj()).holder) is waits


def test_native_groups_hold_in_the_order_of_the_queue_by_their_oldest_pods() -> None:
    """The object of `first` is older, and its pods are younger: the queue tries `second` before it."""
    made = GangScheduler([10])
    made.scheduler.put(make_quota("a/q").min(cpu=4).max(cpu=4).obj(), made.now)
    made.put(make_pod("a/r").uid("r").requests(cpu=2).on("n0"))
    for name, group_age, pod_age in (("first", 1.0, 30.0), ("second", 2.0, 20.0)):
        meta = {"name": name, "namespace": "a", "uid": name, "annotations": {"muster.dev/hold-quota": "10m"}}
        meta["creationTimestamp"] = format_time(group_age)
        spec = {"schedulingPolicy": {"gang": {"minCount": 3}}}
        made.scheduler.put(parse_native_gang({"metadata": meta, "spec": spec}), made.now)
        for number in range(3):
            uid = f"{name}{number}"
            pod = make_pod(f"a/{uid}").uid(uid).created(pod_age).requests(cpu=1)
            made.put(pod.spec(schedulingGroup={"podGroupName": name}))
    made.step()
    assert {hold.amounts["cpu"] for hold in made.state.gangs.quota_holds.holds.values()} == {3000}
    assert not held_against(made.state, made.state.pods["second0"]).holder
    assert held_against(made.state, made.state.pods["first0"]).holder.startswith("PodGroup a/second ")


@pytest.mark.parametrize("native", [True, False], ids=["a native group", "a gang"])
def test_a_group_behind_a_hold_evicts_nobody(native: bool) -> None:
    """What evictions free would be for the holder first, and the group would evict again."""
    made = GangScheduler([10])
    made.scheduler.put(make_quota("a/q").min(cpu=2).obj(), made.now)
    made.scheduler.put(make_quota("b/q").min(cpu=2).max(pods=5).obj(), made.now)
    made.put(make_pod("b/borrows-a-pod").uid("b").requests(cpu=2).on("n0"))
    made.scheduler.put(holding().obj(), made.now)
    made.put(*(member(f"g{number}", cpu=1) for number in range(3)))
    assert evicted(made.step()) == set()
    if native:
        group = {"metadata": {"name": "h", "namespace": "a", "uid": "h"}, "spec": {}}
        made.scheduler.put(parse_native_gang({"apiVersion": "scheduling.k8s.io/v1beta1", **group}), made.now)
        later = make_pod("a/h0").uid("h0").spec(schedulingGroup={"podGroupName": "h"})
    else:
        made.scheduler.put(make_group("a/h").uid("h").needs(1).created(5).obj(), made.now)
        later = member("h0", "h")
    made.put(later.requests(cpu=1).created(5))
    decisions = made.step(later=1.0)
    assert "held for PodGroup a/g" in rejected(decisions)["h0"].message
    assert evicted(decisions) == set()
