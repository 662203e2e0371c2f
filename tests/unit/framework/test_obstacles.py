"""Which events may let a pod find victims, or free it from waiting for those it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler_core.framework.obstacles import Preemption
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, Happened
from tests.support.builders import make_node, make_pod


def helps(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    hints = Preemption().hints()
    return any(
        event.what & kinds and (hint is None or hint(state, pod, event)) for kinds, hint in hints.items()
    )


def waiting(*victims: str, **more: Any) -> Callable[[ClusterState], None]:
    def nominate(state: ClusterState) -> None:
        pod = state.pods["w"]
        state.nominations.put(pod, "n", state.vector(pod), frozenset(victims), **more)

    return nominate


def going(state: ClusterState) -> None:
    """Somebody else leaves the node, too."""
    state.put_pod(make_pod("b/o").uid("o").requests(cpu=1).on("n").deleting(1.0).obj())


Changes = tuple[Callable[[ClusterState], Any], ...]
ENDS: list[tuple[str, Changes, bool]] = [
    ("it waits for no node", (), False),
    ("it evicted the pod", (waiting("v"),), True),
    ("it evicted others, and one still leaves", (going, waiting("o")), False),
    ("it evicted others, and all are gone", (waiting("x"),), True),
    ("it waited for those that leave the node anyhow, and all are gone", (waiting(),), True),
    ("it waited for those that leave the node anyhow, and one still does", (going, waiting()), False),
    ("its node is merely kept for its gang", (waiting(kept=True),), False),
]


@pytest.mark.parametrize(("changes", "woken"), [e[1:] for e in ENDS], ids=[e[0] for e in ENDS])
def test_whose_end_lets_a_pod_look_for_victims_again(changes: Changes, woken: bool) -> None:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=4).obj())
    state.put_pod(make_pod("b/v").uid("v").requests(cpu=1).on("n").deleting(1.0).obj())
    state.put_pod(make_pod("a/w").uid("w").requests(cpu=4).obj())
    for change in changes:
        change(state)
    gone = state.pods["v"]
    state.remove_pod("v")
    assert helps(state, state.pods["w"], ClusterEvent(Happened.POD_DELETE, pod=gone)) is woken
