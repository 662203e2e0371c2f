"""Small trees of groups for which there is room start, held against all ways to place them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pytest

from scheduler_core.model.names import MUSTER_SCHEDULER
from tests.support.builders import make_pod
from tests.support.composite_world import PRIORITY, World, composite, gang
from tests.support.searches import cases

TREES: Final = cases(400, "MUSTER_ROOM_TREES")
Free = tuple[int, ...]


@dataclass(frozen=True)
class Branch:
    """A group of groups c0, c1, ... below a `parent`; `least` of its children start together."""

    parent: str
    least: int
    key: str


@dataclass(frozen=True)
class Leaf(Branch):
    """A group of `pods` pods of `cpu` CPUs each, of which `least` start together."""

    cpu: int
    pods: int


@dataclass(frozen=True)
class Tree:
    """The free CPUs of nodes, two of which are a rack and four a zone, and the groups."""

    nodes: Free
    branches: tuple[Branch, ...]
    leaves: tuple[Leaf, ...]

    def starts(self) -> bool:
        """Whether there is any way to start the root."""
        return next(self._ways(self.branches[0], "c0", self.nodes, range(len(self.nodes))), None) is not None

    def _ways(self, group: Branch, name: str, free: Free, nodes: Sequence[int]) -> Iterator[Free]:
        """What each way to start a group on some nodes leaves free."""
        size = {"rack": 2, "zone": 4}.get(group.key, len(self.nodes))
        for first in range(0, len(self.nodes), size):
            domain = [node for node in nodes if node // size == first // size]
            if isinstance(group, Leaf):
                yield from _filled(free, domain, group.cpu, group.least)
            else:
                below = [(f"c{i}", one) for i, one in enumerate(self.branches) if one.parent == name]
                children = [*below, *(("", leaf) for leaf in self.leaves if leaf.parent == name)]
                yield from self._together(children, group.least, free, domain)

    def _together(
        self, children: Sequence[tuple[str, Branch]], least: int, free: Free, nodes: Sequence[int]
    ) -> Iterator[Free]:
        if not least:
            yield free
        elif len(children) >= least:
            name, child = children[0]
            for left in self._ways(child, name, free, nodes):
                yield from self._together(children[1:], least - 1, left, nodes)
            yield from self._together(children[1:], least, free, nodes)


def _filled(free: Free, nodes: Sequence[int], cpu: int, pods: int) -> Iterator[Free]:
    if not pods:
        yield free
        return
    for place, node in enumerate(nodes):
        if free[node] >= cpu:
            left = (*free[:node], free[node] - cpu, *free[node + 1 :])
            yield from _filled(left, nodes[place:], cpu, pods - 1)


def random_tree(seed: int) -> Tree:
    rng = random.Random(f"tree {seed}")
    nodes = tuple(rng.randint(0, 3) for _ in range(rng.randint(2, 6)))
    branches = [Branch("", rng.randint(1, 3), rng.choice(("", "", "zone")))]
    if rng.random() < 0.4:
        branches.append(Branch("c0", rng.randint(1, 2), rng.choice(("", "rack"))))
    leaves = []
    for _ in range(rng.randint(2, 4)):
        parent, least = f"c{rng.randrange(len(branches))}", rng.randint(1, 3)
        key = rng.choice(("", "", "rack", "rack", "zone"))
        leaves.append(Leaf(parent, least, key, rng.choice((1, 1, 2)), least + rng.choice((0, 0, 1))))
    return Tree(nodes, tuple(branches), tuple(leaves))


def started(tree: Tree) -> bool:
    """Whether the scheduler starts the tree, by its rules."""
    world = World([(cpu, 0) for cpu in tree.nodes])
    for number, branch in enumerate(tree.branches):
        world.put(composite(number, branch.parent, branch.least, branch.key))
    for number, leaf in enumerate(tree.leaves):
        world.put(gang(number, leaf.parent, leaf.least, leaf.key))
        for pod in range(leaf.pods):
            one = make_pod(f"lab/g{number}-{pod}").uid(f"g{number}-{pod}").requests(cpu=leaf.cpu)
            one.scheduler(MUSTER_SCHEDULER).priority(PRIORITY)
            world.put(one.spec(schedulingGroup={"podGroupName": f"g{number}"}).obj())
    world.settle()
    world.check()
    return any(world.running(group) for group in world.state.gangs.gangs.values())


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(664, id="a group in a rack, one in a zone, and one that needs parts of both"),
        pytest.param(
            2053, id="groups in racks, one of which only one rack holds, and one that may go anywhere"
        ),
    ],
)
def test_groups_that_take_the_nodes_of_others_share_them_in_another_way(seed: int) -> None:
    tree = random_tree(seed)
    assert tree.starts()
    assert started(tree)


def test_a_tree_for_which_there_is_room_starts() -> None:
    fit, wait = 0, []
    for seed in range(TREES):
        tree = random_tree(seed)
        if tree.starts():
            fit += 1
            if not started(tree):
                wait.append(seed)
        else:
            assert not started(tree)
    assert fit > TREES / 4, "trees without room say nothing"
    assert not wait
