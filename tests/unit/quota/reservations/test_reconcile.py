"""Reconciliation of a reservation ledger with pods and groups, case by case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler_core.model.groups.pod_group import PodGroup
from scheduler_core.model.pods.use import PodUse
from scheduler_core.model.quotas.reservation_ledger import Charge, Hold, ReservationLedger
from scheduler_core.quota.reservations.reconcile import idle_groups, reconcile


def pod(
    uid: str, group: str = "g", phase: str = "Running", *, version: str = "1", started: float = 10.0
) -> PodUse:
    return PodUse("a", uid, uid, version, group, {"cpu": 1000}, False, phase, started=started)


def charge(uid: str, cpu: int = 1000) -> Charge:
    return Charge(uid, uid, "g", {"cpu": cpu})


def hold(name: str = "g", members: int = 2, **more: Any) -> Hold:
    return Hold(name, f"uid-{name}", members, {"cpu": 4000}, more.pop("since", 5.0), **more)


def group(name: str = "g", members: int = 2, *, succeeded: bool = False, cpu: int = 4000) -> PodGroup:
    total = {"cpu": cpu} if cpu else {}
    return PodGroup("a", name, f"uid-{name}", "1", 5.0, members, total, succeeded)


def ledger(*entries: Hold | Charge, version: str = "") -> ReservationLedger:
    return ReservationLedger(
        "a",
        "1",
        holds=tuple(entry for entry in entries if isinstance(entry, Hold)),
        charges=tuple(entry for entry in entries if isinstance(entry, Charge)),
        pods_version=version,
    )


def settled(
    before: ReservationLedger, pods: list[PodUse], groups: list[PodGroup] | None = None, **more: Any
) -> ReservationLedger:
    seen: Mapping[str, PodUse] = {item.uid: item for item in pods}
    known = [group()] if groups is None else groups
    return reconcile(before, seen, {item.uid: item for item in known}, **more)


def test_a_group_says_what_its_hold_is() -> None:
    wrong = Hold("other", "uid-g", 7, {"cpu": 1}, 99.0)
    assert settled(ledger(wrong), []).holds == (hold(),)


@pytest.mark.parametrize(
    ("members", "ended", "done"),
    [
        pytest.param([pod("p", phase="Succeeded")], False, ("p",), id="one of two succeeded"),
        pytest.param([pod("q", phase="Succeeded"), pod("p", phase="Succeeded")], True, (), id="both did"),
        pytest.param(
            [pod("q", phase="Succeeded"), pod("p", phase="Succeeded"), pod("r")],
            False,
            ("p", "q"),
            id="one more runs",
        ),
        pytest.param([pod("p", phase="Failed"), pod("q", phase="Failed")], False, (), id="both failed"),
        pytest.param(
            [pod("p", phase="Succeeded", started=4.0), pod("q", phase="Succeeded", started=5.0)],
            False,
            ("q",),
            id="one ran before the group was made, the other from its first second on",
        ),
        pytest.param(
            [pod("p", "other", "Succeeded"), pod("q", "", "Succeeded")], False, (), id="others' pods"
        ),
    ],
)
def test_a_hold_ends_with_enough_members(members: list[PodUse], ended: bool, done: tuple[str, ...]) -> None:
    (found,) = settled(ledger(hold()), members).holds
    assert (found.ended, found.done, found.spent) == (ended, done, {"cpu": 1000 * len(done)} if done else {})


def test_members_that_ended_well_are_taken_off_once() -> None:
    first = settled(ledger(hold(members=3)), [pod("p", phase="Succeeded")])
    again = settled(
        first, [pod("p", phase="Succeeded"), pod("q", phase="Succeeded"), pod("r")], [group(members=3)]
    )
    assert (again.holds[0].done, again.holds[0].spent) == (("p", "q"), {"cpu": 2000})


def test_a_hold_that_has_ended_stays_ended_and_does_not_count() -> None:
    before = ledger(hold(ended=True))
    assert settled(before, [pod("p", phase="Succeeded")]).holds == before.holds


def test_an_idle_hold_ends_but_not_while_a_member_is_on_its_way() -> None:
    assert settled(ledger(hold()), [], idle=["uid-g"]).holds[0].ended
    assert not settled(ledger(hold(), charge("p")), [], idle=["uid-g"]).holds[0].ended


def test_holds_and_charges_go_for_different_reasons() -> None:
    before = ledger(hold(), charge("p"))
    assert settled(before, [], gone=["uid-g"]).holds == ()
    assert settled(before, [], overdue=["uid-g"]).holds == before.holds, "its group is there"
    assert settled(before, [], [], overdue=["uid-g"]).holds == ()
    assert settled(before, [], []).holds == before.holds, "its group may come"
    assert settled(before, [], gone=["p"]).charges == settled(before, [], overdue=["p"]).charges == ()
    assert settled(before, [pod("p")]).charges == ()
    assert settled(before, [pod("q")]).charges == before.charges


def test_a_charge_stays_until_its_pod_shows_as_much() -> None:
    grown = ledger(charge("p", 2000))
    assert settled(grown, [pod("p")]).charges == grown.charges
    assert settled(grown, [pod("p", phase="Failed")]).charges == (), "whoever ended uses nothing"


@pytest.mark.parametrize(
    ("pods", "version"),
    [
        pytest.param([], "9", id="nothing new"),
        pytest.param([pod("p", version="10")], "10", id="a charge was struck out: numbers, not texts"),
        pytest.param([pod("p", version="8")], "9", id="what was known is newer"),
        pytest.param([pod("q", version="12")], "9", id="a pod without a charge"),
    ],
)
def test_readers_must_know_the_pods_whose_charges_were_struck_out(pods: list[PodUse], version: str) -> None:
    assert settled(ledger(charge("p"), version="9"), pods).pods_version == version


def test_holds_are_made_again_only_by_who_knows_all_groups() -> None:
    groups = [group(), group("done", succeeded=True), group("asks-nothing", cpu=0), group("known")]
    before = ledger(hold("known"))
    assert settled(before, [], groups).holds == before.holds
    made = settled(before, [pod("p", phase="Succeeded", version="7"), pod("q")], groups, complete=True)
    assert [item.group for item in made.holds] == ["known", "g"]
    assert made.holds[1] == hold(spent={"cpu": 1000}, done=("p",))
    assert made.pods_version == "7", "charges may have been lost as well"
    assert settled(before, [pod("p", version="7")], [group("known")], complete=True).pods_version == ""


def test_idle_are_holds_whose_members_came_and_went() -> None:
    holds = [
        hold("failed"),
        hold("mixed", done=("m",)),
        hold("runs"),
        hold("coming"),
        hold("few"),
        hold("over", ended=True),
    ]
    pods = [
        pod("a", "failed", "Failed"), pod("b", "failed", "Succeeded"), pod("c", "mixed", "Failed"),
        pod("m", "few", "Failed"), pod("d", "runs", "Failed"), pod("e", "runs", "Failed"), pod("f", "runs"),
        pod("g", "coming", "Failed"), pod("h", "coming", "Failed"), pod("i", "few", "Failed", started=1.0),
        pod("j", "over", "Failed"), pod("k", "over", "Failed"),
    ]  # fmt: skip
    underway = Charge("l", "l", "coming", {"cpu": 1000})
    assert idle_groups(ledger(*holds, underway), {item.uid: item for item in pods}) == {
        "uid-failed",
        "uid-mixed",
    }


def test_a_charge_of_a_pod_that_is_seen_is_no_second_member() -> None:
    before = ledger(hold(members=1), charge("p"))
    assert settled(before, [pod("p", phase="Succeeded")], [group(members=1)]).holds[0].ended
