"""One batch of requests on one copy of the ledger: who is admitted, refused or announced, what is written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler_core.model.quotas.reservation_ledger import (
    Charge,
    Hold,
    Key,
    ReservationLedger,
    key_of,
)
from scheduler_core.quota.reservations.limits import MOST_HOLDS, LedgerFull
from scheduler_core.quota.reservations.usage import Shortage
from tests.unit.webhook.reservations.reservations import charge, hold, native, use
from webhook.reservations.batches import Waiter
from webhook.reservations.reservation_decisions import ReservationView, judge

Entry = Charge | Hold


def c(uid: str) -> Key:
    return (False, uid)


def h(group: str) -> Key:
    return (True, f"uid-{group}")


def announced(entry: Entry) -> Entry:
    return msgspec.structs.replace(entry, announced=True)


def ledger(*entries: Entry) -> ReservationLedger:
    holds = tuple(entry for entry in entries if isinstance(entry, Hold))
    charges = tuple(entry for entry in entries if isinstance(entry, Charge))
    return ReservationLedger("a", "9", holds=holds, charges=charges)


def new(asked: Entry, *, dry: bool = False) -> Waiter:
    return Waiter(asked, dry)


def again(asked: Entry, *ahead: Key, dry: bool = False) -> Waiter:
    """One that was announced beside the entries `ahead`."""
    return Waiter(asked, dry, again=True, ahead=frozenset(ahead), conditional=True)


def view(
    stored: ReservationLedger, provisional: set[Key], *, fresh: bool = True, used: int = 0
) -> ReservationView:
    """A namespace with 4 CPUs, of which existing pods use some."""
    pods = {"there": use("there", used)} if used else {}
    return ReservationView(stored, pods, [native(cpu="4")], frozenset(provisional), fresh)


def outcome(waiter: Waiter) -> str:
    """`admitted`, `conditional`, `short` or `full`; with the entries ahead where they matter."""
    if waiter.short:
        assert not waiter.conditional
        return "full" if isinstance(waiter.short[0], LedgerFull) else "short"
    if not waiter.conditional:
        return "admitted"
    return "conditional on " + " ".join(sorted(uid for _, uid in waiter.ahead))


P1, P3, Q3, X3 = charge("p", 1), charge("p", 3), charge("q", 3), charge("x", 3)
# name, the ledger, what of it is provisional, the batch, the outcomes, the entries to be written
CASES: list[tuple[str, list[Entry], set[Key], list[Waiter], list[str], list[Entry]]] = [
    ("nobody asks", [X3], set(), [], [], [X3]),
    ("there is room", [], set(), [new(P3)], ["admitted"], [P3]),
    ("there is none beside what exists", [X3], set(), [new(P3)], ["short"], [X3]),
    ("there is room beside what is provisional", [X3], {c("x")}, [new(P1)], ["admitted"], [P1, X3]),
    (
        "there would be room without what is provisional",
        [X3],
        {c("x")},
        [new(P3)],
        ["conditional on x"],
        [announced(P3), X3],
    ),
    ("not even without it", [X3], {c("x")}, [new(charge("p", 5))], ["short"], [X3]),
    (
        "the second of a batch depends on the first, which does not exist yet",
        [],
        set(),
        [new(P3), new(Q3)],
        ["admitted", "conditional on p"],
        [P3, announced(Q3)],
    ),
    (
        "who is announced is ahead of later ones, as those before it are",
        [X3],
        {c("x")},
        [new(P3), new(Q3)],
        ["conditional on x", "conditional on p x"],
        [announced(P3), announced(Q3), X3],
    ),
    (
        "who is refused is ahead of nobody",
        [X3],
        {c("x")},
        [new(charge("r", 5)), new(P3)],
        ["short", "conditional on x"],
        [announced(P3), X3],
    ),
    (
        "a hold and a pod with its uid are two entries",
        [X3],
        {(True, "x")},
        [new(P3)],
        ["short"],
        [X3],
    ),
    ("asked twice, it is entered once", [], set(), [new(P3), new(P3)], ["admitted", "admitted"], [P3]),
    ("a dry run is not entered", [], set(), [new(P3, dry=True)], ["admitted"], []),
    ("nor is one without room", [X3], set(), [new(P3, dry=True)], ["short"], [X3]),
    ("nor one on a condition", [X3], {c("x")}, [new(P3, dry=True)], ["conditional on x"], [X3]),
    (
        "a dry run sees requests after it in the batch",
        [],
        set(),
        [new(P3, dry=True), new(Q3)],
        ["conditional on q", "admitted"],
        [Q3],
    ),
    (
        "a dry run sees those before it",
        [],
        set(),
        [new(P3, dry=True), new(Q3, dry=True)],
        ["admitted", "conditional on p"],
        [],
    ),
    (
        "but none that has a condition",
        [X3],
        {c("x")},
        [new(P3, dry=True), new(charge("q", 1), dry=True)],
        ["conditional on x", "admitted"],
        [X3],
    ),
    (
        "no dry run is written with what is entered",
        [],
        set(),
        [new(Q3), new(charge("p", 1), dry=True)],
        ["admitted", "admitted"],
        [Q3],
    ),
    ("a group", [], set(), [new(hold("g", 3))], ["admitted"], [hold("g", 3)]),
    (
        "a group on a condition",
        [hold("x", 3)],
        {h("x")},
        [new(hold("g", 3))],
        ["conditional on uid-x"],
        [announced(hold("g", 3)), hold("x", 3)],
    ),
    ("a group that has its hold", [hold("g", 4)], set(), [new(hold("g", 4))], ["admitted"], [hold("g", 4)]),
    # Judged again
    (
        "its object exists now",
        [announced(P3), X3],
        {c("x")},
        [again(P3, c("x"))],
        ["admitted"],
        [announced(P3), X3],
    ),
    (
        "those ahead were released: there is room",
        [announced(P3)],
        {c("p")},
        [again(P3, c("x"))],
        ["admitted"],
        [P3],
    ),
    (
        "those ahead exist: there is none, and it is taken out",
        [announced(P3), X3],
        {c("p")},
        [again(P3, c("x"))],
        ["short"],
        [X3],
    ),
    (
        "those ahead are still provisional",
        [announced(P3), X3],
        {c("p"), c("x")},
        [again(P3, c("x"))],
        ["conditional on x"],
        [announced(P3), X3],
    ),
    (
        "some of those ahead are still provisional",
        [announced(P3), charge("y", 1), X3],
        {c("p"), c("x")},
        [again(P3, c("x"), c("y"), c("z"))],
        ["conditional on x"],
        [announced(P3), X3, charge("y", 1)],
    ),
    (
        "without those ahead there is no room either",
        [announced(P3), charge("y", 3), X3],
        {c("p"), c("x")},
        [again(P3, c("x"), c("y"))],
        ["short"],
        [X3, charge("y", 3)],
    ),
    (
        "what came later does not count",
        [announced(P3), X3],
        {c("p"), c("x")},
        [again(P3)],
        ["admitted"],
        [P3, X3],
    ),
    (
        "what came later counts once it exists",
        [announced(P3), X3],
        {c("p")},
        [again(P3)],
        ["short"],
        [X3],
    ),
    ("one that was released asks as a new one", [], set(), [again(P3, c("x"))], ["admitted"], [P3]),
    (
        "so it does if only a hold has its uid",
        [Hold("g", "p", 1, {})],
        {(True, "p")},
        [again(P3)],
        ["admitted"],
        [Hold("g", "p", 1, {}), P3],
    ),
    (
        "a group is judged again",
        [announced(hold("g", 3)), hold("x", 3)],
        {h("g")},
        [again(hold("g", 3), h("x"))],
        ["short"],
        [hold("x", 3)],
    ),
    (
        "a group is established",
        [announced(hold("g", 3))],
        {h("g")},
        [again(hold("g", 3), h("x"))],
        ["admitted"],
        [hold("g", 3)],
    ),
    (
        "a dry run is judged again without an entry",
        [],
        set(),
        [again(P3, c("x"), dry=True)],
        ["admitted"],
        [],
    ),
    ("and is refused", [X3], set(), [again(P3, c("x"), dry=True)], ["short"], [X3]),
    (
        "and waits on",
        [X3],
        {c("x")},
        [again(P3, c("x"), dry=True)],
        ["conditional on x"],
        [X3],
    ),
    (
        "for it, what came later does not count",
        [X3],
        {c("x")},
        [again(P3, c("y"), dry=True)],
        ["admitted"],
        [X3],
    ),
    (
        "a dry run leaves an entry of its uid alone",
        [announced(P3)],
        {c("p")},
        [again(P3, dry=True)],
        ["admitted"],
        [announced(P3)],
    ),
    (
        "a dry run that is refused leaves it, too",
        [announced(P3), X3],
        {c("p")},
        [again(P3, c("x"), dry=True)],
        ["short"],
        [announced(P3), X3],
    ),
    (
        "what one gives up is there for the next, whatever their order",
        [announced(P3), charge("y", 1), X3],
        {c("p")},
        [new(charge("q", 1)), again(P3, c("x"), c("y"))],
        ["short", "short"],
        [X3, charge("y", 1)],
    ),
    (
        "a new one takes the room that one gave up",
        [announced(P3), X3],
        {c("p")},
        [new(charge("q", 1)), again(P3, c("x"))],
        ["admitted", "short"],
        [charge("q", 1), X3],
    ),
]


def written(one: ReservationLedger) -> list[Entry]:
    return sorted((*one.holds, *one.charges), key=key_of)


@pytest.mark.parametrize(
    ("entries", "provisional", "batch", "outcomes", "wanted"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_a_batch(
    entries: list[Entry], provisional: set[Key], batch: list[Waiter], outcomes: list[str], wanted: list[Entry]
) -> None:
    asked = [fresh_copy(waiter) for waiter in batch]
    result = judge(view(ledger(*entries), provisional), asked)
    assert [outcome(waiter) for waiter in asked] == outcomes
    assert written(result) == sorted(wanted, key=key_of)


def fresh_copy(waiter: Waiter) -> Waiter:
    """A copy, as outcomes are set in place."""
    return Waiter(waiter.asked, waiter.dry_run, waiter.again, waiter.ahead, waiter.conditional)


def test_on_what_was_not_just_read_nobody_is_announced() -> None:
    stored = ledger(X3)
    for fresh, said in ((False, "short"), (True, "conditional on x")):
        waiter = new(P3)
        result = judge(view(stored, {c("x")}, fresh=fresh), [waiter])
        assert outcome(waiter) == said
        assert len(result.charges) == (2 if fresh else 1)
    waiter = new(P1)
    judge(view(stored, {c("x")}, fresh=False), [waiter])
    assert (outcome(waiter), waiter.ahead) == ("admitted", {c("x")})


def test_a_refusal_names_what_is_lacking_without_what_is_provisional() -> None:
    waiter = new(P3)
    judge(view(ledger(charge("x", 1)), {c("x")}, used=2), [waiter])
    (short,) = waiter.short
    assert isinstance(short, Shortage)
    assert (short.requested, short.used, short.limited) == ({"cpu": 3000}, {"cpu": 2000}, {"cpu": 4000})
    waiter = again(P3, c("x"))
    judge(view(ledger(announced(P3), charge("x", 1)), {c("p"), c("x")}, used=2), [waiter])
    (short,) = waiter.short
    assert isinstance(short, Shortage)
    assert short.used == {"cpu": 2000}


def small(number: int) -> Hold:
    return Hold(f"g{number:04}", f"u{number:04}", 1, {"cpu": 1})


# name, holds there, how many of them are provisional, the batch, the outcomes, holds that are written
FULL: list[tuple[str, int, int, list[Entry], list[str], int]] = [
    ("one place is left", MOST_HOLDS - 1, 0, [hold("g", 1)], ["admitted"], MOST_HOLDS),
    ("no place is left", MOST_HOLDS, 0, [hold("g", 1)], ["full"], MOST_HOLDS),
    (
        "one place is left for two",
        MOST_HOLDS - 1,
        0,
        [hold("g", 1), hold("h", 1)],
        ["admitted", "full"],
        MOST_HOLDS,
    ),
    ("those that are provisional take no place", MOST_HOLDS, 1, [hold("g", 1)], ["admitted"], MOST_HOLDS + 1),
    (
        "theirs is one place",
        MOST_HOLDS,
        1,
        [hold("g", 1), hold("h", 1)],
        ["admitted", "full"],
        MOST_HOLDS + 1,
    ),
    ("one that has its place", MOST_HOLDS, 0, [small(7)], ["admitted"], MOST_HOLDS),
    (
        "one that is asked for twice takes one place",
        MOST_HOLDS - 2,
        0,
        [hold("g", 1), hold("g", 1), hold("h", 1), hold("i", 1)],
        ["admitted", "admitted", "admitted", "full"],
        MOST_HOLDS,
    ),
    (
        "a pod needs no place",
        MOST_HOLDS - 1,
        0,
        [P1, hold("g", 1), P1, hold("h", 1)],
        ["admitted", "admitted", "admitted", "full"],
        MOST_HOLDS,
    ),
    (
        "a group that is too large takes none",
        MOST_HOLDS - 1,
        0,
        [hold("g", 9), hold("h", 1)],
        ["short", "admitted"],
        MOST_HOLDS,
    ),
]


@pytest.mark.parametrize(
    ("there", "doubtful", "batch", "outcomes", "holds"),
    [case[1:] for case in FULL],
    ids=[case[0] for case in FULL],
)
@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "remembered"])
def test_a_full_ledger_takes_no_further_hold(
    there: int, doubtful: int, batch: list[Any], outcomes: list[str], holds: int, fresh: bool
) -> None:
    stored = ledger(*(small(number) for number in range(there)))
    provisional = {key_of(one) for one in stored.holds[there - doubtful :]}
    waiters = [new(one) for one in batch]
    result = judge(view(stored, provisional, fresh=fresh), waiters)
    assert [outcome(waiter) for waiter in waiters] == outcomes
    assert len(result.holds) == holds
