"""Points by percentage are exact, on the quick way and on the other one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.framework.allocation import LEAST, MOST
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.scoring import chosen, percent
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
        balances.append(int((1 - (max(parts) - min(parts)) / 2) * 100))
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
