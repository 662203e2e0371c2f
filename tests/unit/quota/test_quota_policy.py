"""May a pod enter, does it borrow? The admission rules as a table, with the refusal's words."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.quota.ledger import LedgerError, QuotaLedger
from scheduler_core.quota.policy import admit, borrowed, over_min, within_min
from tests.support.builders import make_quota

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
            f"ElasticQuota a/q: used by all quotas {GPU}=9 + requested 2 exceeds sum(min)=10",
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
            f"ElasticQuota a/q: used by all quotas {GPU}=4 + nominated 6 + requested 1 exceeds sum(min)=10",
            id="and against the sum of min",
        ),
    ],
)  # fmt: skip
def test_admission(used: dict[str, Any], asked: dict[str, int], more: dict[str, Any], text: str) -> None:
    refusal = admit(ledger(**used), "a", asked, **more)
    assert str(refusal or "") == text


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
