"""Nodes kept for a gang that waits: when, for whom, and who may still pass."""

from __future__ import annotations

import pytest

from scheduler_core.engine.gang.kept_nodes import reservation_delay
from scheduler_core.engine.gang.plan import plan_on_empty
from tests.support.builders import PodBuilder, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted, member, placed, rejected

PATIENCE = 300.0


def starving(minimum: int = 2) -> GangScheduler:
    """Two nodes of 4, one of them full; a gang whose members take 3 each."""
    gang = GangScheduler([4, 4], g=minimum)
    gang.put(make_pod("a/r").uid("r").requests(cpu=4).on("n0"))
    gang.put(*(member(f"g{i}", cpu=3) for i in range(minimum)))
    assert placed(gang.step()) == {}
    return gang


def wake(gang: GangScheduler) -> None:
    """Any event lets the gang be tried again."""
    gang.put(make_pod("b/passing").uid("passing").requests(cpu=0).on("n0"))
    gang.scheduler.remove(gang.state.pods["passing"], gang.now)


def test_before_its_delay_ends_a_gang_keeps_no_node() -> None:
    gang = starving()
    gang.now += PATIENCE - 1
    wake(gang)
    gang.step()
    assert gang.state.nominations.get("g0") is None
    gang.put(make_pod("b/s").uid("s").requests(cpu=2))
    assert set(placed(gang.step())) == {"s"}


def test_afterwards_every_member_has_a_node_kept_and_the_rest_is_backfilled() -> None:
    gang = starving()
    gang.now += PATIENCE
    wake(gang)
    gang.step()
    kept = [gang.state.nominations.get(name) for name in ("g0", "g1")]
    assert sorted(item.node for item in kept if item is not None) == ["n0", "n1"]
    gang.put(make_pod("b/big").uid("big").requests(cpu=2), make_pod("b/tiny").uid("tiny").requests(cpu=1))
    assert placed(gang.step()) == {"tiny": "n1"}


def test_pods_of_higher_priority_are_not_held_up() -> None:
    gang = starving()
    gang.now += PATIENCE
    wake(gang)
    gang.step()
    gang.put(make_pod("b/urgent").uid("urgent").requests(cpu=4).priority(10))
    assert placed(gang.step()) == {"urgent": "n1"}


def test_a_gang_that_even_empty_nodes_could_not_hold_keeps_nothing() -> None:
    gang = starving(minimum=3)
    gang.now += PATIENCE
    wake(gang)
    gang.step()
    assert all(gang.state.nominations.get(f"g{i}") is None for i in range(3))


def test_nodes_are_kept_for_one_gang_at_a_time_the_first_in_the_queue() -> None:
    gang = GangScheduler([4], g=2, h=2)
    gang.put(make_pod("a/r").uid("r").requests(cpu=4).on("n0"))
    gang.put(*(member(f"{name}{i}", name) for name in ("h", "g") for i in range(2)))
    gang.step()
    gang.now += PATIENCE
    wake(gang)
    gang.step()
    assert gang.state.nominations.get("g0") is not None
    assert gang.state.nominations.get("h0") is None


def test_the_nominations_end_when_the_gang_starts() -> None:
    gang = starving()
    gang.now += PATIENCE
    wake(gang)
    gang.step()
    gang.scheduler.remove(gang.state.pods["r"], gang.now)
    where = placed(gang.step(later=20.0))
    assert set(where) == {"g0", "g1"}
    gang.put(*(member(name, cpu=3).on(node) for name, node in where.items()))
    assert gang.state.nominations.get("g0") is None
    assert gang.state.nominations.get("g1") is None


def test_there_is_a_plan_for_as_many_as_empty_nodes_hold() -> None:
    gang = GangScheduler([4, 4])
    (profile,) = gang.scheduler.profiles.values()
    pods = [(profile, member(f"p{i}", cpu=3).obj()) for i in range(3)]
    assert plan_on_empty(gang.scheduler.cycle, pods, 3, gang.now) is None
    plan = plan_on_empty(gang.scheduler.cycle, pods, 2, gang.now)
    assert plan is not None
    assert [(seat.pod.name, seat.vector[0]) for seat in plan.members] == [("p0", 3000), ("p1", 3000)]
    assert {seat.slot for seat in plan.members} == {0, 1}


def test_only_as_many_members_as_must_start_have_nodes_kept() -> None:
    gang = GangScheduler([4, 4], g=2)
    gang.put(make_pod("a/r").uid("r").requests(cpu=4).on("n0"))
    gang.put(*(member(f"g{i}", cpu=3) for i in range(5)))
    gang.step()
    gang.now += PATIENCE
    wake(gang)
    gang.step()
    assert len(gang.state.nominations) == 2


def test_the_delay_is_the_one_of_the_arguments() -> None:
    (profile,) = GangScheduler().scheduler.profiles.values()
    assert reservation_delay(profile) == PATIENCE


# Running pods that must end


def limited(name: str, cpu: int, seconds: int) -> PodBuilder:
    return make_pod(f"a/{name}").uid(name).requests(cpu=cpu).spec(activeDeadlineSeconds=seconds)


def promised(seconds: int = 100) -> GangScheduler:
    """One node of 8: half of it is taken for at most `seconds`, and a gang of two needs 3 each."""
    gang = GangScheduler([8], g=2)
    gang.put(limited("r", 4, seconds).on("n0").started(gang.now))
    gang.put(member("g0", cpu=3), member("g1", cpu=3))
    assert placed(gang.step()) == {}
    return gang


def test_a_gang_that_knows_when_it_can_start_has_nodes_kept_at_once() -> None:
    gang = promised()
    kept = [gang.state.nominations.get(name) for name in ("g0", "g1")]
    assert [item.node for item in kept if item is not None] == ["n0", "n0"]
    asked = sum(int(item.vector[0]) for item in kept if item is not None)
    assert asked == 2000, "the rest comes free by then"


BACKFILL = [
    pytest.param(limited("p", 2, 500), True, id="what is left at the start of the gang may be used for long"),
    pytest.param(limited("p", 3, 500), False, id="more of it only"),
    pytest.param(limited("p", 3, 100), True, id="by who ends in time"),
    pytest.param(limited("p", 3, 101), False, id="a second is too long"),
    pytest.param(make_pod("a/p").uid("p").requests(cpu=3), False, id="or by nobody who has no end"),
    pytest.param(make_pod("a/p").uid("p").requests(cpu=4).priority(1), True, id="higher priority goes first"),
]


@pytest.mark.parametrize(("pod", "starts"), BACKFILL)
def test_backfill_never_delays_the_gang(pod: PodBuilder, starts: bool) -> None:
    gang = promised()
    gang.put(pod)
    assert (placed(gang.step()) == {"p": "n0"}) is starts
    assert len(gang.state.nominations) == 2, "what was kept is kept again"


def test_a_pod_that_ends_in_time_takes_nothing_from_others() -> None:
    """Of 8, 4 and 2 are taken for a while; 6 are needed then, so that 2 may be used for long."""
    gang = promised()
    gang.put(limited("short", 2, 60))
    gang.step()
    gang.put(make_pod("a/long").uid("long").requests(cpu=2), make_pod("a/more").uid("more").requests(cpu=1))
    assert placed(gang.step()) == {"long": "n0"}


def test_room_that_comes_early_is_the_gangs() -> None:
    gang = promised()
    gang.put(limited("short", 2, 60))
    gang.step()
    for name in ("r", "short"):
        gang.scheduler.remove(gang.state.pods[name], gang.now)
    gang.put(make_pod("a/long").uid("long").requests(cpu=3))
    assert "long" not in placed(gang.step()), "whether the gang is tried already or waits for its backoff"
    assert set(placed(gang.step(later=20.0))) == {"g0", "g1"}


def test_the_gang_starts_when_the_others_have_ended() -> None:
    gang = promised()
    gang.put(limited("p", 3, 60))
    gang.step()
    gang.now += 100.0
    for name in ("r", "p"):
        gang.scheduler.remove(gang.state.pods[name], gang.now)
    assert set(placed(gang.step())) == {"g0", "g1"}


def test_the_earliest_end_that_makes_room_counts() -> None:
    gang = GangScheduler([2, 2, 2], g=2)
    for name, seconds in (("r0", 300), ("r1", 100), ("r2", 200)):
        gang.put(limited(name, 2, seconds).on(f"n{name[1]}").started(gang.now))
    gang.put(member("g0", cpu=2), member("g1", cpu=2))
    gang.step()
    kept = [gang.state.nominations.get(name) for name in ("g0", "g1")]
    assert sorted(item.node for item in kept if item is not None) == ["n1", "n2"]


def test_without_known_ends_of_pods_a_gang_waits_for_its_delay() -> None:
    gang = GangScheduler([2, 2], g=2)
    gang.put(limited("r0", 2, 100).on("n0").started(gang.now), make_pod("a/r1").requests(cpu=2).on("n1"))
    gang.put(member("g0", cpu=2), member("g1", cpu=2))
    gang.step()
    assert len(gang.state.nominations) == 0


# Quota


def test_nothing_is_kept_for_a_gang_beyond_its_quota() -> None:
    gang = GangScheduler([4, 4], g=3)
    gang.scheduler.put(make_quota("a/q").min(cpu=2).max(cpu=2).obj(), gang.now)
    gang.put(*(member(f"g{i}") for i in range(3)))
    decisions = gang.step()
    assert rejected(decisions)["g0"].message == (
        "PodGroup a/g: the 3 pods that must start together ask for cpu=3, "
        "more than spec.max[cpu]=2 of ElasticQuota a/q"
    )
    gang.now += PATIENCE
    wake(gang)
    gang.step()
    assert len(gang.state.nominations) == 0


def test_nothing_is_kept_for_a_gang_that_waits_for_quota_and_not_for_nodes() -> None:
    gang = GangScheduler([8], g=2)
    gang.scheduler.put(make_quota("a/q").min(cpu=3).max(cpu=3).obj(), gang.now)
    gang.put(make_pod("a/r").uid("r").requests(cpu=2).on("n0"), member("g0"), member("g1"))
    assert placed(gang.step()) == {}
    gang.now += PATIENCE
    wake(gang)
    gang.step()
    assert len(gang.state.nominations) == 0
    gang.scheduler.remove(gang.state.pods["r"], gang.now)
    assert set(placed(gang.step(later=20.0))) == {"g0", "g1"}


def test_kept_nodes_are_released_when_the_quota_shrinks() -> None:
    gang = starving()
    gang.now += PATIENCE
    wake(gang)
    gang.step()
    assert len(gang.state.nominations) == 2
    gang.scheduler.put(make_quota("a/q").min(cpu=5).max(cpu=5).obj(), gang.now)
    gang.step(later=20.0)
    assert len(gang.state.nominations) == 0


def test_nothing_is_kept_for_a_gang_that_lost_a_member() -> None:
    gang = promised()
    gang.scheduler.remove(gang.state.pods["g1"], gang.now)
    gang.put(make_pod("a/p").uid("p").requests(cpu=4))
    assert placed(gang.step()) == {"p": "n0"}
    assert len(gang.state.nominations) == 0


def test_a_gang_ahead_takes_over_what_was_kept() -> None:
    gang = GangScheduler([8], g=2, h=2)
    gang.put(limited("r", 4, 100).on("n0").started(gang.now))
    gang.put(member("h0", "h", cpu=3), member("h1", "h", cpu=3))
    gang.step()
    assert gang.state.nominations.get("h0") is not None
    gang.put(member("g0", cpu=3), member("g1", cpu=3))
    gang.step()
    assert gang.state.nominations.get("h0") is None
    assert gang.state.nominations.get("g0") is not None


def test_a_gang_that_started_is_kept_nothing_any_more() -> None:
    gang = promised()
    gang.scheduler.remove(gang.state.pods["r"], gang.now)
    assert set(placed(gang.step(later=20.0))) == {"g0", "g1"}
    assert gang.scheduler.kept_nodes.start == 0.0


def test_a_kept_node_is_released_when_another_pod_evicts_on_it() -> None:
    gang = starving()
    gang.now += PATIENCE
    wake(gang)
    gang.put(make_pod("b/s").uid("s").requests(cpu=2))
    assert placed(gang.step()) == {}
    assert len(gang.state.nominations) == 2
    urgent = make_pod("a/urgent").uid("urgent").requests(cpu=4).priority(10)
    gang.put(urgent.selector(**{"kubernetes.io/hostname": "n0"}))
    assert evicted(gang.step()) == {"r"}
    assert placed(gang.step(later=20.0)) == {"s": "n1"}
    assert {name: gang.state.nominations.node_of(name) for name in ("urgent", "g0", "g1")} == {
        "urgent": "n0",
        "g0": "",
        "g1": "",
    }


def test_a_gang_of_too_few_pods_keeps_not_even_what_it_evicted_for() -> None:
    gang = GangScheduler([4], g=2)
    gang.put(make_pod("b/v").uid("v").requests(cpu=4).priority(-1).on("n0"))
    gang.put(member("g0", cpu=2), member("g1", cpu=2))
    assert evicted(gang.step()) == {"v"}
    gang.put(make_pod("b/s").uid("s").requests(cpu=2))
    gang.step()
    gang.scheduler.remove(gang.state.pods["g1"], gang.now)
    gang.step(later=20.0)
    assert gang.state.nominations.node_of("g0") == ""
    gang.scheduler.remove(gang.state.pods["v"], gang.now)
    assert placed(gang.step(later=20.0)) == {"s": "n0"}


# Pods that end elsewhere


def ending_for_the_gang(name: str, node: str, end: float) -> PodBuilder:
    """A pod that was evicted for the gang g and ends at a moment."""
    made = make_pod(f"b/{name}").uid(name).requests(cpu=1).on(node).deleting(end)
    return made.evicted_for("a/g0", "PodGroup a/g")


def test_a_gang_whose_victims_end_elsewhere_keeps_its_nodes_and_rests() -> None:
    """It waits for other pods than these; its quota has room for it once, not twice."""
    gang = GangScheduler([4, 4, 1], g=2)
    gang.put(make_quota("a/quota").min(cpu=6))  # type: ignore[arg-type]
    gang.put(
        *(make_pod(f"b/r{number}").uid(f"r{number}").requests(cpu=4).on(f"n{number}") for number in (0, 1))
    )
    gang.put(ending_for_the_gang("v", "n2", gang.now + 2 * PATIENCE))
    gang.put(member("g0", cpu=3), member("g1", cpu=3))
    gang.step()
    gang.now += PATIENCE
    wake(gang)
    assert {item.nominated for item in rejected(gang.step(20.0)).values()} == {"n0", "n1"}
    assert [rejected(gang.step(20.0)) for _ in range(5)] == [{}] * 5
    kept = [gang.state.nominations.get(name) for name in ("g0", "g1")]
    assert [item.kept for item in kept if item is not None] == [True, True]


@pytest.mark.parametrize("with_victim", [False, True])
def test_a_gang_whose_quota_has_room_at_a_deadline_keeps_its_nodes_and_rests(with_victim: bool) -> None:
    """Nodes have room now, or when a victim is gone; the quota has when a pod has come to its deadline."""
    gang = GangScheduler([3, 3, 2], g=2)
    gang.put(make_quota("a/quota").min(cpu=7).max(cpu=7))  # type: ignore[arg-type]
    gang.put(limited("r", 2, 1000).on("n2").started(gang.now))
    if with_victim:
        gang.put(ending_for_the_gang("v", "n0", gang.now + 200))
    gang.put(member("g0", cpu=3), member("g1", cpu=3))
    assert {item.nominated for item in rejected(gang.step()).values()} == {"n0", "n1"}
    assert [rejected(gang.step(20.0)) for _ in range(5)] == [{}] * 5
    gang.scheduler.remove(gang.state.pods["r"], gang.now)
    if with_victim:
        gang.scheduler.remove(gang.state.pods["v"], gang.now)
    assert set(placed(gang.step(20.0))) == {"g0", "g1"}
