"""Fair moves in random trees of quotas come to rest, and keep what they promise."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from msgspec.structs import replace

from scheduler_core.model.names import QUOTA_GROUP_LABEL
from scheduler_core.model.quotas.quota_group import QuotaGroup, parse_quota_group
from scheduler_core.quota.fair_moves import FairMove, is_fair
from scheduler_core.quota.ledger import QuotaLedger
from tests.support.fair_model import Model, Taken, Work, random_model
from tests.support.searches import cases

CASES = cases(400, "MUSTER_FAIR_TREES")
BLOCK = 100
MOST_MOVES = 300


def planted(seed: int) -> tuple[Model, list[list[Work]]]:
    """A random model whose quotas stand below random groups, and its works."""
    model, portions = random_model(seed, judged)
    dice = random.Random(f"tree {seed}")
    quotas = list(model.ledger.quotas())
    names = [f"g{number}" for number in range(dice.randint(1, 4))]
    parents = {name: dice.choice(["", *names[:number]]) for number, name in enumerate(names)}
    below = {quota.namespace: dice.choice(["", *names, *names]) for quota in quotas}
    least = {name: dict[str, int]() for name in names}
    for quota in quotas:
        up = below[quota.namespace]
        while up:
            for name, value in quota.min.items():
                least[up][name] = least[up].get(name, 0) + value
            up = parents[up]
    for quota in quotas:
        model.ledger.put_quota(replace(quota, labels={QUOTA_GROUP_LABEL: below[quota.namespace]}))
    resources = sorted({name for quota in quotas for name in quota.min})
    for name in names:
        low = {item: value + dice.choice((0, 0, 1, 2)) for item, value in least[name].items()}
        high = {item: low.get(item, 0) + dice.randint(1, 6) for item in resources if dice.random() < 0.2}
        model.ledger.put_group(
            group_of(name, parents[name], low, high, dice.choice(("1", "1", "2", "0.5", "0")))
        )
    return model, portions


def group_of(name: str, parent: str, low: dict[str, int], high: dict[str, int], weight: str) -> QuotaGroup:
    spec = {"parent": parent, "weight": weight}
    raw = {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "QuotaGroup",
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "spec": spec,
    }
    return replace(parse_quota_group(raw), min=low, max=high)


def judged(ledger: QuotaLedger, move: FairMove, taken: Taken) -> bool:
    """The rule, with what it promises read from the numbers."""
    fair = is_fair(ledger, move, taken)
    for namespace in taken if fair else ():
        giving, taking = sides(ledger, move.quota.namespace, namespace)
        give = use_of(ledger, giving, without=taken)
        for name, low in floor_of(ledger, giving).items():
            before = use_of(ledger, giving).get(name, 0)
            assert give.get(name, 0) >= low or before < low, "a node lost min by fairness"
        with_work = use_of(ledger, taking)
        for name in move.short:
            own = with_work.get(name, 0) + move.asked.get(name, 0) - floor_of(ledger, taking).get(name, 0)
            left = give.get(name, 0) - floor_of(ledger, giving).get(name, 0)
            by, other = weight_of(ledger, taking), weight_of(ledger, giving)
            assert not other or max(0, own) / by <= max(0, left) / other, "the preemptor passed its victim"
    return fair


Node = tuple[str, str]


def way(ledger: QuotaLedger, namespace: str) -> list[Node]:
    """The groups above a quota from the top down, and the quota."""
    return [
        *(("group", group.name) for group in reversed(ledger.groups_above(namespace))),
        ("quota", namespace),
    ]


def sides(ledger: QuotaLedger, taker: str, giver: str) -> tuple[Node, Node]:
    """(giving, taking): the first nodes from the top that differ."""
    pairs = zip(way(ledger, giver), way(ledger, taker), strict=False)
    return next((one, other) for one, other in pairs if one != other)


def namespaces_of(ledger: QuotaLedger, node: Node) -> list[str]:
    return [quota.namespace for quota in ledger.quotas() if node in way(ledger, quota.namespace)]


def use_of(ledger: QuotaLedger, node: Node, without: Taken | None = None) -> dict[str, int]:
    found: dict[str, int] = {}
    for namespace in namespaces_of(ledger, node):
        for name, value in ledger.used(namespace).items():
            gone = (without or {}).get(namespace, {}).get(name, 0)
            found[name] = found.get(name, 0) + value - gone
    return found


def floor_of(ledger: QuotaLedger, node: Node) -> dict[str, int]:
    kind, name = node
    quota = ledger.quota_of(name)
    if kind == "group":
        return ledger.tree.accounts[name].min
    assert quota is not None
    return quota.min


def weight_of(ledger: QuotaLedger, node: Node) -> Fraction:
    kind, name = node
    if kind == "group":
        return ledger.tree.groups[name].weight
    quota = ledger.quota_of(name)
    assert quota is not None
    return quota.sharing.weight


@pytest.mark.parametrize("block", range(0, CASES, BLOCK), ids="seeds from {}".format)
def test_fair_moves_in_trees_come_to_rest(block: int) -> None:
    restless, moves = [], 0
    for seed in range(block, min(block + BLOCK, CASES)):
        model, portions = planted(seed)
        for works in portions:
            model.waiting += works
            if not model.rest(MOST_MOVES):
                restless.append(seed)
                break
        moves += model.moves
    assert not restless
    assert moves
