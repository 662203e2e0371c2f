"""Costs of flavors in shares: the worked example of docs/flavors.md, and fair moves that come to rest."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from scheduler_core.model.quotas.quota_flavor import QuotaFlavor, parse_quota_flavor
from scheduler_core.quota.fair_order import FairOrder
from scheduler_core.quota.fair_shares import share_of
from scheduler_core.quota.flavor_costs import FlavorCosts
from scheduler_core.quota.ledger import QuotaLedger
from tests.support.builders import make_quota
from tests.support.every import every_seed
from tests.support.fair_model import Model, Work, quota_of

GPU = "nvidia.com/gpu"
HOT, OLD = "flavor.muster.dev/h100", "flavor.muster.dev/a100"


def flavor(name: str, cost: str, resource: str = GPU) -> QuotaFlavor:
    spec = {"resource": resource, "nodeSelector": {"gpu": name}, "cost": cost}
    return parse_quota_flavor({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": spec})


def costs(**of: str) -> dict[str, QuotaFlavor]:
    found = [flavor(name, cost) for name, cost in of.items()]
    return {item.virtual: item for item in found}


def used_by(ledger: QuotaLedger, namespace: str, hot: int, old: int) -> None:
    for number in range(hot + old):
        kind = HOT if number < hot else OLD
        ledger.charge(namespace, f"{namespace}-{number}", {GPU: 1, kind: 1})


@pytest.mark.parametrize(
    ("min_of_hot", "hot", "old", "share"),
    [
        # F5: two H100 weigh as much as five A100.
        (0, 2, 0, Fraction(5, 16)),
        (0, 0, 5, Fraction(5, 16)),
        (0, 1, 1, Fraction(7, 32)),
        # What is borrowed is taken to be of the dearest flavor first.
        (0, 9, 0, Fraction(45, 32)),
        # What is guaranteed of a flavor is not borrowed of it.
        (4, 4, 1, Fraction(1, 16)),
    ],
)
def test_a_dear_flavor_counts_more(min_of_hot: int, hot: int, old: int, share: Fraction) -> None:
    ledger = QuotaLedger()
    least = {GPU: 4} if min_of_hot else {}
    own = make_quota("a/q").min(**least, **({HOT: min_of_hot} if min_of_hot else {})).obj()
    ledger.put_quota(own)
    ledger.put_quota(make_quota("lender/q").min(**{GPU: 12 if least else 16}).obj())
    ledger.flavors_changed(costs(h100="2.5", a100="1"))
    used_by(ledger, "a", hot, old)
    found = share_of(ledger, own)
    # The flavor itself has a share where somebody guarantees it.
    assert found == max(share, Fraction(0))


def test_without_costs_a_share_is_that_of_plain_amounts() -> None:
    ledger = QuotaLedger()
    own = make_quota("a/q").min().obj()
    ledger.put_quota(own)
    ledger.put_quota(make_quota("lender/q").min(**{GPU: 16}).obj())
    used_by(ledger, "a", 2, 1)
    plain = share_of(ledger, own)
    ledger.flavors_changed(costs(h100="1", a100="1"))
    assert share_of(ledger, own) == plain == Fraction(3, 16)
    assert not FlavorCosts({})


def test_the_order_weighs_what_is_borrowed() -> None:
    ledger = QuotaLedger()
    for namespace, low in (("a", 0), ("b", 0), ("lender", 16)):
        ledger.put_quota(make_quota(f"{namespace}/q").min(**{GPU: low}).obj())
    ledger.flavors_changed(costs(h100="2.5", a100="1"))
    used_by(ledger, "a", 2, 0)
    used_by(ledger, "b", 0, 4)
    order = FairOrder(ledger)
    assert order.place("b", {GPU: 1}) < order.place("a", {GPU: 1})
    assert order.place("a", {GPU: 1, OLD: 1}) < order.place("a", {GPU: 1, HOT: 1})
    assert order.place("lender", {GPU: 1, HOT: 1}) == (0,)


@every_seed(range(150))
def test_fair_moves_by_cost_come_to_rest(seed: int) -> None:
    dice = random.Random(seed)
    hot, total = "flavor.muster.dev/hot", "example.com/card"
    low = [{total: dice.choice((0, 1, 2)), hot: dice.choice((0, 0, 1))} for _ in range(3)]
    quotas = [quota_of("lender", {total: dice.randint(3, 9), hot: dice.randint(0, 4)}, Fraction(1))]
    quotas += [quota_of(f"q{number}", item, Fraction(1)) for number, item in enumerate(low)]
    model = Model(quotas, seed=seed)
    made = [flavor("hot", dice.choice(("2", "2.5", "0.5")), total)]
    model.ledger.flavors_changed({item.virtual: item for item in made})
    for number in range(dice.randint(6, 18)):
        space, size = f"q{dice.randrange(3)}", dice.randint(1, 3)
        asks = {total: size, **({hot: size} if dice.random() < 0.5 else {})}
        model.waiting.append(Work(f"w{number}", space, asks))
    assert model.rest(300)
