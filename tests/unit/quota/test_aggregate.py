"""The two readings of the sum of min, as a table and against a definition that knows no ledger."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.model.names import AGGREGATES, ALL_RESOURCES, GUARANTEED_RESOURCES, Aggregate
from scheduler_core.quota.aggregate import limits_everybody, sum_limits, sums_of_all_orders
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.policy import admit, may_reclaim, over_min
from tests.support.builders import make_quota
from tests.support.refusals import BEYOND_SUM
from tests.support.searches import cases

GPU = "nvidia.com/gpu"


def ledger(aggregate: Aggregate, **used: dict[str, int]) -> QuotaLedger:
    """web guarantees itself 4 CPUs, nlp 12 GPUs, vision 4 GPUs; idle guarantees nothing. CPUs in milli."""
    out = QuotaLedger(aggregate)
    out.put_quota(make_quota("web/q").min(cpu=4).obj())
    out.put_quota(make_quota("nlp/q").min(gpu=12).max(cpu=200).obj())
    out.put_quota(make_quota("vision/q").min(gpu=4, cpu=0).obj())
    out.put_quota(make_quota("idle/q").min(cpu=0).obj())
    for namespace, amounts in used.items():
        out.charge(namespace, f"{namespace}-uid", amounts)
    return out


CASES: list[tuple[str, str, dict[str, Any], dict[str, int], dict[str, Any], str, str]] = [
    (
        "work within its guarantee of GPUs", "nlp", {}, {GPU: 12, "cpu": 96_000}, {},
        f"used by all quotas cpu=0 + requested 96 exceeds sum(min)=4{BEYOND_SUM}", "",
    ),
    (
        "a helper that asks for CPUs only", "nlp", {"nlp": {GPU: 14}}, {"cpu": 5_000}, {},
        f"used by all quotas cpu=0 + requested 5 exceeds sum(min)=4{BEYOND_SUM}", "",
    ),
    (
        "work beyond its guarantee borrows", "nlp", {"nlp": {GPU: 11}}, {GPU: 2, "cpu": 5_000}, {},
        f"used by all quotas cpu=0 + requested 5 exceeds sum(min)=4{BEYOND_SUM}",
        f"used by all quotas cpu=0 + requested 5 exceeds sum(min)=4{BEYOND_SUM}",
    ),
    (
        "nominated pods go first", "nlp", {}, {GPU: 12, "cpu": 5_000}, {"nominated": {GPU: 1}},
        f"used by all quotas cpu=0 + requested 5 exceeds sum(min)=4{BEYOND_SUM}",
        f"used by all quotas cpu=0 + requested 5 exceeds sum(min)=4{BEYOND_SUM}",
    ),
    (
        "held quota goes first", "nlp", {}, {GPU: 12, "cpu": 5_000}, {"held": {GPU: 1}},
        f"used by all quotas cpu=0 + requested 5 exceeds sum(min)=4{BEYOND_SUM}",
        f"used by all quotas cpu=0 + requested 5 exceeds sum(min)=4{BEYOND_SUM}",
    ),
    (
        "a min of 0 guarantees nothing", "vision", {}, {GPU: 4, "cpu": 5_000}, {},
        f"used by all quotas cpu=0 + requested 5 exceeds sum(min)=4{BEYOND_SUM}", "",
    ),
    (
        "what others use beside their guarantees", "web", {"nlp": {GPU: 1, "cpu": 1_000}}, {"cpu": 4_000}, {},
        f"used by all quotas cpu=1 + requested 4 exceeds sum(min)=4{BEYOND_SUM}", "",
    ),
    (
        "a guaranteed resource stays limited", "nlp", {"vision": {GPU: 6}}, {GPU: 12}, {},
        f"used by all quotas nvidia.com/gpu=6 + requested 12 exceeds sum(min)=16{BEYOND_SUM}",
        f"used by all quotas nvidia.com/gpu=6 + requested 12 exceeds sum(min)=16{BEYOND_SUM}",
    ),
    (
        "who is guaranteed nothing borrows everything", "idle", {}, {"cpu": 5_000}, {},
        f"used by all quotas cpu=0 + requested 5 exceeds sum(min)=4{BEYOND_SUM}",
        f"used by all quotas cpu=0 + requested 5 exceeds sum(min)=4{BEYOND_SUM}",
    ),
    (
        "max limits in both readings", "nlp", {}, {GPU: 1, "cpu": 201_000}, {},
        "used cpu=0 + requested 201 exceeds max=200", "used cpu=0 + requested 201 exceeds max=200",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("namespace", "used", "asked", "more", "all_resources", "guaranteed"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_admission_in_both_readings(
    namespace: str,
    used: dict[str, Any],
    asked: dict[str, int],
    more: dict[str, Any],
    all_resources: str,
    guaranteed: str,
) -> None:
    told = [admit(ledger(aggregate, **used), namespace, asked, **more) for aggregate in AGGREGATES]
    subject = f"ElasticQuota {namespace}/q: "
    wanted = [subject + text if text else "" for text in (all_resources, guaranteed)]
    assert [str(refusal or "") for refusal in told] == wanted


def test_pods_that_leave_no_longer_use_up_a_guarantee() -> None:
    out = ledger(GUARANTEED_RESOURCES, nlp={GPU: 12})
    asked = {GPU: 2, "cpu": 5_000}
    assert str(admit(out, "nlp", asked)).startswith("ElasticQuota nlp/q: used by all quotas cpu=0")
    out.mark_leaving("nlp", "nlp-uid")
    assert admit(out, "nlp", asked) is None


def test_who_may_reclaim_and_from_whom() -> None:
    used = {"vision": {GPU: 6, "cpu": 9_000}, "web": {"cpu": 3_000, GPU: 1}}
    found = {}
    for aggregate in AGGREGATES:
        out = ledger(aggregate, **used)
        quotas = {quota.namespace: quota for quota in out.quotas()}
        found[aggregate] = (
            may_reclaim(out, quotas["nlp"], {GPU: 4, "cpu": 5_000}),
            may_reclaim(out, quotas["nlp"], {"cpu": 5_000}),
            may_reclaim(out, quotas["nlp"], {GPU: 13, "cpu": 5_000}),
            may_reclaim(out, quotas["nlp"], {GPU: 4}),
        )
        assert [name for name, quota in quotas.items() if over_min(out, quota)] == ["web", "vision"]
        # web stays within all that it is guaranteed, so those who borrow themselves take nothing from it.
        assert [name for name, quota in quotas.items() if over_min(out, quota, borrows=True)] == ["vision"]
    assert found[ALL_RESOURCES] == (False, False, False, True)
    assert found[GUARANTEED_RESOURCES] == (True, False, False, True)


def test_a_quota_without_guarantees_gives_back_all_that_it_uses() -> None:
    out = ledger(GUARANTEED_RESOURCES, idle={"cpu": 1_000})
    quota = out.quota_of("idle")
    assert quota is not None
    assert over_min(out, quota, borrows=True)


def test_limits_that_hold_for_all_work_and_for_pods_in_every_order() -> None:
    out = ledger(GUARANTEED_RESOURCES)
    nlp = out.quota_of("nlp")
    assert nlp is not None
    assert limits_everybody(out) == {}
    worker, helper = {GPU: 5, "cpu": 1_000}, {"cpu": 1_000}
    within, beyond = {GPU: 10, "cpu": 2_000}, {GPU: 15, "cpu": 3_000}
    assert sums_of_all_orders(out, nlp, [worker] * 2, within, {}) == {GPU: 16}
    assert sums_of_all_orders(out, nlp, [worker] * 3, beyond, {}) == {GPU: 16, "cpu": 4_000}
    assert sums_of_all_orders(out, nlp, [worker] * 2, within, {GPU: 3}) == {GPU: 16, "cpu": 4_000}
    # The helper may come last; it is never beyond the guarantee of GPUs.
    assert sums_of_all_orders(out, nlp, [worker, worker, worker, helper], beyond, {}) == {GPU: 16}
    for other in (ledger(ALL_RESOURCES),):
        assert limits_everybody(other) == other.total_min == {"cpu": 4_000, GPU: 16}
        assert sums_of_all_orders(other, nlp, [worker], worker, {}) == other.total_min
        assert sum_limits(other, nlp, worker) == other.total_min


def test_the_readings_are_those_of_the_type() -> None:
    assert get_args(Aggregate) == AGGREGATES


NAMES = ("cpu", GPU, "memory")
AMOUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 4), max_size=3)
QUOTAS = st.dictionaries(st.sampled_from("abc"), st.tuples(AMOUNTS, AMOUNTS), min_size=1)
# (namespace, requests, whether the pod leaves)
PODS = st.lists(st.tuples(st.sampled_from("abc"), AMOUNTS, st.booleans()), max_size=8)


@settings(max_examples=cases(1600, least=200), deadline=None)
@given(st.sampled_from(AGGREGATES), QUOTAS, PODS, st.sampled_from("abc"), AMOUNTS, AMOUNTS)
def test_decisions_follow_the_definition(
    aggregate: Aggregate,
    quotas: dict[str, tuple[dict[str, int], dict[str, int]]],
    pods: list[tuple[str, dict[str, int], bool]],
    namespace: str,
    asked: dict[str, int],
    nominated: dict[str, int],
) -> None:
    out = QuotaLedger(aggregate)
    for number, (space, requests, _) in enumerate(pods):
        out.charge(space, f"pod-{number}", requests)
    for space, (low, high) in quotas.items():
        # Put twice: the ledger must forget the first one.
        for limits in ({"cpu": 1}, low):
            quota = make_quota(f"{space}/q").obj()
            out.put_quota(type(quota)(**_fields(quota) | {"min": limits, "max": high}))
    for number, (space, _, leaves) in enumerate(pods):
        if leaves:
            out.mark_leaving(space, f"pod-{number}")
    refusal = admit(out, namespace, asked, nominated=nominated, nominated_total=nominated)
    assert (refusal is None) is _admitted(aggregate, quotas, pods, namespace, asked, nominated)


def _fields(quota: Any) -> dict[str, Any]:
    return {name: getattr(quota, name) for name in quota.__struct_fields__}


def _admitted(
    aggregate: Aggregate,
    quotas: dict[str, tuple[dict[str, int], dict[str, int]]],
    pods: list[tuple[str, dict[str, int], bool]],
    namespace: str,
    asked: dict[str, int],
    nominated: dict[str, int],
) -> bool:
    """The rules of docs/quota.md#admission, word by word."""
    if namespace not in quotas:
        return True

    def used(space: str, name: str, *, staying: bool = False) -> int:
        return sum(
            requests.get(name, 0) for owner, requests, leaves in pods
            if owner == space and not (staying and leaves)
        )  # fmt: skip

    low, high = quotas[namespace]
    wanted = [name for name in NAMES if asked.get(name, 0) > 0]
    more = {name: asked.get(name, 0) + nominated.get(name, 0) for name in NAMES}
    if any(name in high and used(namespace, name) + more[name] > high[name] for name in wanted):
        return False
    guaranteed = [name for name in NAMES if low.get(name, 0) > 0]
    free_elsewhere = (
        aggregate == GUARANTEED_RESOURCES
        and bool(guaranteed)
        and all(
            used(namespace, name, staying=True) + more[name] <= low[name]
            for name in guaranteed if name in wanted
        )
    )  # fmt: skip
    for name in wanted:
        sums = [minima[name] for minima, _ in quotas.values() if name in minima]
        if not sums or (free_elsewhere and name not in guaranteed):
            continue
        total = sum(
            min(used(space, name), most.get(name, 10**9)) for space, (minima, most) in quotas.items()
            if minima.get(name, 0) > 0 or not free_elsewhere
        )  # fmt: skip
        if total + more[name] > sum(sums):
            return False
    return True
