"""A load ends where the cluster has gone, and removes what it made in namespaces of others, too."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from sandbox.load import driver
from sandbox.load.driver import ClusterGone, Load, NoSuchNamespace, clean, prepare
from sandbox.load.mix import LABEL
from scheduler_core.kube.errors import ApiError, Forbidden, NotFound, Unreachable
from scheduler_core.model.kinds import ELASTIC_QUOTAS, PODS, Resource
from scheduler_core.model.writes import Create, Delete

GONE = Unreachable("https://127.0.0.1:1: connection refused", sent=False, refused=True)
IN_USE = Forbidden(403, "Forbidden", "ElasticQuota load-0/quota: status.used=cpu=1 is charged to it")


class FakeClient:
    """Writes that are answered with the given errors, in this order, and then succeed."""

    def __init__(self, *errors: ApiError, kind: Resource = ELASTIC_QUOTAS) -> None:
        self.kind = kind
        self.errors = list(errors)
        self.creates = 0
        self.deleted: list[Resource] = []

    def create(self, write: Create) -> bytes:
        self.creates += 1
        if self.errors:
            raise self.errors.pop(0)
        return b"{}"

    def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        raise NotFound(404, "NotFound", f'namespaces "{name}" not found')

    def get_page(self, resource: Resource, **options: Any) -> None:
        """The cluster serves all kinds."""

    def list_raw(self, resource: Resource, label_selector: str) -> list[bytes]:
        assert label_selector == LABEL
        meta = {"namespace": "load-0", "name": "one", "uid": "1"}
        return [msgspec.json.encode({"metadata": meta})] if resource == self.kind else []

    def delete(self, write: Delete) -> bytes:
        if self.errors:
            raise self.errors.pop(0)
        self.deleted.append(write.resource)
        return b"{}"


@pytest.fixture(autouse=True)
def without_a_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "Reflector", lambda *_, **__: Mock())
    monkeypatch.setattr(driver, "SETTLE_SECONDS", 0.0)


def ran(client: Any, pods: int) -> Load:
    work = Load(client, "run", pods, 1e9)
    work.run(["a"], 0, gangs=False, progress=lambda created, total, bound: None)
    return work


def test_a_load_ends_soon_after_the_cluster_has_gone() -> None:
    client = FakeClient(*[GONE] * 1000)
    with pytest.raises(ClusterGone) as caught:
        ran(client, 1000)
    assert str(caught.value) == (
        "https://127.0.0.1:1: connection refused; the load ended after 0 of 1000 pods"
    )
    assert client.creates < 100


def test_a_request_without_an_answer_is_counted_and_the_load_goes_on() -> None:
    work = ran(FakeClient(GONE), 50)
    assert work.refusals == [GONE.message]
    assert work.created >= 40


def test_a_namespace_that_does_not_exist_is_named() -> None:
    with pytest.raises(NoSuchNamespace, match="--namespaces: there is no namespace 'nope'"):
        prepare(FakeClient(), ["nope"])  # type: ignore[arg-type]


def test_quotas_in_namespaces_of_others_are_removed() -> None:
    client = FakeClient()
    assert clean(client) == 1  # type: ignore[arg-type]
    assert client.deleted == [ELASTIC_QUOTAS]


def test_a_quota_goes_once_its_use_is_seen_to_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The webhook reads `status.used`, which the scheduler writes a moment after the pods have gone."""
    monkeypatch.setattr(driver, "SETTLE_SECONDS", 60.0)
    client = FakeClient(IN_USE, IN_USE)
    assert clean(client) == 1  # type: ignore[arg-type]
    assert client.deleted == [ELASTIC_QUOTAS]


def test_a_quota_that_stays_in_use_is_told() -> None:
    with pytest.raises(Forbidden, match="is charged to it"):
        clean(FakeClient(*[IN_USE] * 1000))  # type: ignore[arg-type]


def test_a_right_that_is_missing_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "SETTLE_SECONDS", 60.0)
    client = FakeClient(IN_USE, kind=PODS)
    with pytest.raises(Forbidden):
        clean(client)  # type: ignore[arg-type]
    assert not client.deleted
