"""What STATIC plugins say of all nodes: whom it leaves out, and how little is asked again."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.engine.static_scores import StaticScores
from scheduler_core.framework.interface import Scope
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import SKIP, SUCCESS, Status, unschedulable
from scheduler_core.plugins.priority_sort import PrioritySort
from tests.support.builders import make_pod
from tests.unit.engine.test_node_scores import BINDER, Bench, Meter


class Opinion(Meter):
    """A plugin that answers PreFilter so."""

    def __init__(self, name: str, said: Status, scope: Scope) -> None:
        super().__init__(name, scope)
        self.said = said

    def pre_filter(self, cycle: Any) -> Status:
        return self.said

    def bad(self, cycle: Any, nodes: Any) -> Any:
        return nodes.allocatable[0] > 0


NO, NOT = unschedulable("no"), unschedulable("not this")
CASES: list[tuple[str, list[Status], str, str, set[str], bool]] = [
    ("all agree", [SUCCESS, SUCCESS], "", "", set(), False),
    ("one has nothing to do", [SKIP, SUCCESS], "", "", {"p0"}, False),
    ("both have nothing to do", [SKIP, SKIP], "", "", {"p0", "p1"}, True),
    ("the first refuses", [NO, SKIP], "p0", "no", {"p0", "p1"}, True),
    ("the second refuses", [SKIP, NO], "p1", "no", {"p0", "p1"}, True),
    ("both refuse: the first is told", [NO, NOT], "p0", "no", {"p0", "p1"}, True),
]


@pytest.mark.parametrize("scope", [Scope.STATIC, Scope.USAGE], ids=lambda scope: scope.value)
@pytest.mark.parametrize(
    ("said", "who", "why", "skipped", "open_to"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_whom_pre_filter_leaves_out(
    said: list[Status], who: str, why: str, skipped: set[str], open_to: bool, scope: Scope
) -> None:
    bench = Bench((4, 4))
    plugins = [Opinion(f"p{number}", status, scope) for number, status in enumerate(said)]
    points = {"queueSort": [PrioritySort()], "preFilter": plugins, "filter": plugins, "bind": [BINDER]}
    profile = Profile("y", points, {})
    cycle = bench.cycles.new_cycle(profile, bench.pod().obj(), 1.0)
    found = bench.cycles.scores_for(profile, cycle)
    status = found.status
    assert (status.plugin if status else "", status.reason if status else "") == (who, why)
    assert found.cycle.skipped == skipped
    assert [plugin.asked["filter"] for plugin in plugins] == [
        int(plugin.name not in skipped) for plugin in plugins
    ]
    assert (found.total.tolist() == [0]) is open_to


def kept(bench: Bench) -> StaticScores:
    return bench.scores().static


@pytest.mark.parametrize(("changed", "asked"), [(0, 0), (1, 1), (5, 5), (6, 10), (10, 10)])
def test_as_many_nodes_are_asked_about_as_changed_or_all(changed: int, asked: int) -> None:
    bench = Bench(*[(40, 9)] * 10)
    kept(bench)
    bench.asked()
    for number in range(changed):
        bench.node(number, 40, 8)
    assert bench.scores().total.tolist() == bench.expected()
    assert bench.static[0].asked["filter"] == bench.static[0].asked["score"] == asked


def test_a_new_node_is_asked_about() -> None:
    bench = Bench(*[(40, 9)] * 3)
    kept(bench)
    bench.node(3, 40, 7)
    bench.node(4, 40, 6)
    assert bench.scores().total.tolist() == bench.expected()
    assert kept(bench).ok.tolist() == [True, True, True, False, True]


def test_the_version_tells_that_something_changed() -> None:
    bench = Bench(*[(40, 9)] * 3)
    versions = [kept(bench).version]
    bench.state.assume(make_pod("b/o").uid("o").requests(cpu=1).obj(), 0, 1.0)
    assert kept(bench).version == versions[0], "use is no matter of it"
    for memory in (8, 7, 9):
        bench.node(1, 40, memory)
        versions.append(kept(bench).version)
    assert len(set(versions)) == 4


@pytest.mark.parametrize(("normalizes", "depends"), [(True, True), (False, False)])
def test_scores_that_normalize_depend_on_what_is_feasible(normalizes: bool, depends: bool) -> None:
    bench = Bench((4, 9), (9, 5), normalizes=normalizes, statics=2)
    assert kept(bench).depends_on_feasible is depends
    bench.static[0].skips = True
    bench.node(0, 4, 8)
    assert kept(bench).depends_on_feasible is depends, "the other one does"
    bench.static[1].skips = True
    bench.node(0, 4, 6)
    assert not kept(bench).depends_on_feasible
    assert bench.scores().total.tolist() == bench.expected()
