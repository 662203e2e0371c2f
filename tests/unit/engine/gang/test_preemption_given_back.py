"""Which victims of a gang are given back: as far as there are proofs for, and in which blocks."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.engine.gang import preemption
from scheduler_core.engine.gang.preemption import GangPreemption, blocks_of, preempt_for_gang
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.interface import PostFilterResult
from scheduler_core.framework.status import SUCCESS
from tests.support.builders import PodBuilder, make_budget, make_node, make_pod
from tests.support.gang_scheduler import GangScheduler, evicted, member, placed


def runs(name: str, node: str = "n0", cpu: int = 1, priority: int = 0, **labels: str) -> PodBuilder:
    made = make_pod(f"a/{name}").uid(name).requests(cpu=cpu).priority(priority).on(node)
    return made.labels(**labels)


def preempt(made: GangScheduler, need: int, *pods: PodBuilder) -> GangPreemption | None:
    parsed = [pod.priority(5).obj() for pod in pods]
    members = [(made.scheduler.profiles[pod.scheduler_name], pod) for pod in parsed]
    before = set(made.state.placed)
    found = preempt_for_gang(made.scheduler.cycle, members, need, made.now)
    assert (set(made.state.placed), made.state.check()) == (before, [])
    return found


def gone(found: GangPreemption | None) -> set[str]:
    assert found is not None
    return {victim.name for victim, _ in found.victims}


def seats(found: GangPreemption | None) -> dict[str, str]:
    assert found is not None
    return {pod.name: node for pod, node, _ in found.nominated}


# Proofs


def greedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Victims of a member are all pods of n0 that may go; they are not looked for all at once."""
    monkeypatch.setattr(preemption, "demands_at_once", lambda *_: ())
    original = PodCycle.attempt

    def attempt(self: Any, profile: Any, pod: Any, now: float, *, post_filter: bool = True, **_: Any) -> Any:
        found = original(self, profile, pod, now, post_filter=False)
        if post_filter and found.slot < 0:
            lower = [item for item in self.state.nodes.pods[0].values() if item.priority < pod.priority]
            found.post_filter = PostFilterResult(SUCCESS, "n0", tuple(lower)) if lower else None
        return found

    monkeypatch.setattr(PodCycle, "attempt", attempt)


@pytest.mark.parametrize(
    ("proofs", "left"),
    [
        pytest.param(0, None, id="none: nobody knows whether they fit at all"),
        pytest.param(1, 8, id="one: they fit, and nobody can be spared for want of a second"),
        pytest.param(2, 4, id="half of them"),
        pytest.param(64, 2, id="as many as it takes"),
    ],
)
def test_victims_are_given_back_while_there_are_proofs(
    proofs: int, left: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = GangScheduler([8], g=2)
    made.put(*(runs(f"v{number}") for number in range(8)))
    greedy(monkeypatch)
    monkeypatch.setattr(preemption, "MOST_PROOFS", proofs)
    found = preempt(made, 2, member("m0"), member("m1"))
    assert (None if found is None else len(found.victims)) == left


def test_a_set_that_resources_rule_out_costs_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([8], g=2)
    made.put(*(runs(f"v{number}") for number in range(8)))
    greedy(monkeypatch)
    # Four proofs are enough for the fewest victims only if none is spent on a set without room.
    monkeypatch.setattr(preemption, "MOST_PROOFS", 4)
    assert len(gone(preempt(made, 2, member("m0"), member("m1")))) == 2


# Members


@pytest.mark.parametrize(("need", "names"), [(1, 1), (2, 2), (3, 3), (4, None)])
def test_as_many_members_as_are_needed_are_seated(need: int, names: int | None) -> None:
    made = GangScheduler([3], g=1)
    made.put(*(runs(f"v{number}") for number in range(3)))
    found = preempt(made, need, *(member(f"m{number}") for number in range(4)))
    assert (None if found is None else len(found.nominated)) == names
    if found is not None:
        assert len(found.victims) == need


def test_a_member_without_possible_victims_is_left_out_if_it_is_not_needed() -> None:
    made = GangScheduler([2], g=1)
    made.put(runs("v", cpu=2))
    pods = member("huge", cpu=9), member("m0", cpu=2)
    assert seats(preempt(made, 1, *pods)) == {"m0": "n0"}
    assert preempt(made, 2, *pods) is None


def test_members_that_differ_are_seated_where_each_fits() -> None:
    made = GangScheduler([4, 3], g=3)
    made.put(runs("v", "n0", 4), runs("w", "n1", 3))
    found = preempt(made, 3, member("large", cpu=4), member("small"), member("middle", cpu=2))
    assert (gone(found), seats(found)) == ({"v", "w"}, {"small": "n1", "middle": "n1", "large": "n0"})


def test_each_victim_goes_for_the_member_that_found_it() -> None:
    made = GangScheduler([1, 2], g=2)
    made.put(runs("v", "n0"), runs("w", "n1", 2))
    found = preempt(made, 2, member("big", cpu=2), member("little"))
    assert found is not None
    assert {victim.name: pod.name for victim, pod in found.victims} == {"w": "big", "v": "little"}


def test_a_node_whose_victims_free_too_little_is_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The victims that were named do not make room enough: the rest of n0 may not go."""
    made = GangScheduler([2], g=1)
    made.put(runs("v"), runs("x", priority=9))
    greedy(monkeypatch)
    assert preempt(made, 1, member("m0", cpu=2)) is None
    assert gone(preempt(made, 1, member("m0"))) == {"v"}


def test_an_unknown_node_is_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([1], g=1)
    made.put(runs("v"))
    monkeypatch.setattr(preemption, "demands_at_once", lambda *_: ())
    original = PodCycle.attempt

    def attempt(self: Any, profile: Any, pod: Any, now: float, *, post_filter: bool = True, **_: Any) -> Any:
        found = original(self, profile, pod, now, post_filter=False)
        found.post_filter = PostFilterResult(SUCCESS, "gone", (made.state.pods["v"],))
        return found

    monkeypatch.setattr(PodCycle, "attempt", attempt)
    assert preempt(made, 1, member("m0")) is None


def test_pods_that_leave_a_node_anyhow_count_as_free_room() -> None:
    made = GangScheduler([3], g=1)
    made.put(runs("v"), runs("x").deleting(5.0), runs("y", priority=9))
    assert gone(preempt(made, 1, member("m0", cpu=2))) == {"v"}
    made.put(runs("y", priority=9).deleting(5.0))
    found = preempt(made, 1, member("m0", cpu=2))
    assert (gone(found), seats(found)) == (set(), {"m0": "n0"}), "nobody has to go"


def test_members_take_no_room_from_each_other() -> None:
    made = GangScheduler([2, 2], g=2)
    made.put(*(runs(f"v{number}", f"n{number // 2}") for number in range(4)))
    found = preempt(made, 2, member("m0", cpu=2), member("m1", cpu=2))
    assert (set(seats(found).values()), len(gone(found))) == ({"n0", "n1"}, 4)


def test_a_gang_that_evicts_and_has_room_elsewhere_evicts_only_what_it_needs() -> None:
    made = GangScheduler([2], g=2)
    made.scheduler.put(make_node("free").allocatable(cpu=1).obj(), made.now)
    made.put(runs("v"), runs("w"), member("m0").priority(5), member("m1").priority(5))
    decisions = made.step()
    assert (placed(decisions), len(evicted(decisions))) == ({}, 1)


# Blocks


def test_a_block_is_protected_if_one_of_its_pods_is() -> None:
    made = GangScheduler([9], v=2)
    made.scheduler.put(make_budget("a/safe").selects(app="safe").allows(0).obj(), made.now)
    made.put(
        runs("high", priority=9),
        runs("g0", app="safe").group("v"),
        runs("g1", priority=1).group("v"),
    )
    victims = [made.state.pods[name] for name in ("high", "g0", "g1")]
    assert [[pod.name for pod in block] for block in blocks_of(made.state, victims)] == [
        ["g1", "g0"],
        ["high"],
    ]


def test_among_equals_who_never_said_when_it_started_is_the_oldest_then_the_name_decides() -> None:
    made = GangScheduler([9])
    made.put(runs("d").started(7.0), runs("b"), runs("c").started(3.0), runs("a").started(3.0))
    victims = [made.state.pods[name] for name in "dcba"]
    assert [block[0].name for block in blocks_of(made.state, victims)] == ["b", "a", "c", "d"]


@pytest.mark.parametrize(
    ("running", "victims", "together"),
    [
        pytest.param(2, 1, True, id="one of two that are needed"),
        pytest.param(3, 2, True, id="two of three"),
        pytest.param(3, 1, False, id="one of three: two are left"),
        pytest.param(4, 2, False, id="two of four"),
        pytest.param(1, 1, False, id="a gang that is torn already"),
    ],
)
def test_members_of_a_gang_go_together_where_it_would_be_torn(
    running: int, victims: int, together: bool
) -> None:
    made = GangScheduler([9], v=2)
    made.put(*(runs(f"v{number}").group("v") for number in range(running)))
    found = blocks_of(made.state, [made.state.pods[f"v{number}"] for number in range(victims)])
    assert len(found) == (1 if together else victims)
    pods = [runs("lone")]
    made.put(*pods)
    both = blocks_of(
        made.state, [made.state.pods["lone"], *(made.state.pods[f"v{n}"] for n in range(victims))]
    )
    assert len(both) == len(found) + 1
