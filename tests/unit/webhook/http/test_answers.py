"""Every refusal has its code, reason and causes; what is on its way out is nobody's business."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.webhook.http.reviews import (
    Obj,
    ask,
    denial,
    envelope,
    namespace,
    native,
    node,
    pod,
    quota,
    synced,
)
from tests.unit.webhook.reservations.reservations import FakeApi, Replica, hold, pod_group
from webhook.certs.ca_bundle import Published, with_bundle
from webhook.http.admission_review import review
from webhook.policy.review_dispatcher import ReviewDispatcher
from webhook.reservations.ledger_writer import Times
from webhook.reservations.reservation_store import ReservationStore

KEY = "scheduling.k8s.io/group-name"
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def group(members: int = 1, meta: Obj | None = None, **total: str) -> Obj:
    metadata = {"name": "g", "namespace": "a", "uid": "uid-g", **(meta or {})}
    spec = {"minMembers": members, "totalResources": total}
    return {
        "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": spec,
    }


def config_map(**data: str) -> Obj:
    meta = {"name": "c", "namespace": "a", "labels": {"sakkara.group": ""}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def reserving(hard: str = "4") -> ReviewDispatcher:
    """A namespace whose ResourceQuota rq has so many CPUs, 2 of them held by group g."""
    api, cache = FakeApi(hard), synced(native(hard={"cpu": hard}))
    replica = Replica(api)
    store = ReservationStore(
        api, cache.reservations, replica.pods, cache.natives, Times(0, 0, 0), replica.slept.append
    )
    assert not store.reserve("a", hold("g", 2))
    api.existing["uid-g"] = pod_group("g", 2)
    return ReviewDispatcher(cache, store=store)


def cpu_pod(cpu: str, name: str = "p", **meta: Any) -> Obj:
    made = pod(meta={"name": name, "uid": f"uid-{name}", **meta})
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


def refusal(
    service: ReviewDispatcher, obj: Obj | None, old: Obj | None = None, **more: Any
) -> tuple[int, str, list[Obj], str]:
    """(code, reason, causes, rules) of a refusal."""
    response = ask(service.validate, obj, old, **more)
    assert not response["allowed"]
    status = response["status"]
    return (
        status["code"],
        status["reason"],
        status["details"]["causes"],
        response["auditAnnotations"]["rules"],
    )


REFUSALS: list[tuple[str, ReviewDispatcher, Obj, tuple[int, str, str, str, str]]] = [
    (
        "a quota over its bounds",
        ReviewDispatcher(synced(node(cpu="9"))),
        quota(min={"cpu": 3}, max={"cpu": 2}),
        (403, "Forbidden", "bounds", "spec.min[cpu]", "FieldValueForbidden"),
    ),
    (
        "a quota that cannot be read",
        ReviewDispatcher(synced()),
        quota(min={"cpu": "x"}),
        (422, "Invalid", "malformed", "spec.min[cpu]", "FieldValueInvalid"),
    ),
    (
        "a pod beyond what groups leave",
        reserving(),
        cpu_pod("3"),
        (403, "Forbidden", "reserved", "spec.containers", "FieldValueForbidden"),
    ),
    (
        "a group beyond what there is",
        reserving(),
        group(meta={"name": "h", "uid": "uid-h"}, cpu="3"),
        (403, "Forbidden", "reserved", "spec.totalResources", "FieldValueForbidden"),
    ),
    (
        "a group that its quota can never hold",
        ReviewDispatcher(synced(quota(max={"cpu": 2}))),
        group(cpu="3"),
        (403, "Forbidden", "group", "spec.totalResources[cpu]", "FieldValueForbidden"),
    ),
    (
        "a group ConfigMap that cannot be read",
        ReviewDispatcher(synced()),
        config_map(name="g", size="none"),
        (422, "Invalid", "malformed", "data.size", "FieldValueInvalid"),
    ),
]


@pytest.mark.parametrize(
    ("service", "obj", "expected"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS]
)
def test_refusals_say_code_reason_and_field(
    service: ReviewDispatcher, obj: Obj, expected: tuple[int, str, str, str, str]
) -> None:
    code, reason, causes, rules = refusal(service, obj)
    (cause,) = causes
    assert (code, reason, rules, cause["field"], cause["reason"]) == expected


def test_a_topology_that_can_never_hold_is_forbidden() -> None:
    class Live:
        def topologies(self) -> list[Any]:
            from scheduler_core.model.config_map import parse_config_map

            meta = {"name": "t", "namespace": "a", "labels": {"sakkara.topology": ""}}
            data = {"level-names": '["node"]', "tree": json.dumps({"n": {}})}
            return [parse_config_map({"metadata": meta, "data": data})]

    service = ReviewDispatcher(synced(), live=Live())  # type: ignore[arg-type]
    made = config_map(name="g", size="4", constraints=json.dumps({"rack": {"type": "pack"}}))
    code, reason, causes, rules = refusal(service, made)
    assert (code, reason, rules) == (403, "Forbidden", "topology")
    assert [(cause["reason"], cause["field"]) for cause in causes] == [
        ("FieldValueForbidden", "data.constraints")
    ]
    assert denial(service, config_map(name="g", size="4")) == "", "without wishes nothing is asked"


ILLEGAL = quota(min={"cpu": 3}, max={"cpu": 2})
LEAVING: list[tuple[str, Obj, Obj]] = [
    ("a quota", quota(min={"cpu": 5}, max={"cpu": 2}, meta=GOING), ILLEGAL),
    ("a ResourceQuota", native(hard={"cpu": 1}, meta=GOING), native(hard={"cpu": 9})),
    ("a group", group(7, meta=GOING), group(1)),
]


@pytest.mark.parametrize(("obj", "old"), [item[1:] for item in LEAVING], ids=[item[0] for item in LEAVING])
def test_an_object_that_is_being_deleted_may_be_changed(obj: Obj, old: Obj) -> None:
    service = ReviewDispatcher(synced(quota(max={"cpu": 2})))
    assert denial(service, obj, old) == ""
    staying = {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "deletionTimestamp"}}
    assert denial(service, staying, old) != ""


def test_a_quota_that_was_unreadable_may_be_changed_where_it_is_not_what_is_wrong() -> None:
    service = ReviewDispatcher(synced(node(cpu="9")))
    wrong = quota(min={"cpu": "x"})
    assert denial(service, {**wrong, "metadata": {**wrong["metadata"], "labels": {"a": "b"}}}, wrong) == ""
    assert "spec.min[cpu]" in denial(service, quota(min={"cpu": "y"}), wrong)
    assert denial(service, quota(min={"cpu": 1}), wrong) == ""


MISSING: list[tuple[str, Obj, dict[str, Any], str]] = [
    ("a quota without its old form", quota(), {"operation": "UPDATE"}, "oldObject"),
    ("a pod that moves without its old form", pod(), {"operation": "UPDATE"}, "oldObject"),
    ("a resize without its old form", pod(), {"operation": "UPDATE", "subResource": "resize"}, "oldObject"),
    ("a group ConfigMap without its old form", config_map(), {"operation": "UPDATE"}, "oldObject"),
    ("a new pod that is not there", pod(), {"object": None}, "object"),
    ("a quota that is not there", quota(), {"object": None}, "object"),
]


@pytest.mark.parametrize(("obj", "more", "field"), [m[1:] for m in MISSING], ids=[m[0] for m in MISSING])
def test_requests_without_what_they_are_about_are_malformed(
    obj: Obj, more: dict[str, Any], field: str
) -> None:
    service = ReviewDispatcher(synced())
    answer = review(json.dumps(envelope(obj, **more)).encode(), service.validate)
    assert (answer.status, f"request.{field} is missing" in answer.body.decode()) == (400, True)


def test_namespaces_that_are_exempt_are_left_alone() -> None:
    wrong = pod(meta={"namespace": "kube-system", "annotations": {KEY: "Not/AName"}})
    service = ReviewDispatcher(synced(namespace("kube-system")))
    assert denial(service, wrong) == ""
    moved = pod(meta={"namespace": "kube-system", "annotations": {KEY: "other"}})
    assert denial(service, moved, pod(meta={"namespace": "kube-system", "annotations": {KEY: "g"}})) == ""
    assert denial(service, pod(meta={"annotations": {KEY: "Not/AName"}})) != ""


def test_capacity_counts_nodes_that_take_pods() -> None:
    service = ReviewDispatcher(synced(node("m", cpu="2"), node("n", cpu="9", unschedulable=True)))
    assert denial(service, quota(min={"cpu": 2})) == ""
    assert "more than the 2 allocatable" in denial(service, quota(min={"cpu": 3}))


# CA bundles of the configurations


def configuration(**bundles: str | None) -> Obj:
    entries: list[Obj] = []
    for name, bundle in bundles.items():
        config: Obj = {"url": name} if bundle is None else {"url": name, "caBundle": bundle}
        entries.append({"name": name.replace("_", "."), "clientConfig": config})
    return {"metadata": {"resourceVersion": "1"}, "webhooks": entries}


@pytest.mark.parametrize(
    ("found", "trusts"),
    [
        pytest.param([], True, id="nobody asks"),
        pytest.param([{"a_muster_dev": "Yg=="}], True, id="ours trust it"),
        pytest.param([{"a_muster_dev": "Yg==", "b_muster_dev": "eA=="}], False, id="one of ours does not"),
        pytest.param([{"a_muster_dev": "Yg=="}, {"b_muster_dev": None}], False, id="another one has none"),
        pytest.param(
            [{"a_muster_dev": "Yg==", "others_example_com": "eA=="}], True, id="others do not matter"
        ),
    ],
)
def test_a_bundle_is_trusted_where_all_of_ours_have_it(
    found: list[dict[str, str | None]], trusts: bool
) -> None:
    resource: Any = None
    published = Published(tuple((resource, configuration(**entry)) for entry in found))
    assert published.trusts(b"b") is trusts


def test_a_bundle_is_written_into_ours_beside_all_else() -> None:
    before = configuration(a_muster_dev="eA==", others_example_com="eA==")
    after = with_bundle(before, b"b")
    assert [entry["clientConfig"] for entry in after["webhooks"]] == [
        {"url": "a_muster_dev", "caBundle": "Yg=="},
        {"url": "others_example_com", "caBundle": "eA=="},
    ]
    assert after["metadata"] == before["metadata"]
    assert with_bundle({"webhooks": None}, b"b") == {"webhooks": []}
    assert with_bundle({"webhooks": [{"name": "a.muster.dev"}]}, b"b")["webhooks"] == [
        {"name": "a.muster.dev", "clientConfig": {"caBundle": "Yg=="}}
    ]
