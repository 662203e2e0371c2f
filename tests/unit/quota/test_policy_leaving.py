"""Admission and borrowing while pods are on their way out, and pods that wait for what they have freed."""

from __future__ import annotations

import pytest

from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.policy import admit, borrowed, borrows_guaranteed, relevant, within_min
from tests.support.builders import make_quota
from tests.support.refusals import BEYOND_SUM

CPU, GPU, DISK = "cpu", "nvidia.com/gpu", "ephemeral-storage"


def ledger() -> QuotaLedger:
    """a: min 4, max 6, uses 6, of which 2 leave; b: min 4, uses 2, of which 1 leaves (GPUs)."""
    out = QuotaLedger()
    out.put_quota(make_quota("a/q").min(gpu=4).max(gpu=6).obj())
    out.put_quota(make_quota("b/q").min(gpu=4).obj())
    for namespace, uid, amount in (("a", "a1", 4), ("a", "a2", 2), ("b", "b1", 1), ("b", "b2", 1)):
        out.charge(namespace, uid, {GPU: amount})
    out.mark_leaving("a", "a2")
    out.mark_leaving("b", "b2")
    return out


@pytest.mark.parametrize(
    ("namespace", "asked", "now", "later"),
    [
        pytest.param(
            "a", 1, "used nvidia.com/gpu=6 + requested 1 exceeds max=6", "", id="over max until one is gone"
        ),
        pytest.param(
            "a",
            3,
            "used nvidia.com/gpu=6 + requested 3 exceeds max=6",
            "used nvidia.com/gpu=4 + requested 3 exceeds max=6",
            id="over max in any case",
        ),
        pytest.param(
            "b",
            1,
            f"used by all quotas nvidia.com/gpu=8 + requested 1 exceeds sum(min)=8{BEYOND_SUM}",
            "",
            id="over the sum of min until others are gone",
        ),
        pytest.param(
            "b",
            4,
            f"used by all quotas nvidia.com/gpu=8 + requested 4 exceeds sum(min)=8{BEYOND_SUM}",
            f"used by all quotas nvidia.com/gpu=5 + requested 4 exceeds sum(min)=8{BEYOND_SUM}",
            id="over the sum of min in any case",
        ),
        pytest.param("b", 0, "", "", id="who asks for none"),
    ],
)
def test_admission_now_and_once_they_are_gone(namespace: str, asked: int, now: str, later: str) -> None:
    told = f"ElasticQuota {namespace}/q: "
    assert str(admit(ledger(), namespace, {GPU: asked}) or told) == told + now
    assert str(admit(ledger(), namespace, {GPU: asked}, after_leaving=True) or told) == told + later


def test_a_refusal_has_the_numbers_of_the_first_resource_that_is_over() -> None:
    out = QuotaLedger()
    out.put_quota(make_quota("a/q").min(cpu=1, gpu=1).max(cpu=2, gpu=2).obj())
    out.charge("a", "p", {CPU: 2000, GPU: 2})
    refused = admit(out, "a", {GPU: 1, CPU: 1000}, nominated={CPU: 500})
    assert refused is not None
    assert (refused.resource, refused.rule) == (CPU, "max")
    assert (refused.used, refused.nominated, refused.asked, refused.limit) == (2000, 500, 1000, 2000)
    assert str(refused) == "ElasticQuota a/q: used cpu=2 + nominated 500m + requested 1 exceeds max=2"


WITHIN = [
    ("exactly the min", {GPU: 2}, {}, True),
    ("one more", {GPU: 3}, {}, False),
    ("what is nominated counts", {GPU: 2}, {GPU: 1}, False),
    ("nominated of something else does not", {GPU: 2}, {CPU: 9000}, True),
    ("a resource that only another quota guarantees", {GPU: 1, CPU: 1}, {}, False),
    ("none of it", {GPU: 1, CPU: 0}, {}, True),
    ("a resource that nobody guarantees and the quota does not bound", {GPU: 1, "memory": 1}, {}, True),
    ("a resource that the quota bounds and does not guarantee", {DISK: 1}, {}, False),
]


@pytest.mark.parametrize(
    ("asked", "nominated", "within"), [w[1:] for w in WITHIN], ids=[w[0] for w in WITHIN]
)
def test_within_the_min(asked: dict[str, int], nominated: dict[str, int], within: bool) -> None:
    out = QuotaLedger()
    quota = make_quota("a/q").min(gpu=4).max(ephemeral_storage=9).obj()
    out.put_quota(quota)
    out.put_quota(make_quota("b/q").min(cpu=2).obj())
    out.charge("a", "p", {GPU: 2, CPU: 500})
    assert within_min(out, quota, asked, nominated) is within
    assert relevant(out, quota) == {GPU, CPU, DISK}


def test_a_quota_over_its_min_without_the_pod_is_not_asked_about_what_the_pod_does_not_name() -> None:
    out = QuotaLedger()
    quota = make_quota("a/q").min(gpu=4, cpu=1).obj()
    out.put_quota(quota)
    out.charge("a", "p", {CPU: 9000})
    assert within_min(out, quota, {GPU: 1, CPU: 0})
    assert borrowed(out, quota) == {CPU: 8000}


def test_one_of_pods_is_within_or_above_the_min_as_any_resource() -> None:
    out = QuotaLedger()
    quota = make_quota("a/q").min(pods=1).obj()
    out.put_quota(quota)
    assert within_min(out, quota, {})
    out.charge("a", "p", {})
    assert not within_min(out, quota, {})


def test_use_of_leaving_pods_is_not_lent() -> None:
    """a uses 6 of 4, of which 2 leave: it lends nothing that a gang of b over its min could borrow."""
    assert borrows_guaranteed(ledger(), "b", {GPU: 4}, {"a": {GPU: 1}})
    assert not borrows_guaranteed(ledger(), "b", {GPU: 3}, {"a": {GPU: 1}})
