"""Notes on valid quotas, and the bounds seen from the ResourceQuota."""

from __future__ import annotations

from scheduler_core.model.quotas.resource_quota import ResourceQuota, parse_resource_quota
from scheduler_core.quota.ledger import LedgerError, QuotaLedger
from scheduler_core.quota.lending import apportion, balance
from scheduler_core.quota.validation import check_hard, check_resource_quota, notes, overcommitted
from tests.support.builders import make_quota


def native(namespace: str, **hard: int) -> ResourceQuota:
    return parse_resource_quota({"metadata": {"name": "rq", "namespace": namespace}, "spec": {"hard": hard}})


def test_a_quota_that_says_all_gets_no_note() -> None:
    quota = make_quota("a/q").min(cpu=1).max(cpu=2).obj()
    assert notes(quota, [native("a", cpu=3, pods=9), native("b", memory=1)]) == []


def test_resources_bounded_only_by_a_resource_quota_are_noted_except_pods() -> None:
    quota = make_quota("a/q").min(cpu=1).max(cpu=2).obj()
    assert notes(quota, [native("b", memory=1), native("a", memory=1, cpu=3, pods=9)]) == [
        "ElasticQuota a/q: memory is not in spec.max; ResourceQuota rq bounds it at creation only"
    ]


def test_hard_is_held_against_max_and_where_max_is_open_against_min() -> None:
    quota = make_quota("a/q").min(cpu=2, memory=5).max(cpu=4).obj()
    assert [found.field for found in check_hard(quota, [native("a", cpu=4, memory=5)])] == []
    assert [found.field for found in check_hard(quota, [native("a", cpu=3, memory=4)])] == [
        "spec.max[cpu]",
        "spec.min[memory]",
    ]
    assert check_resource_quota(native("b", cpu=1), [quota]) == []
    assert [found.value for found in check_resource_quota(native("a", cpu=1, memory=9), [quota])] == ["1"]


def test_a_sum_of_min_that_the_cluster_has_exactly_is_in_order() -> None:
    assert overcommitted({"cpu": 2, "memory": 3}, {"cpu": 2}) == {"memory": (3, 0)}


def test_a_contradiction_says_who_and_what() -> None:
    assert LedgerError("a", "p", "is charged already").args == ("a", "p", "is charged already")


def test_a_quota_that_uses_exactly_its_min_neither_borrows_nor_lends() -> None:
    out = QuotaLedger()
    for name, low, used in (("a", 2, 3), ("b", 2, 2), ("c", 1, 0)):
        out.put_quota(make_quota(f"{name}/q").min(cpu=f"{low}m").obj())
        out.charge(name, name, {"cpu": used})
    out.charge("free", "f", {"cpu": 9})
    found = balance(out, "cpu")
    assert (found.borrowed, found.lent) == ({"a": 1}, {"c": 1})
    assert balance(out, "nobody names it").loans == ()


def test_the_remainder_goes_to_the_largest_fractions_and_then_by_name() -> None:
    assert apportion(4, {"team-b": 4, "team-c": 2}) == {"team-b": 3, "team-c": 1}
    assert apportion(1, {"z": 1, "a": 1}) == {"a": 1}
    assert apportion(0, {"a": 1}) == apportion(5, {}) == apportion(5, {"a": 0}) == {}
