"""What placed pods mean to their gangs, and the order of removal that follows."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from scheduler_core.model.groups.native import parse_native_gang
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.trial import Trial
from tests.support.builders import make_node, make_pod


def cluster(policy: dict[str, object], mode: str, members: int) -> ClusterState:
    """A group of pods that started one after the other, and a pod without a group that started first."""
    state = ClusterState()
    state.put_node(make_node("n0").allocatable(cpu=9).obj())
    meta = {"name": "g", "namespace": "a", "uid": "g"}
    spec = {"schedulingPolicy": policy, "disruptionMode": {mode: {}}}
    state.put_gang(parse_native_gang({"metadata": meta, "spec": spec}))
    for number in range(members):
        pod = make_pod(f"a/m{number}").uid(f"m{number}").requests(cpu=1).on("n0").started(number + 2)
        state.put_pod(msgspec.structs.replace(pod.obj(), native_group="g"))
    state.put_pod(make_pod("a/alone").uid("alone").requests(cpu=1).on("n0").started(1).obj())
    state.rank_members()
    return state


def removal(state: ClusterState) -> list[str]:
    every = np.ones(state.table.size, dtype=np.bool_)
    return [pod.name for pod in state.table.of(state.table.removal_order(every))]


@pytest.mark.parametrize(
    ("policy", "mode", "ranks"),
    [
        pytest.param(
            {"gang": {"minCount": 2}}, "single", [2, 2, 1], id="the earliest are within the minimum"
        ),
        pytest.param({"basic": {}}, "single", [1, 1, 1], id="a basic group needs none"),
        pytest.param({"gang": {"minCount": 1}}, "all", [2, 2, 2], id="a group that goes together needs all"),
    ],
)
def test_ranks(policy: dict[str, object], mode: str, ranks: list[int]) -> None:
    state = cluster(policy, mode, 3)
    rows = [state.placed[f"m{number}"].row for number in range(3)]
    assert state.table.rank[rows].tolist() == ranks
    assert removal(state) == ["alone", "m2", "m1", "m0"]
    assert state.check() == []


def test_ranks_follow_members_that_go_and_come() -> None:
    state = cluster({"gang": {"minCount": 1}}, "single", 2)
    state.remove_pod("m0")
    state.rank_members()
    assert state.table.rank[state.placed["m1"].row] == 2


def test_a_group_that_is_gone_ranks_nobody() -> None:
    state = cluster({"gang": {"minCount": 1}}, "single", 2)
    state.remove_gang(next(iter(state.gangs.gangs.values())))
    state.rank_members()
    assert not state.table.rank.any()
    assert removal(state) == ["m1", "m0", "alone"]


def test_a_trial_gives_ranks_back() -> None:
    state = cluster({"gang": {"minCount": 1}}, "single", 2)
    before = state.table.rank.copy()
    with Trial(state, 1.0) as trial:
        trial.remove_placed("m0")
        trial.place(make_pod("a/other").uid("other").requests(cpu=1).obj(), 0)
    assert np.array_equal(state.table.rank, before)
    assert state.check() == []


def test_the_priority_of_a_group_is_that_of_its_members() -> None:
    state = cluster({"gang": {"minCount": 1}}, "single", 1)
    meta = {"name": "g", "namespace": "a", "uid": "g"}
    gang = parse_native_gang({"metadata": meta, "spec": {"priority": 7}})
    row = state.placed["m0"].row
    state.put_gang(gang)
    assert state.table.priority[row] == 7
    state.remove_gang(gang)
    assert state.table.priority[row] == 0
    assert state.check() == []
