"""PrioritySort and SchedulingGates."""

from __future__ import annotations

from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.framework.status import Code
from scheduler_core.plugins.priority_sort import PrioritySort
from scheduler_core.plugins.scheduling_gates import SchedulingGates
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_pod


def unit(key: str, created: float, priority: int) -> QueuedUnit:
    made = QueuedUnit(key, created)
    made.pods[key] = make_pod(f"x/{key}").priority(priority).obj()
    return made


def test_priority_first_then_age_then_name() -> None:
    units = [unit("young", 5, 0), unit("b", 1, 0), unit("a", 1, 0), unit("urgent", 9, 10), unit("low", 0, -1)]
    assert [u.key for u in sorted(units, key=PrioritySort().sort_key)] == ["urgent", "a", "b", "young", "low"]


def test_a_gated_pod_is_kept_out_and_its_gates_are_named() -> None:
    gated = make_pod("x/p").gate("quota.example.com/wait").gate("two").obj()
    status = SchedulingGates().pre_enqueue(ClusterState(), gated)
    assert (status.code, status.reason) == (
        Code.UNRESOLVABLE,
        "waiting for scheduling gates: quota.example.com/wait, two",
    )
    assert SchedulingGates().pre_enqueue(ClusterState(), make_pod("x/p").obj()).ok
