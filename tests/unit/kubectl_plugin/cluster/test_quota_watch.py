"""Which rows a watch prints again."""

from __future__ import annotations

from typing import Any

from kubectl_plugin.cluster.quota_watch import WatchedQuotas
from kubectl_plugin.cluster.reflectors import FeedEvent
from scheduler_core.kube.watch.tracker import Event, EventType
from scheduler_core.model.groups.gang import parse_gang
from scheduler_core.model.groups.native import parse_native_gang
from scheduler_core.model.kinds import ELASTIC_QUOTAS, NATIVE_POD_GROUPS, POD_GROUPS, PODS, RESOURCE_QUOTAS
from scheduler_core.model.pods.pod import parse_pod
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.model.quotas.resource_quota import parse_resource_quota
from tests.unit.kubectl_plugin.plugin_api import pod_object, quota_object, resource_quota_object

KINDS = {
    "chosen": (ELASTIC_QUOTAS, parse_elastic_quota),
    "quotas": (ELASTIC_QUOTAS, parse_elastic_quota),
    "pods": (PODS, parse_pod),
    "natives": (RESOURCE_QUOTAS, parse_resource_quota),
    "ours": (POD_GROUPS, parse_gang),
    "native": (NATIVE_POD_GROUPS, parse_native_gang),
}
UNTIL = "2026-01-01T00:10:00Z"


def change(feed: str, kind: EventType, obj: dict[str, Any]) -> FeedEvent:
    resource, parse = KINDS[feed]
    key = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
    return FeedEvent(feed, Event(kind, resource, key, "", None if kind == "DELETED" else parse(obj)))


def both(kind: EventType, quota: dict[str, Any]) -> list[FeedEvent]:
    return [change("quotas", kind, quota), change("chosen", kind, quota)]


def started(*objects: FeedEvent) -> WatchedQuotas:
    watched = WatchedQuotas(whole=True, natives=True, wide=False)
    watched.apply(list(objects))
    return watched


A = quota_object("a", min={"cpu": "4"}, max={"cpu": "8"})
B = quota_object("b", min={"cpu": "4", "memory": "1Gi"})


def places(rows: list[Any]) -> list[tuple[str, str]]:
    return [(figures.namespace, figures.resource) for figures, _ in rows]


def test_a_pod_changes_the_rows_of_its_quota_and_of_those_that_lend_to_it() -> None:
    watched = started(*both("ADDED", A), *both("ADDED", B))
    rows = watched.apply([change("pods", "ADDED", pod_object("a", "p", cpu="5"))])
    assert places(rows) == [("a", "cpu"), ("b", "cpu")]
    assert [(figures.borrowed, figures.lent) for figures, _ in rows] == [(1000, 0), (0, 1000)]


def test_a_pod_that_changes_nothing_prints_nothing() -> None:
    watched = started(*both("ADDED", A), change("pods", "ADDED", pod_object("a", "p", cpu="5")))
    assert watched.apply([change("pods", "MODIFIED", pod_object("a", "p", cpu="5"))]) == []
    assert watched.apply([change("pods", "ADDED", pod_object("elsewhere", "p", cpu="5"))]) == []


def test_a_pod_that_goes_gives_its_use_back() -> None:
    pod = pod_object("a", "p", cpu="5")
    watched = started(*both("ADDED", A), change("pods", "ADDED", pod))
    ((figures, _),) = watched.apply([change("pods", "DELETED", pod)])
    assert figures.used == 0


def test_a_native_quota_changes_hard() -> None:
    watched = started(*both("ADDED", A))
    native = resource_quota_object("a", requests_cpu="6")
    ((figures, _),) = watched.apply([change("natives", "ADDED", native)])
    assert figures.hard == 6000
    ((figures, _),) = watched.apply([change("natives", "DELETED", native)])
    assert figures.hard is None


def test_a_deleted_quota_is_printed_once_more_and_its_borrowers_lose_their_lender() -> None:
    watched = started(
        *both("ADDED", A), *both("ADDED", B), change("pods", "ADDED", pod_object("a", "p", cpu="5"))
    )
    rows = watched.apply(both("DELETED", B))
    assert places(rows) == [("b", "cpu"), ("b", "memory")]
    assert watched.apply([]) == []


def test_a_new_label_prints_the_row_again() -> None:
    watched = started(*both("ADDED", A))
    labelled = A | {"metadata": A["metadata"] | {"labels": {"x": "y"}}}
    ((_, labels),) = watched.apply(both("MODIFIED", labelled))
    assert labels == {"x": "y"}


def test_quotas_that_were_not_asked_for_count_but_are_not_printed() -> None:
    watched = started(*both("ADDED", A))
    assert watched.apply([change("quotas", "ADDED", B)]) == []
    ((figures, _),) = watched.apply([change("pods", "ADDED", pod_object("b", "p", cpu="6"))])
    assert (figures.namespace, figures.lent) == ("a", 2000)


def test_a_group_that_is_gone_holds_nothing_and_one_of_its_name_still_does() -> None:
    watched = WatchedQuotas(whole=True, natives=True, wide=True)
    watched.apply(both("ADDED", A))
    held = {"type": "QuotaHeld", "status": "True", "message": f"cpu=3; until {UNTIL} at the latest"}
    group = {"metadata": {"namespace": "a", "name": "g"}, "status": {"conditions": [held]}}
    ours = group | {"spec": {"minMembers": 2}}
    native = group | {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    watched.apply([change("ours", "ADDED", ours)])
    ((row, _),) = watched.apply([change("native", "ADDED", native)])
    assert [item.group for item in row.holds] == ["g", "g"]
    ((row, _),) = watched.apply([change("native", "DELETED", native)])
    assert [item.group for item in row.holds] == ["g"]
