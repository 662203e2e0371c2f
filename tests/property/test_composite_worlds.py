"""Random trees of groups in small clusters: what runs keeps the rules of every group."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.engine.decisions import Evicted, Placed
from scheduler_core.model.names import MUSTER_SCHEDULER
from tests.support.builders import make_pod
from tests.support.composite_world import PRIORITY, World, composite, gang
from tests.support.searches import cases

KEYS = st.sampled_from(("", "", "zone", "rack"))
# Of every group: (kind of parent as an index, minimum, topology key). Parents come before their children.
TREES = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), KEYS), min_size=1, max_size=3)
LEAVES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 3), KEYS, st.integers(0, 4)), min_size=1, max_size=4
)
NODES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=5)


@given(NODES, TREES, LEAVES, st.randoms(use_true_random=False))
@settings(max_examples=cases(200))
def test_what_runs_keeps_the_rules_of_its_tree(
    nodes: list[tuple[int, int]],
    trees: list[tuple[int, int, str]],
    leaves: list[tuple[int, int, str, int]],
    order: object,
) -> None:
    world = World(nodes)
    objects: list[object] = []
    for number, (above, least, key) in enumerate(trees):
        parent = f"c{above % number}" if number else ""
        objects.append(composite(number, parent, least, key))
    for number, (above, least, key, pods) in enumerate(leaves):
        objects.append(gang(number, f"c{above % len(trees)}", least, key))
        for pod in range(pods):
            one = make_pod(f"lab/g{number}-{pod}").requests(cpu=1).scheduler(MUSTER_SCHEDULER)
            objects.append(one.priority(PRIORITY).spec(schedulingGroup={"podGroupName": f"g{number}"}).obj())
    order.shuffle(objects)  # type: ignore[attr-defined]
    half = len(objects) // 2
    for some in (objects[:half], objects[half:]):
        for obj in some:
            world.put(obj)
        world.settle()
        world.check()
    again = world.fresh()
    decisions = again.scheduler.step(again.now)
    assert not [item for item in decisions if isinstance(item, Evicted | Placed)]
