"""The cycle of one pod: whom it asks, in which order, what it undoes; what it keeps is never stale."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from scheduler_core.engine.binding import ReservedPod
from scheduler_core.engine.pod_cycle import Attempt, PodCycle
from scheduler_core.engine.scores.select import best_slot, rotation
from scheduler_core.errors import PluginError
from scheduler_core.framework.interface import PostFilterResult, Scope
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import SKIP, SUCCESS, Reason, Status, unresolvable, unschedulable
from scheduler_core.framework.view import NodeView
from scheduler_core.model.writes import Bind
from scheduler_core.plugins.priority_sort import PrioritySort
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.every import every_seed


class Plugin:
    """A plugin with every point; answers come from `said`, calls go to `log`."""

    scope = Scope.USAGE

    def __init__(self, name: str, log: list[str], **said: Any) -> None:
        self.name = name
        self.log = log
        self.said = said

    def _answer(self, point: str, default: Any) -> Any:
        self.log.append(f"{self.name}.{point}")
        found = self.said.get(point, default)
        if isinstance(found, Exception):
            raise found
        return found

    def pre_filter(self, cycle: Any) -> Status:
        return self._answer("pre_filter", SUCCESS)

    def filter(self, cycle: Any, nodes: NodeView) -> Any:
        return np.full(len(nodes), self._answer("filter", 0), dtype=np.uint64)

    def reasons(self, cycle: Any) -> Any:
        return (Reason(f"{self.name} says no"),)

    def post_filter(self, cycle: Any, diagnosis: Any) -> PostFilterResult:
        return self._answer("post_filter", PostFilterResult(unschedulable("no")))

    def pre_score(self, cycle: Any, feasible: Any) -> Status:
        return self._answer("pre_score", SUCCESS)

    def score(self, cycle: Any, nodes: NodeView) -> Any:
        return np.full(len(nodes), self._answer("score", 0), dtype=np.int64)

    def reserve(self, cycle: Any, slot: int) -> Status:
        return self._answer("reserve", SUCCESS)

    def unreserve(self, cycle: Any, slot: int) -> None:
        self._answer("unreserve", None)

    def permit(self, cycle: Any, slot: int) -> tuple[Status, float]:
        return self._answer("permit", (SUCCESS, 0.0))

    def pre_bind(self, cycle: Any, slot: int) -> Any:
        return self._answer("pre_bind", [f"{self.name} before"])

    def bind(self, cycle: Any, slot: int) -> Any:
        return self._answer("bind", None)

    def post_bind(self, cycle: Any, slot: int) -> Any:
        return self._answer("post_bind", [f"{self.name} after"])


POINTS = (
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
)
BIND = Bind("a", "p", "p", "n0")


class Rig:
    """A state with nodes of so many CPUs, and two plugins at all points."""

    def __init__(
        self, *cpus: int, first: dict[str, Any] | None = None, second: dict[str, Any] | None = None
    ) -> None:
        self.log: list[str] = []
        self.state = ClusterState()
        for number, cpu in enumerate(cpus or (4,)):
            self.state.put_node(make_node(f"n{number}").allocatable(cpu=cpu).obj())
        plugins = [
            Plugin("one", self.log, **(first or {})),
            Plugin("two", self.log, **{"bind": BIND, **(second or {})}),
        ]
        points = {"queueSort": [PrioritySort()], **dict.fromkeys(POINTS, plugins)}
        self.profile = Profile("x", points, {"two": 3})
        self.cycle = PodCycle(self.state)

    def attempt(self) -> Attempt:
        return self.cycle.attempt(self.profile, make_pod("a/p").uid("p").requests(cpu=1).obj(), 7.0)

    def reserve(self) -> ReservedPod | Status:
        attempt = self.attempt()
        self.log.clear()
        return self.cycle.reserve(self.profile, attempt)


def test_a_node_is_taken_with_the_writes_in_their_order() -> None:
    rig = Rig()
    found = rig.reserve()
    assert isinstance(found, ReservedPod)
    assert (found.slot, found.bind, set(rig.state.placed)) == (0, BIND, {"p"})
    assert found.pre_bind == ("one before", "two before")
    assert found.post_bind == ("one after", "two after")
    points = ("reserve", "permit", "pre_bind", "bind", "post_bind")
    assert rig.log == [f"{name}.{point}" for point in points for name in ("one", "two")]
    assert rig.state.placed["p"].assumed_at == 7.0


def test_the_first_that_binds_binds() -> None:
    other = Bind("a", "p", "p", "elsewhere")
    rig = Rig(first={"bind": other})
    found = rig.reserve()
    assert isinstance(found, ReservedPod)
    assert (found.bind, "two.bind" in rig.log) == (other, False)


@pytest.mark.parametrize(
    ("said", "who"),
    [
        pytest.param({"second": {"reserve": unschedulable("no")}}, "two", id="the second reserve"),
        pytest.param({"first": {"reserve": unschedulable("no")}}, "one", id="the first reserve"),
        pytest.param({"first": {"permit": (unschedulable("no"), 0.0)}}, "one", id="a permit"),
        pytest.param({"second": {"permit": (unresolvable("no"), 0.0)}}, "two", id="the other permit"),
    ],
)
def test_a_refused_node_is_given_back_in_reverse(said: dict[str, Any], who: str) -> None:
    rig = Rig(**said)
    found = rig.reserve()
    assert isinstance(found, Status)
    assert (found.plugin, found.reason, rig.state.placed) == (who, "no", {})
    assert rig.log[-2:] == ["two.unreserve", "one.unreserve"]
    assert not any(call.endswith("bind") for call in rig.log)


BROKEN = [
    ("pre_filter", "preFilter"),
    ("filter", "filter"),
    ("pre_score", "preScore"),
    ("score", "score"),
    ("reserve", "reserve"),
    ("permit", "permit"),
    ("pre_bind", "preBind"),
    ("bind", "bind"),
    ("post_bind", "postBind"),
]


@pytest.mark.parametrize("scope", list(Scope), ids=lambda scope: scope.value)
@pytest.mark.parametrize(("method", "point"), BROKEN)
def test_broken_code_is_named_and_nothing_is_held(
    method: str, point: str, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Plugin, "scope", scope)
    rig = Rig(second={method: ZeroDivisionError("bug")})
    with pytest.raises(PluginError) as error:
        rig.reserve()
    assert (error.value.plugin, error.value.point) == ("two", point)
    assert ("bug" in str(error.value), rig.state.placed) == (True, {})


@pytest.mark.parametrize("scope", list(Scope), ids=lambda scope: scope.value)
@pytest.mark.parametrize("method", ["pre_filter", "filter"])
def test_broken_code_is_named_where_all_nodes_are_asked_for(
    method: str, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Plugin, "scope", scope)
    rig = Rig(second={method: ZeroDivisionError("bug")})
    pod = make_pod("a/p").uid("p").requests(cpu=1).obj()
    with pytest.raises(PluginError, match="plugin two failed"):
        rig.cycle.feasible(rig.profile, pod, 7.0)


@pytest.mark.parametrize("scope", list(Scope), ids=lambda scope: scope.value)
def test_broken_normalization_is_named(scope: Scope) -> None:
    broken = Rules(scope, normalizes=True)
    broken.normalize = lambda cycle, raw, feasible: 1 // 0
    points = {"queueSort": [PrioritySort()], "score": [broken], "bind": [Plugin("b", [], bind=BIND)]}
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=4).obj())
    with pytest.raises(PluginError, match=f"plugin {scope.value} failed at normalize"):
        PodCycle(state).attempt(Profile("x", points), make_pod("a/p").obj(), 7.0)


def test_broken_post_filters_are_named() -> None:
    rig = Rig(1, first={"filter": 1}, second={"post_filter": ZeroDivisionError("bug")})
    with pytest.raises(PluginError, match="postFilter"):
        rig.attempt()


@pytest.mark.parametrize("scope", list(Scope), ids=lambda scope: scope.value)
def test_a_refusal_before_the_nodes_ends_the_attempt(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plugin, "scope", scope)
    rig = Rig(first={"pre_filter": unschedulable("closed")})
    found = rig.attempt()
    assert (found.slot, found.diagnosis is not None) == (-1, True)
    assert found.diagnosis is not None
    assert found.diagnosis.status is not None
    assert (found.diagnosis.status.plugin, found.diagnosis.status.reason) == ("one", "closed")


REFUSALS = [
    ("one", unschedulable("full"), unschedulable("late"), "one"),
    ("no eviction helps the second", unschedulable("full"), unresolvable("gone"), "two"),
    ("no eviction helps the first", unresolvable("gone"), unschedulable("full"), "one"),
    ("no eviction helps either", unresolvable("gone"), unresolvable("lost"), "one"),
]


@pytest.mark.parametrize(("first", "second", "told"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_of_several_refusals_the_one_that_no_eviction_helps_is_told(
    first: Status, second: Status, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Plugin, "scope", Scope.CLUSTER)
    found = Rig(first={"pre_filter": first}, second={"pre_filter": second}).attempt().diagnosis
    assert found is not None
    assert found.status is not None
    assert (found.status.plugin, found.plugins) == (told, {"one", "two"})


@pytest.mark.parametrize("scope", list(Scope), ids=lambda scope: scope.value)
def test_a_plugin_that_skips_does_not_filter_or_score(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plugin, "scope", scope)
    rig = Rig(first={"pre_filter": SKIP, "filter": 1}, second={"pre_score": SKIP, "score": 9})
    assert rig.attempt().slot == 0
    assert "one.filter" not in rig.log
    assert ("two.score" in rig.log, "one.score" in rig.log) == (False, True)


def test_post_filters_are_asked_in_order_until_one_helps() -> None:
    helps = PostFilterResult(SUCCESS, "n0", (), "found one")
    rig = Rig(first={"filter": 1}, second={"post_filter": helps})
    found = rig.attempt()
    assert (found.slot, found.post_filter) == (-1, helps)
    assert found.diagnosis is not None
    assert found.diagnosis.message == "0/1 nodes are available: 1 one says no. found one"
    assert rig.log[-2:] == ["one.post_filter", "two.post_filter"]
    rig = Rig(first={"filter": 1, "post_filter": helps})
    assert rig.attempt().post_filter == helps
    assert "two.post_filter" not in rig.log


def test_a_pod_that_waits_for_an_extender_evicts_no_pod() -> None:
    rig = Rig(first={"filter": 1})
    pod = make_pod("a/p").uid("p").obj()
    found = rig.cycle.attempt(rig.profile, pod, 7.0, post_filter=False)
    assert (found.slot, found.diagnosis is not None, found.post_filter) == (-1, True, None)
    assert not any("post_filter" in call for call in rig.log)


def test_pods_with_resource_claims_are_refused() -> None:
    rig = Rig()
    pod = make_pod("a/p").uid("p").spec(resourceClaims=[{"name": "gpu"}]).obj()
    found = rig.cycle.attempt(rig.profile, pod, 7.0)
    assert found.diagnosis is not None
    assert "resource claims are not supported" in found.diagnosis.message


def test_unreserving_twice_is_harmless() -> None:
    rig = Rig()
    found = rig.reserve()
    assert isinstance(found, ReservedPod)
    assert len(rig.cycle.unreserve(rig.profile, found.cycle, 0)) == 1
    assert rig.cycle.unreserve(rig.profile, found.cycle, 0) == []


# What is kept is never stale


class Rules:
    """A filter and a score of one scope over random labels, use and pods."""

    def __init__(self, scope: Scope, *, normalizes: bool = False) -> None:
        self.name = scope.value
        self.scope = scope
        if normalizes:
            self.normalize = self._normalize

    def filter(self, cycle: Any, nodes: NodeView) -> Any:
        return (self._bad(cycle, nodes)).astype(np.uint64)

    def reasons(self, cycle: Any) -> Any:
        return (Reason(self.name),)

    def _bad(self, cycle: Any, nodes: NodeView) -> Any:
        match self.scope:
            case Scope.STATIC:
                return nodes.allocatable[0] == 5000
            case Scope.USAGE:
                return nodes.requested[0] + cycle.vector[0] > nodes.allocatable[0]
            case _:
                return np.array(
                    [len(cycle.state.nodes.pods[slot]) > 5 for slot in nodes.indices], dtype=np.bool_
                )

    def score(self, cycle: Any, nodes: NodeView) -> Any:
        match self.scope:
            case Scope.STATIC:
                return nodes.allocatable[1].astype(np.int64)
            case Scope.USAGE:
                return (nodes.allocatable[0] - nodes.requested[0]) // 500
            case _:
                return np.array([len(cycle.state.nodes.pods[slot]) for slot in nodes.indices], dtype=np.int64)

    def _normalize(self, cycle: Any, raw: Any, feasible: Any) -> Any:
        top = int(raw[feasible].max(initial=0))
        return raw * 100 // top if top else raw


WEIGHTS = {"static": 2, "usage": 1, "cluster": 3}


def expected(state: ClusterState, plugins: list[Any], pod: PodBuilder, cycle: Any) -> int:
    """The best slot by asking every plugin about all nodes."""
    view = NodeView.all(state.nodes)
    feasible = state.nodes.alive[: state.nodes.size].copy()
    for plugin in plugins:
        feasible &= plugin.filter(cycle, view) == 0
    total = np.zeros(len(feasible), dtype=np.int64)
    for plugin in plugins:
        raw = plugin.score(cycle, view)
        if hasattr(plugin, "normalize"):
            raw = plugin.normalize(cycle, raw, feasible)
        total += WEIGHTS[plugin.name] * raw
    return best_slot(np.where(feasible, total, -1), rotation(pod.meta["uid"], len(total)))


@pytest.mark.parametrize("normalizing", [None, *Scope], ids=lambda scope: scope.value if scope else "plain")
@every_seed(range(6))
def test_the_best_node_is_the_best_of_all_however_it_was_found(seed: int, normalizing: Scope | None) -> None:
    rng = random.Random(seed)
    plugins = [Rules(scope, normalizes=scope is normalizing) for scope in Scope]
    if rng.random() < 0.5:
        plugins = plugins[:2]
    binder = Plugin("binder", [], bind=BIND)
    points = {"queueSort": [PrioritySort()], "filter": plugins, "score": plugins, "bind": [binder]}
    profile = Profile("x", points, WEIGHTS)
    state = ClusterState()
    cycles = PodCycle(state)
    placed: list[str] = []
    for number in range(8):
        state.put_node(
            make_node(f"n{number}").allocatable(cpu=rng.randint(3, 9), memory=rng.randint(0, 9)).obj()
        )
    for number in range(70):
        kind = rng.choice((1, 1, 1, 2))
        pod = make_pod(f"a/p{number}").uid(f"p{number}").requests(cpu=kind)
        attempt = cycles.attempt(profile, pod.obj(), 1.0)
        assert attempt.slot == expected(state, plugins, pod, attempt.cycle)
        if attempt.slot >= 0:
            assert isinstance(cycles.reserve(profile, attempt), ReservedPod)
            placed.append(pod.meta["uid"])
        roll = rng.random()
        if roll < 0.15 and placed:
            state.forget(placed.pop(rng.randrange(len(placed))))
        elif roll < 0.25:
            name = f"n{rng.randrange(10)}"
            state.put_node(
                make_node(name).allocatable(cpu=rng.randint(3, 12), memory=rng.randint(0, 9)).obj()
            )
        elif roll < 0.28:
            state.remove_node(f"n{rng.randrange(10)}")
