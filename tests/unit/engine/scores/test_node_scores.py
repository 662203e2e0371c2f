"""Cached filter results and scores equal a fresh computation, and call plugins only for what changed."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from scheduler_core.engine.binding import ReservedPod
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.engine.scores.class_cache import ClassCache
from scheduler_core.engine.scores.node_scores import NodeScores, StaticScores
from scheduler_core.engine.scores.select import best_slot, rotation
from scheduler_core.errors import PluginError
from scheduler_core.framework.interface import Scope
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import SKIP, SUCCESS, Reason, Status, unschedulable
from scheduler_core.framework.view import NodeView
from scheduler_core.model.writes import Bind
from scheduler_core.plugins.priority_sort import PrioritySort
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.every import every_seed


class Meter:
    """A filter and a score of one scope; `asked` counts the nodes that each was asked about."""

    def __init__(self, name: str, scope: Scope, *, normalizes: bool = False) -> None:
        self.name = name
        self.scope = scope
        self.asked = {"filter": 0, "score": 0, "normalize": 0}
        self.skips = False
        if normalizes:
            self.normalize = self._normalize

    def pre_score(self, cycle: Any, feasible: Any) -> Status:
        return SKIP if self.skips else SUCCESS

    def filter(self, cycle: Any, nodes: NodeView) -> Any:
        self.asked["filter"] += len(nodes)
        return self.bad(cycle, nodes).astype(np.uint64)

    def reasons(self, cycle: Any) -> Any:
        return (Reason(self.name),)

    def bad(self, cycle: Any, nodes: NodeView) -> Any:
        if self.scope is Scope.STATIC:
            return nodes.allocatable[1] == 7
        return nodes.requested[0] + cycle.vector[0] > nodes.allocatable[0]

    def score(self, cycle: Any, nodes: NodeView) -> Any:
        self.asked["score"] += len(nodes)
        if self.scope is Scope.STATIC:
            return nodes.allocatable[1].astype(np.int64)
        return (nodes.allocatable[0] - nodes.requested[0]) // 1000

    def _normalize(self, cycle: Any, raw: Any, feasible: Any) -> Any:
        self.asked["normalize"] += 1
        top = int(raw[feasible].max(initial=0))
        return raw * 100 // top if top else raw


BINDER: Any = type(
    "Binder", (), {"name": "Binder", "bind": lambda self, cycle, slot: Bind("a", "p", "p", "n")}
)()


class Bench:
    """A state of nodes of (CPUs, memory), and the cycles of a profile with one plugin of each scope."""

    def __init__(
        self, *sizes: tuple[int, int], normalizes: bool = False, statics: int = 1, usages: int = 1
    ) -> None:
        self.state = ClusterState()
        for number, size in enumerate(sizes):
            self.node(number, *size)
        self.static = [Meter(f"static{n}", Scope.STATIC, normalizes=normalizes) for n in range(statics)]
        self.usage = [Meter(f"usage{n}", Scope.USAGE) for n in range(usages)]
        plugins = [*self.static, *self.usage]
        self.weights = {plugin.name: 2 + number for number, plugin in enumerate(plugins)}
        points = {
            "queueSort": [PrioritySort()],
            "filter": plugins,
            "preScore": plugins,
            "score": plugins,
            "bind": [BINDER],
        }
        self.profile = Profile("x", points, self.weights)
        self.cycles = PodCycle(self.state)
        self.serial = 0

    def node(self, number: int, cpu: int, memory: int) -> None:
        self.state.put_node(make_node(f"n{number}").allocatable(cpu=cpu, memory=memory).obj())

    def pod(self, cpu: int = 1) -> PodBuilder:
        self.serial += 1
        return make_pod(f"a/p{self.serial}").uid(f"p{self.serial}").requests(cpu=cpu)

    def scores(self, cpu: int = 1) -> NodeScores:
        cycle = self.cycles.new_cycle(self.profile, self.pod(cpu).obj(), 1.0)
        return self.cycles.scores_for(self.profile, cycle)

    def expected(self, cpu: int = 1) -> list[int]:
        """The total of every slot, by plain arithmetic."""
        nodes = self.state.nodes
        fits, totals = [], []
        for slot in range(nodes.size):
            room = int(nodes.allocatable[0, slot] - nodes.requested[0, slot])
            memory = int(nodes.allocatable[1, slot])
            fits.append(
                bool(nodes.alive[slot])
                and (not self.usage or room >= cpu * 1000)
                and (not self.static or memory != 7)
            )
            totals.append((room // 1000, memory))
        top = max((memory for ok, (_, memory) in zip(fits, totals, strict=True) if ok), default=0)
        found = []
        for ok, (room, memory) in zip(fits, totals, strict=True):
            total = 0
            for plugin in self.static:
                raw = memory * 100 // top if hasattr(plugin, "normalize") and top else memory
                total += 0 if plugin.skips else self.weights[plugin.name] * raw
            total += sum(self.weights[plugin.name] * room for plugin in self.usage if not plugin.skips)
            found.append(total if ok else -1)
        return found

    def place(self, cpu: int = 1, *, disturbed: int | None = None) -> int:
        """Place a pod where it is best; `disturbed`: somebody else takes a CPU of that slot in between."""
        pod = self.pod(cpu)
        expected = best_slot(np.array(self.expected(cpu)), rotation(pod.meta["uid"], self.state.nodes.size))
        attempt = self.cycles.attempt(self.profile, pod.obj(), 1.0)
        assert attempt.slot == expected
        if attempt.slot >= 0:
            if disturbed is not None:
                self.state.assume(self.pod(1).obj(), disturbed, 1.0)
            assert isinstance(self.cycles.reserve(self.profile, attempt), ReservedPod)
        return attempt.slot

    def asked(self) -> int:
        """How many nodes plugins were asked about since the last time."""
        meters = [*self.static, *self.usage]
        total = sum(meter.asked["filter"] + meter.asked["score"] for meter in meters)
        for meter in meters:
            meter.asked.update(filter=0, score=0)
        return total


@pytest.mark.parametrize("normalizes", [False, True], ids=["plain", "by what is feasible"])
@every_seed(range(12))
def test_runs_of_equal_pods_with_all_that_may_come_between(seed: int, normalizes: bool) -> None:
    """Runs are long enough for levels; what makes a level stale happens in and between them."""
    rng = random.Random(seed)
    bench = Bench(
        *((rng.randint(4, 30), rng.randint(5, 9)) for _ in range(rng.randint(3, 7))),
        normalizes=normalizes,
        statics=rng.randint(0, 2),
        usages=rng.randint(0, 2) if rng.random() < 0.3 else 1,
    )
    state, others = bench.state, 0
    for _ in range(12):
        cpu = rng.choice((1, 1, 2))
        for _ in range(rng.randint(1, 25)):
            size = state.nodes.size
            disturbed = rng.randrange(size) if rng.random() < 0.08 else None
            if disturbed is not None and not state.nodes.alive[disturbed]:
                disturbed = None
            bench.place(cpu, disturbed=disturbed)
            roll = rng.random()
            alive = np.flatnonzero(state.nodes.alive[:size]).tolist()
            if roll < 0.06:
                for slot in rng.sample(alive, rng.randint(1, len(alive))):
                    others += 1
                    state.assume(make_pod(f"b/o{others}").uid(f"o{others}").requests(cpu=1).obj(), slot, 1.0)
            elif roll < 0.12 and state.placed:
                for uid in rng.sample(sorted(state.placed), min(len(state.placed), rng.randint(1, 9))):
                    state.forget(uid)
            elif roll < 0.15:
                number = rng.randrange(9)
                bench.node(number, rng.randint(4, 40), rng.randint(5, 9))
            elif roll < 0.16 and len(alive) > 2:
                state.remove_node(state.nodes.names[rng.choice(alive)])
        for size_of in (1, 2):
            assert bench.scores(size_of).total.tolist() == bench.expected(size_of)


# What is spared


def test_a_run_of_equal_pods_asks_no_plugin_for_most_of_them() -> None:
    bench = Bench(*[(40, 9)] * 30)
    bench.place()
    bench.asked()
    for _ in range(60):
        bench.place()
    asked = bench.asked()
    assert asked <= 60 * 2 // 2 + 16 * 2 * 30, (
        "some levels of all nodes, and one node each until they are earned"
    )
    quiet = 0
    for _ in range(30):
        bench.place()
        quiet += bench.asked() == 0
    assert quiet >= 20


def test_one_node_that_changed_is_all_that_is_asked_about() -> None:
    bench = Bench(*[(40, 9)] * 20, usages=2)
    bench.scores()
    bench.asked()
    bench.state.assume(make_pod("b/o").uid("o").requests(cpu=1).obj(), 3, 1.0)
    bench.scores()
    assert bench.asked() == 4, "two plugins of use, each a filter and a score"
    bench.node(5, 40, 8)
    bench.scores()
    assert [plugin.asked for plugin in bench.static] == [{"filter": 1, "score": 1, "normalize": 0}]
    bench.asked()
    bench.scores()
    assert bench.asked() == 0


def test_where_most_nodes_changed_all_are_asked_about_at_once() -> None:
    bench = Bench(*[(40, 9)] * 10)
    bench.scores()
    bench.asked()
    for slot in range(7):
        bench.state.assume(make_pod(f"b/o{slot}").uid(f"o{slot}").requests(cpu=1).obj(), slot, 1.0)
    assert bench.scores().total.tolist() == bench.expected()
    assert bench.asked() == 20


def test_the_static_part_is_put_together_once_for_all_classes() -> None:
    bench = Bench(*[(40, 9)] * 5)
    for cpu in (1, 2, 3):
        assert bench.scores(cpu).total.tolist() == bench.expected(cpu)
    assert bench.static[0].asked == {"filter": 5, "score": 5, "normalize": 0}
    bench = Bench(*[(40, 9)] * 5, normalizes=True)
    for cpu in (1, 2, 3):
        assert bench.scores(cpu).total.tolist() == bench.expected(cpu)
    assert bench.static[0].asked == {"filter": 5, "score": 5, "normalize": 3}, "by what is feasible for each"


def test_a_score_that_comes_back_counts_again() -> None:
    bench = Bench(*[(40, 9)] * 4, statics=2)
    bench.static[1].skips = True
    assert bench.scores().total.tolist() == bench.expected()
    bench.static[1].skips = False
    bench.node(1, 40, 8)
    assert bench.scores().total.tolist() == bench.expected()
    bench.static[0].skips = True
    bench.node(2, 40, 6)
    assert bench.scores().total.tolist() == bench.expected()


def test_scores_of_use_that_skip_do_not_count() -> None:
    bench = Bench(*[(40, 9)] * 4, usages=2)
    bench.usage[0].skips = True
    assert bench.scores().total.tolist() == bench.expected()
    bench = Bench(*[(40, 9)] * 4, usages=1)
    bench.usage[0].skips = True
    assert bench.scores().total.tolist() == bench.expected()


# Classes that are kept


def cache(nodes: int, monkeypatch: pytest.MonkeyPatch, size: int) -> Bench:
    """One that keeps so many bytes, where a class takes 100."""
    monkeypatch.setattr("scheduler_core.engine.scores.class_cache.POD_BYTES", 0)
    monkeypatch.setattr("scheduler_core.engine.scores.class_cache.MAX_BYTES", size)
    monkeypatch.setattr("scheduler_core.engine.scores.class_cache.MIN_CACHED_CLASSES", 2)
    monkeypatch.setattr(NodeScores, "nbytes", 100)
    monkeypatch.setattr(StaticScores, "nbytes", 0)
    return Bench(*[(40, 9)] * nodes)


def known(bench: Bench, *cpus: int) -> list[int]:
    """Which of these classes are kept."""
    pods = {cpu: bench.pod(cpu).obj() for cpu in cpus}
    return [
        cpu
        for cpu, pod in pods.items()
        if bench.cycles.classes.get(bench.cycles.new_cycle(bench.profile, pod, 1.0).signature) is not None
    ]


def test_classes_that_were_not_used_for_longest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = cache(4, monkeypatch, 250)
    for cpu in (1, 2, 3):
        bench.scores(cpu)
    assert known(bench, 1, 2, 3) == [1, 2, 3], "what the newest takes is counted later"
    bench.scores(1)
    bench.scores(4)
    assert known(bench, 1, 2, 3, 4) == [1, 3, 4]


def test_some_classes_are_kept_however_many_nodes_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = cache(4, monkeypatch, 1)
    for cpu in (1, 2, 3):
        bench.scores(cpu)
    assert known(bench, 1, 2, 3) == [2, 3]


def test_static_parts_that_were_not_used_for_longest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_core.engine.scores.class_cache.MAX_STATICS", 2)
    bench = Bench(*[(40, 9)] * 4)

    def asks(kind: str, cpu: int) -> int:
        bench.static[0].asked.update(filter=0)
        pod = bench.pod(cpu).selector(kind=kind).obj()
        bench.cycles.scores_for(bench.profile, bench.cycles.new_cycle(bench.profile, pod, 1.0))
        return bench.static[0].asked["filter"]

    assert [asks("x", 1), asks("y", 1), asks("x", 2), asks("z", 1)] == [4, 4, 0, 4]
    assert [asks("x", 3), asks("y", 3)] == [0, 4], "y was not used for longest"


def test_partial_results_of_broken_code_are_forgotten() -> None:
    bench = Bench((4, 9))
    bench.scores()
    cycle = bench.cycles.new_cycle(bench.profile, bench.pod().obj(), 1.0)
    bench.usage[0].filter = bench.static[0].filter = lambda *args: 1 // 0  # type: ignore[method-assign]
    bench.node(0, 5, 9)
    with pytest.raises(PluginError, match="plugin usage0 failed at filter"):
        bench.cycles.classes.current(bench.profile, cycle)
    assert bench.cycles.classes.get(cycle.signature) is None
    del bench.usage[0].filter, bench.static[0].filter
    assert bench.scores().total.tolist() == bench.expected()


def test_the_time_of_a_kept_class_is_that_of_the_asking_pod() -> None:
    bench = Bench((4, 9))
    for now in (1.0, 5.0):
        cycle = bench.cycles.new_cycle(bench.profile, bench.pod().obj(), now)
        assert bench.cycles.scores_for(bench.profile, cycle).cycle.now == now


def test_a_class_is_refused_by_the_first_that_refuses_its_kind() -> None:
    bench = Bench((4, 9), usages=2)
    said: dict[str, Status] = {"usage0": unschedulable("use"), "usage1": unschedulable("other")}
    refusing = [
        type(
            "R", (), {"name": name, "scope": Scope.USAGE, "pre_filter": lambda self, cycle: said[self.name]}
        )()
        for name in said
    ]
    points = {"queueSort": [PrioritySort()], "preFilter": refusing, "filter": bench.usage, "bind": [BINDER]}
    profile = Profile("y", points, {})
    cycle = bench.cycles.new_cycle(profile, bench.pod().obj(), 1.0)
    found = ClassCache(bench.state).current(profile, cycle)
    assert found.status is not None
    assert (found.status.plugin, found.status.reason) == ("usage0", "use")
    assert found.cycle.skipped >= {"usage0", "usage1"}
    assert cycle.skipped == set(), "what the class skips is no part of the attempt"


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
def test_nodes_that_pre_filter_leaves_out(
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
