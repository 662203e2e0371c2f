"""Use and reservations of a namespace: admissions, refusals, and the ledger to store."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.model.pods.use import PodUse
from scheduler_core.model.quotas.reservation_ledger import Charge, Hold, ReservationLedger, without
from scheduler_core.model.quotas.resource_quota import ResourceQuota, parse_resource_quota
from scheduler_core.quota.reservations.usage import NamespaceUsage, amounts_text
from tests.support.admissions import admit


def native(scopes: tuple[str, ...] = (), **hard: int) -> ResourceQuota:
    spec = {"hard": hard, "scopes": list(scopes)}
    return parse_resource_quota({"metadata": {"name": "rq", "namespace": "a"}, "spec": spec})


def pod(uid: str, cpu: int, group: str = "") -> PodUse:
    return PodUse("a", uid, uid, "1", group, {"cpu": cpu}, False, "Running")


def charge(uid: str, group: str = "", **usage: int) -> Charge:
    return Charge(uid, uid, group, usage)


def hold(group: str, uid: str = "", **total: int) -> Hold:
    return Hold(group, uid or f"uid-{group}", 1, total)


def book(*entries: Hold | Charge, pods: tuple[PodUse, ...] = ()) -> NamespaceUsage:
    holds = tuple(entry for entry in entries if isinstance(entry, Hold))
    charges = tuple(entry for entry in entries if isinstance(entry, Charge))
    return NamespaceUsage(
        ReservationLedger("a", "1", holds=holds, charges=charges), {item.uid: item for item in pods}
    )


def positive(amounts: Any) -> dict[str, int]:
    return {name: value for name, value in amounts.items() if value}


def less(made: NamespaceUsage, uid: str, pods: tuple[PodUse, ...] = ()) -> NamespaceUsage:
    """The book without one of its holds."""
    base = without(made.ledger(ReservationLedger("a")), {(True, uid)})
    return NamespaceUsage(base, {pod.uid: pod for pod in pods})


def test_a_reservation_is_what_its_group_holds_beyond_the_pods_it_has() -> None:
    made = book(pods=(pod("p", 1, "g"),))
    assert admit(made, hold("g", cpu=4), [native(cpu=4000)]) == []
    assert (positive(made.held), made.remaining("g"), list(made.holds)) == ({"cpu": 3}, {"cpu": 3}, ["uid-g"])


def test_a_reservation_without_room_leaves_no_trace() -> None:
    made = book()
    (short,) = admit(made, hold("g", cpu=4000), [native(cpu=3)])
    assert str(short) == "exceeded quota: rq, requested: cpu=4, used: cpu=0, reserved: cpu=0, limited: cpu=3"
    assert (made.held, made.remaining("g"), made.holds) == ({}, {}, {})


def test_two_holds_of_one_group_add_up_and_are_released_one_by_one() -> None:
    made = book(hold("g", "one", cpu=2), pods=(pod("p", 1, "g"),))
    assert admit(made, hold("g", "two", cpu=3), []) == []
    assert made.remaining("g") == {"cpu": 4}
    made = less(made, "one", pods=(pod("p", 1, "g"),))
    assert (made.remaining("g"), positive(made.held), list(made.holds)) == ({"cpu": 2}, {"cpu": 2}, ["two"])
    assert not positive(less(made, "two").held)


def test_the_spent_amount_is_removed_with_its_hold() -> None:
    ended_well = Hold("g", "one", 2, {"cpu": 4}, spent={"cpu": 3})
    made = book(ended_well)
    assert positive(made.held) == {"cpu": 1}
    made = less(made, "one")
    assert admit(made, hold("g", "two", cpu=4), []) == []
    assert positive(made.held) == {"cpu": 4}


def test_an_ended_hold_is_released_for_nothing() -> None:
    made = book(Hold("g", "old", 1, {"cpu": 4}, ended=True), hold("g", "new", cpu=1))
    made = less(made, "old")
    assert (positive(made.held), list(made.holds)) == ({"cpu": 1}, ["new"])


@pytest.mark.parametrize(
    ("asked", "short"),
    [
        pytest.param(charge("n", "g", cpu=2, memory=2), {}, id="both within what is held"),
        pytest.param(charge("n", "g", cpu=2, memory=3), {"memory": 1}, id="only what exceeds it needs room"),
        pytest.param(charge("n", "g", cpu=2), {}, id="exactly what is held"),
    ],
)
def test_a_member_draws_on_its_groups_hold_resource_by_resource(asked: Charge, short: dict[str, int]) -> None:
    made = book(hold("g", cpu=2, memory=2))
    found = admit(made, asked, [native(cpu=0, memory=0)])
    assert [item.requested for item in found] == ([short] if short else [])
    assert ("n" in made.charges) is not short


def test_a_charge_that_grows_nothing_is_not_written_again() -> None:
    made = book(pods=(pod("p", 2),))
    assert admit(made, charge("p", cpu=2), [native(cpu=0)]) == []
    assert made.charges == {}, "the pod itself says it"
    assert admit(made, charge("p", cpu=1), []) == []
    assert (made.charges, made.used) == ({}, {"cpu": 2})


def test_a_new_pod_is_written_down_even_if_it_asks_for_nothing() -> None:
    made = book()
    assert admit(made, charge("n", cpu=0), []) == []
    assert list(made.charges) == ["n"]


def test_the_group_is_the_one_that_the_pod_itself_names() -> None:
    made = book(hold("g", cpu=4), hold("h", cpu=4), pods=(pod("p", 1, "g"),))
    assert admit(made, charge("p", "h", cpu=3), []) == []
    assert (made.remaining("g"), made.remaining("h")) == ({"cpu": 1}, {"cpu": 4})


def test_best_effort_is_asked_where_a_quota_has_scopes_only() -> None:
    """Best effort pods count as pods in a quota of all, and not in one of those that ask for something."""
    asked = Charge("n", "n", "", {"pods": 1}, best_effort=True)
    assert len(admit(book(), asked, [native(pods=0)])) == 1
    assert admit(book(), asked, [native(("NotBestEffort",), pods=0)]) == []


def test_what_is_stored_are_holds_charges_and_what_is_held_without_zeros() -> None:
    base = ReservationLedger("a", "7", holds=(hold("old", cpu=1),), pods_version="9")
    made = NamespaceUsage(without(base, {(True, "uid-old")}), {})
    admit(made, hold("g", memory=2, cpu=1), [])
    admit(made, charge("p", "g", memory=2), [])
    stored = made.ledger(base)
    assert ([item.uid for item in stored.holds], [item.uid for item in stored.charges]) == (["uid-g"], ["p"])
    assert (stored.held, stored.resource_version, stored.pods_version) == ({"cpu": 1}, "7", "9")


def test_amounts_are_told_in_the_order_of_their_names() -> None:
    assert amounts_text({"memory": 2**30, "cpu": 1500}) == "cpu=1500m,memory=1Gi"
