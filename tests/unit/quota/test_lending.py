"""Lending: amounts add up, no quota lends more than its unused min, and order does not matter."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.lending import Loan, apportion, balance, named_resources, shares
from tests.support.builders import make_quota

WEIGHTS = st.dictionaries(st.sampled_from("abcdefg"), st.integers(0, 10**12), max_size=7)


@given(weights=WEIGHTS, share=st.fractions(0, 1))
def test_parts_sum_to_the_amount_and_stay_within_weights(weights: dict[str, int], share: object) -> None:
    amount = int(sum(weights.values()) * share)  # type: ignore[operator]
    parts = apportion(amount, weights)
    assert sum(parts.values()) == amount
    assert all(0 < part <= weights[name] for name, part in parts.items())
    assert apportion(amount, dict(reversed(weights.items()))) == parts


ACCOUNTS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=6)


@given(accounts=ACCOUNTS)
def test_loans_balance(accounts: list[tuple[int, int]]) -> None:
    ledger = QuotaLedger()
    for i, (low, used) in enumerate(accounts):
        ledger.put_quota(make_quota(f"n{i}/q").min(gpu=low).obj())
        ledger.charge(f"n{i}", "u", {"nvidia.com/gpu": used})
    found = balance(ledger, "nvidia.com/gpu")
    over = {f"n{i}": used - low for i, (low, used) in enumerate(accounts)}
    assert found.borrowed == {name: value for name, value in over.items() if value > 0}
    unused = sum(-value for value in over.values() if value < 0)
    total = sum(loan.amount for loan in found.loans)
    assert total == sum(found.lent.values()) == min(unused, sum(found.borrowed.values()))
    for name in over:
        lent = sum(loan.amount for loan in found.loans if loan.lender == name)
        taken = sum(loan.amount for loan in found.loans if loan.borrower == name)
        assert lent == found.lent.get(name, 0) <= max(0, -over[name])
        assert taken <= found.borrowed.get(name, 0)


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "pods"]), st.integers(0, 9))


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), max_size=5))
def test_all_resources_in_one_pass_are_each_by_itself(
    quotas: list[tuple[dict[str, int], dict[str, int], dict[str, int]]],
) -> None:
    ledger = QuotaLedger()
    for i, (low, high, used) in enumerate(quotas):
        made = make_quota(f"n{i}/q").obj()
        ledger.put_quota(msgspec.structs.replace(made, min=low, max=high))
        ledger.charge(f"n{i}", "u", used)
    resources = [*named_resources(ledger), "nobody.io/names"]
    for name, found in shares(ledger, resources).items():
        whole = balance(ledger, name)
        assert (found.borrowed, found.lent) == (whole.borrowed, whole.lent)
        assert sum(whole.reclaimable.values()) == sum(found.lent.values())
        assert all(amount <= found.borrowed[borrower] for borrower, amount in whole.reclaimable.items())


def test_who_lends_to_whom() -> None:
    ledger = QuotaLedger()
    for name, low, used in (("a", 4, 6), ("b", 6, 3), ("c", 1, 0)):
        ledger.put_quota(make_quota(f"{name}/q").min(gpu=low).obj())
        ledger.charge(name, "u", {"nvidia.com/gpu": used})
    found = balance(ledger, "nvidia.com/gpu")
    assert found.lent == {"b": 2}
    assert found.loans == (Loan("nvidia.com/gpu", "b", "a", 2),)
    assert named_resources(ledger) == ["nvidia.com/gpu"]
