"""Which loans a watch prints again."""

from __future__ import annotations

from typing import Any

from kubectl_plugin.cluster.reflectors import FeedEvent
from kubectl_plugin.inspection.loan_watch import WatchedLoans
from scheduler_core.kube.watch.tracker import Event, EventType
from scheduler_core.model.kinds import ELASTIC_QUOTAS, PODS
from scheduler_core.model.pods.pod import parse_pod
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from tests.unit.kubectl_plugin.plugin_api import pod_object, quota_object

A, B, C = (quota_object(name, min={"cpu": "4"}) for name in "abc")


def change(kind: EventType, obj: dict[str, Any]) -> FeedEvent:
    of_quota = obj.get("kind") == "ElasticQuota"
    resource = ELASTIC_QUOTAS if of_quota else PODS
    value = parse_elastic_quota(obj) if of_quota else parse_pod(obj)
    key = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
    return FeedEvent(resource.plural, Event(kind, resource, key, "", None if kind == "DELETED" else value))


def loans(watched: WatchedLoans, kind: EventType, *objects: dict[str, Any]) -> list[tuple[str, ...]]:
    rows = watched.apply([change(kind, obj) for obj in objects])
    return [tuple(row.document().values())[1:] for row in rows]


def test_loans_are_printed_when_they_begin_change_and_end() -> None:
    watched = WatchedLoans()
    assert loans(watched, "ADDED", A, B, C) == []
    assert loans(watched, "ADDED", pod_object("a", "p", cpu="6")) == [
        ("a", "b", "1", "1"),
        ("a", "c", "1", "1"),
    ]
    # b uses all of its own: c lends alone.
    assert loans(watched, "ADDED", pod_object("b", "p", cpu="4")) == [
        ("a", "b", "0", "0"),
        ("a", "c", "2", "2"),
    ]
    # A pod that borrows nothing changes no loan.
    assert loans(watched, "ADDED", pod_object("c", "p", cpu="1")) == []
    assert loans(watched, "DELETED", C) == [("a", "c", "0", "0"), ("a", "-", "2", "0")]
    assert loans(watched, "DELETED", pod_object("a", "p")) == [("a", "-", "0", "0")]


def test_a_namespace_sees_its_own_loans() -> None:
    watched = WatchedLoans("b")
    found = loans(watched, "ADDED", A, B, C, pod_object("a", "p", cpu="6"))
    assert found == [("a", "b", "1", "1")]
