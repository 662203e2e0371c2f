"""The admission rules of quotas as a table, with the texts of refusals."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.quota.ledger import LedgerError, QuotaLedger
from scheduler_core.quota.policy import admit, borrowed, borrows_guaranteed, over_min, within_min
from tests.support.builders import make_quota
from tests.support.refusals import BEYOND_SUM

GPU = "nvidia.com/gpu"


def ledger(**used: dict[str, int]) -> QuotaLedger:
    """Story 1: team-a min 4 max 6, team-b min 6 max 8 GPUs, and what each uses."""
    out = QuotaLedger()
    out.put_quota(make_quota("a/q").min(gpu=4).max(gpu=6).obj())
    out.put_quota(make_quota("b/q").min(gpu=6).max(gpu=8).obj())
    for namespace, amounts in used.items():
        out.charge(namespace, f"{namespace}-uid", amounts)
    return out


@pytest.mark.parametrize(
    ("used", "asked", "more", "text"),
    [
        pytest.param({}, {GPU: 4}, {}, "", id="within min"),
        pytest.param({"a": {GPU: 4}}, {GPU: 2}, {}, "", id="borrowing up to max: equality passes"),
        pytest.param(
            {"a": {GPU: 4}}, {GPU: 3}, {},
            f"ElasticQuota a/q: used {GPU}=4 + requested 3 exceeds max=6", id="beyond max",
        ),
        pytest.param({"a": {GPU: 4}, "b": {GPU: 5}}, {GPU: 1}, {}, "", id="equal to the sum of min"),
        pytest.param(
            {"a": {GPU: 4}, "b": {GPU: 5}}, {GPU: 2}, {},
            f"ElasticQuota a/q: used by all quotas {GPU}=9 + requested 2 exceeds sum(min)=10{BEYOND_SUM}",
            id="beyond the sum of min",
        ),
        pytest.param({"a": {GPU: 9}}, {GPU: 0}, {}, "", id="an explicit zero is harmless"),
        pytest.param({"a": {GPU: 9}}, {"cpu": 100}, {}, "", id="only what is asked for is compared"),
        pytest.param({"a": {"cpu": 10**9}}, {"cpu": 10**9}, {}, "", id="what no quota names is free"),
        pytest.param(
            {"a": {GPU: 4}}, {GPU: 1}, {"nominated": {GPU: 2}},
            f"ElasticQuota a/q: used {GPU}=4 + nominated 2 + requested 1 exceeds max=6",
            id="nominated pods count against max",
        ),
        pytest.param(
            {"a": {GPU: 4}}, {GPU: 1}, {"nominated_total": {GPU: 6}},
            f"ElasticQuota a/q: used by all quotas {GPU}=4 + nominated 6 + requested 1 "
            f"exceeds sum(min)=10{BEYOND_SUM}",
            id="and against the sum of min",
        ),
    ],
)  # fmt: skip
def test_admission(used: dict[str, Any], asked: dict[str, int], more: dict[str, Any], text: str) -> None:
    refusal = admit(ledger(**used), "a", asked, **more)
    assert str(refusal or "") == text


BORROWERS: list[tuple[str, str, dict[str, Any], dict[str, int], dict[str, dict[str, int]], bool]] = [
    ("within its min it may take more than is lent", "a", {"b": {GPU: 7}}, {GPU: 4}, {"b": {GPU: 2}}, False),
    ("over its min it may take what is lent", "a", {"b": {GPU: 7}}, {GPU: 5}, {"b": {GPU: 1}}, False),
    ("over its min, and more than is lent", "a", {"b": {GPU: 7}}, {GPU: 5}, {"b": {GPU: 2}}, True),
    ("over its min, of one that lends nothing", "a", {"b": {GPU: 6}}, {GPU: 5}, {"b": {GPU: 1}}, True),
    ("beside its own pods", "a", {"a": {GPU: 3}, "b": {GPU: 7}}, {GPU: 2}, {"b": {GPU: 2}}, True),
    (
        "own victims make room below its min", "a", {"a": {GPU: 3}, "b": {GPU: 7}}, {GPU: 2},
        {"a": {GPU: 1}, "b": {GPU: 2}}, False,
    ),
    ("what it does not need", "a", {"b": {GPU: 7, "cpu": 9}}, {GPU: 5}, {"b": {GPU: 1, "cpu": 9}}, False),
    ("only own victims", "a", {"a": {GPU: 4}}, {GPU: 5}, {"a": {GPU: 4}}, False),
    ("nobody has to go", "a", {}, {GPU: 5}, {}, False),
    ("victims under no quota", "a", {}, {GPU: 5}, {"free": {GPU: 9}}, False),
    ("a group under no quota", "free", {"b": {GPU: 6}}, {GPU: 5}, {"b": {GPU: 5}}, False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("namespace", "used", "asked", "freed", "expected"),
    [b[1:] for b in BORROWERS],
    ids=[b[0] for b in BORROWERS],
)
def test_who_borrows_what_others_are_guaranteed(
    namespace: str,
    used: dict[str, Any],
    asked: dict[str, int],
    freed: dict[str, dict[str, int]],
    expected: bool,
) -> None:
    assert borrows_guaranteed(ledger(**used), namespace, asked, freed) is expected


def test_a_namespace_without_quota_is_always_admitted() -> None:
    assert admit(ledger(b={GPU: 10}), "free", {GPU: 100}) is None


def test_pods_are_counted_one_by_one() -> None:
    out = QuotaLedger()
    out.put_quota(make_quota("a/q").max(pods=1).obj())
    assert admit(out, "a", {}) is None
    out.charge("a", "u", {})
    assert str(admit(out, "a", {})) == "ElasticQuota a/q: used pods=1 + requested 1 exceeds max=1"


def test_within_over_and_borrowed() -> None:
    out = ledger(a={GPU: 4})
    quota = out.quota_of("a")
    assert quota is not None
    assert not over_min(out, quota)
    assert within_min(out, quota, {GPU: 0})
    assert not within_min(out, quota, {GPU: 1})
    out.charge("a", "second", {GPU: 1})
    assert over_min(out, quota)
    assert borrowed(out, quota) == {GPU: 1}


def test_a_quota_made_after_its_pods_counts_them() -> None:
    out = QuotaLedger()
    out.charge("late", "u", {"cpu": 2000})
    quota = make_quota("late/q").min(cpu=1).obj()
    out.put_quota(quota)
    assert out.status_used(quota) == {"cpu": 2000}
    assert out.total_used["cpu"] == 2000
    out.remove_quota("late", "q")
    assert out.check() == []
    assert not out.total_used["cpu"]


def test_the_oldest_quota_binds_then_the_name_decides() -> None:
    out = QuotaLedger()
    young = make_quota("a/a").min(cpu=1).created(200).obj()
    old = make_quota("a/z").min(cpu=2).created(100).obj()
    twin = make_quota("a/b").min(cpu=3).created(100).obj()
    for quota in (young, old, twin):
        out.put_quota(quota)
    assert out.quota_of("a") is twin
    assert out.shadowed("a") == [old, young]
    assert out.total_min == {"cpu": 3000}
    out.remove_quota("a", "b")
    assert out.quota_of("a") is old


def test_status_has_zeros_for_everything_named() -> None:
    quota = make_quota("a/q").min(cpu=1).max(gpu=1).obj()
    assert QuotaLedger().status_used(quota) == {"cpu": 0, GPU: 0}


def test_a_pod_is_charged_once_and_refunded_once() -> None:
    out = QuotaLedger()
    out.charge("a", "u", {})
    with pytest.raises(LedgerError):
        out.charge("a", "u", {})
    out.refund("a", "u")
    with pytest.raises(LedgerError):
        out.refund("a", "u")
