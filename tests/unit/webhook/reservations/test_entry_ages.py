"""How old ledger entries are, and when entries without objects are a flood: every limit from both sides."""

from __future__ import annotations

import pytest

from scheduler_core.model.quotas.reservation_ledger import Charge, Hold, Key, ReservationLedger
from tests.support.kept import entries as kept
from tests.unit.webhook.reservations.reservations import Clock
from webhook.reservations.entry_ages import FLOOD_SECONDS, LONG_SECONDS, MANY, EntryAges

P: Key = (False, "p")
Q: Key = (False, "q")
G: Key = (True, "g")
# The hold of a group that has the uid of a pod.
TWIN: Key = (True, "p")


def ledger(*keys: Key, announced: tuple[Key, ...] = (), ended: tuple[Key, ...] = ()) -> ReservationLedger:
    holds = tuple(
        Hold(uid, uid, 1, {}, ended=(True, uid) in ended, announced=(True, uid) in announced)
        for is_hold, uid in keys
        if is_hold
    )
    charges = tuple(
        Charge(uid, uid, "", {}, announced=(False, uid) in announced) for is_hold, uid in keys if not is_hold
    )
    return ReservationLedger("a", holds=holds, charges=charges)


def ages_at(*seen: tuple[float, ReservationLedger]) -> tuple[Clock, EntryAges]:
    """Ages that saw these ledgers, one after the other."""
    clock = Clock()
    ages = EntryAges(clock)
    for clock.now, one in seen:
        ages.observe(one)
    return clock, ages


# name, (when, ledger) seen, the moment of the question, which are 10 s old or, if announced, 3 s
OLDER: list[tuple[str, list[tuple[float, ReservationLedger]], float, set[Key]]] = [
    ("nothing was seen", [], 100.0, set()),
    ("a moment too young", [(1.0, ledger(P, G))], 10.9, set()),
    ("exactly old enough", [(1.0, ledger(P, G))], 11.0, {P, G}),
    ("an announced one a moment too young", [(1.0, ledger(P, announced=(P,)))], 3.9, set()),
    ("an announced one has another limit", [(1.0, ledger(P, Q, announced=(P,)))], 4.0, {P}),
    ("an age runs on through newer ledgers", [(1.0, ledger(P)), (9.0, ledger(P, Q))], 11.0, {P}),
    (
        "an established entry is young again",
        [(1.0, ledger(P, announced=(P,))), (9.0, ledger(P))],
        18.9,
        set(),
    ),
    (
        "an established entry is old 10 s after that",
        [(1.0, ledger(P, announced=(P,))), (9.0, ledger(P))],
        19.0,
        {P},
    ),
    (
        "an entry that went and came is young again",
        [(1.0, ledger(P, Q)), (2.0, ledger(Q)), (3.0, ledger(P, Q))],
        12.0,
        {Q},
    ),
    (
        "so it is if the ledger was empty between",
        [(1.0, ledger(P)), (2.0, ledger()), (3.0, ledger(P))],
        12.0,
        set(),
    ),
    ("a hold is no pod of its uid", [(1.0, ledger(TWIN)), (9.0, ledger(TWIN, P))], 11.0, {TWIN}),
    ("an ended hold is no entry", [(1.0, ledger(G, P, ended=(G,)))], 100.0, {P}),
    ("one that is gone has no age", [(1.0, ledger(P, Q)), (2.0, ledger(Q))], 100.0, {Q}),
]


@pytest.mark.parametrize(
    ("seen", "now", "old"), [case[1:] for case in OLDER], ids=[case[0] for case in OLDER]
)
def test_how_old_entries_are(seen: list[tuple[float, ReservationLedger]], now: float, old: set[Key]) -> None:
    clock, ages = ages_at(*seen)
    clock.now = now
    assert ages.older("a", [P, Q, G, TWIN], 10.0, 3.0) == old
    assert ages.older("a", [], 10.0, 3.0) == set(), "only of those that are asked for"
    assert ages.older("b", [P, Q, G, TWIN], 10.0, 3.0) == set(), "of one namespace"


def test_the_oldest_are_first_and_unknown_ones_last() -> None:
    _, ages = ages_at((5.0, ledger(Q)), (6.0, ledger(Q, G)), (7.0, ledger(Q, G, P)))
    assert ages.oldest_first("a", [TWIN, P, G, Q]) == [Q, G, P, TWIN]
    assert ages.oldest_first("a", [G, P]) == [G, P]
    assert ages.oldest_first("b", [P, G]) == [P, G], "of another namespace, none is known"


def test_of_a_ledger_that_is_empty_or_deleted_nothing_is_kept() -> None:
    before = kept(EntryAges())
    for gone in (lambda ages: ages.observe(ledger()), lambda ages: ages.forget("a")):
        clock, ages = ages_at((1.0, ledger(P, G)))
        clock.now = 100.0
        assert ages.older("a", [P, G], 10.0, 3.0) == {P, G}
        gone(ages)
        gone(ages)
        assert ages.older("a", [P, G], 10.0, 3.0) == set()
        assert ages.oldest_first("a", [P, G]) == [P, G]
        assert kept(ages) == before


# name, provisional entries, of which so many were seen at 1 s, the moment, whether this is a flood
FLOODS: list[tuple[str, int, int, float, bool]] = [
    ("many, for long", MANY, MANY, 1.0 + LONG_SECONDS, True),
    ("more than many, for long", MANY + 5, MANY + 5, 9.0, True),
    ("one fewer than many", MANY - 1, MANY - 1, 9.0, False),
    ("many, a moment too short", MANY, MANY, 1.0 + LONG_SECONDS * 0.99, False),
    ("many, of which one is unknown", MANY, MANY - 1, 9.0, False),
    ("more than many, of which many are known", MANY + 1, MANY, 9.0, True),
]


@pytest.mark.parametrize("announced", [False, True], ids=["entered", "announced"])
@pytest.mark.parametrize(
    ("provisional", "seen", "now", "flood"), [case[1:] for case in FLOODS], ids=[case[0] for case in FLOODS]
)
def test_many_entries_without_objects_are_a_flood(
    provisional: int, seen: int, now: float, flood: bool, announced: bool
) -> None:
    keys: list[Key] = [(number % 2 == 0, f"u{number}") for number in range(provisional)]
    known = ledger(*keys[:seen], announced=tuple(keys) if announced else ())
    clock, ages = ages_at((1.0, known))
    clock.now = now
    ages.observe_provisional("a", keys)
    assert (ages.flooded("a"), ages.flooded("b")) == (flood, False)


def test_a_flood_lasts_a_while_after_it_was_last_seen() -> None:
    clock = Clock()
    ages = EntryAges(clock)
    assert not ages.flooded("a")
    ages.flood("a")
    clock.now = 4.0
    ages.flood("b")
    clock.now = FLOOD_SECONDS - 0.1
    assert (ages.flooded("a"), ages.flooded("b")) == (True, True)
    clock.now = FLOOD_SECONDS
    assert (ages.flooded("a"), ages.flooded("b")) == (False, True)
    ages.flood("b")
    clock.now += 4.0
    assert ages.flooded("b"), "it was extended"
    clock.now += FLOOD_SECONDS - 4.0
    assert not ages.flooded("b")


def test_floods_that_are_over_are_forgotten_at_the_next_one() -> None:
    clock = Clock()
    ages = EntryAges(clock)
    ages.flood("a")
    one = kept(ages)
    clock.now = FLOOD_SECONDS
    ages.flood("b")
    assert kept(ages) == one
    clock.now += 1.0
    ages.flood("c")
    assert kept(ages) > one
    assert ages.flooded("b"), "one that goes on is not forgotten"
