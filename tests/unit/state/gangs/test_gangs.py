"""The gang table: members by what they name, counts by where they are."""

from __future__ import annotations

import pytest

from scheduler_core.state.events import EventKind
from scheduler_core.state.gangs.gangs import Census, GangTable
from tests.support.builders import PodBuilder, make_group, make_pod

KEY = "a/g PodGroup"


def member(name: str) -> PodBuilder:
    return make_pod(f"a/{name}").uid(name).group("g")


def census(*pods: PodBuilder, placed: tuple[str, ...] = ()) -> Census:
    table = GangTable()
    for pod in pods:
        table.put_pod(pod.obj(), None)
    return table.census(KEY, dict.fromkeys(placed))


@pytest.mark.parametrize(
    ("found", "counts"),
    [
        pytest.param(census(), (0, 0, 0, 0, 0, 0), id="nobody"),
        pytest.param(census(member("p")), (1, 0, 1, 0, 0, 0), id="one that waits"),
        pytest.param(
            census(member("p"), placed=("p",)), (1, 1, 0, 0, 0, 0), id="one that is assumed on a node"
        ),
        pytest.param(
            census(member("p").on("n"), placed=("p",)), (1, 1, 0, 1, 0, 0), id="one that runs holds a node"
        ),
        pytest.param(census(member("p").on("n", "Succeeded")), (1, 0, 0, 0, 1, 0), id="one that succeeded"),
        pytest.param(
            census(member("p").on("n", "Failed")), (1, 0, 0, 0, 0, 1), id="one that the kubelet rejected"
        ),
        pytest.param(
            census(member("p").on("n").deleting(5.0), placed=("p",)),
            (1, 0, 0, 1, 0, 0),
            id="one on its way out still runs but holds no place in the quorum",
        ),
        pytest.param(
            census(member("p").deleting(5.0)),
            (1, 0, 0, 0, 0, 0),
            id="one deleted before it ran waits no more",
        ),
        pytest.param(
            census(member("p"), make_pod("b/q").uid("q").group("g"), placed=("q",)),
            (1, 0, 1, 0, 0, 0),
            id="a group of the same name in another namespace is another group",
        ),
    ],
)
def test_census(found: Census, counts: tuple[int, ...]) -> None:
    got = (found.members, found.allocated, found.waiting, found.running, found.succeeded, found.failed)
    assert got == counts


def test_pods_are_members_before_their_group_is_there_and_after_it_is_gone() -> None:
    table, gang = GangTable(), make_group("a/g").needs(2).obj()
    pod = member("p").obj()
    table.put_pod(pod, None)
    assert table.of(pod) is None
    table.put_gang(gang)
    assert table.of(pod) is gang
    table.remove_gang(gang)
    assert (table.of(pod), set(table.members(KEY))) == (None, {"p"})


def test_a_pod_that_names_another_group_leaves_the_first() -> None:
    table = GangTable()
    old, new = member("p").obj(), member("p").group("h").obj()
    table.put_pod(old, None)
    table.dirty.clear()
    table.put_pod(new, old)
    assert (set(table.members(KEY)), set(table.members("a/h PodGroup"))) == (set(), {"p"})
    assert table.dirty == {KEY, "a/h PodGroup"}
    table.remove_pod(new)
    assert set(table.members("a/h PodGroup")) == set()


def test_only_a_group_that_asks_for_something_else_is_an_event() -> None:
    table = GangTable()
    (event,) = table.put_gang(make_group("a/g").needs(2).obj())
    assert (event.what, event.namespace) == (EventKind.GROUP, "a")
    assert table.put_gang(make_group("a/g").needs(2).version("9").obj()) == []
    assert len(table.put_gang(make_group("a/g").needs(3).obj())) == 1


def test_groups_of_config_maps_are_nobody_elses_business() -> None:
    table = GangTable()
    table.put_pod(make_pod("a/p").label("sakkara.group.name", "map").obj(), None)
    assert (table.dirty, table.unreviewed, table.group_dirty) == (set(), set(), {"a/map ConfigMap"})


def test_the_lowest_priority_of_a_group_follows_its_members() -> None:
    table = GangTable()
    high, low = member("p").priority(9).obj(), member("q").priority(3).obj()
    table.put_pod(high, None)
    assert table.lowest_priority(KEY) == 9
    table.put_pod(low, None)
    assert table.lowest_priority(KEY) == 3
    table.put_pod(member("q").priority(5).obj(), low)
    assert table.lowest_priority(KEY) == 5
    table.remove_pod(low)
    assert table.lowest_priority(KEY) == 9
