"""The table of placed pods: rows that are reused, the order of removal, the grid by node."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from scheduler_core.state.placed.grid import EMPTY
from scheduler_core.state.placed.pods import PodTable
from tests.support.builders import PodBuilder, make_pod


def pod(uid: str, priority: int = 0, started: float | None = None) -> PodBuilder:
    made = make_pod(f"a/{uid}").uid(uid).priority(priority)
    return made if started is None else made.started(started)


def vector(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def add(out: PodTable, item: PodBuilder, slot: int = 0, now: float = 0.0) -> int:
    return out.add(item.obj(), slot, vector(1, 2), now)


def order(out: PodTable) -> list[str]:
    return [item.uid for item in out.of(out.removal_order(out.alive[: out.size]))]


def columns(out: PodTable, slots: int) -> list[list[str]]:
    rows = out.grid.rows(out, slots)
    assert rows.shape[1] == slots
    pods = [[out.pods[row] for row in rows[:, slot] if row != EMPTY] for slot in range(slots)]
    return [[item.uid for item in column if item is not None] for column in pods]


def test_a_row_says_what_the_pod_says() -> None:
    out = PodTable(2)
    row = add(out, pod("p", 7, 5.0).spec(activeDeadlineSeconds=60), 3)
    assert (out.slot[row], out.priority[row], out.start[row], out.lasts[row]) == (3, 7, 5.0, 60.0)
    assert (out.alive[row], out.ending[row], out.requests[:, row].tolist()) == (True, False, [1, 2])
    assert out.namespaces.values[out.namespace[row]] == "a"
    other = add(out, pod("q").deleting(1.0), 4, 9.0)
    assert (out.start[other], out.lasts[other], out.ending[other]) == (9.0, inf, True)


def test_rows_are_reused_and_nothing_of_the_old_pod_stays() -> None:
    out = PodTable(3)
    first = out.add(pod("p", 7).deleting(1.0).spec(activeDeadlineSeconds=60).obj(), 0, vector(1, 2, 3), 0.0)
    add(out, pod("q"))
    out.remove(first)
    assert (bool(out.alive[first]), out.pods[first], out.size) == (False, None, 2)
    again = add(out, pod("r"), 1)
    assert (again, out.size) == (first, 2)
    assert out.requests[:, again].tolist() == [1, 2, 0]
    assert (bool(out.ending[again]), out.lasts[again], out.priority[again]) == (False, inf, 0)


def test_many_pods_and_many_resources() -> None:
    out = PodTable(2)
    for number in range(200):
        out.add(pod(f"p{number}", number).obj(), number % 5, vector(*range(2 + number // 100)), 1.0)
    assert out.size == 200
    assert out.priority[:200].tolist() == list(range(200))
    assert out.lasts[:200].tolist() == [inf] * 200
    assert out.slot[:200].tolist() == [number % 5 for number in range(200)]
    assert out.requests[:, 150].tolist() == [0, 1, 2]
    assert out.requests[:, 50].tolist() == [0, 1, 0]
    assert out.check(5) == []
    out.cover(5)
    assert out.requests[:, 150].tolist() == [0, 1, 2, 0, 0]
    out.cover(2)
    assert len(out.requests) == 5


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([pod("a", 2), pod("b", 1)], "ba", id="the lowest priority first"),
        pytest.param([pod("a", 0, 5.0), pod("b", 0, 9.0)], "ba", id="then the latest start"),
        pytest.param([pod("a", 1, 9.0), pod("b", 0, 5.0)], "ba", id="priority before start"),
        pytest.param([pod("a", -1), pod("b", -2)], "ba", id="negative priorities"),
    ],
)
def test_the_least_important_go_first(pods: list[PodBuilder], expected: str) -> None:
    out = PodTable(2)
    for item in pods:
        add(out, item)
    assert "".join(order(out)) == expected
    assert columns(out, 1) == [list(expected)]


def test_only_chosen_rows_are_in_the_order() -> None:
    out = PodTable(2)
    rows = [add(out, pod(uid, priority)) for uid, priority in (("a", 3), ("b", 2), ("c", 1))]
    out.remove(rows[1])
    chosen = np.array([True, False, True])
    assert out.removal_order(chosen).tolist() == [2, 0]


@pytest.mark.parametrize(
    "newer",
    [pod("a", 9, 1.0), pod("a", 0, 0.5)],
    ids=["its priority is another", "its start is known now"],
)
def test_a_newer_form_takes_its_place_in_the_order(newer: PodBuilder) -> None:
    out = PodTable(2)
    row = add(out, pod("a", 0, 9.0))
    add(out, pod("b", 0, 5.0))
    assert (order(out), columns(out, 1)) == (["a", "b"], [["a", "b"]])
    out.refresh(row, newer.obj())
    assert (order(out), columns(out, 1)) == (["b", "a"], [["b", "a"]])
    assert out.pods[row] is not None


def test_a_newer_form_without_a_start_keeps_the_one_that_was_assumed() -> None:
    out = PodTable(2)
    row = add(out, pod("a"), now=7.0)
    out.refresh(row, pod("a").labels(x="y").obj())
    assert (out.start[row], bool(out.ending[row])) == (7.0, False)
    out.refresh(row, pod("a").deleting(1.0).obj())
    assert out.ending[row]
    out.refresh(row, pod("a").obj())
    assert out.ending[row], "nobody comes back from deletion"


def test_a_pod_that_is_put_back_is_where_it_was() -> None:
    out = PodTable(2)
    item = pod("a", 3).spec(activeDeadlineSeconds=5)
    row = add(out, item, 2, now=7.0)
    add(out, pod("b"), 2, now=8.0)
    out.remove(row)
    out.put_back(row, item.obj(), 2, vector(1, 2), 7.0)
    assert (out.start[row], out.lasts[row], out.slot[row], columns(out, 3)) == (
        7.0,
        5.0,
        2,
        [[], [], ["b", "a"]],
    )
    assert add(out, pod("c")) == 2, "its row is not given away"


def test_the_order_is_as_it_was_though_another_had_the_row_meanwhile() -> None:
    out = PodTable(2)
    low = pod("low", 0, 1.0)
    row = add(out, low)
    add(out, pod("high", 5, 1.0))
    assert order(out) == ["low", "high"]
    out.remove(row)
    assert add(out, pod("new", 9, 1.0)) == row
    assert order(out) == ["high", "new"]
    out.remove(row)
    out.put_back(row, low.obj(), 0, vector(1, 2), 1.0)
    assert (order(out), columns(out, 1)) == (["low", "high"], [["low", "high"]])


def test_the_grid_follows_single_changes_in_a_large_cluster() -> None:
    out = PodTable(2)
    rows = {
        f"p{number}": add(out, pod(f"p{number}", number % 7, number), number % 40) for number in range(160)
    }
    assert out.check(40) == []
    for uid in ("p3", "p43", "p9"):
        out.remove(rows[uid])
    add(out, pod("new", 3, 500.0), 9)
    assert out.check(40) == []
    assert columns(out, 40)[3] == ["p123", "p83"]
    assert columns(out, 40)[9][0:1] == ["p49"]
    assert "new" in columns(out, 40)[9]
    add(out, pod("far", 0, 1.0), 90)
    assert columns(out, 91)[90] == ["far"]
    assert out.check(91) == []


def test_a_column_may_become_deeper_than_any_before() -> None:
    out = PodTable(2)
    for number in range(30):
        add(out, pod(f"p{number}", number, 1.0), 5)
        assert columns(out, 64)[5] == [f"p{i}" for i in range(number + 1)]
