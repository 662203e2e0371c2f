"""Looking again while victims are chosen: on one node, as it will be once those who leave are gone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler_core.engine.evaluation import Reevaluation
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.interface import Scope
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import SKIP, SUCCESS, Reason, Status, unschedulable
from scheduler_core.framework.view import NodeView
from scheduler_core.plugins.default_binder import DefaultBinder
from scheduler_core.plugins.priority_sort import PrioritySort
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_node, make_pod


class Crowd:
    """Refuses nodes with so many pods, by one reason that evictions clear and one that they do not."""

    scope = Scope.CLUSTER

    def __init__(self, name: str = "Crowd", most: int = 2, never: int = 99, pre: Status = SUCCESS) -> None:
        self.name = name
        self.most = most
        self.never = never
        self.pre = pre
        self.seen: list[tuple[bool, int]] = []

    def pre_filter(self, cycle: Any) -> Status:
        self.seen.append((cycle.after_leaving, len(cycle.state.placed)))
        return self.pre

    def filter(self, cycle: Any, nodes: NodeView) -> Any:
        counts = np.array([len(cycle.state.nodes.pods[slot]) for slot in nodes.indices], dtype=np.int64)
        return ((counts >= self.most) + 2 * (counts >= self.never)).astype(np.uint64)

    def reasons(self, cycle: Any) -> Any:
        return Reason("crowded"), Reason("overcrowded", resolvable=False)


class Setting:
    """Two nodes, the plugins, and a pod of priority 5 that is looked at again."""

    def __init__(self, *plugins: Any, **options: Any) -> None:
        self.state = ClusterState()
        for number in range(2):
            self.state.put_node(make_node(f"n{number}").allocatable(cpu=99).obj())
        points = {
            "queueSort": [PrioritySort()],
            "preFilter": plugins,
            "filter": plugins,
            "bind": [DefaultBinder()],
        }
        self.profile = Profile("x", points, {}, **options)
        self.cycles = PodCycle(self.state)

    def put(self, *pods: PodBuilder) -> None:
        for pod in pods:
            self.state.put_pod(pod.obj(), 1.0)

    def again(self) -> Reevaluation:
        pod = make_pod("a/p").uid("p").priority(5).obj()
        return Reevaluation(self.cycles, self.profile, self.cycles.new_cycle(self.profile, pod, 1.0))

    def nominate(self, name: str, node: str, priority: int) -> None:
        pod = make_pod(f"a/{name}").uid(name).priority(priority).obj()
        self.state.nominations.put(pod, node, self.state.vector(pod))


def on(name: str, node: str, *, leaves: bool = False) -> PodBuilder:
    pod = make_pod(f"a/{name}").uid(name).on(node)
    return pod.deleting(5.0) if leaves else pod


@pytest.mark.parametrize(
    ("pods", "fits"),
    [
        pytest.param([], True, id="nobody"),
        pytest.param([on("a", "n0")], True, id="room for one more"),
        pytest.param([on("a", "n0"), on("b", "n0")], False, id="no more room"),
        pytest.param([on("a", "n0"), on("b", "n1")], True, id="others are elsewhere"),
        pytest.param([on("a", "n0"), on("b", "n0", leaves=True)], True, id="one of them leaves"),
        pytest.param(
            [on("a", "n0"), on("b", "n0"), on("c", "n0", leaves=True)], False, id="still too many are left"
        ),
    ],
)
def test_a_node_is_looked_at_as_it_will_be(pods: list[PodBuilder], fits: bool) -> None:
    setting = Setting(Crowd())
    setting.put(*pods)
    before = set(setting.state.placed)
    assert setting.again().fits(0) is fits
    assert (set(setting.state.placed), setting.state.check()) == (before, [])


@pytest.mark.parametrize(
    ("nominated", "most", "fits"),
    [
        pytest.param([("w", "n0", 5)], 1, False, id="one that goes first takes the room"),
        pytest.param([("w", "n0", 5)], 2, True, id="room for both"),
        pytest.param([("w", "n0", 4)], 1, True, id="one that goes behind does not count"),
        pytest.param([("w", "n1", 5)], 1, True, id="on another node"),
        pytest.param([("w", "n0", 9), ("v", "n0", 9)], 2, False, id="two that go first"),
    ],
)
def test_nominated_pods_that_go_first_count_as_if_they_were_there(
    nominated: list[tuple[str, str, int]], most: int, fits: bool
) -> None:
    setting = Setting(Crowd(most=most))
    for item in nominated:
        setting.nominate(*item)
    assert setting.again().fits(0) is fits
    assert setting.state.placed == {}


def test_a_pod_must_not_depend_on_a_nominated_one() -> None:
    class Company(Crowd):
        """Refuses nodes without a pod."""

        def filter(self, cycle: Any, nodes: NodeView) -> Any:
            return np.array([not cycle.state.nodes.pods[slot] for slot in nodes.indices], dtype=np.uint64)

    setting = Setting(Company())
    setting.nominate("w", "n0", 9)
    assert not setting.again().fits(0)
    setting.put(on("a", "n0"))
    assert setting.again().fits(0)


class Beside(Crowd):
    """Refuses nodes without the pod `needed`, and those with more than `most` pods."""

    def filter(self, cycle: Any, nodes: NodeView) -> Any:
        there = cycle.state.nodes.pods
        missing = np.array(["needed" not in there[slot] for slot in nodes.indices], dtype=np.uint64)
        return missing | np.asarray(super().filter(cycle, nodes) << np.uint64(1), dtype=np.uint64)


@pytest.mark.parametrize(
    ("plugins", "nominated", "beside", "once_gone"),
    [
        pytest.param([Crowd(most=1)], False, True, True, id="nobody is nominated"),
        pytest.param([Crowd(most=1)], True, False, False, id="the nominated pod needs all that gets free"),
        pytest.param([Crowd(most=2)], True, True, True, id="it needs no more than what gets free"),
        pytest.param([Beside(most=9)], True, True, False, id="the pod needs one that leaves"),
        pytest.param([Beside(most=1)], True, False, False, id="it needs one that leaves, and the room"),
        pytest.param(
            [Beside("near", most=9), Crowd(most=1)], True, False, False, id="another filter refuses"
        ),
        pytest.param([Beside("near", most=9), Crowd(most=2)], True, True, False, id="each filter by itself"),
    ],
)
def test_a_filter_refuses_for_nominated_pods_only_beside_who_leaves_and_without(
    plugins: list[Any], nominated: bool, beside: bool, once_gone: bool
) -> None:
    setting = Setting(*plugins)
    setting.put(on("needed", "n0", leaves=True))
    if nominated:
        setting.nominate("w", "n0", 9)
    assert setting.again().fits_beside_nominated(0) is beside
    assert setting.again().fits(0) is once_gone
    assert (set(setting.state.placed), setting.state.check()) == ({"needed"}, [])


def test_the_present_state_has_leaving_pods_and_no_nominated_ones() -> None:
    setting = Setting(Crowd(most=1))
    setting.nominate("w", "n0", 9)
    assert setting.again().passes(0)
    setting.put(on("a", "n0", leaves=True))
    assert not setting.again().passes(0)


def test_every_filter_has_its_say() -> None:
    assert not Setting(Crowd("one"), Crowd("two", most=0)).again().fits(0)
    assert not Setting(Crowd("one", most=0), Crowd("two")).again().fits(0)
    assert Setting(Crowd("one"), Crowd("two")).again().fits(0)


def test_a_plugin_that_skips_or_is_left_out_does_not_filter() -> None:
    assert Setting(Crowd(most=0, pre=SKIP)).again().fits(0)
    assert not Setting(Crowd(pre=unschedulable("closed"))).again().fits(0)


class Turns(Crowd):
    """Says something else every time."""

    def __init__(self, *said: Status) -> None:
        super().__init__()
        self.said = list(said)

    def pre_filter(self, cycle: Any) -> Status:
        super().pre_filter(cycle)
        return self.said.pop(0)


def test_only_refusals_without_nominated_pods_count() -> None:
    """Quotas count who is nominated by themselves; with them in place they would count twice."""
    setting = Setting(plugin := Turns(SUCCESS, unschedulable("full")))
    setting.nominate("w", "n0", 9)
    assert setting.again().fits(0)
    assert plugin.seen == [(True, 0), (True, 1)]
    setting = Setting(Turns(unschedulable("full"), SUCCESS))
    setting.nominate("w", "n0", 9)
    assert not setting.again().fits(0)


def test_a_deleted_node_takes_no_pod() -> None:
    setting = Setting(Crowd())
    setting.state.remove_node("n0")
    assert (setting.again().fits(0), setting.again().fits(1)) == (False, True)
    assert (setting.again().passes(0), setting.again().passes(1)) == (False, True)


@pytest.mark.parametrize("across", [False, True])
def test_whether_victims_may_be_on_several_nodes_is_the_profiles(across: bool) -> None:
    setting = Setting(Crowd())
    setting.profile.across_nodes = across
    assert setting.again().across_nodes is across


# All nodes at once


def test_nodes_are_judged_as_they_were_when_first_asked() -> None:
    setting = Setting(Crowd(most=1, never=2), Crowd("NodeResourcesFit", most=0))
    setting.put(on("a", "n0"), on("b", "n0"), on("c", "n1"))
    again = setting.again()
    assert again.refusing() == frozenset(), "nobody has asked yet"
    assert again.unresolvable().tolist() == [True, False]
    assert again.beyond_resources().tolist() == [True, True]
    assert again.refusing() == {"Crowd", "NodeResourcesFit"}
    setting.state.remove_pod("c")
    assert again.beyond_resources().tolist() == [True, True]
    fresh = setting.again()
    assert fresh.beyond_resources().tolist() == [True, False]
    assert fresh.refusing() == {"Crowd", "NodeResourcesFit"}, "who refuses some node"


def test_a_refusal_of_pre_filter_sets_no_bit() -> None:
    setting = Setting(Crowd("one", most=0, pre=unschedulable("closed")), Crowd("two", most=1))
    setting.put(on("a", "n0"))
    again = setting.again()
    assert again.beyond_resources().tolist() == [True, False]
    assert again.refusing() == {"two"}


def test_a_node_that_is_gone_is_unresolvable() -> None:
    setting = Setting(Crowd())
    setting.state.remove_node("n1")
    assert setting.again().unresolvable().tolist() == [False, True]
