"""Trials: what is changed as if, and that it was never so."""

from __future__ import annotations

import pytest

from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.trial import Trial
from tests.support.builders import PodBuilder, make_node, make_pod


def pod(uid: str) -> PodBuilder:
    return make_pod(f"a/{uid}").uid(uid).requests(cpu=1)


def cluster() -> ClusterState:
    """Node n with p (started at 3) and q; w waits."""
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=4).obj())
    for item in (pod("p").started(3.0).on("n"), pod("q").on("n"), pod("w")):
        state.put_pod(item.obj(), 5.0)
    return state


def cpus(state: ClusterState) -> tuple[int, int]:
    """Of the node and of the quota."""
    return int(state.nodes.requested[0, 0]) // 1000, state.ledger.used("a")["cpu"] // 1000


def test_placed_and_lifted_pods_count_inside_the_trial_only() -> None:
    state = cluster()
    with Trial(state, 9.0) as trial:
        trial.place(state.pods["w"], 0)
        assert (cpus(state), state.placed["w"].assumed_at) == ((3, 3), 9.0)
        trial.remove_placed("p")
        trial.remove_placed("q")
        assert (cpus(state), set(state.placed)) == ((1, 1), {"w"})
    assert (cpus(state), set(state.placed)) == ((2, 2), {"p", "q"})
    assert state.check() == []


def test_requests_may_be_others_than_the_pods() -> None:
    state = cluster()
    with Trial(state, 9.0) as trial:
        trial.place(state.pods["w"], 0, state.vector(pod("w").requests(cpu=2).obj()))
        assert cpus(state)[0] == 4
    assert cpus(state) == (2, 2)


def test_rollback_undoes_what_came_after_the_checkpoint() -> None:
    state = cluster()
    with Trial(state, 9.0) as trial:
        trial.remove_placed("p")
        checkpoint = trial.checkpoint()
        trial.remove_placed("q")
        trial.place(state.pods["w"], 0)
        trial.rollback(checkpoint)
        assert set(state.placed) == {"q"}
        trial.rollback(0)
        assert set(state.placed) == {"p", "q"}


def test_one_that_is_restored_stays_whatever_is_undone() -> None:
    state = cluster()
    with Trial(state, 9.0) as trial:
        trial.place(state.pods["w"], 0)
        trial.remove_placed("p")
        trial.remove_placed("q")
        trial.restore("p")
        assert set(state.placed) == {"p", "w"}
        with pytest.raises(KeyError):
            trial.restore("p")
        with pytest.raises(KeyError, match="w"):
            trial.restore("w")
        assert set(state.placed) == {"p", "w"}
    assert set(state.placed) == {"p", "q"}


def test_a_pod_that_is_lifted_twice_is_restored_as_it_was_last() -> None:
    state = cluster()
    with Trial(state, 9.0) as trial:
        trial.remove_placed("p")
        trial.restore("p")
        trial.remove_placed("p")
        trial.rollback(0)
        assert set(state.placed) == {"p", "q"}


@pytest.mark.parametrize("going", [True, False])
def test_start_and_end_of_a_pod_are_as_they_were(going: bool) -> None:
    state = cluster()
    if going:
        state.mark_leaving("p")
    before = [(uid, float(state.table.start[item.row])) for uid, item in state.placed.items()]
    with Trial(state, 9.0) as trial:
        trial.remove_placed("p")
        assert not state.ledger.is_leaving("a", "p")
    assert bool(state.table.leaving[state.placed["p"].row]) is going
    assert state.ledger.is_leaving("a", "p") is going
    assert sorted(before) == sorted(
        (uid, float(state.table.start[item.row])) for uid, item in state.placed.items()
    )


def test_a_lifted_pod_waits_for_no_node() -> None:
    state = cluster()
    state.nominations.put(state.pods["w"], "n", state.vector(state.pods["w"]))
    with Trial(state, 9.0) as trial:
        trial.place(state.pods["w"], 0)
        trial.remove_placed("w")
        assert not state.nominations.counts("w")
    assert state.nominations.counts("w")


def test_an_error_inside_leaves_no_trace() -> None:
    state = cluster()
    trial = Trial(state, 9.0)
    trial.remove_placed("p")
    with pytest.raises(KeyError), trial:
        trial.remove_placed("stranger")
    assert (cpus(state), state.check()) == ((2, 2), [])
