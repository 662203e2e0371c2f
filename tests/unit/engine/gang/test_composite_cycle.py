"""Trees of groups: what wakes them, what they leave behind, and what is said about their groups."""

from __future__ import annotations

import pytest
from msgspec import structs

from scheduler_core.engine.decisions import Evicted, Placed, Rejected
from scheduler_core.engine.gang import composite_search
from scheduler_core.engine.gang.members import Members
from scheduler_core.model.names import MUSTER_SCHEDULER
from scheduler_core.model.pods.pod import NEVER, Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.verdicts import SCHEDULED, SCHEDULER_ERROR, UNSCHEDULABLE
from tests.support.builders import make_node, make_pod
from tests.support.composite_world import PRIORITY, World, composite, gang


def member(name: str, group: str, cpu: int = 1) -> Pod:
    one = make_pod(f"lab/{name}").uid(name).requests(cpu=cpu).scheduler(MUSTER_SCHEDULER).priority(PRIORITY)
    return one.spec(schedulingGroup={"podGroupName": group}).obj()


def tree(world: World, *least: int, key: str = "", root: int | None = None) -> None:
    """c0 above g0, g1, ...: minimums, and as many waiting pods of each; the root needs all groups."""
    world.put(composite(0, "", len(least) if root is None else root, key))
    for number, minimum in enumerate(least):
        world.put(gang(number, "c0", minimum, ""))
        for pod in range(minimum):
            world.put(member(f"g{number}-{pod}", f"g{number}"))


def bound(world: World) -> set[str]:
    return {uid for uid in world.state.placed if uid.startswith("g")}


@pytest.mark.parametrize(
    ("before", "last"),
    [
        pytest.param(
            [gang(0, "c0", 1, ""), member("g0-0", "g0")], composite(0, "", 1, ""), id="its root is created"
        ),
        pytest.param(
            [gang(0, "c1", 1, ""), composite(0, "", 1, ""), member("g0-0", "g0")],
            composite(1, "c0", 1, ""),
            id="the level between is created",
        ),
        pytest.param(
            [composite(0, "", 2, ""), gang(0, "c0", 1, ""), member("g0-0", "g0"), gang(1, "c0", 1, "")],
            member("g1-0", "g1"),
            id="a sibling group gets its pods",
        ),
        pytest.param(
            [composite(0, "", 2, ""), gang(0, "c0", 1, ""), member("g0-0", "g0"), member("g1-0", "g1")],
            gang(1, "c0", 1, ""),
            id="a sibling group is created",
        ),
        pytest.param(
            [composite(0, "", 2, ""), gang(0, "c0", 1, ""), member("g0-0", "g0"), gang(1, "c0", 1, "")],
            structs.replace(member("g1-0", "g1"), node_name="n0"),
            id="another program binds a pod of a sibling group",
        ),
        pytest.param(
            [composite(0, "", 2, ""), gang(0, "c0", 1, ""), member("g0-0", "g0")],
            composite(0, "", 1, ""),
            id="the root needs fewer groups",
        ),
        pytest.param(
            [composite(0, "", 1, ""), gang(0, "c0", 2, ""), member("g0-0", "g0")],
            gang(0, "c0", 1, ""),
            id="a group needs fewer pods",
        ),
        pytest.param(
            [composite(0, "", 1, "row"), gang(0, "c0", 1, ""), member("g0-0", "g0")],
            make_node("n0").allocatable(cpu=4).label("row", "1").obj(),
            id="a node gets the label",
        ),
        pytest.param(
            [composite(0, "", 1, ""), gang(0, "c0", 1, ""), member("g0-0", "g0", cpu=9)],
            make_node("n9").allocatable(cpu=9).obj(),
            id="a node with room comes",
        ),
    ],
)
def test_a_waiting_tree_starts_at_once_when(before: list[object], last: object) -> None:
    world = World([(4, 0)])
    for obj in before:
        world.put(obj)
    world.settle()
    assert "g0-0" not in bound(world)
    world.put(last)
    world.settle()
    assert "g0-0" in bound(world)


def test_pods_that_wait_move_to_the_unit_of_their_new_root() -> None:
    world = World([(1, 1)])
    tree(world, 1, 1)
    world.settle()
    assert set(world.scheduler.queue.units) == {"lab/c0 CompositePodGroup"}
    world.put(composite(0, "c7", 2, ""))
    assert set(world.scheduler.queue.units) == {"lab/c7 CompositePodGroup"}
    world.scheduler.remove(gang(1, "c0", 1, ""), world.now)
    assert set(world.scheduler.queue.units) == {"lab/c7 CompositePodGroup", "lab/g1 native-PodGroup"}


def test_a_tree_waits_for_its_victims_and_evicts_no_others() -> None:
    world = World([(2, 2), (2, 0)])
    tree(world, 2, 2)
    first = world.scheduler.step(world.now)
    victims = [item.pod.name for item in first if isinstance(item, Evicted)]
    assert sorted(victims) == ["weak-0-0", "weak-0-1"]
    nominated = {item.pod.name: item.nominated for item in first if isinstance(item, Rejected)}
    assert sorted(nominated.values()) == ["n0", "n0", "n1", "n1"]
    world.now += 60
    again = world.scheduler.step(world.now)
    assert not [item for item in again if isinstance(item, Evicted)]
    # A pod of a lower priority does not take a nominated node.
    world.put(make_pod("lab/small").requests(cpu=1).scheduler(MUSTER_SCHEDULER).obj())
    assert not [item for item in world.scheduler.step(world.now) if isinstance(item, Placed)]


def test_a_new_process_waits_for_the_same_victims() -> None:
    world = World([(2, 2), (2, 0)])
    tree(world, 2, 2)
    decisions = world.scheduler.step(world.now)
    nodes = {item.pod.uid: item.nominated for item in decisions if isinstance(item, Rejected)}
    leaving = {item.pod.uid: item.preemptors for item in decisions if isinstance(item, Evicted)}
    again = World([])
    for obj in world.given:
        if isinstance(obj, Pod) and obj.uid in nodes:
            obj = structs.replace(obj, nominated_node=nodes[obj.uid])
        if isinstance(obj, Pod) and obj.uid in leaving:
            obj = structs.replace(obj, deleted=world.now, preemptors=leaving[obj.uid])
        again.put(obj)
    assert not [item for item in again.scheduler.step(again.now) if isinstance(item, Evicted | Placed)]
    for uid in leaving:
        again.scheduler.remove(again.state.pods[uid], again.now)
    again.settle()
    assert bound(again) == set(nodes)


@pytest.mark.parametrize(
    ("nodes", "least", "root", "verdicts"),
    [
        pytest.param([(4, 0)], (1, 2), 2, {"g0": SCHEDULED, "g1": SCHEDULED}, id="all start"),
        pytest.param([(2, 0)], (2, 2), 1, {"g0": SCHEDULED, "g1": UNSCHEDULABLE}, id="one starts"),
        pytest.param(
            [(2, 0)], (2, 2), 2, {"g0": UNSCHEDULABLE, "g1": UNSCHEDULABLE}, id="a success below a failure"
        ),
    ],
)
def test_every_group_is_told(
    nodes: list[tuple[int, int]], least: tuple[int, ...], root: int, verdicts: dict[str, str]
) -> None:
    world = World(nodes)
    tree(world, *least, root=root)
    world.settle()
    said = world.state.gangs.verdicts.verdicts
    assert {name: said[f"lab/{name} native-PodGroup"].reason for name in verdicts} == verdicts


def test_a_contradiction_is_told_to_every_group() -> None:
    world = World([(4, 0)])
    tree(world, 1, 1)
    world.put(structs.replace(member("g1-1", "g1"), priority=9))
    world.settle()
    said = world.state.gangs.verdicts.verdicts
    assert {found.reason for found in said.values()} == {SCHEDULER_ERROR}
    assert len({found.message for found in said.values()}) == 1
    assert bound(world) == set()


def test_a_tree_that_does_not_start_leaves_no_trace() -> None:
    world = World([(2, 0), (1, 0)])
    tree(world, 2, 2, key="rack")
    world.settle()
    assert world.state.check() == []
    assert bound(world) == set()
    assert not len(world.state.nominations)


def test_the_search_ends_after_its_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    # By the least request both pods fit every rack; one of them fits no node.
    world = World([(2, 0)] * 12)
    world.put(composite(0, "", 1, ""))
    world.put(gang(0, "c0", 2, "rack"))
    for name, cpu in (("g0-0", 3), ("g0-1", 1)):
        world.put(structs.replace(member(name, "g0", cpu=cpu), preemption_policy=NEVER))
    counted: list[str] = []
    kinds_of = composite_search.kinds_of

    def count(state: ClusterState, waiting: Members) -> list[object]:
        """Each attempt asks first which pods are alike."""
        counted.append("")
        return kinds_of(state, waiting)

    monkeypatch.setattr(composite_search, "kinds_of", count)
    monkeypatch.setattr(composite_search, "MOST_ATTEMPTS", 2)
    decisions = world.scheduler.step(world.now)
    told = [item.message for item in decisions if isinstance(item, Rejected)]
    assert len(counted) == 2
    assert told
    assert bound(world) == set()
