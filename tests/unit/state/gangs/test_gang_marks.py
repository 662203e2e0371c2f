"""Whose status has to be written again: groups whose members, spec or reservation changed, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler_core.model.groups.gang import Gang, parse_gang
from scheduler_core.model.quotas.reservation_ledger import Charge, Hold, ReservationLedger
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.gangs import GangTable, take_census
from scheduler_core.state.reservations import Reservation, reservation_of
from tests.support.builders import GroupBuilder, PodBuilder, make_group, make_node, make_pod

KEYS = {name: f"a/{name} PodGroup" for name in ("g", "h", "i")}


def group(name: str = "g") -> GroupBuilder:
    return make_group(f"a/{name}").needs(2).uid(f"uid-{name}")


def member(uid: str, of: str = "g") -> PodBuilder:
    return make_pod(f"a/{uid}").uid(uid).group(of).requests(cpu=1)


def hold(name: str, cpu: int = 4, **more: object) -> Hold:
    return Hold(name, f"uid-{name}", 2, {"cpu": cpu * 1000}, **more)  # type: ignore[arg-type]


def ledger(*entries: Hold | Charge) -> ReservationLedger:
    holds = tuple(entry for entry in entries if isinstance(entry, Hold))
    charges = tuple(entry for entry in entries if isinstance(entry, Charge))
    return ReservationLedger("a", "1", holds=holds, charges=charges)


def table(*entries: Hold | Charge) -> GangTable:
    """Groups g and h with this ledger, of which everything is written."""
    out = GangTable()
    for name in ("g", "h"):
        out.put_gang(group(name).obj())
    if entries:
        out.put_ledger(ledger(*entries))
    out.dirty.clear()
    out.unreviewed.clear()
    return out


LEDGERS: list[tuple[str, list[Hold | Charge], list[Hold | Charge], set[str]]] = [
    ("a hold comes", [], [hold("g")], {"g"}),
    ("a hold goes", [hold("g"), hold("h")], [hold("h")], {"g"}),
    ("a hold ends", [hold("g"), hold("h")], [hold("g", ended=True), hold("h")], {"g"}),
    ("a charge comes", [hold("g")], [hold("g"), Charge("p", "p", "g", {"cpu": 1})], {"g"}),
    ("a charge moves", [Charge("p", "p", "g", {})], [Charge("p", "p", "h", {})], {"g", "h"}),
    (
        "nothing changes",
        [hold("g"), Charge("p", "p", "g", {})],
        [hold("g"), Charge("p", "p", "g", {})],
        set(),
    ),
    ("a group that is not there", [], [hold("i")], set()),
]


@pytest.mark.parametrize(("before", "after", "dirty"), [c[1:] for c in LEDGERS], ids=[c[0] for c in LEDGERS])
def test_groups_whose_reservation_changed_are_written(
    before: list[Hold | Charge], after: list[Hold | Charge], dirty: set[str]
) -> None:
    out = table(*before)
    out.put_ledger(ledger(*after))
    assert out.dirty == {KEYS[name] for name in dirty}
    assert out.ledgers["a"].holds == ledger(*after).holds


def test_with_the_ledger_all_that_held_something_are_written() -> None:
    out = table(hold("g"), Charge("p", "p", "h", {}))
    out.remove_ledger("a")
    assert (out.dirty, out.ledgers) == ({KEYS["g"]}, {})
    out.remove_ledger("a")


def test_a_pod_that_takes_or_loses_a_node_changes_the_counts_of_its_group() -> None:
    out = table()
    out.touch(member("p").obj())
    assert (out.dirty, out.unreviewed) == ({KEYS["g"]}, {KEYS["g"]})
    out.dirty.clear()
    out.touch(make_pod("a/single").obj())
    out.put_pod(make_pod("a/single").obj(), None)
    out.remove_pod(make_pod("a/single").obj())
    assert out.dirty == set()


def test_members_that_leave_are_counted_no_more_and_the_group_is_written() -> None:
    out = table()
    out.put_pod(member("p").obj(), None)
    out.put_pod(member("q").obj(), None)
    out.dirty.clear()
    out.remove_pod(member("p").obj())
    assert (set(out.members(KEYS["g"])), out.dirty) == ({"q"}, {KEYS["g"]})
    plain = make_pod("a/q").uid("q").obj()
    out.dirty.clear()
    out.put_pod(plain, member("q").obj())
    assert (set(out.members(KEYS["g"])), out.dirty) == (set(), {KEYS["g"]})


@pytest.mark.parametrize(
    ("annotations", "results"),
    [
        pytest.param({}, False, id="a plain group"),
        pytest.param({"sakkara.constraints": "x"}, None, id="whatever names no constraint of ours"),
    ],
)
def test_results_are_written_for_groups_on_the_topology_alone(
    annotations: dict[str, str], results: bool | None
) -> None:
    out = GangTable()
    made = group()
    for key, value in annotations.items():
        made.annotation(key, value)
    gang = made.obj()
    out.put_gang(gang)
    assert out.group_dirty == (
        {KEYS["g"]} if gang.constraints or gang.results or gang.topology_key else set()
    )
    assert results is None or bool(out.group_dirty) is results


def placed(gang: Gang) -> bool:
    out = GangTable()
    out.put_gang(gang)
    return bool(out.group_dirty)


def test_a_group_that_says_where_is_on_the_topology() -> None:
    from scheduler_core.model.names import TOPOLOGY_CONSTRAINTS_ANNOTATION

    constrained = group().annotation(TOPOLOGY_CONSTRAINTS_ANNOTATION, "[]").dict()
    assert placed(parse_gang(constrained))
    assert not placed(group().obj())


# Census and reservation as the cluster has them


def cluster(*pods: PodBuilder) -> ClusterState:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=9).obj())
    state.put_gang(group().obj())
    for item in pods:
        state.put_pod(item.obj())
    return state


def test_a_chosen_victim_does_not_count_towards_the_minimum() -> None:
    state = cluster(member("p").on("n"), member("q").on("n"), member("w"))
    assert take_census(state, KEYS["g"]).allocated == 2
    state.mark_leaving("p")
    found = take_census(state, KEYS["g"])
    assert (found.members, found.allocated, found.waiting, found.running) == (3, 1, 1, 2)


def reserved(state: ClusterState, *entries: Hold | Charge) -> Reservation | None:
    state.gangs.put_ledger(ledger(*entries))
    return reservation_of(state, group().obj())


def test_without_an_entry_in_the_ledger_nothing_is_reserved() -> None:
    state = cluster()
    assert reservation_of(state, group().obj()) is None
    assert reserved(state, hold("h")) is None


def test_the_use_of_members_is_subtracted_from_the_hold() -> None:
    state = cluster(member("p").on("n"), member("w"), member("done").on("n", "Succeeded"))
    spent = hold("g", 4, spent={"cpu": 500})
    found = reserved(
        state, spent, Charge("new", "new", "g", {"cpu": 250}), Charge("p", "p", "g", {"cpu": 1000})
    )
    assert found == Reservation({"cpu": 4000}, {"cpu": 2750}, {"cpu": 1250})
    assert str(found) == "members use cpu=2750m of cpu=4, cpu=1250m is held"


def test_charges_of_other_groups_are_theirs() -> None:
    found = reserved(cluster(), hold("g", 1), Charge("x", "x", "h", {"cpu": 1000}))
    assert found == Reservation({"cpu": 1000}, {}, {"cpu": 1000})
    assert str(found) == "members use nothing of cpu=1, cpu=1 is held"


def test_nothing_less_than_nothing_is_held() -> None:
    found = reserved(cluster(member("p").requests(cpu=3).on("n")), hold("g", 2))
    assert found == Reservation({"cpu": 2000}, {"cpu": 3000}, {})


def test_of_an_ended_group_nothing_is_held() -> None:
    found = reserved(cluster(member("p").on("n")), hold("g", 2, ended=True))
    assert found == Reservation({"cpu": 2000}, {}, {}, ended=True)
    assert str(found) == "the group ended: nothing is reserved any more"


# What a member's way onto a node and off it means to its group

STEPS: list[tuple[str, Callable[[ClusterState], object]]] = [
    ("it gets a node", lambda state: state.put_pod(member("p").on("n").obj())),
    ("its eviction is decided", lambda state: state.mark_leaving("p")),
    ("it stays after all", lambda state: state.reprieve("p")),
    ("its node is taken back", lambda state: state.put_pod(member("p").obj())),
    ("it gets a node again", lambda state: state.put_pod(member("p").on("n").obj())),
    ("its node is taken back again", lambda state: state.put_pod(member("p").obj())),
    ("a node is found for it", lambda state: state.assume(member("p").obj(), 0, 1.0)),
    ("the binding fails", lambda state: state.forget("p")),
    ("it gets a node at last", lambda state: state.put_pod(member("p").on("n").obj())),
    ("it has finished", lambda state: state.put_pod(member("p").on("n", "Succeeded").obj())),
    ("it is gone", lambda state: state.remove_pod("p")),
]


def test_the_status_of_a_group_is_due_whenever_a_member_comes_or_goes() -> None:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=9).obj())
    for name in ("g", "h"):
        state.put_gang(group(name).obj())
    state.put_pod(member("p").obj())
    for what, step in STEPS:
        state.gangs.dirty.clear()
        step(state)
        assert state.gangs.dirty == {KEYS["g"]}, what
