"""Cluster events and decisions as wake-ups: the plugins that listen, the hints, and events of decisions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler_core.config.load import load_config, muster_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.decisions import Evicted
from scheduler_core.engine.events import (
    QueueingHints,
    assigned_nodes,
    eviction_events,
    placed_events,
    with_borrowing_events,
)
from scheduler_core.engine.queue.requeue import Wake
from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.queueing.hints import Hint, Reach, StandingHint
from scheduler_core.framework.queueing.obstacles import NOMINATED_PODS, PREEMPTION, WITHIN_MIN
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model.pods.pod import Pod
from scheduler_core.plugins.default_binder import DefaultBinder
from scheduler_core.plugins.priority_sort import PrioritySort
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind
from tests.support.builders import PodBuilder, make_group, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted, member, placed
from tests.support.load_builders import load_aware_plugin

PROFILES = build_profiles(muster_config(), FACTORIES, KNOWN_PLUGINS)
PLUGINS = {"filter": [load_aware_plugin()], "queueSort": [PrioritySort()], "bind": [DefaultBinder()]}
LOAD = Profile("load", PLUGINS, {})


def heard(listeners: QueueingHints, what: EventKind) -> set[str]:
    """Who is told of such an event, where everybody has refused somebody."""
    found = listeners.concerns(ClusterState(), ClusterEvent(what), lambda plugin: True)
    return {concern.plugin for concern in found}


def test_a_report_concerns_only_whom_everything_may_help_where_load_does_not_count() -> None:
    assert heard(QueueingHints(PROFILES.values()), EventKind.NODE_METRIC) == {NOMINATED_PODS}


def test_a_report_concerns_the_plugin_of_any_profile() -> None:
    both = QueueingHints([*PROFILES.values(), LOAD])
    assert heard(both, EventKind.NODE_METRIC) == {"LoadAwareScheduling", NOMINATED_PODS}
    assert heard(both, EventKind.NODE_METRIC) == {"LoadAwareScheduling", NOMINATED_PODS}


@pytest.mark.parametrize("what", [EventKind.NODE_ADD, EventKind.NODE_ADD | EventKind.NODE_TAINTS])
def test_a_union_concerns_whom_one_of_its_kinds_does(what: EventKind) -> None:
    assert {"NodeResourcesFit", "TaintToleration"} <= heard(QueueingHints(PROFILES.values()), what)


QUOTA, NODE = ClusterEvent(EventKind.QUOTA), ClusterEvent(EventKind.NODE_ADD)


def listening(hints: dict[str, dict[EventKind, Hint | None]], profile: str = "x") -> Profile:
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


Q, N = EventKind.QUOTA, EventKind.NODE_ADD
CASES: list[tuple[str, dict[str, dict[EventKind, Hint | None]], QueuedUnit, ClusterEvent, bool]] = [
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
    hints: dict[str, dict[EventKind, Hint | None]], unit: QueuedUnit, event: ClusterEvent, wakes: bool
) -> None:
    assert QueueingHints([listening(hints)]).wake(GangScheduler().state, unit, event) is (
        Wake.YES if wakes else Wake.NO
    )


def test_a_plugin_listens_as_the_profile_of_the_pod_says() -> None:
    listeners = QueueingHints([listening({"One": {Q: None}}, "x"), listening({"One": {N: None}}, "y")])
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
        for event in (QUOTA, NODE, ClusterEvent(EventKind.GROUP))
    ]
    assert ["One" in plugins for plugins in told] == [True, True, False]


def never(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    raise AssertionError("nobody asks it")


def test_only_the_hints_that_an_event_can_concern_are_asked() -> None:
    hints: dict[str, dict[EventKind, Hint | None]] = {"One": {Q: None}, "Two": {Q: never}}
    listeners, state = QueueingHints([listening(hints)]), GangScheduler().state
    assert listeners.wake(state, unit_of("p", refused_by="One Two"), QUOTA, frozenset({"One"})) is Wake.YES


def test_once_one_member_may_be_helped_no_other_is_asked_the_same() -> None:
    asked: list[str] = []

    def may(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
        asked.append(pod.name)
        return True

    unit = QueuedUnit("a/g PodGroup", 0.0, gang=True)
    unit.pods = {name: member(name).priority(rank).obj() for rank, name in enumerate(("m0", "m1", "m2"))}
    unit.plugins = frozenset({"One"})
    listeners = QueueingHints([listening({"One": {Q: StandingHint(may)}}, "muster-scheduler")])
    assert listeners.wake(GangScheduler().state, unit, QUOTA) is Wake.WHILE_SO
    assert len(asked) == 1


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
    listeners = QueueingHints([listening({"One": {N: named("m0")}}, "muster-scheduler")])
    assert listeners.wake(made.state, unit, event) is (Wake.NO, Wake.YES)[wakes]


# Whom an event concerns at all


def anybody(plugin: str) -> bool:
    return True


def test_a_placement_concerns_who_looks_for_victims_only_if_it_borrows() -> None:
    made = GangScheduler([4])
    listeners = QueueingHints(made.scheduler.profiles.values())

    def heard(event: ClusterEvent) -> dict[str, Reach]:
        return {item.plugin: item.reach for item in listeners.concerns(made.state, event, anybody)}

    came = ClusterEvent(EventKind.POD_ADD, pod=make_pod("a/p").requests(cpu=1).obj())
    assert {PREEMPTION, WITHIN_MIN}.isdisjoint(heard(came))
    made.scheduler.put(make_quota("a/q").min(cpu=4).obj(), made.now)
    reach = heard(came)[WITHIN_MIN]
    assert reach.namespaces == {"a"}
    assert reach.band is not None, "only who was within the min before"
    gone = ClusterEvent(EventKind.POD_DELETE, pod=make_pod("a/p").obj())
    assert heard(gone)[PREEMPTION] == Reach(nominated=True)
    assert set(heard(ClusterEvent(EventKind.NODE_METRIC))) == {NOMINATED_PODS}


def test_nobody_is_asked_of_a_plugin_that_refused_nobody() -> None:
    made = GangScheduler([4])
    listeners = QueueingHints(made.scheduler.profiles.values())
    gone = ClusterEvent(EventKind.POD_DELETE, pod=make_pod("a/p").on("n0").obj())
    found = listeners.concerns(made.state, gone, lambda plugin: plugin == "NodeResourcesFit")
    assert [item.plugin for item in found] == ["NodeResourcesFit"]
    assert found[0].room is not None


def runs(key: str, cpu: int, node: str = "n0", priority: int = 0) -> PodBuilder:
    made = make_pod(key).uid(key.rpartition("/")[2]).requests(cpu=cpu).priority(priority)
    return made.on(node).started(1)


def asks(key: str, cpu: int, priority: int = 0) -> PodBuilder:
    return make_pod(key).uid(key.rpartition("/")[2]).requests(cpu=cpu).priority(priority)


def with_port(made: PodBuilder) -> PodBuilder:
    (container,) = made.raw["spec"]["containers"]
    return made.containers({**container, "ports": [{"containerPort": 80, "hostPort": 80}]})


# Who runs on n0 (4 CPUs) and n1 (2 CPUs), what a pod of priority 9 asks for, and whether others are told.
EVICTIONS: dict[str, tuple[list[PodBuilder], int, bool]] = {
    "all that leaves is taken": ([runs("f/x", 2), runs("f/stays", 2, priority=9)], 2, False),
    "more leaves than is taken": ([runs("f/x", 3), runs("f/stays", 1, priority=9)], 2, True),
    "what was free is taken, too": ([runs("f/x", 1), runs("f/stays", 2, priority=9)], 2, False),
    "a port comes free": ([with_port(runs("f/x", 2)), runs("f/stays", 2, priority=9)], 2, True),
}


@pytest.mark.parametrize(("running", "cpu", "told"), EVICTIONS.values(), ids=EVICTIONS)
def test_others_are_told_of_what_victims_leave_over(running: list[PodBuilder], cpu: int, told: bool) -> None:
    made = GangScheduler([4, 2])
    made.put(*running, runs("f/full", 2, "n1", priority=9), asks("f/p", cpu, 9))
    decisions = made.step()
    assert evicted(decisions) == {"x"}
    assert [
        (event.what, event.pod.name) for event in eviction_events(made.state, decisions) if event.pod
    ] == ([(EventKind.POD_LEAVING, "x")] if told else [])


@pytest.mark.parametrize(("low", "told"), [(2, False), (3, True)])
def test_others_are_told_where_a_quota_of_victims_falls_below_its_min(low: int, told: bool) -> None:
    """b uses 2 beside its victim of 2 CPUs."""
    made = GangScheduler([6])
    for key, cpu in (("a/q", 2), ("b/q", low), ("c/q", 3 - low)):
        made.scheduler.put(make_quota(key).uid(key).min(cpu=cpu).obj(), made.now)
    made.put(runs("b/x", 2), runs("b/stays", 2, priority=9), asks("a/p", 2))
    decisions = made.step()
    assert evicted(decisions) == {"x"}
    assert bool(eviction_events(made.state, decisions)) == told


def test_without_evictions_nobody_is_told_of_any() -> None:
    made = GangScheduler([4])
    made.put(asks("f/p", 2))
    decisions = made.step()
    assert eviction_events(made.state, decisions) == []
    assert assigned_nodes(decisions) == {"n0"}
    assert [event.pod.name for event in placed_events(decisions) if event.pod] == ["p"]


def test_who_lacked_more_than_it_could_evict_evicts_beside_the_victims_of_others() -> None:
    """c/p lacks 2 CPUs and may evict one; a/q evicts three for the two that it needs."""
    made = GangScheduler([4])
    for key, cpu in (("a/q", 2), ("c/q", 0), ("d/q", 2)):
        made.scheduler.put(make_quota(key).uid(key).min(cpu=cpu).obj(), made.now)
    made.put(runs("c/big", 3, priority=9), runs("c/low", 1), asks("c/p", 2, 5))
    assert evicted(made.step()) == set()
    made.put(asks("a/q", 2))
    victims = [(item.preemptor.name, item.pod.name) for item in made.step() if isinstance(item, Evicted)]
    assert victims == [("q", "big")]
    victims = [(item.preemptor.name, item.pod.name) for item in made.step(20.0) if isinstance(item, Evicted)]
    assert victims == [("p", "low")]


def test_a_pod_that_is_placed_with_a_better_right_lets_those_look_anew_who_waited_for_the_quota() -> None:
    """c/p waits for b/goes to end; b/own stays within the min of b and takes what that leaves of quota."""
    made = GangScheduler([6, 2])
    for key, cpu in (("a/q", 3), ("b/q", 1), ("c/q", 2)):
        made.scheduler.put(make_quota(key).uid(key).min(cpu=cpu).obj(), made.now)
    made.put(runs("c/low", 2, "n1"), runs("a/x", 1), runs("a/y", 1), runs("b/goes", 1).deleting(made.now))
    made.put(asks("c/p", 2, 5))
    assert evicted(made.step()) == set()
    assert made.state.nominations.node_of("p") == "n0"
    made.put(asks("b/own", 1))
    decisions = made.step()
    assert set(placed(decisions)) == {"own"}
    assert evicted(made.step(20.0)) | evicted(decisions) == {"low"}


def test_a_pod_that_evicts_again_takes_nothing_new() -> None:
    made = GangScheduler([4, 2])
    made.put(runs("f/x", 2), runs("f/stays", 2, priority=9), runs("f/full", 2, "n1", priority=9))
    made.put(asks("f/p", 2, 9))
    decisions = made.step()
    assert evicted(decisions) == {"x"}
    assert eviction_events(made.state, decisions) == []
    assert [event.pod.name for event in eviction_events(made.state, decisions, {"p"}) if event.pod] == ["x"]


def cluster(running: int, *, leaving: int = 0) -> ClusterState:
    """A node, quota `a` with a min of 2 CPUs that uses `running`, of which `leaving` are on their way out."""
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=16, memory=16).obj())
    state.put_quota(make_quota("a/q").min(cpu=2).obj())
    for i in range(running):
        pod = make_pod(f"a/r{i}").requests(cpu=1).on("n")
        state.put_pod((pod.deleting(50.0) if i < leaving else pod).obj())
    return state


def place(state: ClusterState, *pods: Pod) -> list[ClusterEvent]:
    made = []
    for pod in pods:
        state.put_pod(pod)
        state.assume(pod, 0, 1.0)
        made.append(ClusterEvent(EventKind.POD_ADD, pod=pod))
    return made


def loans(state: ClusterState, came: list[ClusterEvent]) -> list[ClusterEvent]:
    """What is told besides that these pods came."""
    told = with_borrowing_events(state, came)
    assert told[: len(came)] == came
    return told[len(came) :]


@pytest.mark.parametrize(
    ("running", "leaving", "cpus", "begins"),
    [
        pytest.param(1, 0, [1], False, id="up to min nothing is borrowed"),
        pytest.param(1, 0, [2], True, id="a pod across min begins to borrow"),
        pytest.param(2, 0, [1], True, id="the first pod above min begins to borrow"),
        pytest.param(3, 0, [1], True, id="who borrows already borrows more"),
        pytest.param(3, 2, [1], False, id="pods on their way out leave room within min"),
        pytest.param(3, 1, [1], True, id="what is on its way out was no loan any more"),
        pytest.param(0, 0, [1, 1, 1], True, id="a gang counts together"),
    ],
)
def test_a_quota_borrows_more(running: int, leaving: int, cpus: list[int], begins: bool) -> None:
    state = cluster(running, leaving=leaving)
    made = place(state, *(make_pod(f"a/new{i}").requests(cpu=cpu).obj() for i, cpu in enumerate(cpus)))
    expected = [ClusterEvent(EventKind.LOAN, namespace="a")] if begins else []
    assert loans(state, made) == expected


def test_a_resource_that_is_nobodys_business_is_no_loan() -> None:
    state = cluster(0)
    assert loans(state, place(state, make_pod("a/p").requests(memory=4).obj())) == []


def test_a_namespace_without_a_quota_does_not_borrow() -> None:
    state = cluster(0)
    assert loans(state, place(state, make_pod("free/p").requests(cpu=4).obj())) == []


def test_a_borrower_whose_node_was_kept_for_it_can_be_a_victim_only_now() -> None:
    state = cluster(4)
    pod = make_pod("a/p").requests(cpu=1).obj()
    state.nominations.put(pod, "n", state.vector(pod))
    assert loans(state, place(state, pod)) == [ClusterEvent(EventKind.LOAN, namespace="a")]


def test_a_pod_that_comes_with_its_node_counts_too() -> None:
    state = cluster(2)
    events = state.put_pod(make_pod("a/static").requests(cpu=1).on("n").obj())
    assert with_borrowing_events(state, events) == [*events, ClusterEvent(EventKind.LOAN, namespace="a")]


# A less important pod gets room by a right that a more important one of its quota lacks


def test_who_would_borrow_looks_at_a_less_important_claim_of_its_quota_that_has_started() -> None:
    """b/most lacks 1 CPU beside what it may evict; b/claims reclaims 2, and runs then."""
    made = GangScheduler([8])
    made.put(make_quota("a/q").min(cpu=4), make_quota("b/q").min(cpu=4))  # type: ignore[arg-type]
    made.put(runs("a/keeps", 4, priority=5), runs("a/lent", 2), runs("b/own", 2, priority=5))
    made.put(asks("b/most", 3, 9), asks("b/never", 3, 9).spec(preemptionPolicy="Never"), asks("b/low", 3, -1))
    assert evicted(made.step()) == set()
    made.put(asks("b/claims", 2))
    assert evicted(made.step()) == {"lent"}
    made.scheduler.remove(runs("a/lent", 2).obj(), made.now)
    assert placed(made.step(20.0)) == {"claims": "n0"}
    assert evicted(made.step(20.0)) == {"own", "claims"}


def fair_scheduler(*nodes: int) -> GangScheduler:
    """All CPUs are guaranteed to a quota that uses none; who borrows less takes from who borrows more."""
    config = load_config(FAIR, "fair.yaml")
    made = GangScheduler(nodes, config)
    for key, low in (("lends/q", sum(nodes)), ("a/q", 0), ("b/q", 0)):
        made.scheduler.put(make_quota(key).uid(key).min(cpu=low).obj(), made.now)
    return made


FAIR = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: muster-scheduler
  plugins: {multiPoint: {enabled: [{name: CapacityScheduling}, {name: Coscheduling}]}}
  pluginConfig:
  - name: CapacityScheduling
    args: {borrowing: {preemption: FairShare}}
"""


@pytest.mark.parametrize(
    "most",
    [[asks("b/most", 4, 9)], [asks(f"b/{name}", 2, 9).group("g") for name in ("most", "more")]],
    ids=["pod", "gang"],
)
def test_who_is_more_important_takes_what_its_quota_gets_by_a_fair_move(most: list[PodBuilder]) -> None:
    """b/most needs 4 CPUs: its quota would borrow too much for a fair move, and b/own has 2."""
    made = fair_scheduler(8)
    made.scheduler.put(make_group("b/g").needs(2).obj(), made.now)
    made.put(*(runs(f"a/{name}", 2) for name in "xyz"), runs("b/own", 2, priority=5), *most)
    assert evicted(made.step()) == set()
    made.put(asks("b/less", 2))
    assert len(evicted(made.step()) & {"x", "y", "z"}) == 1
    assert evicted(made.step(20.0)) == {"own"}
