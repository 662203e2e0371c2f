"""Who tells of checkpoints chooses among the pods of its own quota, and has no disadvantage beside others."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler_core.model.names import CHECKPOINTED_AT_ANNOTATION
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.timestamps import format_time
from scheduler_core.state.placed.lost_work import shared_out
from scheduler_core.state.placed.pods import PodTable
from tests.support.builders import PodBuilder, make_pod

NOTHING = np.zeros(1, dtype=np.int64)


@pytest.mark.parametrize(
    ("start", "saved", "priority", "shared"),
    [
        pytest.param([10, 20, 30], [10, 20, 30], [0, 0, 0], [10, 20, 30], id="nobody tells"),
        pytest.param([10, 20, 30], [90, 20, 30], [0, 0, 0], [30, 10, 20], id="the oldest saved last"),
        pytest.param([10, 20, 30], [15, 20, 30], [0, 0, 0], [10, 20, 30], id="it saved before others began"),
        pytest.param(
            [10, 20, 30], [90, 20, 30], [0, 0, 1], [20, 10, 30], id="only pods of equal priority share"
        ),
        pytest.param([10, 10], [50, 50], [0, 0], [10, 10], id="equal pods"),
    ],
)
def test_pods_share_out_the_times_of_their_quota(
    start: list[float], saved: list[float], priority: list[int], shared: list[float]
) -> None:
    pods = [make_pod(f"a/p{number}").obj() for number in range(len(start))]
    found = shared_out(np.array(start, float), np.array(saved, float), np.array(priority), pods)
    assert found.tolist() == shared


def add(table: PodTable, pod: PodBuilder, start: float, saved: float | None = None) -> int:
    if saved is not None:
        pod.annotation(CHECKPOINTED_AT_ANNOTATION, format_time(saved))
    return table.add(pod.started(start).obj(), 0, NOTHING, 0.0)


def order(table: PodTable) -> list[str]:
    table.share_out()
    rows = np.flatnonzero(table.alive[: table.size])
    assert table.check(1) == []
    return [pod.name for pod in table.of(table.by_importance(rows))]


def test_who_tells_does_not_go_before_pods_of_other_quotas_that_keep_silent() -> None:
    table = PodTable(1)
    add(table, make_pod("a/old"), 100.0, saved=900.0)
    add(table, make_pod("b/young"), 200.0)
    assert order(table) == ["young", "old"]


def test_within_its_quota_who_saved_last_goes_first() -> None:
    table = PodTable(1)
    add(table, make_pod("a/old"), 100.0, saved=900.0)
    add(table, make_pod("a/young"), 300.0)
    add(table, make_pod("b/between"), 200.0)
    assert order(table) == ["old", "between", "young"]


def test_the_order_follows_pods_that_go_come_and_tell_anew() -> None:
    table = PodTable(1)
    old = add(table, make_pod("a/old"), 100.0, saved=900.0)
    young = add(table, make_pod("a/young"), 300.0)
    add(table, make_pod("b/between"), 200.0)
    assert order(table) == ["old", "between", "young"]
    told: Pod = (
        make_pod("a/young").annotation(CHECKPOINTED_AT_ANNOTATION, format_time(950.0)).started(300.0).obj()
    )
    table.refresh(young, told)
    assert order(table) == ["young", "between", "old"]
    table.remove(young)
    assert order(table) == ["between", "old"]
    table.put_back(young, told, 0, NOTHING, 300.0)
    assert order(table) == ["young", "between", "old"]
    table.remove(old)
    assert order(table) == ["young", "between"]


def test_one_that_ends_late_goes_first_whatever_others_tell() -> None:
    table = PodTable(1)
    late = add(table, make_pod("a/late"), 100.0)
    add(table, make_pod("a/saved"), 50.0, saved=900.0)
    table.put_late(late, late=True)
    assert order(table) == ["late", "saved"]
