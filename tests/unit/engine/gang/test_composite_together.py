"""The groups of a tree leave each other the nodes that they need, whatever nodes score alike."""

from __future__ import annotations

import pytest

from scheduler_core.engine.decisions import Evicted, Placed
from scheduler_core.model.names import MUSTER_SCHEDULER
from tests.support.builders import make_pod
from tests.support.composite_world import PRIORITY, World, composite, gang


def member(group: int, name: str, cpu: int) -> object:
    made = make_pod(f"lab/{name}").uid(name).requests(cpu=cpu).scheduler(MUSTER_SCHEDULER).priority(PRIORITY)
    return made.spec(schedulingGroup={"podGroupName": f"g{group}"}).obj()


@pytest.mark.parametrize("names", "abcdefghijkl")
def test_a_tree_that_fits_free_nodes_starts_and_evicts_nobody(names: str) -> None:
    world = World([(2, 0), (3, 2), (4, 0)])
    world.put(composite(0, "", 2, ""))
    # The oldest group has too few pods; of the others, the first can take a node that the second needs.
    world.put(gang(0, "c0", 3, "rack"))
    world.put(gang(1, "c0", 3, ""))
    world.put(gang(2, "c0", 2, ""))
    for number, (group, cpu) in enumerate([(0, 1), (0, 1), (1, 2), (1, 1), (1, 1), (2, 2), (2, 1)]):
        world.put(member(group, f"{names}{number}", cpu))
    decisions = world.scheduler.step(world.now)
    assert not [item.pod.name for item in decisions if isinstance(item, Evicted)]
    assert len([item for item in decisions if isinstance(item, Placed)]) == 5


# CPUs of the nodes, two of which are a rack; of each group the topology key, the pods needed and those there.
STORIES = {
    "a group takes the other rack where one needs its rack": ([3, 2, 1], [("", 2, 2), ("rack", 4, 4)]),
    "a group in a rack leaves it to one that needs more of it": ([2, 0, 4], [("rack", 2, 2), ("rack", 4, 4)]),
    "further pods of a group leave room that another one needs": (
        [2, 0, 2],
        [("", 2, 3), ("rack", 2, 3)],
    ),
    "the last group goes first though another one never starts": (
        [2, 2, 1],
        [("", 1, 1), ("rack", 5, 5), ("rack", 4, 4)],
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_groups_with_topology_keys_leave_each_other_their_nodes(story: str) -> None:
    nodes, groups = STORIES[story]
    world = World([(cpu, 0) for cpu in nodes])
    world.put(composite(0, "", 2, ""))
    for number, (key, least, pods) in enumerate(groups):
        world.put(gang(number, "c0", least, key))
        for pod in range(pods):
            world.put(member(number, f"p{number}-{pod}", 1))
    world.settle()
    world.check()
    assert sum(bool(world.running(group)) for group in world.state.gangs.gangs.values()) == 2


def test_a_group_that_others_left_no_node_starts_beside_them() -> None:
    """One group is enough. The first may use any node, and the second only the rack of two."""
    world = World([(2, 0), (0, 0), (1, 0)])
    world.put(composite(0, "", 1, ""))
    for number, (key, least) in enumerate([("", 1), ("rack", 2), ("rack", 2)]):
        world.put(gang(number, "c0", least, key))
        for pod in range(least):
            world.put(member(number, f"p{number}-{pod}", 1))
    world.settle()
    world.check()
    assert sum(bool(world.running(group)) for group in world.state.gangs.gangs.values()) == 2


def test_a_tree_of_many_groups_that_are_not_ready_costs_no_search() -> None:
    world = World([(4, 0)])
    world.put(composite(0, "", 30, ""))
    for group in range(60):
        world.put(gang(group, "c0", 2, ""))
        world.put(member(group, f"p{group}", 1))
    for group in range(30):
        world.put(member(group, f"q{group}", 1))
    assert not [item for item in world.scheduler.step(world.now) if isinstance(item, Evicted | Placed)]
