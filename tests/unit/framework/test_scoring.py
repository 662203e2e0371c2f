"""Points by percentage are exact, on the quick way and on the other one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.framework.allocation import LEAST, MOST
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.scoring import chosen, default_normalize, percent, used_after
from scheduler_core.framework.view import NodeView
from scheduler_core.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from scheduler_core.plugins.node_resources_fit import NodeResourcesFit
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nodes.table import EXACT_DIVISOR
from tests.support.builders import make_node, make_pod

SMALL = st.integers(1, EXACT_DIVISOR - 1)
LARGE = st.integers(EXACT_DIVISOR, 2**56)


@given(whole=SMALL, data=st.data())
def test_float64_floors_as_integers_do(whole: int, data: st.DataObject) -> None:
    part = data.draw(st.integers(0, whole))
    exact = part * 100 // whole
    floats = percent(np.array([part], dtype=np.float64), np.array([whole], dtype=np.float64))
    integers = percent(np.array([part], dtype=np.int64), np.array([whole], dtype=np.int64))
    assert (floats.tolist(), integers.tolist()) == ([exact], [exact])
    assert (floats.dtype, integers.dtype) == (np.float64, np.int64)


@given(whole=LARGE, data=st.data())
def test_scores_that_float64_cannot_divide_exactly_are_divided_as_integers(
    whole: int, data: st.DataObject
) -> None:
    part = data.draw(st.integers(0, whole))
    found = percent(np.array([part], dtype=np.int64), np.array([whole], dtype=np.int64))
    assert found.tolist() == [part * 100 // whole]


@pytest.mark.parametrize(
    ("memory", "ordinary"),
    [(EXACT_DIVISOR - 1, True), (EXACT_DIVISOR, False), (2**50 + 3, False), (0, False)],
    ids=["just small enough", "just too large", "much too large", "a node without any"],
)
@pytest.mark.parametrize("strategy", [LEAST, MOST], ids=["least", "most"])
def test_both_ways_give_the_same_points(memory: int, ordinary: bool, strategy: object) -> None:
    state = ClusterState()
    state.put_node(make_node("n0").allocatable(cpu=7, memory=memory).obj())
    state.put_node(make_node("n1").allocatable(cpu=4, memory=3 * 2**30 + 1).obj())
    state.put_node(make_node("gone").allocatable(cpu=4, memory=1).obj())
    state.remove_node("gone")
    pod = make_pod("a/p").requests(cpu="1500m", memory=2**30 + 7).obj()
    cycle = Cycle(state, pod, state.vector(pod), 0.0, "p")
    nodes = NodeView.all(state.nodes)
    assert state.nodes.ordinary(1) is ordinary
    asked = ((1500, 2**30 + 7), (7000, memory), (4000, 3 * 2**30 + 1))

    def points(used: int, whole: int) -> int:
        return max(whole - used, 0) * 100 // whole if strategy is LEAST else min(used, whole) * 100 // whole

    def fraction(used: int, whole: int) -> Fraction:
        return min(Fraction(used, whole), Fraction(1))

    fits, balances = [], []
    for whole in asked[1:]:
        pairs = [(used, have) for used, have in zip(asked[0], whole, strict=True) if have]
        fits.append(sum(points(*pair) for pair in pairs) // len(pairs))
        parts = [fraction(*pair) for pair in pairs]
        # The nodes are empty, so their balance without the pod is 100.
        balances.append(50 + (50 + int((1 - (max(parts) - min(parts)) / 2) * 100) - 100) // 2)
    plugin = NodeResourcesFit(strategy=strategy)  # type: ignore[arg-type]
    assert plugin.score(cycle, nodes).tolist()[:2] == fits
    assert NodeResourcesBalancedAllocation().score(cycle, nodes).tolist()[:2] == balances


def test_an_answer_for_all_nodes_follows_the_nodes() -> None:
    state = ClusterState()
    for number in range(3):
        state.put_node(make_node(f"n{number}").allocatable(cpu=1, memory="1Gi").obj())
    assert state.nodes.ordinary(1)
    state.put_node(make_node("n1").allocatable(cpu=1, memory=EXACT_DIVISOR).obj())
    assert not state.nodes.ordinary(1)
    state.remove_node("n1")
    assert state.nodes.ordinary(1)
    divisor = NodeView.all(state.nodes).divisor(1)
    assert divisor is not None
    assert divisor.tolist() == [2.0**30, 1.0, 2.0**30]


def test_values_of_feasible_nodes() -> None:
    values = np.array([3, 1, 2], dtype=np.int64)
    assert chosen(values, np.array([True, False, True])).tolist() == [3, 2]
    assert chosen(values, np.array([True, True, True])).tolist() == [3, 1, 2]


# On the node, a pod has 1 CPU, 10 bytes, 5 of storage and one card; what a pod leaves open counts as 100m
# and 200 MiB where that is asked for.
USES: list[tuple[str, str, bool, dict[str, int], int | None]] = [
    ("cpu", "cpu", False, {"cpu": 2}, 3000),
    ("cpu that is not asked for", "cpu", False, {}, 1000),
    ("cpu that counts", "cpu", True, {}, 1100),
    ("memory", "memory", False, {"memory": 7}, 17),
    ("memory that counts", "memory", True, {"cpu": 1}, 10 + 200 * 2**20),
    ("storage", "ephemeral-storage", False, {"ephemeral_storage": 2}, 7),
    ("storage that is not asked for", "ephemeral-storage", True, {}, 5),
    ("cards", "nvidia.com/gpu", True, {"gpu": 2}, 3),
    ("cards that are not asked for", "nvidia.com/gpu", True, {"cpu": 1}, None),
    ("what nobody knows", "example.com/x", False, {"cpu": 1}, None),
]


@pytest.mark.parametrize(
    ("name", "nonzero", "asked", "used"), [u[1:] for u in USES], ids=[u[0] for u in USES]
)
def test_what_of_a_resource_is_used_with_the_pod(
    name: str, nonzero: bool, asked: dict[str, int], used: int | None
) -> None:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=4, memory=10**9, ephemeral_storage=9, gpu=4).obj())
    held = {"cpu": 1, "memory": 10, "ephemeral_storage": 5, "gpu": 1}
    state.put_pod(make_pod("a/r").uid("r").requests(**held).on("n").obj())
    pod = make_pod("a/p").requests(**asked).obj()
    found = used_after(
        Cycle(state, pod, state.vector(pod), 0.0, "p"), NodeView.all(state.nodes), name, nonzero=nonzero
    )
    assert (None if found is None else (found[0], found[1].tolist())) == (
        None if used is None else (state.index.row(name), [used])
    )


NORMALIZED: list[tuple[list[int], list[bool], list[int], list[int]]] = [
    ([0, 5, 10], [True, True, True], [0, 50, 100], [100, 50, 0]),
    ([0, 1, 3], [True, True, True], [0, 33, 100], [100, 67, 0]),
    ([0, 5, 10], [True, True, False], [0, 100, 200], [100, 0, -100]),
    ([0, 0, 10], [True, True, False], [0, 0, 0], [100, 100, 100]),
    ([1, 1, 1], [True, True, True], [100, 100, 100], [0, 0, 0]),
    ([1, 1, 1], [False, False, False], [0, 0, 0], [100, 100, 100]),
]


@pytest.mark.parametrize(("raw", "feasible", "scaled", "turned"), NORMALIZED)
def test_the_largest_of_feasible_nodes_is_a_hundred(
    raw: list[int], feasible: list[bool], scaled: list[int], turned: list[int]
) -> None:
    values, among = np.array(raw, dtype=np.int64), np.array(feasible)
    assert default_normalize(values, among).tolist() == scaled
    assert default_normalize(values, among, reverse=True).tolist() == turned
