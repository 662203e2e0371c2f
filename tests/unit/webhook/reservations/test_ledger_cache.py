"""What a replica remembers of reservations and pods: who is there, who is gone, for how long."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.groups.pod_group import PodGroup
from scheduler_core.model.kinds import POD_GROUPS, PODS, RESERVATION_LEDGERS
from scheduler_core.model.quotas.reservation_ledger import NAME, Charge, Hold, ReservationLedger
from tests.support.cost import measured
from tests.support.kept import entries
from tests.unit.webhook.reservations.reservations import (
    Clock,
    FakeApi,
    FakeWatch,
    Replica,
    charge,
    hold,
    pod_group,
    use,
)
from webhook.reservations.ledger_cache import DeletedUids, LedgerCache
from webhook.reservations.pod_watches import NamespacePods, PodWatches


def ledger(version: str, *entries: Hold | Charge, namespace: str = "a") -> ReservationLedger:
    holds = tuple(entry for entry in entries if isinstance(entry, Hold))
    charges = tuple(entry for entry in entries if isinstance(entry, Charge))
    return ReservationLedger(namespace, version, holds=holds, charges=charges)


def told(stored: ReservationLedger | None, name: str = NAME) -> Event:
    return Event("DELETED" if stored is None else "MODIFIED", RESERVATION_LEDGERS, f"a/{name}", "", stored)


def grouped(group: PodGroup, *, gone: bool = False) -> Event:
    kind: Any = "DELETED" if gone else "ADDED"
    return Event(kind, POD_GROUPS, f"a/{group.name}", group.uid, None if gone else group)


# Ledgers


def test_automatic_groups_are_counted_until_they_end_or_go() -> None:
    ledgers = LedgerCache()
    made = [msgspec.structs.replace(pod_group(name, 1), automatic=True) for name in ("g", "h")]
    for group in (*made, pod_group("mine", 1)):
        ledgers.sink(grouped(group))
    assert (ledgers.automatic_groups("a"), ledgers.automatic_groups("b")) == (2, 0)
    assert (ledgers.group("a", "g"), ledgers.group("a", "x")) == (made[0], None)
    ledgers.sink(grouped(msgspec.structs.replace(made[0], succeeded=True)))
    ledgers.sink(grouped(made[1], gone=True))
    assert ledgers.automatic_groups("a") == 0


@pytest.mark.parametrize(
    ("first", "second", "known"),
    [
        pytest.param("9", "10", "10", id="versions are numbers"),
        pytest.param("10", "9", "10", id="an older one is late"),
        pytest.param("10", "10", "10", id="the same again"),
    ],
)
def test_the_newest_ledger_counts_wherever_it_comes_from(first: str, second: str, known: str) -> None:
    for sources in ((0, 1), (1, 0)):
        ledgers = LedgerCache()
        takes = (ledgers.remember, lambda stored, ledgers=ledgers: ledgers.sink(told(stored)))
        takes[sources[0]](ledger(first))
        takes[sources[1]](ledger(second, hold("g", 1)))
        found = ledgers.ledger("a")
        assert found is not None
        assert found.resource_version == known
        assert bool(found.holds) is (second == known)


def test_a_deleted_ledger_is_known_no_more() -> None:
    ledgers = LedgerCache()
    ledgers.remember(ledger("9", hold("g", 1)))
    ledgers.sink(told(None, "somebody-elses"))
    assert ledgers.ledger("a") is not None
    ledgers.sink(told(None))
    assert ledgers.ledger("a") is None
    ledgers.sink(told(None))
    assert ledgers.has_reservations("a") is False


def test_the_age_of_an_entry_runs_while_newer_ledgers_have_it() -> None:
    clock = Clock()
    ledgers = LedgerCache(clock)
    key = (False, "p")

    def is_old() -> bool:
        return ledgers.entry_ages.older("a", [key], 10.0, 10.0) == {key}

    ledgers.remember(ledger("5"))
    ledgers.remember(ledger("9", charge("p")))
    clock.now = 9.0
    for later in (ledger("9", charge("p")), ledger("8"), ledger("10", charge("p"), charge("q"))):
        ledgers.sink(told(later))
    assert not is_old()
    clock.now = 10.0
    assert is_old()
    ledgers.sink(told(ledger("11", charge("q"))))
    assert not is_old()
    ledgers.sink(told(ledger("12", charge("p"))))
    clock.now = 20.0
    assert is_old()
    ledgers.sink(told(None))
    assert not is_old(), "a deleted ledger has no entries"


def test_only_ledgers_of_its_name_are_taken() -> None:
    ledgers, elastic = LedgerCache(), LedgerCache(name="elastic")
    for cache in (ledgers, elastic):
        cache.sink(told(ledger("9", hold("g", 1))))
        cache.sink(Event("ADDED", PODS, f"b/{NAME}", "", ledger("9", hold("g", 1), namespace="b")))
    assert ledgers.namespaces() == {"a"}
    assert elastic.namespaces() == set()


# Groups


def test_of_what_came_and_went_nothing_is_kept() -> None:
    clock = Clock()
    ledgers = LedgerCache(clock)
    before = entries(ledgers)
    one = msgspec.structs.replace(pod_group("g", 1), automatic=True)
    for group in (one, msgspec.structs.replace(one, uid="again"), pod_group("h", 1)):
        ledgers.sink(grouped(group))
    ledgers.remember(ledger("9", hold("g", 1), charge("p")))
    ledgers.overdue("a", ["x"], 60.0)
    assert entries(ledgers) > before
    ledgers.overdue("a", [], 60.0)
    ledgers.sink(told(None))
    for group in (msgspec.structs.replace(one, uid="again"), pod_group("h", 1)):
        ledgers.sink(grouped(group, gone=True))
    gone = [uid for uid in ("uid-g", "again", "uid-h") if uid in ledgers.deleted_groups]
    assert gone == ["uid-g", "again", "uid-h"]
    assert (entries(ledgers), ledgers.namespaces(), ledgers.has_reservations("a")) == (
        before + len(gone),
        set(),
        False,
    )


def test_a_group_that_changes_or_was_never_known_is_not_gone() -> None:
    ledgers, group = LedgerCache(), pod_group("g", 1)
    ledgers.sink(grouped(pod_group("h", 1), gone=True))
    assert entries(ledgers.deleted_groups) == 0
    changed = msgspec.structs.replace(group, total={"cpu": 2})
    for one in (group, changed):
        ledgers.sink(grouped(one))
    assert entries(ledgers.deleted_groups) == 0
    assert list(ledgers.groups("a")) == [group.uid]
    assert ledgers.group("a", "g") is ledgers.groups("a")[group.uid] is changed


def test_thousands_of_groups_of_one_tenant_do_not_slow_down_others() -> None:
    """Each change was as dear as there were groups, while all reviews waited: 3 s for these."""
    ledgers, template = LedgerCache(), pod_group("g", 1)
    groups = [msgspec.structs.replace(template, name=f"g{n}", uid=f"u{n}", total={}) for n in range(10_000)]

    def come_and_go() -> None:
        for group in groups:
            ledgers.sink(grouped(group))
        for _ in range(1_000):
            assert not ledgers.has_reservations("a")
            assert not ledgers.has_group("a", "none")
        assert ledgers.has_group("a", "g9999")
        for group in groups:
            ledgers.sink(grouped(group, gone=True))

    _, seconds = measured(come_and_go)
    assert seconds < 0.5
    assert ledgers.groups("a") == {}
    assert ledgers.namespaces() == set()


def test_a_group_that_reserves_no_more_holds_nothing() -> None:
    ledgers, group = LedgerCache(), pod_group("g", 1)
    ledgers.sink(grouped(group))
    assert ledgers.has_reservations("a")
    ledgers.sink(grouped(msgspec.structs.replace(group, succeeded=True)))
    assert not ledgers.has_reservations("a")
    assert set(ledgers.groups("a")) == {group.uid}
    ledgers.sink(grouped(msgspec.structs.replace(group, uid="again")))
    assert ledgers.has_reservations("a")
    assert set(ledgers.groups("a")) == {"again"}
    assert group.uid in ledgers.deleted_groups


def test_a_group_that_is_made_anew_is_another_one() -> None:
    ledgers = LedgerCache()
    old, new = pod_group("g", 1), msgspec.structs.replace(pod_group("g", 1), uid="again")
    ledgers.sink(grouped(old))
    ledgers.sink(grouped(old, gone=True))
    ledgers.sink(grouped(new))
    ledgers.sink(grouped(pod_group("h", 1)))
    assert set(ledgers.groups("a")) == {"again", "uid-h"}
    assert [uid in ledgers.deleted_groups for uid in ("uid-g", "again", "uid-h")] == [True, False, False]
    assert [ledgers.has_group("a", name) for name in ("g", "h", "i")] == [True, True, False]
    assert not ledgers.has_group("b", "g")


def test_a_returned_ledger_is_a_copy() -> None:
    ledgers = LedgerCache()
    ledgers.sink(grouped(pod_group("g", 1)))
    ledgers.groups("a").clear()
    assert set(ledgers.groups("a")) == {"uid-g"}


WHO_HOLDS: list[tuple[str, list[PodGroup], ReservationLedger | None, bool, bool]] = [
    ("nobody", [], None, False, False),
    ("a hold", [], ledger("1", hold("g", 1)), True, True),
    ("a hold that ended", [], ledger("1", Hold("g", "uid-g", 1, {"cpu": 1}, ended=True)), False, True),
    ("charges alone", [], ledger("1", charge("p")), False, True),
    ("an empty ledger", [], ledger("1"), False, False),
    ("a group without a hold", [pod_group("g", 1)], None, True, True),
    (
        "a group whose hold ended",
        [pod_group("g", 1)],
        ledger("1", Hold("g", "uid-g", 1, {}, ended=True)),
        False,
        True,
    ),
    ("a group that asks for nothing", [PodGroup("a", "g", "u", "1", 0.0, 1, {}, False)], None, False, False),
    ("a group that is done", [PodGroup("a", "g", "u", "1", 0.0, 1, {"cpu": 1}, True)], None, False, False),
]


@pytest.mark.parametrize(
    ("groups", "stored", "holds", "looked_after"), [w[1:] for w in WHO_HOLDS], ids=[w[0] for w in WHO_HOLDS]
)
def test_which_namespaces_hold_something(
    groups: list[PodGroup], stored: ReservationLedger | None, holds: bool, looked_after: bool
) -> None:
    ledgers = LedgerCache()
    for group in groups:
        ledgers.sink(grouped(group))
    if stored is not None:
        ledgers.remember(stored)
    assert ledgers.has_reservations("a") is holds
    assert ledgers.namespaces() == ({"a"} if looked_after else set())
    assert not ledgers.has_reservations("b")


def test_the_time_out_runs_from_the_first_sight_without_a_break() -> None:
    clock = Clock()
    ledgers = LedgerCache(clock)

    def overdue(*uids: str, namespace: str = "a") -> set[str]:
        return ledgers.overdue(namespace, uids, 60.0)

    assert overdue("x", "y") == set()
    clock.now = 59.0
    assert overdue("x", "y") == set()
    assert overdue("x", namespace="b") == set()
    clock.now = 60.0
    assert overdue("x", "y", "z") == {"x", "y"}
    assert overdue() == set()
    assert overdue("x") == set(), "everybody was away for a moment"
    clock.now = 120.0
    assert overdue("x", namespace="b") == {"x"}
    assert overdue("x") == {"x"}


# Pods


def seen(*pods: Any, synced: bool = True) -> NamespacePods:
    out = NamespacePods()
    out.watch = FakeWatch(out.sink, ())
    for pod in pods:
        out.watch.tell(pod)
    if synced:
        out.sink(Event("SYNCED", PODS))
    return out


def test_pods_are_known_once_all_were_listed() -> None:
    assert NamespacePods().pods("") is None
    assert seen(use("p"), synced=False).pods("") is None
    assert set(seen(use("p"), use("q")).pods("5") or ()) == {"p", "q"}


def test_a_watch_that_is_behind_is_not_believed() -> None:
    out = seen(use("p", version="9"))
    assert out.pods("10") is None
    assert out.watch is not None
    out.watch.tell(use("q", version="10"))  # type: ignore[attr-defined]
    assert set(out.pods("10") or ()) == {"p", "q"}


def test_a_pod_that_is_gone_is_remembered_as_gone() -> None:
    out = seen(use("p"), use("q"))
    out.sink(Event("DELETED", PODS, "a/p", "p", None))
    assert set(out.pods("") or ()) == {"q"}
    assert [uid in out.deleted for uid in "pq"] == [True, False]
    out.sink(Event("DELETED", PODS, "a/stranger", "s", None))
    assert "s" in out.deleted


def test_a_pod_of_the_same_name_takes_the_place_of_the_old_one() -> None:
    again = msgspec.structs.replace(use("p"), uid="again")
    out = seen(use("p"), again)
    assert set(out.pods("") or ()) == {"again"}
    newer = msgspec.structs.replace(again, phase="Succeeded")
    out.sink(Event("MODIFIED", PODS, "a/p", "again", newer))
    assert (out.pods("") or {})["again"].phase == "Succeeded"


def test_a_namespace_is_watched_once_while_any_caller_needs_it() -> None:
    made: list[tuple[str, FakeWatch]] = []

    def make(namespace: str, sink: Any) -> FakeWatch:
        watch = FakeWatch(sink, [use("p")])
        made.append((namespace, watch))
        return watch

    watches = PodWatches(make)
    first = watches.follow("a")
    assert watches.follow("a") is first
    watches.follow("b")
    assert [name for name, _ in made] == ["a", "b"]
    watches.keep(["a"])
    assert [watch.running for _, watch in made] == [True, False]
    watches.keep(["a"])
    watches.keep([])
    assert [watch.running for _, watch in made] == [False, False]
    assert watches.follow("a") is not first, "what was known is not kept up to date any more"


def test_the_deleted_are_remembered_up_to_a_number() -> None:
    gone = DeletedUids(3)
    for uid in "abcd":
        gone.add(uid)
    assert [uid in gone for uid in "abcd"] == [False, True, True, True]


# What the store makes of it


def test_the_first_hold_waits_for_pods_on_their_way_and_the_next_does_not() -> None:
    replica = Replica(FakeApi("9"), gather=0.5, barrier=7.0)
    replica.reserve(hold("g", 1), dry_run=True)
    replica.reserve(hold("huge", 99))
    assert 7.0 not in replica.slept
    replica.reserve(hold("g", 1))
    assert replica.slept.count(7.0) == 1
    replica.reserve(hold("h", 1))
    assert replica.slept.count(7.0) == 1
    assert replica.slept.count(0.5) == 5, "everybody is waited with, the first one twice"


def test_a_first_hold_that_pods_on_their_way_exceed_is_taken_back() -> None:
    api = FakeApi("3")
    replica = Replica(api)
    put = api.put

    def put_and_pod(wanted: ReservationLedger) -> ReservationLedger:
        done = put(wanted)
        api.members["p"] = use("p", 2)
        return done

    api.put = put_and_pod  # type: ignore[method-assign]
    assert "requested: cpu=2, used: cpu=2, reserved: cpu=0, limited: cpu=3" in replica.reserve(hold("g", 2))
    assert api.stored is not None
    assert (api.stored.holds, api.stored.held) == ((), {})


def test_reconciling_says_whether_there_was_anything_to_do() -> None:
    api = FakeApi()
    replica = Replica(api)
    replica.reserve(hold("g", 1))
    api.existing["uid-g"] = pod_group("g", 1)
    replica.ledgers.sink(grouped(pod_group("g", 1)))
    assert replica.store.reconcile("a") is False
    replica.ledgers.sink(grouped(pod_group("g", 1), gone=True))
    del api.existing["uid-g"]
    api.forget_calls()
    assert replica.store.reconcile("a") is True
    assert api.stored is not None
    assert (api.stored.holds, api.calls["put"]) == ((), 1)
    assert replica.store.reconcile("a") is False
