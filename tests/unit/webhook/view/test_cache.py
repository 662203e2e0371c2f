"""What the cache holds after the watches have told it things."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.quotas.resource_quota import ResourceQuota, parse_resource_quota
from tests.unit.webhook.http.reviews import namespace, native, node, quota, synced, tell
from tests.unit.webhook.reservations.reservations import Clock
from webhook.policy.elastic_quotas import QuotaView
from webhook.view.cache import Cache, FreshList
from webhook.view.pending import GRACE


def view(cache: Cache, name: str = "a") -> QuotaView:
    return cache.view(name, "deny")


def test_allocatable_is_the_sum_of_schedulable_nodes() -> None:
    cache = synced(node("n1", cpu="4", memory="8Gi"), node("n2", cpu="2"))
    assert view(cache).allocatable == {"cpu": 6000, "memory": 8 << 30}

    tell(cache, node("n1", cpu="3"))
    assert view(cache).allocatable == {"cpu": 5000, "memory": 0}
    tell(cache, node("n2", unschedulable=True, cpu="2"))
    assert view(cache).allocatable["cpu"] == 3000
    tell(cache, node("n2", cpu="2"))
    tell(cache, node("n1"), deleted=True)
    assert view(cache).allocatable["cpu"] == 2000


def test_oldest_quota_stands_for_its_namespace() -> None:
    young = quota("young", "b", min={"cpu": 1}, meta={"creationTimestamp": "2026-01-02T00:00:00Z"})
    old = quota("old", "b", min={"cpu": 2}, meta={"creationTimestamp": "2026-01-01T00:00:00Z"})
    cache = synced(young, old)

    assert [q.name for q in view(cache).others] == ["old"]
    assert [q.name for q in view(cache, "b").siblings] == ["old", "young"]
    tell(cache, old, deleted=True)
    assert [q.name for q in view(cache).others] == ["young"]


def test_the_oldest_of_the_quotas_that_a_list_shows_stands_for_its_namespace() -> None:
    cache = synced(quota("cached", "b", max={"cpu": 1}), quota("other", "c", max={"cpu": 2}))
    young = quota("a-young", "b", max={"cpu": 3}, meta={"creationTimestamp": "2026-01-02T00:00:00Z"})
    old = quota("z-old", "b", max={"cpu": 4}, meta={"creationTimestamp": "2026-01-01T00:00:00Z"})
    for listed in ((young, old), (old, young)):
        found = cache.standing("b", [parse_elastic_quota(item) for item in listed])
        assert found is not None
        assert found.quota.name == "z-old"
    found = cache.standing("b")
    assert found is not None
    assert found.quota.name == "cached", "without a list"
    assert cache.standing("nowhere") is None


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({"status": {"used": {"cpu": 1000}}}, id="uses far more than the stored one"),
        pytest.param({"min": {"cpu": 1000}}, id="guarantees far more"),
        pytest.param({"meta": {"labels": {"muster.dev/quota-group": "dept"}}}, id="joins a group"),
    ],
)
@pytest.mark.parametrize("space", ["b", "new"])
def test_what_a_review_says_of_another_quota_judges_no_pod(said: dict[str, Any], space: str) -> None:
    """Everybody can send a review: for some seconds it refused pods of others, or let them past the sum."""
    cache = synced(quota("own", "a", min={"cpu": 1}), quota("other", "b", min={"cpu": 1}))
    before = cache.standing("a")
    status = said.get("status", {})
    raw = quota("other", space, **({"min": {"cpu": 1}} | {k: v for k, v in said.items() if k != "status"}))
    cache.admitted(parse_elastic_quota({**raw, "status": status}), "")
    after = cache.standing("a")
    assert before is not None
    assert after is not None
    assert (after.others_min, after.others_used) == (before.others_min, before.others_used)


def test_native_quotas_are_those_of_the_namespace() -> None:
    cache = synced(native("x", "a", hard={"cpu": 1}), native("y", "b", hard={"cpu": 1}))
    assert [q.name for q in view(cache).native] == ["x"]
    tell(cache, native("x", "a"), deleted=True)
    assert view(cache).native == ()


def test_namespaces_come_and_go() -> None:
    cache = synced(namespace("a", terminating=True))
    assert view(cache).terminating
    assert cache.namespace("a") is not None
    tell(cache, namespace("a"), deleted=True)
    assert cache.namespace("a") is None
    assert not view(cache).terminating


def test_cache_is_synced_when_all_lists_were_complete() -> None:
    assert Cache().unsynced == [
        "elasticquotas",
        "namespaces",
        "nodes",
        "podgroups",
        "quotaflavors",
        "quotagroups",
        "reservationledgers",
        "resourcequotas",
    ]
    assert synced().unsynced == []


def test_change_underway_counts_with_the_larger_min() -> None:
    cache = synced(quota("eq", "b", version="1", min={"cpu": 4, "memory": 1}))
    cache.admitted(parse_elastic_quota(quota("eq", "b", min={"cpu": 2, "memory": 5})), "1")
    assert [q.min for q in view(cache).others] == [{"cpu": 4000, "memory": 5}]


def elastic(name: str, version: str = "", low: int = 1) -> ElasticQuota:
    return parse_elastic_quota(quota(name, version=version, min={"cpu": low}))


def hard(version: str = "") -> ResourceQuota:
    return parse_resource_quota(native("rq", version=version, hard={"cpu": 1}))


# What reviews of quotas are judged by while the watch is behind: the watch alone, where no list can be read,
# or a list that was read before the quota was stored.
BEHIND = [
    pytest.param(None, id="no list"),
    pytest.param(FreshList("", "50", (), "50", ()), id="an older list"),
]


@pytest.mark.parametrize("behind", BEHIND)
def test_a_quota_that_one_review_has_seen_in_a_list_is_seen_by_all(behind: FreshList | None) -> None:
    """Of eight creations at the same instant two were allowed: a list that showed the first one had ended the
    memory of its admission, and another review was judged by an older list.
    """
    cache = synced()
    cache.admitted(elastic("first"), "")
    assert [
        q.name for q in cache.view("a", "deny", FreshList("", "60", (elastic("first", "55"),))).siblings
    ] == ["first"]
    # Certain: whoever waits for those admitted before it need not wait any longer.
    assert [q.name for q in cache.view("a", "deny", behind, before=0).siblings] == ["first"]
    assert [q.namespace for q in cache.view("b", "deny", behind, before=0).others] == ["a"]
    assert cache.has_quota("a")
    assert not cache.is_open(cache.mark())


@pytest.mark.parametrize("behind", BEHIND)
def test_a_resource_quota_that_one_review_has_seen_in_a_list_is_seen_by_all(behind: FreshList | None) -> None:
    cache = synced()
    cache.admitted(hard(), "")
    cache.view("a", "deny", FreshList("", "60", (), "60", (hard("55"),)))
    assert [q.resource_version for q in cache.view("a", "deny", behind, before=0).native] == ["55"]


@pytest.mark.parametrize("behind", BEHIND)
def test_a_change_that_a_list_has_shown_replaces_what_the_watch_still_has(behind: FreshList | None) -> None:
    cache = synced(quota("eq", version="40", min={"cpu": 4}))
    cache.admitted(elastic("eq", low=2), "40")
    cache.view("a", "deny", FreshList("", "60", (elastic("eq", "55", low=2),)))
    assert [q.min for q in cache.view("a", "deny", behind, before=0).siblings] == [{"cpu": 2000}]
    assert [q.min for q in cache.view("b", "deny", behind, before=0).others] == [{"cpu": 2000}]


def test_what_a_list_has_shown_ends_with_the_watch_or_with_a_later_list_that_does_not_show_it() -> None:
    for end in (
        lambda cache: tell(cache, quota("eq", version="55", min={"cpu": 1})),
        lambda cache: tell(cache, quota("eq", version="56", min={"cpu": 1})),
        lambda cache: cache.view("a", "deny", FreshList("", "70", (), "70", ())),
    ):
        cache = synced()
        cache.admitted(elastic("eq"), "")
        cache.view("a", "deny", FreshList("", "60", (elastic("eq", "55"),)))
        end(cache)
        tell(cache, quota("eq"), deleted=True)
        assert view(cache).siblings == ()


def test_an_older_list_does_not_end_what_a_later_one_has_shown() -> None:
    cache = synced()
    cache.admitted(elastic("eq"), "")
    cache.view("a", "deny", FreshList("", "60", (elastic("eq", "55"),)))
    cache.view("b", "deny", FreshList("", "50", ()))
    assert [q.name for q in view(cache).siblings] == ["eq"]


@pytest.mark.parametrize("seconds", [0.0, GRACE + 1])
def test_a_list_that_was_slow_does_not_tell_that_a_quota_was_never_stored(seconds: float) -> None:
    """It was stored while the list was read."""
    clock = Clock()
    cache = synced(cache=Cache(clock))
    cache.admitted(elastic("eq"), "")
    began = clock.now + seconds
    clock.now += GRACE + 2
    cache.view("a", "deny", FreshList("", "50", (), "50", (), began))
    assert [q.name for q in view(cache).siblings] == (["eq"] if seconds < GRACE else [])
