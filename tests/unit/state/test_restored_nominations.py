"""What a new process makes of nodes that an earlier one nominated: for whom, and whose end is awaited."""

from __future__ import annotations

import pytest

from scheduler_core.model.names import MUSTER_SCHEDULER, TOPOLOGY_CONSTRAINTS_ANNOTATION
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nomination import Nomination
from scheduler_core.state.topology import TopologySettings
from tests.support.builders import PodBuilder, make_group, make_node, make_pod


def leaving(name: str, preemptor: str = "", node: str = "m") -> PodBuilder:
    """A pod on its way out, evicted for another one where that is named."""
    made = make_pod(f"v/{name}").uid(name).requests(cpu=1).on(node).deleting(1.0)
    if not preemptor:
        return made
    return made.evicted_for(*preemptor.split(","))


def told(*pods: PodBuilder, group: int = 0, kept: tuple[str, str] | None = None) -> ClusterState:
    """A state that was told of nodes m and n, of group a/g with so many minMembers, and of these pods.

    `kept`: status and reason of the group's condition NodesKept.
    """
    state = ClusterState()
    for name in ("m", "n"):
        state.put_node(make_node(name).allocatable(cpu=9).obj())
    if group:
        made = make_group("a/g").needs(group)
        if kept:
            condition = {"type": "NodesKept", "status": kept[0], "reason": kept[1]}
            made.raw["status"] = {"conditions": [condition]}
        state.put_gang(made.obj())
    for pod in pods:
        state.put_pod(pod.obj())
    state.restored_nominations.resolve()
    return state


def known(state: ClusterState, uid: str) -> Nomination:
    found = state.nominations.get(uid)
    assert found is not None
    return found


def waiting(name: str, group: str = "") -> PodBuilder:
    made = make_pod(f"a/{name}").uid(name).requests(cpu=1).nominated("n")
    return made.group(group) if group else made


def test_victims_are_known_by_name_wherever_they_are() -> None:
    state = told(leaving("v"), leaving("w", "a/p"), leaving("x", "a/p", "n"), waiting("p"), waiting("q"))
    assert (known(state, "p").victims, known(state, "p").kept) == ({"w", "x"}, False)
    assert (known(state, "q").victims, known(state, "q").kept) == (set(), False)


def test_a_gang_waits_for_what_went_for_any_of_its_members() -> None:
    state = told(leaving("v", "a/p"), leaving("w", "a/q"), waiting("p", "g"), waiting("q", "g"), group=2)
    for uid in "pq":
        item = known(state, uid)
        assert (item.victims, item.kept, item.group) == ({"v", "w"}, False, "a/g PodGroup")


def test_a_gang_waits_for_what_went_for_a_member_that_is_gone() -> None:
    members = [make_pod(f"a/{name}").uid(name).group("g").nominated("n") for name in ("p", "q")]
    state = told(*members, leaving("v", "a/gone,PodGroup a/g"), leaving("w", "a/gone"), group=2)
    for name in ("p", "q"):
        item = state.nominations.get(name)
        assert item is not None
        assert (item.kept, item.victims) == (False, {"v"})


def test_nodes_of_a_gang_that_evicted_nobody_are_merely_kept() -> None:
    state = told(leaving("v", "a/x"), leaving("w", node="n"), waiting("p", "g"), group=2)
    item = known(state, "p")
    assert (item.victims, item.kept, item.group) == (set(), True, "a/g PodGroup")


@pytest.mark.parametrize(
    ("status", "reason", "merely_kept"),
    [
        ("True", "EvictionsUnderWay", False),
        ("True", "WaitsForRoom", True),
        ("False", "EvictionsUnderWay", True),
    ],
)
def test_a_gang_whose_victims_are_gone_keeps_its_right_by_its_condition(
    status: str, reason: str, merely_kept: bool
) -> None:
    state = told(leaving("w", node="n"), waiting("p", "g"), waiting("q", "g"), group=2, kept=(status, reason))
    for uid in "pq":
        item = known(state, uid)
        assert (item.victims, item.kept) == (set(), merely_kept)


def test_members_of_a_gang_that_has_started_are_on_their_own() -> None:
    there = make_pod("a/o").uid("o").group("g").on("m")
    state = told(there, leaving("v", "a/p"), waiting("p", "g"), waiting("q", "g"), group=1)
    for uid, victims in (("p", {"v"}), ("q", set())):
        item = known(state, uid)
        assert (item.victims, item.kept, item.group) == (victims, False, "")


@pytest.mark.parametrize(
    ("constraints", "plugin", "cores"),
    [
        ('{"zone": {"type": "pack"}}', True, [4, 4]),
        ('{"zone": {"type": "pack"}}', False, [1, 4]),
        ("", True, [1, 4]),
    ],
    ids=["on the topology, a slot is what the largest member needs", "without the plugin", "elsewhere"],
)
def test_room_for_members_is_counted_as_when_they_were_nominated(
    constraints: str, plugin: bool, cores: list[int]
) -> None:
    state = ClusterState()
    if plugin:
        state.topology.settings[MUSTER_SCHEDULER] = TopologySettings()
    state.put_node(make_node("n").allocatable(cpu=9).obj())
    group = make_group("a/g").needs(2).annotation(TOPOLOGY_CONSTRAINTS_ANNOTATION, constraints)
    state.put_gang(group.obj())
    for pod in (waiting("p", "g"), waiting("q", "g").requests(cpu=4), leaving("v", "a/p", "n")):
        state.put_pod(pod.obj())
    state.restored_nominations.resolve()
    row = state.index.row("cpu")
    assert [int(known(state, uid).vector[row]) for uid in "pq"] == [1000 * number for number in cores]
    assert state.check() == []


def test_a_pod_that_holds_a_node_meanwhile_is_left_as_it_is() -> None:
    state = told(waiting("p", "g"), group=2)
    state.assume(state.pods["p"], 0, 1.0)
    state.put_pod(waiting("q", "g").obj())
    state.restored_nominations.resolve()
    assert (state.nominations.counts("p"), state.nominations.counts("q")) == (False, True)
    assert state.check() == []


def test_nodes_kept_for_a_gang_count_with_the_priority_of_its_most_important_member() -> None:
    top, low = waiting("p", "g").priority(5), waiting("q", "g").priority(1)
    state = told(leaving("v", "a/p"), top, low, group=2)
    assert [known(state, uid).priority for uid in "pq"] == [5, 5]
    state.put_pod(waiting("q", "g").priority(1).labels(newer="yes").obj())
    assert known(state, "q").priority == 5
    state = told(make_pod("a/o").uid("o").group("g").on("m"), top, low, group=1)
    assert [known(state, uid).priority for uid in "pq"] == [5, 1], "each is on its own"
