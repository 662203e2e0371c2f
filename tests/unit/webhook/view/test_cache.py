"""What the cache holds after the watches have told it things."""

from __future__ import annotations

from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from tests.unit.webhook.http.reviews import namespace, native, node, quota, synced, tell
from webhook.policy.elastic_quotas import QuotaView
from webhook.view.cache import Cache


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
        "reservationledgers",
        "resourcequotas",
    ]
    assert synced().unsynced == []


def test_change_underway_counts_with_the_larger_min() -> None:
    cache = synced(quota("eq", "b", version="1", min={"cpu": 4, "memory": 1}))
    cache.admitted(parse_elastic_quota(quota("eq", "b", min={"cpu": 2, "memory": 5})), "1")
    assert [q.min for q in view(cache).others] == [{"cpu": 4000, "memory": 5}]
