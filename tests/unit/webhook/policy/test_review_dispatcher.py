"""The service between requests: races, dry runs, caches that lag, and answers that are not there yet."""

from __future__ import annotations

import json
import threading

import msgspec
import pytest

from scheduler_core.kube.errors import ServiceUnavailable
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.namespace import Namespace, parse_namespace
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.model.quotas.resource_quota import parse_resource_quota
from tests.unit.webhook.http.reviews import (
    Obj,
    ask,
    denial,
    envelope,
    namespace,
    native,
    node,
    patch_of,
    pod,
    quota,
    synced,
    tell,
)
from webhook.http.admission_review import Malformed, ReviewRequest, Unready, decode_review
from webhook.policy.review_dispatcher import ReviewDispatcher
from webhook.view.cache import WATCHED, Cache, FreshList

OLDER = {"creationTimestamp": "2020-01-01T00:00:00Z"}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class FakeServer:
    """The API server's own answers."""

    def __init__(self, version: str, *objects: Obj) -> None:
        self.version = version
        self.objects = list(objects)
        self.asked: list[str] = []

    def quotas(self, namespace: str) -> FreshList:
        self.asked.append(f"quotas {namespace}")
        found = [parse_elastic_quota(o) for o in self.objects if o["kind"] == "ElasticQuota"]
        return FreshList(namespace, self.version, tuple(q for q in found if q.namespace == namespace))

    def everything(self, namespace: str) -> FreshList:
        self.asked.append(f"everything {namespace}")
        quotas = [parse_elastic_quota(o) for o in self.objects if o["kind"] == "ElasticQuota"]
        natives = [parse_resource_quota(o) for o in self.objects if o["kind"] == "ResourceQuota"]
        return FreshList("", self.version, tuple(quotas), self.version, tuple(natives))

    def namespace(self, name: str) -> Namespace | None:
        self.asked.append(f"namespace {name}")
        found = [o for o in self.objects if o["kind"] == "Namespace" and o["metadata"]["name"] == name]
        return parse_namespace(found[0]) if found else None

    def requested(self, namespace: str) -> dict[str, int]:
        return {}

    def may_list_quotas(self, user: object) -> bool:
        return False


class DeadServer(FakeServer):
    """Answers nothing."""

    def quotas(self, namespace: str) -> FreshList:
        raise ServiceUnavailable(503, "ServiceUnavailable", "no")

    def everything(self, namespace: str) -> FreshList:
        raise ServiceUnavailable(503, "ServiceUnavailable", "no")

    def namespace(self, name: str) -> Namespace | None:
        raise ServiceUnavailable(503, "ServiceUnavailable", "no")


def request(obj: Obj | None, old: Obj | None = None) -> ReviewRequest:
    return decode_review(json.dumps(envelope(obj, old)).encode())


def test_two_creations_that_race_in_one_namespace_leave_one() -> None:
    service = ReviewDispatcher(synced())
    assert denial(service, quota("first")) == ""
    assert "has ElasticQuota first already" in denial(service, quota("second"))


def test_two_creations_that_race_for_the_last_capacity_leave_one() -> None:
    service = ReviewDispatcher(synced(node(cpu="10")))
    assert denial(service, quota("eq", "a", min={"cpu": 6})) == ""
    assert "makes the sum of min 12" in denial(service, quota("eq", "b", min={"cpu": 6}))


def test_concurrent_creations_never_exceed_the_capacity() -> None:
    service = ReviewDispatcher(synced(node(cpu="10")))
    barrier = threading.Barrier(16)
    allowed: list[str] = []

    def create(number: int) -> None:
        barrier.wait()
        if not denial(service, quota("eq", f"ns{number}", min={"cpu": 3})):
            allowed.append(f"ns{number}")

    threads = [threading.Thread(target=create, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(allowed) == 3


def test_raising_max_and_lowering_hard_that_race_leave_one() -> None:
    stored, hard = quota(max={"cpu": 4}, version="1"), native(hard={"cpu": 8}, version="1")
    service = ReviewDispatcher(synced(stored, hard))
    assert denial(service, quota(max={"cpu": 8}, version="1"), stored) == ""
    assert "is below spec.max[cpu]=8" in denial(service, native(hard={"cpu": 6}, version="1"), hard)

    service = ReviewDispatcher(synced(stored, hard))
    assert denial(service, native(hard={"cpu": 6}, version="1"), hard) == ""
    assert "exceeds hard[cpu]=6" in denial(service, quota(max={"cpu": 8}, version="1"), stored)


def test_dry_run_is_judged_and_forgotten() -> None:
    service = ReviewDispatcher(synced(node(cpu="10")))
    for _ in range(1000):
        assert denial(service, quota("first", min={"cpu": 10}), dryRun=True) == ""
    assert denial(service, quota("second", min={"cpu": 10})) == ""
    assert "has ElasticQuota second already" in denial(service, quota("third"), dryRun=True)


def test_denied_quota_leaves_no_trace() -> None:
    service = ReviewDispatcher(synced(node(cpu="10")))
    assert denial(service, quota("eq", "a", min={"cpu": 11})) != ""
    assert denial(service, quota("eq", "b", min={"cpu": 10})) == ""


def test_write_that_failed_after_admission_is_forgotten_in_time() -> None:
    clock = Clock()
    service = ReviewDispatcher(synced(cache=Cache(clock)))
    assert denial(service, quota("first")) == ""
    clock.now = 9.9
    assert "first already" in denial(service, quota("second"))
    clock.now = 10.0
    assert denial(service, quota("second")) == ""


def test_an_object_in_the_watch_settles_its_admission() -> None:
    clock = Clock()
    service = ReviewDispatcher(synced(node(cpu="10"), cache=Cache(clock)))
    assert denial(service, quota(min={"cpu": 10})) == ""
    tell(service.cache, quota(min={"cpu": 10}))
    tell(service.cache, quota(), deleted=True)
    assert denial(service, quota("other", min={"cpu": 10})) == ""


def test_older_versions_on_the_watch_settle_nothing() -> None:
    service = ReviewDispatcher(synced(quota(min={"cpu": 1}, version="7"), node(cpu="10")))
    old = quota(min={"cpu": 1}, version="9")
    assert denial(service, quota(min={"cpu": 8}, version="9"), old) == ""
    tell(service.cache, quota(min={"cpu": 1}, version="8"))
    assert "makes the sum of min 11" in denial(service, quota("eq", "b", min={"cpu": 3}))
    tell(service.cache, quota(min={"cpu": 2}, version="10"))
    assert denial(service, quota("eq", "b", min={"cpu": 8})) == ""


def test_quota_with_a_generated_name_is_settled_by_what_appears() -> None:
    service = ReviewDispatcher(synced(node(cpu="10")))
    assert denial(service, quota("", min={"cpu": 1})) == ""
    assert "already" in denial(service, quota("second"))
    tell(service.cache, quota("eq-x7f2"))
    tell(service.cache, quota("eq-x7f2"), deleted=True)
    assert denial(service, quota("second")) == ""


def test_creation_sees_a_quota_that_only_the_server_knows() -> None:
    service = ReviewDispatcher(synced(), live=FakeServer("500", quota("hidden", version="400")))
    assert "has ElasticQuota hidden already" in denial(service, quota("eq"))


def test_creation_follows_a_deletion_that_the_watch_has_not_shown() -> None:
    service = ReviewDispatcher(synced(quota("gone", version="50")), live=FakeServer("60"))
    assert denial(service, quota("eq")) == ""


def test_quota_newer_than_the_servers_list_still_counts() -> None:
    service = ReviewDispatcher(synced(quota("newer", version="70")), live=FakeServer("60"))
    assert "has ElasticQuota newer already" in denial(service, quota("eq"))


def test_refusal_rests_on_what_the_server_lists_now() -> None:
    server = FakeServer("90", native(hard={"cpu": 9}, version="80"))
    stored = quota(max={"cpu": 2}, version="30")
    service = ReviewDispatcher(synced(stored, native(hard={"cpu": 3}, version="20")), live=server)

    assert denial(service, quota(max={"cpu": 9}, version="30"), stored) == ""
    assert server.asked == ["everything a"]
    assert "exceeds hard[cpu]=9" in denial(service, quota(max={"cpu": 10}, version="30"), stored)


def test_capacity_freed_elsewhere_counts_at_once() -> None:
    service = ReviewDispatcher(
        synced(node(cpu="10"), quota("eq", "b", min={"cpu": 9}, version="5")), live=FakeServer("9")
    )
    assert denial(service, quota("eq", "a", min={"cpu": 10})) == ""


def test_native_quota_raised_a_moment_ago_counts_at_once() -> None:
    hard = native(hard={"cpu": 3}, version="20")
    server = FakeServer("90", native(hard={"cpu": 9}, version="80"))
    service = ReviewDispatcher(synced(hard), live=server)
    assert denial(service, native(hard={"cpu": 9}, version="20"), hard) == ""
    assert denial(service, quota(max={"cpu": 9})) == ""


def test_dead_server_leaves_the_cache_to_decide() -> None:
    service = ReviewDispatcher(synced(quota("first")), live=DeadServer(""))
    assert "first already" in denial(service, quota("second"))
    assert denial(service, quota("eq", "b")) == ""
    assert patch_of(ask(service.mutate, pod(meta={"namespace": "new"}))) == []


def test_rules_of_one_object_make_no_request() -> None:
    server = FakeServer("1")
    service = ReviewDispatcher(synced(node(cpu="9")), live=server)
    assert denial(service, quota(min={"cpu": 2}, max={"cpu": 1}), quota()) != ""
    assert server.asked == []


def test_namespace_that_only_the_server_knows_is_fetched_for_a_pod() -> None:
    server = FakeServer("1", namespace("new", labels={"muster.dev/schedule": "true"}))
    service = ReviewDispatcher(synced(), live=server)

    assert patch_of(ask(service.mutate, pod(meta={"namespace": "new"})))
    assert patch_of(ask(service.mutate, pod(meta={"namespace": "kube-system"}))) == []
    assert server.asked == ["namespace new"]


def test_quota_admitted_a_moment_ago_sends_pods_already() -> None:
    service = ReviewDispatcher(synced(namespace("a")))
    assert patch_of(ask(service.mutate, pod())) == []
    assert denial(service, quota()) == ""
    assert patch_of(ask(service.mutate, pod()))


@pytest.mark.parametrize("missing", [resource.plural for resource, _ in WATCHED])
def test_unsynced_cache_decides_nothing_and_names_what_is_missing(missing: str) -> None:
    cache = Cache()
    for resource, _ in WATCHED:
        if resource.plural != missing:
            cache.sink(Event("SYNCED", resource))
    service = ReviewDispatcher(cache)
    for decide, obj in ((service.validate, quota()), (service.mutate, pod())):
        with pytest.raises(Unready, match=missing):
            decide(request(obj))


def test_unsynced_cache_is_no_reason_to_hold_up_the_rest() -> None:
    service = ReviewDispatcher(Cache())
    assert service.mutate(request(pod(meta={"namespace": "kube-system"}))).allowed
    assert service.validate(request(pod())).allowed


@pytest.mark.parametrize("field", ["object", "oldObject"])
def test_missing_objects_are_malformed(field: str) -> None:
    whole = request(quota(), quota())
    name = {"object": "object", "oldObject": "old_object"}[field]
    with pytest.raises(Malformed, match=f"request.{field} is missing in UPDATE"):
        ReviewDispatcher(synced()).validate(msgspec.structs.replace(whole, **{name: msgspec.Raw(b"null")}))
