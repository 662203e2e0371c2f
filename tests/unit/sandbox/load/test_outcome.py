"""What the end of a load reports."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.load.outcome import PodWaits, percentile


def pod(node: str = "", phase: str = "Pending", why: str = "") -> dict[str, Any]:
    spec = {"nodeName": node} if node else {}
    conditions = [{"type": "PodScheduled", "status": "False", "message": why}] if why else []
    return {"spec": spec, "status": {"phase": phase, "conditions": conditions}}


def test_waits_end_with_a_node_and_reasons_are_counted_together() -> None:
    waits = PodWaits()
    for number in range(4):
        waits.see(f"n/{number}", pod(), 10.0)
    waits.see("n/0", pod("a"), 10.5)
    waits.see("n/0", pod("a", "Running"), 99.0)
    waits.see("n/1", pod("a"), 12.0)
    waits.see(
        "n/2", pod(why="ElasticQuota n/q: used cpu=7 + requested 250m exceeds max=7500m. More text."), 11.0
    )
    waits.see(
        "n/3", pod(why="ElasticQuota n/q: used cpu=9 + requested 1 exceeds max=9500m. More text."), 11.0
    )
    assert waits.summary(4, ["no", "no"]) == [
        "created 4 pods; bound 2, waiting 2",
        "wait for a node: p50 0.50 s, p99 2.00 s",
        "waiting 2: ElasticQuota n/q: used cpu=N + requested N exceeds max=N",
        "refused 2: no",
    ]


def test_a_deleted_pod_no_longer_waits_and_a_silent_scheduler_is_said() -> None:
    waits = PodWaits()
    waits.see("n/a", pod(), 1.0)
    waits.see("n/b", pod(), 1.0)
    waits.gone("n/a")
    assert waits.unseen_by_scheduler == 1
    assert waits.summary(2, []) == [
        "created 2 pods; bound 0, waiting 1",
        "waiting 1: no scheduler has looked at the pod yet",
    ]


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([1.0], 50, 1.0), ([1.0, 2.0], 50, 1.0), ([1.0, 2.0, 3.0], 50, 2.0), ([1.0, 2.0, 3.0], 99, 3.0)],
)
def test_percentile(values: list[float], percent: int, expected: float) -> None:
    assert percentile(values, percent) == expected
