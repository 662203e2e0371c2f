"""Waiting classes in columns: whom some room may help, by requests, nodes, evictions, and time of refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler_core.arrays.changes import ChangeLog
from scheduler_core.engine.queue import waiting_table
from scheduler_core.engine.queue.waiting_table import NodesOfKinds, WaitingTable
from scheduler_core.framework.queueing.hints import EvictableRequests, Room
from scheduler_core.framework.queueing.obstacles import WITHIN_MIN

FIT = "NodeResourcesFit"


def vector(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


class Classes:
    """A table with classes by name."""

    def __init__(self) -> None:
        self.log = ChangeLog()
        self.table = WaitingTable(NodesOfKinds(self.log))
        self.rows: dict[str, int] = {}

    def add(
        self, name: str, *asked: int, priority: int = 0, plugins: tuple[str, ...] = (FIT,), at: int = 0
    ) -> int:
        row = self.rows[name] = self.table.take_row()
        self.table.set_pods(row, 0, priority, vector(*asked))
        self.table.set_refused(row, plugins)
        self.table.waits[row] = True
        self.table.closed[row] = at
        return row

    def rows_helped(self, room: Room, number: int = 1) -> list[str]:
        names = {row: name for name, row in self.rows.items()}
        return [names[row] for row in self.table.rows_helped(FIT, room, number).tolist()]


def test_a_pod_that_requests_more_of_any_resource_is_not_helped() -> None:
    classes = Classes()
    classes.add("fits", 2, 4)
    classes.add("exactly", 4, 8)
    classes.add("too much cpu", 5, 1)
    classes.add("too much memory", 1, 9)
    classes.add("asks for nothing that is short", 0, 1)
    assert classes.rows_helped(Room(vector(4, 8))) == ["fits", "exactly", "asks for nothing that is short"]
    assert classes.rows_helped(Room(vector(-1, 8))) == ["asks for nothing that is short"]


def test_resources_that_came_later_count_for_those_who_ask_for_them() -> None:
    classes = Classes()
    classes.add("old", 1)
    classes.add("new", 1, 0, 2)
    assert classes.rows_helped(Room(vector(4, 8, 1))) == ["old"]
    assert classes.rows_helped(Room(vector(4, 8, 2))) == ["old", "new"]


@pytest.mark.parametrize(("number", "helped"), [(4, []), (5, []), (6, ["p"])])
def test_a_pod_refused_since_is_not_helped(number: int, helped: list[str]) -> None:
    classes = Classes()
    classes.add("p", 1, at=5)
    assert classes.rows_helped(Room(vector(4)), number) == helped


def test_only_units_that_the_plugin_refused_are_requeued() -> None:
    classes = Classes()
    classes.add("other", 1, plugins=("NodeAffinity",))
    row = classes.add("p", 1, plugins=("NodeAffinity", FIT))
    assert classes.rows_helped(Room(vector(4))) == ["p"]
    classes.table.set_refused(row, ("NodeAffinity",))
    assert classes.rows_helped(Room(vector(4))) == []
    classes.table.set_refused(row, (FIT,))
    classes.table.give_back(row)
    assert classes.rows_helped(Room(vector(4))) == []
    assert classes.add("next", 9) == row
    assert classes.rows_helped(Room(vector(4))) == []


# Two pods of priority 0 and 5 hold 2 and 3; of the first, everything leaves anyhow in the last case.
EVICTIONS = [
    ("as important as the least", 0, (FIT,), 0, []),
    ("more important than one", 3, (FIT,), 0, ["3"]),
    ("more important than both", 9, (FIT,), 0, ["3", "6"]),
    ("one that takes back from others", 0, (FIT, WITHIN_MIN), 0, ["3", "6"]),
    ("beside one that leaves", 0, (FIT,), 2, ["3"]),
]


@pytest.mark.parametrize(
    ("priority", "plugins", "leaving", "helped"),
    [case[1:] for case in EVICTIONS],
    ids=[c[0] for c in EVICTIONS],
)
def test_what_evictions_may_add(
    priority: int, plugins: tuple[str, ...], leaving: int, helped: list[str]
) -> None:
    classes = Classes()
    for asked in (3, 6):
        classes.add(str(asked), asked, priority=priority, plugins=plugins)
    held = np.array([[0, 2, 5]], dtype=np.int64)
    room = Room(vector(1), 0, lambda _above, _all: EvictableRequests(vector(0, 5), held, vector(leaving)))
    assert classes.rows_helped(room) == helped


def test_a_pod_that_may_evict_in_its_namespace_is_helped_whatever_is_free() -> None:
    classes = Classes()
    classes.add("lower", 5, priority=1)
    classes.add("higher", 5, priority=2)
    assert classes.rows_helped(Room(vector(0), lowest=vector(1))) == ["higher"]


def test_in_a_namespace_without_placed_pods_no_pod_is_evicted() -> None:
    classes = Classes()
    row = classes.add("elsewhere", 5, priority=2)
    classes.table.set_pods(row, 7, 2, vector(5))
    assert classes.rows_helped(Room(vector(0), lowest=vector(1, 1))) == []
    assert classes.rows_helped(Room(vector(5), lowest=vector(1, 1))) == ["elsewhere"]


def test_who_outranks_a_pod_is_told_by_namespace_and_priority_while_it_waits() -> None:
    classes = Classes()
    row = classes.add("p", 1, priority=5)
    assert [classes.table.outranks(0, priority) for priority in (4, 5)] == [True, False]
    assert not classes.table.outranks(1, 4)
    classes.table.give_back(row)
    assert not classes.table.outranks(0, 4)


def test_rows_grow_with_the_classes() -> None:
    classes = Classes()
    for number in range(200):
        classes.add(str(number), 1 + number % 2)
    assert len(classes.rows_helped(Room(vector(1)))) == 100
    assert len(set(classes.rows.values())) == 200


def test_the_foremost_have_the_smallest_numbers() -> None:
    classes = Classes()
    for name, place in (("c", (0, 5.0)), ("a", (-5, 9.0)), ("b", (-5, 9.0)), ("d", (-5, 9.5))):
        classes.table.set_place(classes.add(name, 1), place)
    found = classes.table.foremost(np.array(sorted(classes.rows.values())))
    assert {name for name, row in classes.rows.items() if row in found.tolist()} == {"a", "b"}
    classes.table.set_place(classes.rows["d"], ("a name",))
    assert classes.table.foremost(np.array([classes.rows["a"], classes.rows["d"]])).tolist() == [
        classes.rows["d"]
    ]


# Which nodes a kind of pod may use


def test_a_kind_uses_the_nodes_that_its_filters_pass_until_one_changes() -> None:
    log = ChangeLog()
    nodes = NodesOfKinds(log)
    row = nodes.use("ssd")
    rows = vector(row, -1)
    assert nodes.may_use(rows, 0).tolist() == [True, True], "nothing is known"
    nodes.learn(row, 1, np.array([True, False, False]))
    assert [nodes.may_use(rows, slot).tolist() for slot in (0, 1)] == [[True, True], [False, True]]
    assert nodes.may_use(rows, 7).tolist() == [True, True], "a node that came since"
    log.append(1)
    assert [nodes.may_use(rows, slot).tolist()[0] for slot in (1, 2)] == [True, False]
    nodes.learn(row, 1, np.array([True, False, False]))
    assert nodes.may_use(rows, 1).tolist() == [False, True], "a version counts until something changes"
    assert nodes.use("ssd") == row
    nodes.drop("ssd", row)
    nodes.drop("ssd", row)
    assert nodes.use("hdd") == row
    assert nodes.may_use(rows, 2).tolist() == [True, True], "of another kind nothing is known"


def test_kinds_beyond_the_bound_count_as_if_every_node_were_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_table, "MOST_BYTES", 100)
    nodes = NodesOfKinds(ChangeLog())
    row = nodes.use("a")
    nodes.learn(row, 1, np.zeros(1000, dtype=np.bool_))
    assert nodes.may_use(vector(row), 5).tolist() == [True]
