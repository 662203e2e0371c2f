"""What is tried a second time in one turn, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.engine.gang.cycle import GangCycle
from scheduler_core.engine.gang.outcome import MustWait, Outcome
from scheduler_core.engine.gang.preemption import GangPreemption
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.interface import PostFilterResult
from scheduler_core.framework.status import SUCCESS
from tests.support.builders import make_group, make_node, make_pod
from tests.support.gang_scheduler import GangScheduler, evicted, member, placed, rejected
from tests.unit.engine.topology_scheduler import TopologyScheduler, members, nodes


def finds(
    monkeypatch: pytest.MonkeyPatch, found: PostFilterResult | None, *, then: bool = False
) -> list[bool]:
    """Attempts fail, and PostFilter finds this; with `then` the second one succeeds. Whether it was asked."""
    asked: list[bool] = []
    original = PodCycle.attempt

    def attempt(self: Any, profile: Any, pod: Any, now: float, *, post_filter: bool = True) -> Any:
        asked.append(post_filter)
        made = original(self, profile, pod, now, post_filter=False)
        if len(asked) == 1 or not then:
            made.slot = -1
            made.diagnosis = (
                made.diagnosis
                or original(
                    self, profile, make_pod("f/huge").requests(cpu=99).obj(), now, post_filter=False
                ).diagnosis
            )
            made.post_filter = found
        return made

    monkeypatch.setattr(PodCycle, "attempt", attempt)
    return asked


CASES: list[tuple[str, str, bool, bool, list[bool]]] = [
    ("nothing was found", "nothing", False, False, [True]),
    ("nobody has to go, and it starts at once", "node", True, True, [True, False]),
    ("nobody has to go, and it waits", "node", False, False, [True, False]),
    ("somebody has to go", "victim", False, False, [True]),
    ("no node was named", "no node", True, False, [True]),
]


@pytest.mark.parametrize(
    ("what", "then", "starts", "tries"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_pod_that_needs_no_victim_is_tried_once_more(
    what: str, then: bool, starts: bool, tries: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = GangScheduler([4])
    made.put(make_pod("f/v").uid("v").requests(cpu=1).on("n0"), make_pod("f/p").uid("p").requests(cpu=1))
    found = {
        "nothing": None,
        "node": PostFilterResult(SUCCESS, "n0", ()),
        "victim": PostFilterResult(SUCCESS, "n0", (made.state.pods["v"],)),
        "no node": PostFilterResult(SUCCESS, "", ()),
    }[what]
    asked = finds(monkeypatch, found, then=then)
    decisions = made.step()
    assert asked == tries
    assert placed(decisions) == ({"p": "n0"} if starts else {})
    assert set(rejected(decisions)) == (set() if starts else {"p"})
    assert evicted(decisions) == ({"v"} if what == "victim" else set())


@pytest.mark.parametrize(
    ("victims", "starts", "runs"),
    [
        pytest.param(False, True, 2, id="nobody has to go, and it starts at once"),
        pytest.param(False, False, 2, id="nobody has to go, and it waits: once more, and no third time"),
        pytest.param(True, False, 1, id="somebody has to go"),
    ],
)
def test_a_gang_that_needs_no_victim_is_tried_once_more(
    victims: bool, starts: bool, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = GangScheduler([4], g=2)
    made.put(make_pod("f/v").uid("v").requests(cpu=1).on("n0"), member("m0"), member("m1"))
    original, count = GangCycle.run, [0]
    pods = [made.state.pods[name] for name in ("m0", "m1")]
    nominated = tuple((pod, "n0", made.state.vector(pod)) for pod in pods)
    gone = ((made.state.pods["v"], pods[0]),) if victims else ()

    def run(self: Any, gang: Any, members: Any, now: float) -> Outcome:
        count[0] += 1
        if count[0] == 2 and starts:
            return original(self, gang, members, now)
        refused = dict.fromkeys(("m0", "m1"), "no")
        return MustWait(
            refused=refused,
            plugins=frozenset({"Somebody"}),
            preemption=GangPreemption(gone, nominated),
            need=2,
        )

    monkeypatch.setattr(GangCycle, "run", run)
    decisions = made.step()
    assert count[0] == runs
    assert set(placed(decisions)) == ({"m0", "m1"} if starts else set())
    assert evicted(decisions) == ({"v"} if victims else set())
    assert set(rejected(decisions)) == (set() if starts else {"m0", "m1"})
    if not starts:
        assert {made.state.nominations.node_of(name) for name in ("m0", "m1")} == {"n0"}


def test_a_tree_that_changes_wakes_who_waits_for_a_place_on_it() -> None:
    made = TopologyScheduler(1, 1)
    made.put(make_node("n2").allocatable(cpu=4))
    made.group("g", 3, "{}")
    made.put(*members("g", 3))
    assert nodes(made.step()) == {}
    assert made.step(60.0) == []
    made.plant({"r0": {"n0": {}, "n1": {}}, "r1": {"n2": {}}})
    assert len(nodes(made.step())) == 3


def test_a_pod_group_of_another_plugin_is_let_go_with_its_record() -> None:
    made = TopologyScheduler(4)
    made.group("g", 2, "{}")
    made.put(*members("g", 1))
    made.step()
    assert list(made.state.topology.runs) == ["a/g ConfigMap"]
    made.put(make_group("a/h").uid("h").needs(1))
    made.scheduler.remove(make_group("a/h").uid("h").needs(1).obj(), made.now)
    assert list(made.state.topology.runs) == ["a/g ConfigMap"]


def test_a_group_that_is_gone_is_told_to_its_pods() -> None:
    made = GangScheduler([1], g=2)
    made.put(member("m0"), member("m1"))
    made.step()
    made.scheduler.remove(make_group("a/g").uid("g").needs(2).obj(), made.now)
    assert made.state.gangs.gangs == {}
    told = rejected(made.step(60.0))
    assert all("does not exist" in item.message for item in told.values())
    assert set(told) == {"m0", "m1"}


@pytest.mark.parametrize("first", ["group", "pods"])
def test_the_priority_of_a_group_is_that_of_its_unit(first: str) -> None:
    made = TopologyScheduler(4)
    if first == "group":
        made.group("g", 2, "{}", priority="7")
    made.put(*members("g", 1))
    if first == "pods":
        assert made.scheduler.queue.units["a/g ConfigMap"].gang_priority is None
        made.group("g", 2, "{}", priority="7")
    unit = made.scheduler.queue.units["a/g ConfigMap"]
    assert (unit.gang_priority, unit.priority) == (7, 7)


def test_labels_make_pods_of_a_gang_different_kinds() -> None:
    made = GangScheduler([1], g=2)
    made.put(member("m0").labels(app="x"), member("m1").labels(app="y"), member("m2").labels(app="y"))
    kinds = made.scheduler.queue.units["a/g PodGroup"].distinct()
    assert sorted(pod.labels["app"] for pod in kinds) == ["x", "y"]
