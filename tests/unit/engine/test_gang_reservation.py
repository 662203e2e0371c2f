"""Nodes kept for a gang that waits: when, for whom, and who may still pass."""

from __future__ import annotations

from scheduler_core.engine.gang_reservation import keep_nodes, patience
from tests.support.builders import make_pod
from tests.support.gang_scheduler import GangScheduler, member, placed

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


def test_before_its_patience_ends_a_gang_keeps_nothing() -> None:
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


def test_keeping_nodes_for_one_member_too_many_nominates_nobody() -> None:
    gang = GangScheduler([4, 4])
    (profile,) = gang.scheduler.profiles.values()
    pods = [(profile, member(f"p{i}", cpu=3).obj()) for i in range(3)]
    assert not keep_nodes(gang.scheduler.cycle, pods, gang.now)
    assert gang.state.nominations.get("p0") is None
    assert keep_nodes(gang.scheduler.cycle, pods[:2], gang.now)


def test_patience_is_what_the_arguments_say() -> None:
    (profile,) = GangScheduler().scheduler.profiles.values()
    assert patience(profile) == PATIENCE
