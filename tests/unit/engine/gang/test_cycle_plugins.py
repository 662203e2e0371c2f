"""The plugins whose events may help a gang, whichever member they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler_core.engine.gang import cycle
from scheduler_core.engine.gang.cycle import unschedulable_plugins
from scheduler_core.framework.queueing.obstacles import (
    NOMINATED_PODS,
    PREEMPTION,
    PREEMPTION_BESIDE,
    WITHIN_MIN,
)
from scheduler_core.framework.status import unschedulable
from tests.support.builders import PodBuilder, make_node
from tests.support.gang_scheduler import GangScheduler, member

ALWAYS = {"NodeResourcesFit", "NodePorts", "CapacityScheduling", PREEMPTION, WITHIN_MIN}


def asked(made: GangScheduler, *pods: PodBuilder) -> set[str]:
    members = [(made.scheduler.profiles[pod.obj().scheduler_name], pod.obj()) for pod in pods]
    return set(unschedulable_plugins(made.scheduler.cycle, members, made.now))


def near(pod: PodBuilder) -> PodBuilder:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    return pod.spec(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


def nothing(made: GangScheduler) -> None:
    """The world as it is."""


def tainted_node(made: GangScheduler) -> None:
    made.scheduler.put(make_node("n1").allocatable(cpu=4).taint("t").obj(), made.now)


CASES: list[tuple[str, Callable[[GangScheduler], None], list[PodBuilder], set[str]]] = [
    ("what members may take from each other", nothing, [member("a")], set()),
    ("a taint", tainted_node, [member("a")], {"TaintToleration"}),
    ("the second kind alone", nothing, [member("a"), member("b").selector(disk="ssd")], {"NodeAffinity"}),
    ("rules between pods", nothing, [near(member("a"))], {"InterPodAffinity", PREEMPTION_BESIDE}),
]


@pytest.mark.parametrize(("change", "pods", "more"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_who_refuses_any_kind_anywhere(
    change: Callable[[GangScheduler], None], pods: list[PodBuilder], more: set[str]
) -> None:
    made = GangScheduler([4], g=1)
    change(made)
    assert asked(made, *pods) == ALWAYS | more


def test_a_deleted_node_refuses_no_pod() -> None:
    made = GangScheduler([4], g=1)
    made.scheduler.put(make_node("n1").allocatable(cpu=4).taint("t").obj(), made.now)
    made.scheduler.remove(make_node("n1").allocatable(cpu=4).obj(), made.now)
    assert asked(made, member("a")) == ALWAYS


@pytest.mark.parametrize(("name", "told"), [("w", True), ("a", False)])
def test_nominated_pods_stand_in_the_way_if_they_are_others(name: str, told: bool) -> None:
    made = GangScheduler([4], g=1)
    pod = member(name).obj()
    made.state.nominations.put(pod, "n0", made.state.vector(pod))
    assert (NOMINATED_PODS in asked(made, member("a"), member("b"))) is told


@pytest.mark.parametrize(("kinds", "all_of_them"), [(2, False), (3, True)])
def test_beyond_the_bound_of_kinds_every_plugin_counts_as_refusing(
    kinds: int, all_of_them: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycle, "MOST_KINDS", 2)
    made = GangScheduler([4], g=1)
    (profile,) = made.scheduler.profiles.values()
    found = asked(made, *(member(f"m{number}", cpu=number + 1) for number in range(kinds)), member("last"))
    assert found == (profile.enabled | {PREEMPTION, WITHIN_MIN} if all_of_them else ALWAYS)


def test_a_refusal_before_the_nodes_counts_for_the_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([4], g=1)
    original: Any = type(made.scheduler.cycle).scores_for

    def scores_for(self: Any, profile: Any, cycle: Any) -> Any:
        found = original(self, profile, cycle)
        found.status = unschedulable("not this kind").of("Kind")
        return found

    monkeypatch.setattr(type(made.scheduler.cycle), "scores_for", scores_for)
    assert asked(made, member("a")) == ALWAYS | {"Kind"}


def test_a_group_that_is_not_there_stands_in_the_way() -> None:
    assert asked(GangScheduler([4]), member("a")) == ALWAYS | {"Coscheduling"}
