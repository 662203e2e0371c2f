"""The space that nodes reach, beside asking each pool about each node."""

from __future__ import annotations

import random

from scheduler_core.framework.view import NodeView
from scheduler_core.framework.volumes.space import space_for
from scheduler_core.model.storage_pools import NO_SIZE, CSIStorageCapacity
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_node
from tests.support.every import every_seed
from tests.support.storage_builders import make_pool

CLASSES = ("fast", "slow")
LABELS = ("host", "rack", "zone")


def some_labels(rng: random.Random) -> dict[str, str]:
    return {label: str(rng.randint(0, 3)) for label in rng.sample(LABELS, rng.randint(0, 3))}


def some_pool(rng: random.Random, name: str) -> CSIStorageCapacity:
    pool = make_pool(f"x/{name}", rng.choice(CLASSES), rng.choice([None, "1Gi", "2Gi", "3Gi"]))
    if rng.random() < 0.3:
        pool.largest(rng.choice(["1Gi", "2Gi"]))
    if rng.random() < 0.2:
        some = {"key": rng.choice(LABELS), "operator": "In", "values": ["1", "2"]}
        return pool.selected_by(some, {"key": "zone", "operator": "Exists"}).obj()
    return (pool.on(**some_labels(rng)) if rng.random() < 0.9 else pool).obj()


def reached(pool: CSIStorageCapacity, labels: dict[str, str]) -> bool:
    return pool.topology is not None and pool.topology.matches(labels)


@every_seed(range(60))
def test_each_node_gets_the_best_pool_that_it_reaches(seed: int) -> None:
    rng, state, pools = random.Random(seed), ClusterState(), dict[str, CSIStorageCapacity]()
    nodes = [some_labels(rng) for _ in range(12)]
    for number, labels in enumerate(nodes):
        state.put_node(make_node(f"n{number}").labels(**labels).obj())
    for step in range(60):
        name = f"p{rng.randint(0, 20)}"
        if rng.random() < 0.3 and name in pools:
            state.storage.remove(pools.pop(name))
        else:
            pools[name] = some_pool(rng, name)
            state.storage.put(pools[name])
        for storage_class in CLASSES if step % 10 == 9 else ():
            space = space_for(state.storage, NodeView(state.nodes, slice(0, len(nodes))), storage_class)
            mine = [pool for pool in pools.values() if pool.storage_class == storage_class]
            expected = [
                max((one.largest for one in mine if reached(one, labels)), default=NO_SIZE)
                for labels in nodes
            ]
            assert space.largest.tolist() == expected


def test_pools_of_several_labels_are_not_read_one_by_one() -> None:
    state = ClusterState()
    for number in range(30):
        labels = {"host": f"h{number}", "rack": f"r{number}"}
        state.put_node(make_node(f"n{number}").labels(**labels).obj())
        state.storage.put(make_pool(f"x/p{number}", "fast", f"{number + 1}Gi").on(**labels).obj())
    assert not list(state.storage.pools.odd("fast"))
    assert [keys for keys, _ in state.storage.pools.by_labels("fast")] == [("host", "rack")]
    space = space_for(state.storage, NodeView(state.nodes, slice(0, 30)), "fast")
    assert space.largest.tolist() == [(number + 1) * 2**30 for number in range(30)]
