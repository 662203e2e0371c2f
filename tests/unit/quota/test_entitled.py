"""Entitlements and shares of a ledger, with the worked examples of docs/fair-sharing.md."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from scheduler_core.model.names import QUOTA_GROUP_LABEL
from scheduler_core.model.quotas.quota_group import parse_quota_group
from scheduler_core.quota.entitled import entitled, shares_by_resource
from scheduler_core.quota.fair_shares import scale_of
from scheduler_core.quota.ledger import QuotaLedger
from tests.support.builders import QuotaBuilder, make_quota

GPU = "nvidia.com/gpu"


def weighted(namespace: str, weight: str, **least: Any) -> QuotaBuilder:
    return make_quota(f"{namespace}/quota").min(**least).annotation("muster.dev/weight", weight)


def ledger_of(*quotas: tuple[str, int, int | None, str]) -> QuotaLedger:
    """Quotas of GPUs: namespace, min, max, weight."""
    ledger = QuotaLedger()
    for namespace, low, high, weight in quotas:
        made = weighted(namespace, weight, **{GPU: low})
        ledger.put_quota((made if high is None else made.max(**{GPU: high})).obj())
    return ledger


Quotas = tuple[tuple[str, int, int | None, str], ...]


def three(a: str = "1", most: int | None = None) -> Quotas:
    """Quotas with min 2, 2 and 8; weight and max of the first."""
    return ("a", 2, most, a), ("b", 2, None, "1"), ("c", 8, None, "1")


EXAMPLES = [
    ("equal weights", three(), (10, 5, 0), (7, 5, 0)),
    ("weights 3 to 1", three("3"), (12, 12, 0), (8, 4, 0)),
    ("max binds", three(most=5), (12, 12, 0), (5, 7, 0)),
    ("a weight of 0", three("0"), (12, 4, 0), (8, 4, 0)),
    ("nothing asked", three(), (0, 0, 0), (0, 0, 0)),
]


@pytest.mark.parametrize(
    ("quotas", "asked", "found"), [case[1:] for case in EXAMPLES], ids=[case[0] for case in EXAMPLES]
)
@pytest.mark.parametrize("running", [0, 1, 2])
def test_worked_examples_whatever_part_runs_already(
    quotas: Quotas,
    asked: tuple[int, ...],
    found: tuple[int, ...],
    running: int,
) -> None:
    ledger = ledger_of(*quotas)
    waiting: dict[str, dict[str, int]] = {}
    for (namespace, *_), amount in zip(quotas, asked, strict=True):
        for number in range(min(running, amount)):
            ledger.charge(namespace, f"{number}", {GPU: 1})
        waiting[namespace] = {GPU: amount - min(running, amount)}
    assert tuple(entitled(ledger, waiting)[GPU].values()) == found


def test_a_pod_on_its_way_out_asks_for_nothing() -> None:
    ledger = ledger_of(("a", 2, None, "1"), ("b", 2, None, "1"))
    for number in range(3):
        ledger.charge("a", f"{number}", {GPU: 1})
    ledger.mark_leaving("a", "2")
    assert entitled(ledger, {}) == {GPU: {"a": 2, "b": 0}}


def test_a_resource_in_no_min_has_no_entitlement() -> None:
    ledger = ledger_of(("a", 2, None, "1"))
    ledger.charge("a", "p", {"cpu": 4000})
    assert entitled(ledger, {"a": {"cpu": 1000}}) == {GPU: {"a": 0}}


def test_the_share_in_each_resource() -> None:
    ledger = QuotaLedger()
    ledger.put_quota(weighted("a", "2", **{GPU: 2}).obj())
    ledger.put_quota(make_quota("b/quota").min(**{GPU: 10, "memory": "8"}).obj())
    ledger.charge("a", "p", {GPU: 5, "memory": 2, "cpu": 1000})
    quota = ledger.quota_of("a")
    assert quota is not None
    # GPUs: 3 borrowed of 12; memory: 2 of 8; CPUs are in no min. All divided by the weight 2.
    shares = shares_by_resource(ledger, scale_of(ledger), quota)
    assert shares == {GPU: Fraction(1, 8), "memory": Fraction(1, 8)}


def in_groups(*groups: dict[str, Any], quotas: dict[str, tuple[str, int]]) -> QuotaLedger:
    """Groups of GPUs, and quotas by namespace with their group and min."""
    ledger = QuotaLedger()
    for spec in groups:
        raw = {"metadata": {"name": spec["name"], "uid": "u", "resourceVersion": "1"}, "spec": spec["spec"]}
        ledger.put_group(parse_quota_group(raw))
    for namespace, (group, low) in quotas.items():
        made = make_quota(f"{namespace}/quota").min(**{GPU: low}).obj()
        ledger.put_quota(msgspec.structs.replace(made, labels={QUOTA_GROUP_LABEL: group}))
    return ledger


def dept(name: str, low: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "spec": {"min": {GPU: str(low)}, **more}}


A_AND_B = {"a1": ("a", 2), "a2": ("a", 2), "b1": ("b", 4), "b2": ("b", 2)}


@pytest.mark.parametrize(
    ("groups", "waiting", "expected"),
    [
        # Departments first: a1 gets all of A and of what B leaves.
        ([dept("a", 6), dept("b", 6)], {"a1": 12}, {"a1": 12}),
        # Both borrow alike, whatever the number of teams.
        ([dept("a", 6), dept("b", 6)], {"a1": 12, "b1": 12, "b2": 12}, {"a1": 6, "b1": 4, "b2": 2}),
        ([dept("a", 4), dept("b", 6)], {"a1": 9, "a2": 9}, {"a1": 5, "a2": 5}),
        ([dept("a", 6, max={GPU: "7"}), dept("b", 6)], {"a1": 12}, {"a1": 7}),
        # B asks for nothing, and lends two of its six.
        ([dept("a", 6), dept("b", 6, lendable={GPU: "2"})], {"a1": 12}, {"a1": 8}),
        ([dept("a", 6), dept("b", 6)], {"a1": 3, "a2": 3, "b1": 1}, {"a1": 3, "a2": 3, "b1": 1}),
    ],
)
def test_in_a_tree_the_part_of_a_group_is_divided_in_it(
    groups: list[dict[str, Any]], waiting: dict[str, int], expected: dict[str, int]
) -> None:
    ledger = in_groups(*groups, quotas=A_AND_B)
    found = entitled(ledger, {name: {GPU: value} for name, value in waiting.items()})[GPU]
    assert {name: value for name, value in found.items() if value} == expected
