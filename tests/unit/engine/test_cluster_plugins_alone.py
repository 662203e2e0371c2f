"""A plugin of CLUSTER scope has its say whichever single point it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.interface import Scope
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import SKIP, Reason, Status
from scheduler_core.plugins.priority_sort import PrioritySort
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_node, make_pod
from tests.unit.engine.scores.test_node_scores import BINDER


class Last:
    """Prefers the node of the highest slot, and refuses that of slot 0."""

    name = "Last"
    scope = Scope.CLUSTER

    def filter(self, cycle: Any, nodes: Any) -> Any:
        return (nodes.indices == 0).astype(np.uint64)

    def reasons(self, cycle: Any) -> Any:
        return (Reason("the first"),)

    def score(self, cycle: Any, nodes: Any) -> Any:
        return nodes.indices * 10


class Unwilling(Last):
    """Has nothing to score."""

    def pre_score(self, cycle: Any, feasible: Any) -> Status:
        return SKIP


@pytest.mark.parametrize(
    ("plugin", "points", "totals"),
    [
        pytest.param(Last(), ["filter"], [-1, 0, 0], id="only a filter"),
        pytest.param(Last(), ["score"], [0, 10, 20], id="only a score"),
        pytest.param(Last(), ["filter", "score"], [-1, 10, 20], id="both"),
        pytest.param(Unwilling(), ["preScore", "score"], [0, 0, 0], id="a score that skips"),
        pytest.param(
            Unwilling(), ["preScore", "filter", "score"], [-1, 0, 0], id="a filter whose score skips"
        ),
        pytest.param(Unwilling(), [], [0, 0, 0], id="nobody"),
    ],
)
def test_its_say_counts(plugin: Any, points: list[str], totals: list[int]) -> None:
    state = ClusterState()
    for number in range(3):
        state.put_node(make_node(f"n{number}").allocatable(cpu=4).obj())
    given = {"queueSort": [PrioritySort()], "bind": [BINDER], **{point: [plugin] for point in points}}
    cycles, profile = PodCycle(state), Profile("x", given, {"Last": 1})
    pod = make_pod("a/p").uid("p").requests(cpu=1).obj()
    assert cycles.feasible(profile, pod, 1.0).tolist() == totals
    slot = cycles.attempt(profile, pod, 1.0).slot
    assert totals[slot] == max(totals)
