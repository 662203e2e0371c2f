"""Which events wake a unit: those that a hint of who refused it accepts, for any of its pods."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler_core.engine.class_turns import Wake
from scheduler_core.engine.listeners import Listeners
from scheduler_core.engine.unit import QueuedUnit
from scheduler_core.framework.hints import Hint, Reach
from scheduler_core.framework.obstacles import NOMINATED_PODS, PREEMPTION, WITHIN_MIN
from scheduler_core.framework.profile import Profile
from scheduler_core.state.events import ClusterEvent, Happened
from tests.support.builders import make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, member

QUOTA, NODE = ClusterEvent(Happened.QUOTA), ClusterEvent(Happened.NODE_ADD)


def listening(hints: dict[str, dict[Happened, Hint | None]], profile: str = "x") -> Profile:
    plugins = [SimpleNamespace(name=name, hints=lambda found=found: found) for name, found in hints.items()]
    return cast(Profile, SimpleNamespace(name=profile, events=plugins))


def unit_of(*names: str, refused_by: str = "One", scheduler: str = "x", gang: bool = False) -> QueuedUnit:
    found = QueuedUnit("u", 0.0, gang)
    found.pods = {
        name: make_pod(f"a/{name}").uid(name).scheduler(scheduler).requests(cpu=number + 1).obj()
        for number, name in enumerate(names)
    }
    found.plugins = frozenset(refused_by.split())
    return found


def named(*names: str) -> Hint:
    """A hint that accepts pods of these names."""
    return lambda state, pod, event: pod.name in names


def broken(state: Any, pod: Any, event: Any) -> bool:
    raise ZeroDivisionError


Q, N = Happened.QUOTA, Happened.NODE_ADD
CASES: list[tuple[str, dict[str, dict[Happened, Hint | None]], QueuedUnit, ClusterEvent, bool]] = [
    ("an event that is always accepted", {"One": {Q: None}}, unit_of("p"), QUOTA, True),
    ("another event", {"One": {Q: None}}, unit_of("p"), NODE, False),
    ("one of several", {"One": {Q | N: None}}, unit_of("p"), NODE, True),
    ("one that is accepted for this pod", {"One": {Q: named("p")}}, unit_of("p"), QUOTA, True),
    ("one that is not", {"One": {Q: named("q")}}, unit_of("p"), QUOTA, False),
    ("the second of two hints", {"One": {Q: named("q"), Q | N: None}}, unit_of("p"), QUOTA, True),
    ("a hint for another event", {"One": {Q: named("q"), N: None}}, unit_of("p"), QUOTA, False),
    ("one pod of several", {"One": {Q: named("q")}}, unit_of("p", "q", "r"), QUOTA, True),
    ("a plugin that did not refuse it", {"One": {N: None}, "Two": {Q: None}}, unit_of("p"), QUOTA, False),
    ("one of two", {"One": {N: None}, "Two": {Q: None}}, unit_of("p", refused_by="One Two"), QUOTA, True),
    ("a hint that is broken", {"One": {Q: broken}}, unit_of("p"), QUOTA, True),
    ("a plugin that nobody knows", {"One": {Q: None}}, unit_of("p", refused_by="Gone"), QUOTA, False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("hints", "unit", "event", "wakes"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_who_wakes(
    hints: dict[str, dict[Happened, Hint | None]], unit: QueuedUnit, event: ClusterEvent, wakes: bool
) -> None:
    assert Listeners([listening(hints)]).wake(GangScheduler().state, unit, event) is (
        Wake.YES if wakes else Wake.NO
    )


def test_a_plugin_listens_as_the_profile_of_the_pod_says() -> None:
    listeners = Listeners([listening({"One": {Q: None}}, "x"), listening({"One": {N: None}}, "y")])
    state = GangScheduler().state
    for scheduler, event, wakes in (
        ("x", QUOTA, True),
        ("x", NODE, False),
        ("y", QUOTA, False),
        ("y", NODE, True),
    ):
        assert listeners.wake(state, unit_of("p", scheduler=scheduler), event) is (
            Wake.YES if wakes else Wake.NO
        )
    told = [
        {item.plugin for item in listeners.concerns(state, event, anybody)}
        for event in (QUOTA, NODE, ClusterEvent(Happened.GROUP))
    ]
    assert ["One" in plugins for plugins in told] == [True, True, False]


# Members whose nodes are the matter, though their kind is asked by another pod


def gang_of_equals(made: GangScheduler) -> QueuedUnit:
    unit = QueuedUnit("a/g PodGroup", 0.0, gang=True)
    unit.pods = {name: member(name).obj() for name in ("m0", "m1", "m2")}
    unit.plugins = frozenset({"One"})
    assert [pod.name for pod in unit.distinct()] == ["m2"]
    return unit


def changed(name: str, *, gone: bool = False) -> ClusterEvent:
    node = make_node(name).obj()
    return ClusterEvent(N, old_node=node) if gone else ClusterEvent(N, node=node)


@pytest.mark.parametrize(
    ("kept", "event", "wakes"),
    [
        pytest.param(None, changed("n0"), False, id="not nominated"),
        pytest.param(True, changed("n0"), True, id="its kept node changed"),
        pytest.param(True, changed("n0", gone=True), True, id="its kept node is gone"),
        pytest.param(True, changed("n1"), False, id="another node changed"),
        pytest.param(True, NODE, False, id="an event of no node"),
        pytest.param(False, changed("n1"), True, id="it waits for victims: whatever happens"),
        pytest.param(False, NODE, True, id="it waits for victims: an event of no node"),
    ],
)
def test_members_with_a_node_are_asked_for_themselves(
    kept: bool | None, event: ClusterEvent, wakes: bool
) -> None:
    made = GangScheduler([4])
    unit = gang_of_equals(made)
    if kept is not None:
        pod = unit.pods["m0"]
        made.state.nominations.put(pod, "n0", made.state.vector(pod), kept=kept)
    listeners = Listeners([listening({"One": {N: named("m0")}}, "muster-scheduler")])
    assert listeners.wake(made.state, unit, event) is (Wake.NO, Wake.YES)[wakes]


# Whom an event concerns at all


def anybody(plugin: str) -> bool:
    return True


def test_a_placement_concerns_who_looks_for_victims_only_if_it_borrows() -> None:
    made = GangScheduler([4])
    listeners = Listeners(made.scheduler.profiles.values())

    def heard(event: ClusterEvent) -> dict[str, Reach]:
        return {item.plugin: item.reach for item in listeners.concerns(made.state, event, anybody)}

    came = ClusterEvent(Happened.POD_ADD, pod=make_pod("a/p").requests(cpu=1).obj())
    assert {PREEMPTION, WITHIN_MIN}.isdisjoint(heard(came))
    made.scheduler.put(make_quota("a/q").min(cpu=4).obj(), made.now)
    assert heard(came)[WITHIN_MIN] == Reach(namespaces=frozenset({"a"}))
    gone = ClusterEvent(Happened.POD_DELETE, pod=make_pod("a/p").obj())
    assert heard(gone)[PREEMPTION] == Reach(nominated=True)
    assert set(heard(ClusterEvent(Happened.NODE_METRIC))) == {NOMINATED_PODS}


def test_nobody_is_asked_of_a_plugin_that_refused_nobody() -> None:
    made = GangScheduler([4])
    listeners = Listeners(made.scheduler.profiles.values())
    gone = ClusterEvent(Happened.POD_DELETE, pod=make_pod("a/p").on("n0").obj())
    found = listeners.concerns(made.state, gone, lambda plugin: plugin == "NodeResourcesFit")
    assert [item.plugin for item in found] == ["NodeResourcesFit"]
    assert found[0].room is not None
