"""Fair moves come to rest from random states, whatever victims are chosen, and keep what they promise."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scheduler_core.quota.fair_moves import FairMove, is_fair
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.policy import lendable
from tests.support.fair_model import (
    Model,
    Rule,
    Taken,
    final_share_alone,
    random_model,
)
from tests.support.searches import cases

CASES = cases(400, "MUSTER_FAIR_CASES")
BLOCK = 100
MOST_MOVES = 300


def played(seed: int, rule: Rule = is_fair) -> tuple[Model, bool]:
    """A random model after all its work came, and whether it came to rest."""
    model, portions = random_model(seed, rule)
    for works in portions:
        model.waiting += works
        if not model.rest(MOST_MOVES):
            return model, False
    return model, True


def proved(ledger: QuotaLedger, move: FairMove, taken: Taken) -> bool:
    """The rule, with what it promises read from the numbers."""
    fair = is_fair(ledger, move, taken)
    for namespace, amounts in taken.items() if fair else ():
        quota = ledger.quota_of(namespace)
        assert quota is not None
        used = lendable(ledger, quota)
        for name, low in quota.min.items():
            left = used.get(name, 0) - amounts.get(name, 0)
            assert left >= low or used.get(name, 0) < low, "a quota lost min by fairness"
        for name in move.short:
            after = max(0, used.get(name, 0) - amounts.get(name, 0) - quota.min.get(name, 0))
            own, other = Fraction(move.borrows.get(name, 0)) / move.weight, quota.sharing.weight
            assert not other or own <= Fraction(after) / other, "the preemptor passed its victim"
    return fair


@pytest.mark.parametrize("block", range(0, CASES, BLOCK), ids="seeds from {}".format)
def test_fair_moves_come_to_rest(block: int) -> None:
    restless = [seed for seed in range(block, min(block + BLOCK, CASES)) if not played(seed, proved)[1]]
    assert not restless


def test_fair_moves_evict_no_more_than_those_by_the_final_share_alone() -> None:
    """In all cases together that come to rest by both rules; a single case may go either way."""
    evictions = others = 0
    for seed in range(0, CASES, 10):
        other, rests = played(seed, final_share_alone)
        if rests:
            evictions, others = evictions + played(seed)[0].evictions, others + other.evictions
    assert 0 < evictions <= others
