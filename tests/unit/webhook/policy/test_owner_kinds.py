"""What is known of kinds of owners: kept for a while, and asked anew for a kind that came since."""

from __future__ import annotations

from typing import Any, cast

from scheduler_core.kube.errors import NotFound
from scheduler_core.model.meta import OwnerReference
from tests.unit.webhook.policy.test_pod_group_membership import FakeClient, workload
from webhook.policy.pod_group_membership import Owner
from webhook.view.owners import KEEP_KINDS_SECONDS, KEEP_SECONDS, OwnerCache

DISCOVERY = "/apis/example.com/v1"


def reference(kind: str, name: str, api: str = "example.com/v1") -> OwnerReference:
    return OwnerReference(kind, name, f"uid-{name}", api)


def made(client: FakeClient) -> tuple[OwnerCache, list[float]]:
    now = [0.0]
    return OwnerCache(cast(Any, client), lambda: now[0]), now


def test_kinds_are_asked_for_again_when_one_is_not_known_or_they_are_old() -> None:
    client = FakeClient(workload("Train", "t", "g"), workload("Train", "u", "g"))
    cache, now = made(client)
    assert cache.find("a", reference("Train", "t"), ask=True) == Owner("uid-t", "g", None)
    assert cache.find("a", reference("Train", "u"), ask=True) is not None
    assert client.calls.count(DISCOVERY) == 1
    client.objects["Ship", "a", "s"] = workload("Ship", "s", "h")
    assert cache.find("a", reference("Ship", "s"), ask=True) == Owner("uid-s", "h", None)
    assert client.calls.count(DISCOVERY) == 2, "the kind came since"
    now[0] = KEEP_KINDS_SECONDS
    cache.find("a", reference("Train", "t"), ask=True)
    assert client.calls.count(DISCOVERY) == 2
    now[0] = 2 * KEEP_KINDS_SECONDS + 1
    cache.find("a", reference("Train", "t"), ask=True)
    assert client.calls.count(DISCOVERY) == 3


def test_watched_kinds_need_no_discovery() -> None:
    client = FakeClient(workload("Job", "j", "g"))
    cache, _ = made(client)
    assert cache.find("a", reference("Job", "j", "batch/v1"), ask=True) == Owner("uid-j", "g", None)
    assert client.calls == ["Job a/j"]


def test_an_owner_of_another_uid_or_none_is_none_and_known_for_a_while() -> None:
    client = FakeClient(workload("Job", "j", "g"))
    cache, now = made(client)
    other = OwnerReference("Job", "j", "older", "batch/v1")
    gone = reference("Job", "gone", "batch/v1")
    for asked in (other, gone):
        assert cache.find("a", asked, ask=False) is None
        assert cache.find("a", asked, ask=False) is None
    assert len(client.calls) == 2
    client.error = NotFound(404, "NotFound", "x")
    now[0] = KEEP_SECONDS
    assert cache.find("a", other, ask=False) is None
    assert len(client.calls) == 3


def test_without_a_client_only_what_is_watched_is_found() -> None:
    assert OwnerCache().find("a", reference("Train", "t"), ask=True) is None
