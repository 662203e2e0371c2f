"""For which gang nodes are kept: the effect of each outcome, and the pods that may pass meanwhile."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler_core.engine.gang.kept_nodes import NodeKeeper, reservation_delay
from scheduler_core.engine.gang.outcome import AtFault, Lack, MustWait, Outcome, Prepares, Starts
from scheduler_core.engine.gang.preemption import GangPreemption
from scheduler_core.engine.queue.scheduling_queue import Part
from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.framework.profile import Profile
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, member, placed

PATIENCE = 300.0
NOBODY = GangPreemption((), ())


def unit(made: GangScheduler, gang: str = "g") -> QueuedUnit:
    return made.scheduler.queue.units[f"a/{gang} PodGroup"]


def tell(made: GangScheduler, gang: str, outcome: Outcome) -> None:
    """Gang `gang` was tried, with this outcome."""
    found = unit(made, gang)
    members = [(made.scheduler.profiles[pod.scheduler_name], pod) for pod in found.pods.values()]
    made.scheduler.kept_nodes.after_attempt(found, members, outcome, made.now)


def nominate(made: GangScheduler, name: str, node: str, *, kept: bool = True, victims: Any = ()) -> None:
    pod = made.state.pods[name]
    made.state.nominations.put(pod, node, made.state.vector(pod), frozenset(victims), kept=kept)


def nominated(made: GangScheduler) -> dict[str, str]:
    found = {name: made.state.nominations.node_of(name) for name in made.state.pods}
    return {name: node for name, node in found.items() if node}


def limited(name: str, cpu: int, seconds: int) -> PodBuilder:
    return make_pod(f"a/{name}").uid(name).requests(cpu=cpu).spec(activeDeadlineSeconds=seconds)


def promised(need: int = 2, taken: int = 4, **others: int) -> GangScheduler:
    """n0 of 8 with r on it for 100 s: gang g of 3 CPUs each can start then; n1 is too small."""
    made = GangScheduler([8, 2], g=need, **others)
    made.put(limited("r", taken, 100).on("n0").started(made.now))
    made.put(*(member(f"g{number}", cpu=3) for number in range(2)))
    assert placed(made.step()) == {}
    assert made.scheduler.kept_nodes.start == made.now + 100.0
    return made


def starving(**others: int) -> GangScheduler:
    """Two nodes of 4, n0 full; g has waited so long that both are kept for its two members of 3 CPUs."""
    made = GangScheduler([4, 4], g=2, **others)
    made.put(make_pod("f/r").uid("r").requests(cpu=4).priority(99).on("n0"))
    made.put(member("g0", cpu=3), member("g1", cpu=3))
    made.step()
    made.step(PATIENCE)
    assert sorted(nominated(made).values()) == ["n0", "n1"]
    return made


# Outcomes


STARTS = Starts(reserved=[], refused={})
PREPARES = Prepares(members=(), refused={})

HOLDER: list[tuple[str, Outcome, bool, bool]] = [
    ("it starts: its nodes are taken by its members", STARTS, False, True),
    ("it preempts: what is nominated now has victims", MustWait(refused={}, preemption=NOBODY), False, True),
    ("it preempts, and more could come", MustWait(refused={}, preemption=NOBODY, need=2), False, True),
    ("it can never start", MustWait(refused={}, lack=Lack.QUOTA), False, False),
    ("it has too few members", MustWait(refused={}, lack=Lack.PODS), False, False),
    ("its labels are at fault", AtFault(refused={}), False, False),
    ("no time brings it room", MustWait(refused={}), False, False),
    ("something is prepared for it", PREPARES, True, True),
    ("it still needs room", MustWait(refused={}, need=2), True, True),
]


@pytest.mark.parametrize(
    ("outcome", "holds", "nominations"), [h[1:] for h in HOLDER], ids=[h[0] for h in HOLDER]
)
def test_what_becomes_of_the_gang_that_nodes_are_kept_for(
    outcome: Outcome, holds: bool, nominations: bool
) -> None:
    made = promised()
    tell(made, "g", outcome)
    assert (made.scheduler.kept_nodes.start > 0.0) is holds
    assert set(nominated(made)) == ({"g0", "g1"} if nominations else set())


OTHER: list[tuple[str, Outcome, bool]] = [
    ("it starts", STARTS, True),
    ("it preempts", MustWait(refused={}, preemption=NOBODY, need=1), True),
    ("it has too few members: no room helps it now", MustWait(refused={}, lack=Lack.PODS), False),
    ("it can never start", MustWait(refused={}, lack=Lack.QUOTA), False),
    ("it needs room, and is not the first", MustWait(refused={}, need=1), False),
    ("no time brings it room", MustWait(refused={}), False),
    ("something is prepared for it", PREPARES, True),
]


@pytest.mark.parametrize(("outcome", "stays"), [o[1:] for o in OTHER], ids=[o[0] for o in OTHER])
def test_what_becomes_of_the_nominations_of_another_gang(outcome: Outcome, stays: bool) -> None:
    made = promised(h=1)
    made.put(member("h0", "h", cpu=9))
    nominate(made, "h0", "n1")
    tell(made, "h", outcome)
    assert set(nominated(made)) == {"g0", "g1"} | ({"h0"} if stays else set())
    assert made.scheduler.kept_nodes.start > 0.0


def test_a_gang_of_which_one_still_waits_for_its_victim_is_left_alone() -> None:
    made = GangScheduler([4, 8], g=2)
    made.put(make_pod("f/v").uid("v").requests(cpu=4).deleting(5.0).on("n0"))
    made.put(limited("r", 8, 100).on("n1").started(made.now))
    made.put(member("g0", cpu=4), member("g1", cpu=4))
    nominate(made, "g0", "n0", kept=False, victims=["v"])
    tell(made, "g", MustWait(refused={}, need=2))
    item = made.state.nominations.get("g0")
    assert item is not None
    assert (item.kept, set(nominated(made)), made.scheduler.kept_nodes.start) == (False, {"g0"}, 0.0)


def test_pods_that_are_tried_one_by_one_are_kept_nothing() -> None:
    made = promised(h=1)
    made.put(member("h0", "h", cpu=9))
    nominate(made, "h0", "n1")
    made.scheduler.kept_nodes.members_tried_singly(unit(made, "h"))
    assert set(nominated(made)) == {"g0", "g1", "h0"}
    made.scheduler.kept_nodes.members_tried_singly(unit(made, "g"))
    assert (set(nominated(made)), made.scheduler.kept_nodes.start) == ({"h0"}, 0.0)


# Which nodes


def test_nodes_that_are_kept_stay_the_same_while_they_can() -> None:
    made = starving()
    made.scheduler.put(make_node("n2").allocatable(cpu=40).obj(), made.now)
    made.put(make_pod("f/s").uid("s").requests(cpu=38).on("n2"))
    tell(made, "g", MustWait(refused={}, need=2))
    assert sorted(nominated(made).values()) == ["n0", "n1"]
    made.scheduler.put(make_node("n0").allocatable(cpu=2).obj(), made.now)
    tell(made, "g", MustWait(refused={}, need=2))
    assert sorted(nominated(made).values()) == ["n1", "n2"], "another one where it cannot stay"


def test_a_gang_ahead_does_not_inherit_the_delay_of_the_one_that_waited() -> None:
    made = starving(h=2)
    made.put(*(member(f"h{number}", "h", cpu=3).priority(9) for number in range(2)))
    made.step()
    assert set(nominated(made)) == {"g0", "g1"}


def test_a_new_process_keeps_what_the_old_one_kept() -> None:
    made = GangScheduler([4, 4, 4], g=2)
    made.put(*(make_pod(f"f/r{n}").uid(f"r{n}").requests(cpu=4 - 2 * n).on(f"n{n}") for n in range(2)))
    made.put(make_pod("f/r2").uid("r2").requests(cpu=3).on("n2"))
    made.put(member("g0", cpu=3).nominated("n0"), member("g1", cpu=3).nominated("n2"))
    assert placed(made.step()) == {}
    assert nominated(made) == {"g0": "n0", "g1": "n2"}


def test_when_the_start_is_not_known_any_more_nodes_are_kept_as_a_whole() -> None:
    made = promised()
    assert sum(int(item.vector[0]) for item in kept_items(made)) == 2000
    made.scheduler.remove(made.state.pods["r"], made.now)
    made.put(make_pod("f/s").uid("s").requests(cpu=4).on("n0"))
    tell(made, "g", MustWait(refused={}, need=2))
    assert made.scheduler.kept_nodes.start == 0.0
    assert [int(item.vector[0]) for item in kept_items(made)] == [3000, 3000]


def kept_items(made: GangScheduler) -> list[Any]:
    found = [made.state.nominations.get(name) for name in ("g0", "g1")]
    return [item for item in found if item is not None]


def test_who_leaves_at_no_known_time_makes_no_part_of_a_seat_superfluous() -> None:
    made = GangScheduler([4, 4], g=2)
    made.put(make_pod("f/r").uid("r").requests(cpu=4).deleting(5.0).on("n0"))
    made.put(make_pod("f/s").uid("s").requests(cpu=2).on("n1"), member("g0", cpu=3), member("g1", cpu=3))
    made.step()
    made.step(PATIENCE)
    assert [int(item.vector[0]) for item in kept_items(made)] == [3000, 3000]


def test_a_member_without_a_seat_is_nominated_no_more() -> None:
    made = GangScheduler([8, 8], g=2)
    made.put(limited("r", 8, 100).on("n0").started(made.now), make_pod("f/s").requests(cpu=8).on("n1"))
    made.put(*(member(f"g{number}", cpu=3) for number in range(3)))
    nominate(made, "g2", "n1")
    tell(made, "g", MustWait(refused={}, need=2))
    assert nominated(made) == {"g0": "n0", "g1": "n0"}


def test_without_a_delay_nodes_are_never_kept_for_time() -> None:
    made = GangScheduler([4], g=2)
    for profile in made.scheduler.profiles.values():
        for plugin in profile.plugins:
            if hasattr(plugin, "reservation_seconds"):
                plugin.reservation_seconds = None
    made.put(make_pod("f/r").uid("r").requests(cpu=4).on("n0"), member("g0", cpu=2), member("g1", cpu=2))
    made.step()
    made.now += 10 * PATIENCE
    tell(made, "g", MustWait(refused={}, need=2))
    assert nominated(made) == {}


# Under a quota


QUOTA: list[tuple[str, str, int, bool, bool]] = [
    ("room for the gang beside it", "a", 2, False, True),
    ("what its own namespace evicted for leaves too little", "a", 3, False, False),
    ("what is merely kept is no obstacle", "a", 3, True, True),
    ("another quota's counts in the sum of min", "b", 13, False, False),
    ("as much as the sum of min has", "b", 12, False, True),
    ("it does not count against the gang's own max", "b", 3, False, True),
    ("nobody's quota does not count", "f", 13, False, True),
]


@pytest.mark.parametrize(
    ("namespace", "cpu", "merely_kept", "expected"), [q[1:] for q in QUOTA], ids=[q[0] for q in QUOTA]
)
def test_nodes_are_kept_only_where_the_quota_will_have_room(
    namespace: str, cpu: int, merely_kept: bool, expected: bool
) -> None:
    made = GangScheduler([4, 4], g=2)
    made.scheduler.put(make_quota("a/q").min(cpu=8).max(cpu=8).obj(), made.now)
    made.scheduler.put(make_quota("b/q").min(cpu=10).max(cpu=99).obj(), made.now)
    made.scheduler.put(make_node("n2").allocatable(cpu=99).taint("t").obj(), made.now)
    made.put(make_pod("f/r").uid("r").requests(cpu=4).on("n0"))
    made.put(member("g0", cpu=3), member("g1", cpu=3))
    made.put(make_pod(f"{namespace}/w").uid("w").requests(cpu=cpu).gate("later"))
    nominate(made, "w", "n2", kept=merely_kept)
    made.step()
    made.now += PATIENCE
    tell(made, "g", MustWait(refused={}, need=2))
    assert (set(nominated(made)) >= {"g0", "g1"}) is expected


@pytest.mark.parametrize(("cpu", "stays"), [(1, True), (3, False)])
def test_a_gang_whose_quota_was_taken_is_tried_again_at_once(cpu: int, stays: bool) -> None:
    made = GangScheduler([4, 4], g=2)
    made.scheduler.put(make_quota("a/q").min(cpu=8).max(cpu=8).obj(), made.now)
    made.put(make_pod("f/r").uid("r").requests(cpu=4).on("n0"))
    made.put(member("g0", cpu=3), member("g1", cpu=3))
    made.step()
    made.step(PATIENCE)
    assert len(nominated(made)) == 2
    made.scheduler.put(make_node("n2").allocatable(cpu=4).taint("t").obj(), made.now)
    made.step(20.0)
    before = made.scheduler.queue.incoming.copy()
    made.put(make_pod("a/u").uid("u").requests(cpu=cpu).priority(9).tolerates("t").selector(**HOST))
    assert placed(made.step()) == {"u": "n2"}
    tried = made.scheduler.queue.incoming - before
    assert any(cause == "ForceActivate" for _, cause in tried) is not stays
    made.step(20.0)
    assert len(nominated(made)) == (2 if stays else 0)


HOST = {"kubernetes.io/hostname": "n2"}


# When


def profile_with(*seconds: float | None) -> Profile:
    """A profile of plugins with these patiences, and one without any."""
    plugins = [SimpleNamespace(reservation_seconds=value) for value in seconds]
    return cast(Profile, SimpleNamespace(plugins=[SimpleNamespace(), *plugins]))


@pytest.mark.parametrize(
    ("seconds", "expected"), [((), None), ((None,), None), ((60, None, 30), 30.0), ((0,), 0.0)]
)
def test_the_delay_is_the_least_of_any_plugin(
    seconds: tuple[float | None, ...], expected: float | None
) -> None:
    assert reservation_delay(profile_with(*seconds)) == expected


@pytest.mark.parametrize(
    ("schedulers", "since", "expected"),
    [
        pytest.param("x", None, 1060.0, id="it fails now for the first time"),
        pytest.param("x", 950.0, 1010.0, id="it has waited for a while"),
        pytest.param("x", 940.0, math.inf, id="its time has come"),
        pytest.param("x", 900.0, math.inf, id="its time is over"),
        pytest.param("xy", None, 1030.0, id="the least of its profiles"),
        pytest.param("xyz", None, 1030.0, id="one of them has no patience"),
        pytest.param("z", None, math.inf, id="nodes are never kept for it"),
    ],
)
def test_when_nodes_are_kept_for_a_gang(schedulers: str, since: float | None, expected: float) -> None:
    made = GangScheduler()
    profiles = {"x": profile_with(60), "y": profile_with(30), "z": profile_with(None)}
    kept = NodeKeeper(made.scheduler.cycle, made.scheduler.queue, profiles)
    waiting = QueuedUnit("g", 0.0, gang=True)
    waiting.since = since
    waiting.pods = {name: member(name).scheduler(name).obj() for name in schedulers}
    assert kept.due(waiting, 1000.0) == expected


# Who passes


def seen(made: GangScheduler, *pods: PodBuilder, gang: str = "h") -> set[str]:
    """What is nominated while a unit of these pods is tried."""
    other = QueuedUnit(f"a/{gang} PodGroup", 0.0, gang=True)
    other.pods = {pod.meta["uid"]: pod.obj() for pod in pods}
    during: list[set[str]] = []

    def schedule(tried: QueuedUnit, now: float) -> str:
        assert (tried, now) == (other, made.now)
        during.append(set(nominated(made)))
        return "tried"

    assert made.scheduler.kept_nodes.schedule(other, made.now, schedule) == "tried"
    return during[0]


@pytest.mark.parametrize(
    ("ends", "kept"),
    [
        pytest.param([100], set(), id="it ends in time"),
        pytest.param([101], {"g0", "g1"}, id="it ends later"),
        pytest.param([50, 100], set(), id="both end in time"),
        pytest.param([50, 101], {"g0", "g1"}, id="one of two ends later"),
        pytest.param([50, None], {"g0", "g1"}, id="of one nobody knows"),
    ],
)
def test_only_who_ends_in_time_is_tried_as_if_nothing_were_kept(
    ends: list[int | None], kept: set[str]
) -> None:
    made = promised()
    pods = [
        limited(f"h{number}", 1, end) if end is not None else make_pod(f"a/h{number}").uid(f"h{number}")
        for number, end in enumerate(ends)
    ]
    made.state.nominations.freed = False
    assert seen(made, *pods) == kept
    assert set(nominated(made)) == {"g0", "g1"}, "kept again"
    assert not made.state.nominations.freed, "nobody is told that room was given up"


def test_kept_nodes_are_kept_again_although_an_attempt_breaks() -> None:
    made = promised()
    other = QueuedUnit("a/h", 0.0)
    other.pods = {"h0": limited("h0", 1, 10).obj()}

    def breaks(tried: QueuedUnit, now: float) -> None:
        assert nominated(made) == {}
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        made.scheduler.kept_nodes.schedule(other, made.now, breaks)
    assert set(nominated(made)) == {"g0", "g1"}


def test_nodes_that_were_released_meanwhile_are_not_kept_again() -> None:
    made = promised()
    other = QueuedUnit("a/h", 0.0)
    other.pods = {"h0": limited("h0", 1, 10).obj()}

    def gives_up(tried: QueuedUnit, now: float) -> None:
        made.scheduler.kept_nodes.members_tried_singly(unit(made))

    made.scheduler.kept_nodes.schedule(other, made.now, gives_up)
    assert nominated(made) == {}


def test_nodes_that_a_gang_loses_to_a_gang_ahead_are_not_kept_again() -> None:
    """Else both would be tried in turn for ever: each time one of them loses it, the other one is woken."""
    made = promised(h=1)
    made.put(member("h0", "h", cpu=9).priority(9).spec(activeDeadlineSeconds=50))
    ahead = made.state.pods["h0"]
    seat = (ahead, "n1", made.state.vector(ahead))
    made.state.nominations.put_gang("a/h PodGroup", [seat], kept=True)
    tell(made, "g", MustWait(refused={}, need=2))
    assert (set(nominated(made)), made.scheduler.kept_nodes.start) == ({"h0"}, 0.0)
    made.scheduler.kept_nodes.schedule(unit(made, "h"), made.now, lambda *_: None)
    assert set(nominated(made)) == {"h0"}


def test_a_kept_gang_that_lost_a_member_delays_no_other_gang() -> None:
    made = promised()
    long = make_pod("a/h0").uid("h0")
    assert seen(made, long) == {"g0", "g1"}
    made.scheduler.remove(made.state.pods["g1"], made.now)
    assert seen(made, long) == set()
    assert (nominated(made), made.scheduler.kept_nodes.start) == ({}, 0.0)


def test_a_deleted_gang_delays_no_other_gang() -> None:
    made = promised()
    for name in ("g0", "g1"):
        made.scheduler.remove(made.state.pods[name], made.now)
    assert seen(made, make_pod("a/h0").uid("h0")) == set()


def test_more_members_than_are_needed_may_go() -> None:
    made = promised(need=1, taken=6)
    assert made.scheduler.queue.units["a/g PodGroup"].part is Part.UNSCHEDULABLE
    assert nominated(made) == {"g0": "n0"}
    made.scheduler.remove(made.state.pods["g1"], made.now)
    assert seen(made, make_pod("a/h0").uid("h0")) == {"g0"}


def test_room_that_came_early_is_kept_once_another_unit_is_tried() -> None:
    made = promised()
    made.scheduler.remove(made.state.pods["r"], made.now)
    assert sum(int(item.vector[0]) for item in kept_items(made)) == 2000
    seen(made, make_pod("a/h0").uid("h0"))
    assert [int(item.vector[0]) for item in kept_items(made)] == [3000, 3000]


def test_room_of_a_pod_that_leaves_early_is_the_gangs_and_counted_once() -> None:
    """r leaves 4 of 8; 3 of them are free already. Beside the gang's 6 there is room for 2, not for 3."""
    made = promised()
    made.put(limited("r", 4, 100).on("n0").started(made.now).deleting(5.0))
    made.put(make_pod("a/h0").uid("h0").requests(cpu=3))
    made.step()
    assert [int(item.vector[0]) for item in kept_items(made)] == [3000, 3000]
    assert "h0" not in nominated(made)
    made.put(make_pod("a/h1").uid("h1").requests(cpu=2))
    assert placed(made.step()) == {"h1": "n0"}, "the gang starts when r is gone, which takes nothing from it"
    made.put(make_pod("a/h2").uid("h2").requests(cpu=2))
    assert placed(made.step()) == {"h2": "n1"}


def test_of_a_gang_that_is_gone_nothing_is_put_aside() -> None:
    made = promised()
    for name in ("g0", "g1"):
        made.scheduler.remove(made.state.pods[name], made.now)
    assert seen(made, limited("h0", 1, 10)) == set()
    assert nominated(made) == {}


def test_seats_for_a_known_start_are_looked_for_anew_when_it_is_not_known_any_more() -> None:
    """Until r ends in time both seats are beside it; then the second is where more room is now."""
    made = GangScheduler([8, 2, 4], g=2)
    made.put(limited("r", 4, 100).on("n0").started(made.now), make_pod("f/t").requests(cpu=2).on("n2"))
    made.put(member("g0", cpu=3), member("g1", cpu=3))
    made.step()
    assert nominated(made) == {"g0": "n0", "g1": "n0"}
    made.scheduler.remove(made.state.pods["r"], made.now)
    made.put(make_pod("f/s").uid("s").requests(cpu=4).on("n0"))
    tell(made, "g", MustWait(refused={}, need=2))
    assert nominated(made) == {"g0": "n0", "g1": "n2"}


def test_a_pod_that_ends_in_time_is_tried_once_the_start_is_known() -> None:
    """Both wait beside kept nodes; when r turns out to end in 100 s, the one that needs 10 may start."""
    made = starving()
    made.put(limited("short", 3, 10), limited("long", 3, 1000), make_pod("a/any").uid("any").requests(cpu=3))
    assert placed(made.step()) == {}
    row, table = made.state.placed["r"].row, made.state.table
    table.start[row], table.lasts[row] = made.now, 100.0
    tell(made, "g", MustWait(refused={}, need=2))
    assert made.scheduler.kept_nodes.start == made.now + 100.0
    parts = {name: made.scheduler.queue.units[f"a/{name}"].part for name in ("short", "long", "any")}
    assert parts == {"short": Part.BACKOFF, "long": Part.UNSCHEDULABLE, "any": Part.UNSCHEDULABLE}
    assert placed(made.step(30.0)) == {"short": "n1"}
