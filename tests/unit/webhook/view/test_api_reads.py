"""The few reads of the API server: what is asked, what is left out, what an absence means."""

from __future__ import annotations

import json
import threading
from typing import Any, cast

import msgspec
import pytest

from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import Conflict, Forbidden, NotFound, TooManyRequests
from scheduler_core.kube.paging import ListMeta, Page
from scheduler_core.model.groups.gang import GroupRef
from scheduler_core.model.kinds import POD_GROUPS, Resource
from scheduler_core.model.pods.requests import ResizeRule
from scheduler_core.model.quotas.reservation_ledger import ReservationLedger
from scheduler_core.model.writes import Create, Replace
from tests.support.builders import make_pod
from tests.unit.webhook.http.reviews import Obj, namespace, native, quota
from tests.unit.webhook.reservations.reservations import hold
from webhook.http.admission_review import UserInfo
from webhook.reservations.ledger_api import LedgerClient
from webhook.view.api_reads import MOST_LARGE_LISTS, ClientReads, OptionalReads


class FakeClient:
    """Lists and objects by plural; notes what was asked, and how."""

    def __init__(self, **lists: list[Obj]) -> None:
        self.lists = lists
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        self.written: list[Create | Replace] = []
        self.error: Exception | None = None
        self.answer = b'{"metadata": {"resourceVersion": "1"}}'

    @property
    def client(self) -> Client:
        return cast(Client, self)

    def _note(self, resource: Resource, where: str, how: dict[str, Any]) -> None:
        self.asked.append((resource.plural, where, {name: said for name, said in how.items() if said != ""}))
        if self.error is not None:
            raise self.error

    def _raw(self, resource: Resource, namespace: str = "") -> list[msgspec.Raw]:
        items = self.lists.get(resource.plural, [])
        return [msgspec.Raw(json.dumps(item).encode()) for item in items if self._is_in(item, namespace)]

    @staticmethod
    def _is_in(item: Obj, namespace: str) -> bool:
        meta = item["metadata"]
        return not (namespace and isinstance(meta, dict)) or meta.get("namespace", namespace) == namespace

    def get_page(self, resource: Resource, namespace: str, **how: Any) -> Any:
        self._note(resource, namespace, how)
        return Page(ListMeta("77"), self._raw(resource, namespace) or None)

    def list_raw(self, resource: Resource, **how: Any) -> list[msgspec.Raw]:
        self._note(resource, "", how)
        return self._raw(resource)

    def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        self._note(resource, f"{namespace}/{name}", {})
        found = [item for item in self.lists.get(resource.plural, []) if item["metadata"]["name"] == name]
        if not found:
            raise NotFound(404, "NotFound", name)
        return json.dumps(found[0]).encode()

    def create(self, write: Create) -> bytes:
        self.written.append(write)
        return self.answer

    def replace(self, write: Replace) -> bytes:
        self.written.append(write)
        if self.error is not None:
            raise self.error
        return b'{"metadata": {"resourceVersion": "2"}}'


BROKEN_QUOTA = quota("broken", min={"cpu": "nonsense"})


def test_quotas_of_a_namespace_are_of_one_moment_and_readable() -> None:
    fake = FakeClient(elasticquotas=[quota("eq", max={"cpu": 1}), BROKEN_QUOTA])
    fresh = ClientReads(fake.client).quotas("a")
    assert (fresh.scope, fresh.version, [q.name for q in fresh.quotas], fresh.native) == (
        "a",
        "77",
        ["eq"],
        None,
    )
    assert fake.asked == [("elasticquotas", "a", {"limit": 0, "retry_budget": 0.0})]


def test_everything_is_all_quotas_and_what_is_native_in_one_namespace() -> None:
    fake = FakeClient(elasticquotas=[quota("eq", "b")], resourcequotas=[native("rq")])
    fresh = ClientReads(fake.client).everything("a")
    assert (fresh.scope, fresh.version, fresh.native_version) == ("", "77", "77")
    assert ([q.namespace for q in fresh.quotas], [q.name for q in fresh.native or ()]) == (["b"], ["rq"])
    assert [(plural, where) for plural, where, _ in fake.asked] == [
        ("elasticquotas", ""),
        ("resourcequotas", "a"),
        ("quotagroups", ""),
        ("quotaflavors", ""),
    ]


def test_a_namespace_that_is_not_there_or_cannot_be_read_is_none() -> None:
    fake = FakeClient(namespaces=[namespace("a"), {"metadata": {"name": "odd", "labels": 5}}])
    live = ClientReads(fake.client)
    found = live.namespace("a")
    assert found is not None
    assert (found.name, live.namespace("b"), live.namespace("odd")) == ("a", None, None)
    fake.error = Forbidden(403, "Forbidden", "no")
    with pytest.raises(Forbidden):
        live.namespace("a")


def test_members_are_those_that_name_the_group() -> None:
    pods = [
        make_pod("a/p").uid("p").group("g"),
        make_pod("a/q").uid("q").group("h"),
        make_pod("a/r").uid("r"),
    ]
    fake = FakeClient(pods=[item.dict() for item in pods])
    assert [member.uid for member in ClientReads(fake.client).members(GroupRef("PodGroup", "a", "g"))] == [
        "p"
    ]


def test_topologies_are_those_that_can_be_read() -> None:
    meta = {"namespace": "default", "labels": {"sakkara.topology": ""}}
    good = {"level-names": '["node"]', "tree": '{"n": {}}'}
    fake = FakeClient(
        configmaps=[
            {"metadata": {"name": "good", **meta}, "data": good},
            {"metadata": {"name": "bad", **meta}, "data": {"level-names": "nonsense"}},
        ]
    )
    assert [found.name for found in ClientReads(fake.client).topologies()] == ["good"]
    assert fake.asked[0][2] == {"label_selector": "sakkara.topology", "limit": 0, "retry_budget": 0.0}


def test_topologies_that_no_scheduler_reads_are_not_read() -> None:
    """Those of a tenant would fill the memory, and refuse groups of others."""
    data = {"level-names": '["node"]', "tree": '{"n": {}}'}
    made = [
        {
            "metadata": {"name": namespace, "namespace": namespace, "labels": {"sakkara.topology": ""}},
            "data": data,
        }
        for namespace in ("default", "sakkara", "tenant")
    ]
    fake = FakeClient(configmaps=made)
    reads = ClientReads(fake.client, topologies=("sakkara", "default"))
    assert [found.name for found in reads.topologies()] == ["default", "sakkara"]
    assert [where for _, where, _ in fake.asked] == ["default", "sakkara"]


class SlowClient(FakeClient):
    """Answers no list before it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.go, self.lists_begun = threading.Event(), threading.Semaphore(0)

    def get_page(self, resource: Resource, namespace: str, **how: Any) -> Any:
        self.lists_begun.release()
        assert self.go.wait(60)
        return super().get_page(resource, namespace, **how)


def test_few_lists_of_what_tenants_make_are_read_at_once() -> None:
    fake = SlowClient()
    reads = ClientReads(fake.client)
    reading = [
        threading.Thread(target=reads.members, args=(GroupRef("PodGroup", "a", "g"),))
        for _ in range(MOST_LARGE_LISTS)
    ]
    for thread in reading:
        thread.start()
        assert fake.lists_begun.acquire(timeout=60)
    for refused in (lambda: reads.members(GroupRef("PodGroup", "b", "g")), reads.topologies):
        with pytest.raises(TooManyRequests):
            refused()
    assert OptionalReads(reads).ask(lambda live: live.members(GroupRef("PodGroup", "b", "g"))) is None
    fake.go.set()
    for thread in reading:
        thread.join(60)
    assert reads.members(GroupRef("PodGroup", "b", "g")) == reads.topologies() == ()


# name, the user, what is asked of them, the answer, whether they may
ACCESS: list[tuple[str, UserInfo, Obj, bytes, bool]] = [
    (
        "who may",
        UserInfo("x", ("g", "h")),
        {"user": "x", "groups": ("g", "h")},
        b'{"status":{"allowed":true}}',
        True,
    ),
    ("who may not", UserInfo("x", ()), {"user": "x", "groups": ()}, b'{"status":{"allowed":false}}', False),
    ("who has no groups", UserInfo("x"), {"user": "x", "groups": ()}, b'{"status":{"allowed":true}}', True),
    ("who gets no answer", UserInfo("x"), {"user": "x", "groups": ()}, b"{}", False),
    ("who gets nonsense", UserInfo("x"), {"user": "x", "groups": ()}, b'{"status":5}', False),
]


@pytest.mark.parametrize(
    ("user", "asked", "answer", "may"), [case[1:] for case in ACCESS], ids=[case[0] for case in ACCESS]
)
def test_who_may_list_quotas(user: UserInfo, asked: Obj, answer: bytes, may: bool) -> None:
    fake = FakeClient()
    fake.answer = answer
    assert ClientReads(fake.client).may_list_quotas(user) is may
    (write,) = fake.written
    attributes = {"verb": "list", "group": "scheduling.x-k8s.io", "resource": "elasticquotas"}
    assert (write.resource.plural, write.namespace) == ("subjectaccessreviews", "")
    assert write.body == {"spec": {**asked, "resourceAttributes": attributes}}


def test_requested_is_what_pods_ask_for_that_have_not_ended() -> None:
    pods = [
        make_pod(f"a/{uid}").uid(uid).requests(cpu=cpu).dict()
        for uid, cpu in (("p", "1"), ("q", "2"), ("r", "4"))
    ]
    pods[2]["status"] = {"phase": "Succeeded"}
    fake = FakeClient(pods=pods)
    assert ClientReads(fake.client).requested("a") == {"cpu": 3000, "pods": 2}
    assert [(plural, where) for plural, where, _ in fake.asked] == [("pods", "a")]
    assert ClientReads(FakeClient().client).requested("a") == {}


@pytest.mark.parametrize(
    ("rule", "cpu"),
    [(ResizeRule.LARGEST_SUM, 4000), (ResizeRule.SUM_OF_LARGEST, 6000)],
    ids=["the newest version", "the version before it"],
)
def test_pods_that_are_resized_count_as_in_the_version_of_the_server(rule: ResizeRule, cpu: int) -> None:
    """Two CPUs move from one container to the other."""
    made = make_pod("a/p").uid("p").group("g").dict()
    asked = {"x": ("1", "3"), "y": ("3", "1")}
    made["spec"]["containers"] = [
        {"name": name, "resources": {"requests": {"cpu": now}}} for name, (now, _) in asked.items()
    ]
    told = [
        {"name": name, "allocatedResources": {"cpu": had}, "resources": {"requests": {"cpu": had}}}
        for name, (_, had) in asked.items()
    ]
    made["status"] = {"phase": "Running", "containerStatuses": told}
    client = FakeClient(pods=[made]).client
    reads = ClientReads(client, rule=lambda: rule)
    assert reads.requested("a") == {"cpu": cpu, "pods": 1}
    assert [member.usage["cpu"] for member in reads.members(GroupRef("PodGroup", "a", "g"))] == [cpu]
    assert [pod.usage["cpu"] for pod in LedgerClient(client, rule=lambda: rule).pods("a")[1]] == [cpu]


def test_kinds_that_are_not_served_have_no_objects() -> None:
    flavor = {"resource": "nvidia.com/gpu", "nodeSelector": {"type": "hot"}}
    odd = {"metadata": {"name": "odd"}, "spec": 5}
    fake = FakeClient(
        quotagroups=[{"metadata": {"name": "g"}, "spec": {}}, odd],
        quotaflavors=[{"metadata": {"name": "f"}, "spec": flavor}, odd],
    )
    live = ClientReads(fake.client)
    assert [group.name for group in live.quota_groups()] == ["g"]
    assert [one.name for one in live.quota_flavors()] == ["f"]
    everything = live.everything("a")
    assert [group.name for group in everything.groups or ()] == ["g"]
    assert [one.name for one in everything.flavors or ()] == ["f"]
    fake.error = NotFound(404, "NotFound", "quotagroups")
    assert live.quota_groups() == live.quota_flavors() == ()
    fake.error = Forbidden(403, "Forbidden", "no")
    for read in (live.quota_groups, live.quota_flavors):
        with pytest.raises(Forbidden):
            read()


def test_every_large_read_is_one_of_few() -> None:
    fake = SlowClient()
    reads, ref = ClientReads(fake.client), GroupRef("PodGroup", "a", "g")
    reading = [threading.Thread(target=reads.topologies) for _ in range(MOST_LARGE_LISTS)]
    for thread in reading:
        thread.start()
        assert fake.lists_begun.acquire(timeout=60)
    try:
        for refused in (
            lambda: reads.members(ref),
            lambda: reads.group(ref),
            lambda: reads.groups("a"),
            lambda: reads.requested("a"),
            lambda: reads.serves("volcano"),
            reads.topologies,
        ):
            with pytest.raises(TooManyRequests) as refusal:
                refused()
            assert refusal.value.status == 429
    finally:
        fake.go.set()
        for thread in reading:
            thread.join(60)
    assert reads.requested("a") == {}


def test_an_optional_read_that_fails_has_no_result() -> None:
    fake = FakeClient(namespaces=[namespace("a")])
    for live, named in ((None, None), (ClientReads(fake.client), "a")):
        found = OptionalReads(live).ask(lambda reads: reads.namespace("a"))
        assert (found.name if found is not None else None) == named
    fake.error = Forbidden(403, "Forbidden", "no")
    assert OptionalReads(ClientReads(fake.client)).ask(lambda reads: reads.namespace("a")) is None
    fake.error = ValueError("a fault of the code")
    with pytest.raises(ValueError, match="a fault"):
        OptionalReads(ClientReads(fake.client)).ask(lambda reads: reads.namespace("a"))


# Ledgers


def test_a_ledger_that_is_not_there_is_an_empty_one_without_a_version() -> None:
    assert LedgerClient(FakeClient().client).ledger("a") == ReservationLedger("a")


def test_a_ledger_is_created_and_from_then_on_replaced() -> None:
    fake = FakeClient()
    ledgers = LedgerClient(fake.client)
    first = ledgers.put(ReservationLedger("a", holds=(hold("g", 1),)))
    second = ledgers.put(first)
    assert [type(write) for write in fake.written] == [Create, Replace]
    assert (first.resource_version, second.resource_version, second.holds) == ("1", "2", (hold("g", 1),))
    fake.error = Conflict(409, "Conflict", "lost")
    with pytest.raises(Conflict):
        ledgers.put(second)


def test_a_ledger_comes_back_as_it_was_written_and_a_damaged_one_empty_over_its_version() -> None:
    fake = FakeClient()
    LedgerClient(fake.client).put(ReservationLedger("a", holds=(hold("g", 1),)))
    body: Any = fake.written[0].body
    metadata = {**body["metadata"], "name": "reservations", "namespace": "a", "resourceVersion": "5"}
    fake.lists["reservationledgers"] = [{**body, "metadata": metadata}]
    assert LedgerClient(fake.client).ledger("a") == ReservationLedger("a", "5", holds=(hold("g", 1),))
    fake.lists["reservationledgers"] = [{"metadata": metadata, "spec": 5, "holds": 5}]
    assert LedgerClient(fake.client).ledger("a").holds == ()
    assert LedgerClient(fake.client).ledger("a").resource_version == "5"


def test_a_cluster_without_pod_groups_has_none() -> None:
    fake = FakeClient(pods=[make_pod("a/p").uid("p").dict(), {"metadata": 5}])
    ledgers = LedgerClient(fake.client)
    version, pods = ledgers.pods("a")
    assert (version, [pod.uid for pod in pods]) == ("77", ["p"])
    assert fake.asked[0][2] == {"limit": 0, "retry_budget": 0.0}
    fake.error = NotFound(404, "NotFound", POD_GROUPS.plural)
    assert ledgers.groups("a") == []
    with pytest.raises(NotFound):
        ledgers.quotas("a")


def test_a_scheduler_is_looked_for_in_its_traces_one_by_one() -> None:
    client = FakeClient()
    assert not ClientReads(client.client).serves("volcano")
    asked = [(plural, how["field_selector"], how["limit"]) for plural, _, how in client.asked]
    assert asked == [
        ("leases", "metadata.namespace!=kube-node-lease", 0),
        ("deployments", "metadata.name=volcano", 1),
        ("endpoints", "metadata.name=volcano", 1),
        ("events", "reportingController=volcano", 1),
        ("pods", "spec.schedulerName=volcano,spec.nodeName!=", 1),
    ]
    assert ClientReads(FakeClient(pods=[{"metadata": {"name": "p"}}]).client).serves("volcano")


def test_leases_are_held_against_the_wall_clock() -> None:
    spec = {"holderIdentity": "x", "renewTime": "2027-01-15T08:00:00.000000Z"}
    client = FakeClient(leases=[{"metadata": {"name": "volcano"}, "spec": spec}])
    assert ClientReads(client.client, lambda: 1_800_000_000.0).serves("volcano")
    assert not ClientReads(client.client, lambda: 1_800_001_000.0).serves("volcano")


@pytest.mark.parametrize(("labels", "unlabelled"), [({}, True), ({"sakkara.group": ""}, False)])
def test_a_config_map_without_its_label_is_found_by_name(labels: dict[str, str], unlabelled: bool) -> None:
    meta = {"name": "g", "namespace": "a", "labels": labels}
    client = FakeClient(configmaps=[{"metadata": meta}])
    assert ClientReads(client.client).is_unlabelled("a", "g") is unlabelled
    ((_, where, how),) = client.asked
    assert (where, how["field_selector"]) == ("a", "metadata.name=g")
    assert not ClientReads(FakeClient().client).is_unlabelled("a", "g")
