"""Victims for native groups: what the scenarios of tests/scenarios/native-preemption cannot show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from scheduler_core.controllers.displacement_notices import DisplacementNotices
from scheduler_core.engine.decisions import Evicted
from scheduler_core.engine.gang.group_preemption import never_preempts, preempt_for_group
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.groups.native import parse_native_gang
from scheduler_core.model.pods.pod import Pod
from tests.support.builders import PodBuilder, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted, member, placed


def group(name: str, priority: int = 100, namespace: str = "a", **spec: Any) -> Gang:
    meta = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
    return parse_native_gang({"metadata": meta, "spec": {"priority": priority, **spec}})


def gang_of(minimum: int) -> dict[str, Any]:
    return {"schedulingPolicy": {"gang": {"minCount": minimum}}}


ALL: dict[str, Any] = {"disruptionMode": {"all": {}}}


def native(pod: PodBuilder, name: str) -> Pod:
    return msgspec.structs.replace(pod.obj(), native_group=name)


def runs(key: str, node: str = "n0", priority: int = 0, cpu: int = 1) -> PodBuilder:
    made = make_pod(key).uid(key.rpartition("/")[2]).requests(cpu=cpu).priority(priority)
    return made.on(node).started(1)


def waits(name: str, gang: str = "g", priority: int = 100, cpu: int = 1) -> Pod:
    return native(make_pod(f"a/{name}").uid(name).requests(cpu=cpu).priority(priority), gang)


def put(made: GangScheduler, *objects: Gang | Pod | PodBuilder) -> None:
    for item in objects:
        made.scheduler.put(item.obj() if isinstance(item, PodBuilder) else item, made.now)


def test_a_gang_of_another_dialect_goes_whole_if_it_would_fall_below_its_minimum() -> None:
    made = GangScheduler([4], old=2)
    old = [runs(f"a/o{number}").group("old") for number in range(3)]
    put(made, *old, runs("a/strong", priority=500), group("g", **gang_of(2)))
    put(made, waits("m0"), waits("m1"))
    assert evicted(made.step()) == {"o0", "o1", "o2"}


def test_a_gang_of_another_dialect_gives_members_beyond_its_minimum() -> None:
    made = GangScheduler([3], old=2)
    put(made, *(runs(f"a/o{number}").group("old") for number in range(3)), group("g", **gang_of(1)))
    put(made, waits("m0"))
    assert len(evicted(made.step())) == 1


def test_a_unit_with_a_member_that_is_not_lower_is_spared() -> None:
    """Under quotas a unit of another quota that does not borrow stays, also on the same node."""
    made = GangScheduler([2, 2])
    for name in "ab":
        made.scheduler.put(make_quota(f"{name}/{name}").min(cpu=2).max(cpu=4).obj(), made.now)
    put(made, group("pack", 0, "b", **gang_of(1), **ALL), group("g", **gang_of(2)))
    put(made, native(runs("b/p0"), "pack"), native(runs("b/p1", "n1"), "pack"))
    put(made, runs("c/outside"), runs("c/outside1", "n1"))
    put(made, waits("m0"), waits("m1"))
    assert evicted(made.step()) == set()


def test_no_further_victims_while_the_first_ones_leave() -> None:
    made = GangScheduler([2])
    put(made, runs("a/v0", cpu=2), group("g", **gang_of(2)), waits("m0"), waits("m1"))
    assert evicted(made.step()) == {"v0"}
    put(made, runs("a/late", priority=-1, cpu=0))
    assert evicted(made.step(60.0)) == set()


def test_a_group_that_waits_for_leaving_pods_keeps_all_of_its_nodes() -> None:
    """Its first member has a free node, and waits for quota alone; the second one is beyond the minimum."""
    made = GangScheduler([1, 1, 1])
    made.put(make_quota("a/q").min(cpu=2), make_quota("b/q").min(cpu=1))  # type: ignore[arg-type]
    put(made, runs("a/v", "n1").deleting(1000.0), runs("b/x", "n2"))
    put(made, make_pod("a/u").uid("u").requests(cpu=1).on("gone").deleting(1000.0))
    put(made, group("g", **gang_of(1)), waits("m0"), waits("m1"))
    for _ in range(3):
        made.step(400.0)
        assert sorted(map(made.state.nominations.node_of, ("m0", "m1"))) == ["n0", "n1"]
    pods = sorted((waits("m0"), waits("m1")), key=lambda pod: made.state.nominations.node_of(pod.uid))
    members = [(made.scheduler.profiles[pod.scheduler_name], pod) for pod in pods]
    gang = made.state.gangs.gangs["a/g native-PodGroup"]
    assert preempt_for_group(made.scheduler.cycle, gang, members, 1, made.now) is None


@pytest.mark.parametrize(
    ("policy", "members", "never"),
    [
        ("", ["PreemptLowerPriority", "PreemptLowerPriority"], False),
        ("", ["PreemptLowerPriority", "Never"], True),
        ("Never", ["PreemptLowerPriority"], True),
        ("PreemptLowerPriority", ["Never"], False),
    ],
)
def test_the_policy_of_the_group_decides_and_without_one_its_members(
    policy: str, members: Sequence[str], never: bool
) -> None:
    gang = group("g", preemptionPolicy=policy) if policy else group("g")
    pods = [msgspec.structs.replace(waits(str(i)), preemption_policy=name) for i, name in enumerate(members)]
    assert never_preempts(gang, pods) is never


def test_a_disrupted_group_is_told_by_whom() -> None:
    made = GangScheduler([3])
    put(made, group("pack", 10, **gang_of(1), **ALL), group("g", **gang_of(1)))
    put(made, *(native(runs(f"a/p{number}", priority=10), "pack") for number in range(3)), waits("m0"))
    decisions = made.step()
    assert len([item for item in decisions if isinstance(item, Evicted)]) == 3
    DisplacementNotices().reconcile(made.state, made.now)
    told = made.state.gangs.verdicts.disruptions["a/pack native-PodGroup"]
    assert told.message == "3 of its 3 pods were preempted by a/m0 of PodGroup a/g (priority 100)"
    assert told.now == made.now


def test_a_group_evicted_by_a_single_pod_is_told() -> None:
    made = GangScheduler([1])
    put(made, group("pack", 10), native(runs("a/p0", priority=10), "pack"))
    put(made, make_pod("a/king").uid("king").requests(cpu=1).priority(50))
    assert evicted(made.step()) == {"p0"}
    DisplacementNotices().reconcile(made.state, made.now)
    told = made.state.gangs.verdicts.disruptions["a/pack native-PodGroup"]
    assert told.message == "1 of its 1 pods was preempted by a/king (priority 50)"


def test_members_of_different_sizes_find_room_together() -> None:
    made = GangScheduler([4, 2])
    put(made, runs("a/v0", cpu=3), runs("a/v1", "n1", cpu=2), group("g", **gang_of(2)))
    put(made, waits("large", cpu=4), waits("small"))
    assert evicted(made.step()) == {"v0", "v1"}


def test_free_room_is_used_before_victims() -> None:
    made = GangScheduler([2, 2])
    put(made, runs("a/v0", cpu=2), group("g", **gang_of(2)), waits("m0"), waits("m1"))
    assert placed(made.step()) == {"m0": "n1", "m1": "n1"}


@pytest.mark.parametrize(
    ("sizes", "goes"), [((3, 1, 1), True), ((3, 3), False)], ids=["some do", "none does"]
)
def test_members_within_min_reclaim_without_one_that_is_too_large(sizes: tuple[int, ...], goes: bool) -> None:
    made = GangScheduler([2])
    made.scheduler.put(make_quota("a/q").min(cpu=2).obj(), made.now)
    made.scheduler.put(make_quota("b/q").min(cpu=0).obj(), made.now)
    put(made, group("g"), runs("b/v0"), runs("b/v1"))
    members = [waits(f"m{number}", cpu=cpu) for number, cpu in enumerate(sizes)]
    put(made, *members)
    assert evicted(made.step()) == ({"v0", "v1"} if goes else set())


BORROWERS = [("a native group", True), ("a group of another dialect", False)]


@pytest.mark.parametrize("is_native", [b[1] for b in BORROWERS], ids=[b[0] for b in BORROWERS])
def test_a_group_that_would_borrow_takes_no_room_of_a_nominated_pod_within_the_min(is_native: bool) -> None:
    """The min of a is 4: beside x0 and x1 one member after the other stays within it, but not all three."""
    made = GangScheduler([3, 2], g=3) if not is_native else GangScheduler([3, 2])
    for quota in (make_quota("a/q").min(cpu=4), make_quota("b/q").min(cpu=0), make_quota("l/q").min(cpu=9)):
        made.scheduler.put(quota.obj(), made.now)
    put(made, runs("b/v", cpu=2), runs("a/o"), runs("a/x0", "n1"), runs("a/x1", "n1"))
    put(made, make_pod("a/p").uid("p").requests(cpu=1))
    assert evicted(made.step()) == {"v"}
    if is_native:
        put(made, group("g", **gang_of(3)))
    names = [f"m{number}" for number in range(3)]
    put(made, *(waits(name) if is_native else member(name).priority(100) for name in names))
    gone = evicted(made.step())
    assert gone < {"o", "x0", "x1"}
    assert len(gone) == 2, "so all three stay within the min"
    assert not evicted(made.step()), "and the pod goes after them"
