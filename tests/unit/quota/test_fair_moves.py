"""Fair moves: what a quota may take from one that borrows more, as floors and as the proof of a set."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.model.names import FAIR_SHARE
from scheduler_core.model.quotas.borrowing import Borrowing
from scheduler_core.quota.fair_moves import FairMove, fair_move, floors, is_fair, no_fair_move
from scheduler_core.quota.ledger import QuotaLedger, charged
from tests.support.fair_model import Model, Work, lacks, quota_of, taken_by, useful

Amounts = dict[str, int]


def ledger_of(*quotas: tuple[str, Amounts, Amounts, Fraction | int]) -> QuotaLedger:
    """Quotas as (namespace, min, use, weight)."""
    ledger = QuotaLedger()
    ledger.borrowing = Borrowing(preemption=FAIR_SHARE)
    for name, low, used, weight in quotas:
        ledger.put_quota(quota_of(name, low, Fraction(weight)))
        ledger.charge(name, f"{name}-use", used)
    return ledger


def moved(ledger: QuotaLedger, name: str, asks: Amounts) -> FairMove | None:
    quota = ledger.quota_of(name)
    assert quota is not None
    return fair_move(ledger, quota, charged(asks), {}, {})


def kept(ledger: QuotaLedger, move: FairMove, name: str) -> dict[str, int] | None:
    quota = ledger.quota_of(name)
    assert quota is not None
    return floors(ledger, move, quota)


EIGHT = ("lender", {"gpu": 8}, {}, 1)


@pytest.mark.parametrize(
    ("asks", "taken", "fair"),
    [(4, 4, True), (3, 4, True), (5, 6, False), (4, 5, False)],
    ids=["to equal shares", "an odd one stays idle", "beyond the victim", "one too many"],
)
def test_the_share_with_the_work_is_at_most_that_of_the_victim_after(
    asks: int, taken: int, fair: bool
) -> None:
    ledger = ledger_of(EIGHT, ("p1", {}, {"gpu": 8}, 1), ("p2", {}, {}, 1))
    move = moved(ledger, "p2", {"gpu": asks})
    assert move is not None
    assert is_fair(ledger, move, {"p1": {"gpu": taken}}) is fair


def test_why_there_is_none_has_both_shares() -> None:
    ledger = ledger_of(EIGHT, ("p1", {}, {"gpu": 8}, 2), ("p2", {}, {}, 1))
    move = moved(ledger, "p2", {"gpu": 5})
    assert move is not None
    assert no_fair_move(ledger, move) == (
        "no fair move: with the work ElasticQuota p2/quota would borrow 5/8 of gpu, "
        "and ElasticQuota p1/quota (weight 2) borrows 8/8 and would borrow 3/8 after giving 5"
    )
    alone = ledger_of(EIGHT, ("p2", {}, {"gpu": 8}, 1))
    move = moved(alone, "p2", {"gpu": 1})
    assert move is not None
    assert no_fair_move(alone, move).endswith("9/8 of gpu, and no other quota borrows any")


def test_who_needs_no_fair_move() -> None:
    ledger = ledger_of(("lender", {"gpu": 6}, {}, 1), ("p1", {"gpu": 2}, {"gpu": 8}, 1), ("zero", {}, {}, 0))
    ledger.put_quota(quota_of("p2", {}, Fraction(1)))
    assert moved(ledger, "p2", {"gpu": 1}) is not None
    assert moved(ledger, "lender", {"gpu": 6}) is None, "a claim within min reclaims"
    assert moved(ledger, "zero", {"gpu": 1}) is None, "weight 0 takes nothing"
    assert moved(ledger, "p2", {"cpu": 1}) is None, "nothing is short"
    ledger.borrowing = Borrowing()
    assert moved(ledger, "p2", {"gpu": 1}) is None, "fair moves are off"


def test_a_quota_of_weight_0_gives_all_that_it_borrows_and_no_more() -> None:
    ledger = ledger_of(
        EIGHT, ("zero", {"gpu": 2}, {"gpu": 4}, 0), ("p1", {}, {"gpu": 6}, 1), ("p2", {}, {}, 1)
    )
    move = moved(ledger, "p2", {"gpu": 2})
    assert move is not None
    assert kept(ledger, move, "zero") == {"gpu": 2}
    assert is_fair(ledger, move, {"zero": {"gpu": 2}})
    assert not is_fair(ledger, move, {"zero": {"gpu": 3}})


def test_a_min_in_another_resource_is_kept() -> None:
    ledger = ledger_of(
        ("lender", {"gpu": 4, "cpu": 4}, {}, 1),
        ("p1", {"cpu": 3}, {"gpu": 4, "cpu": 3}, 1),
        ("p2", {}, {}, 1),
    )
    move = moved(ledger, "p2", {"gpu": 1})
    assert move is not None
    assert is_fair(ledger, move, {"p1": {"gpu": 1}})
    assert not is_fair(ledger, move, {"p1": {"gpu": 1, "cpu": 1}})


def test_only_the_contested_resource_makes_a_move() -> None:
    """Over CPU b would have 1/9 and a 0; by the largest shares, of memory, the two would swap for ever."""
    ledger = ledger_of(
        ("lender", {"cpu": 4, "mem": 6}, {"cpu": 3}, 1),
        ("a", {"cpu": 2}, {"cpu": 3, "mem": 3}, 1),
        ("b", {"cpu": 3}, {"cpu": 3, "mem": 3}, 1),
    )
    move = moved(ledger, "b", {"cpu": 1})
    assert move is not None
    assert move.short == {"cpu": 1}
    assert kept(ledger, move, "a") is None


class NewestFirst(Model):
    """A model in which what started last goes first."""

    def chosen(self, move: FairMove) -> list[Work] | None:
        gone: list[Work] = []
        for work in reversed(self.running):
            allowed = work.namespace != move.quota.namespace and useful(move, gone, work)
            if allowed and is_fair(self.ledger, move, taken_by([*gone, work])):
                gone.append(work)
            if not lacks(move, gone):
                return gone
        return None


def test_four_quotas_that_would_go_round_come_to_rest() -> None:
    """Compared in contested resources alone, the last of each list would be evicted for ever, in turn."""
    lists: dict[str, list[Amounts]] = {
        "a": [{"gpu": 1}, {"gpu": 1}, {"cpu": 1, "gpu": 1}],
        "c": [{"gpu": 1}, {"gpu": 1}],
        "e": [{"cpu": 1}, {"cpu": 1}, {"cpu": 1, "gpu": 1}],
        "b": [{"cpu": 1}, {"cpu": 1}],
    }
    one = Fraction(1)
    lender = quota_of("lender", {"cpu": 4, "gpu": 4}, one)
    model = NewestFirst([lender, *(quota_of(name, {}, one) for name in lists)])
    for name, works in lists.items():
        for number, asks in enumerate(works):
            work = Work(f"{name}{number}", name, asks)
            late = number == len(works) - 1 and name != "a"
            (model.waiting.append if late else model.start)(work)
    assert model.rest(50)
    assert model.moves == 1


@given(
    used=st.integers(0, 40),
    low=st.integers(0, 10),
    own=st.integers(0, 20),
    asks=st.integers(1, 20),
    weights=st.tuples(*[st.sampled_from([Fraction(1), Fraction(2), Fraction(1, 3), Fraction(7, 2)])] * 2),
    taken=st.integers(1, 40),
)
def test_floors_say_the_same_as_the_proof_where_one_resource_is_short(
    used: int, low: int, own: int, asks: int, weights: tuple[Fraction, Fraction], taken: int
) -> None:
    room = max(1, used + own + asks - 1 - low)
    ledger = ledger_of(
        ("lender", {"gpu": room}, {}, 1),
        ("v", {"gpu": low}, {"gpu": used}, weights[0]),
        ("p", {}, {"gpu": own}, weights[1]),
    )
    move = moved(ledger, "p", {"gpu": asks})
    if move is None or taken > used:
        return
    keeps = kept(ledger, move, "v")
    fair = is_fair(ledger, move, {"v": {"gpu": taken}})
    assert fair == (keeps is not None and used - taken >= keeps["gpu"])
