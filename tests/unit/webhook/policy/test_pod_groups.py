"""PodGroups and pods before the service, with reservations behind it."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.kube.errors import ServiceUnavailable
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import POD_GROUPS, RESERVATION_LEDGERS
from scheduler_core.model.quotas.reservation_ledger import Charge, Hold
from scheduler_core.quota.reservations.limits import ReservationRefusal
from tests.support.searches import cases
from tests.unit.webhook.http.reviews import (
    Obj,
    ask,
    denial,
    envelope,
    namespace,
    native,
    pod,
    quota,
    synced,
    tell,
)
from tests.unit.webhook.reservations.reservations import FakeApi, Replica, hold, pod_group
from webhook.http.admission_review import review
from webhook.policy.review_dispatcher import ReviewDispatcher
from webhook.reservations.ledger_cache import DeletedUids, LedgerCache
from webhook.reservations.ledger_writer import Times
from webhook.reservations.reservation_store import ReservationStore

KEY = "scheduling.k8s.io/group-name"


def group(
    name: str = "g", members: int = 1, api: str = "incubator.scheduling.k8s.io/v1alpha1", **total: str
) -> Obj:
    meta = {"name": name, "namespace": "a", "uid": f"uid-{name}"}
    spec = {"minMembers": members, "totalResources": total}
    return {"apiVersion": api, "kind": "PodGroup", "metadata": meta, "spec": spec}


def cpu_pod(name: str, cpu: str, group_name: str = "") -> Obj:
    made = pod(meta={"name": name, "uid": f"uid-{name}"})
    if group_name:
        made["metadata"]["annotations"] = {KEY: group_name}
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


def serving(*objects: Obj, hard: str = "4") -> tuple[FakeApi, ReviewDispatcher]:
    """A service on a fake server whose only ResourceQuota is rq."""
    api = FakeApi(hard)
    cache = synced(*objects, native(hard={"cpu": hard}))
    replica = Replica(api)
    store = Storing(
        api, cache.reservations, replica.pods, cache.natives, Times(0, 0, 0), replica.slept.append
    )
    return api, ReviewDispatcher(cache, store=store)


class Storing(ReservationStore):
    """A store whose server stores at once what was admitted."""

    def __init__(self, server: FakeApi, *others: Any) -> None:
        super().__init__(server, *others)
        self.server = server

    def charge(
        self, namespace: str, charge: Charge, *, dry_run: bool = False
    ) -> Sequence[ReservationRefusal]:
        short = super().charge(namespace, charge, dry_run=dry_run)
        if not short and not dry_run:
            self.server.create(charge)
        return short

    def reserve(self, namespace: str, hold: Hold, *, dry_run: bool = False) -> Sequence[ReservationRefusal]:
        short = super().reserve(namespace, hold, dry_run=dry_run)
        if not short and not dry_run:
            self.server.create(hold)
        return short


BROKEN = [
    ("no members given", {}, 422, "spec.minMembers: must be given"),
    ("no members", {"minMembers": 0}, 422, "spec.minMembers: 0 must be at least 1"),
    ("a negative total", {"minMembers": 1, "totalResources": {"cpu": "-1"}}, 422, "-1 is negative"),
    (
        "no quantity",
        {"minMembers": 1, "totalResources": {"cpu": "x"}},
        422,
        "spec.totalResources[cpu]: 'x' is not",
    ),
    ("a huge exponent", {"minMembers": 1, "totalResources": {"cpu": "1e9999999"}}, 403, "exceeded quota: rq"),
    (
        "an unknown resource",
        {"minMembers": 1, "totalResources": {"gpu": 1}},
        422,
        "spec.totalResources[gpu]: 'gpu' is neither",
    ),
    (
        "half a GPU",
        {"minMembers": 1, "totalResources": {"a.com/gpu": "500m"}},
        403,
        "PodGroup a/g: spec.totalResources[a.com/gpu]=500m is not a whole number, as a.com/gpu is counted",
    ),
    ("storage", {"minMembers": 1, "totalResources": {"storage": 1}}, 422, "is nothing that pods request"),
    (
        "fewer pods than members",
        {"minMembers": 3, "totalResources": {"pods": 2}},
        403,
        "spec.totalResources[pods]=2 is less than spec.minMembers=3",
    ),
    (
        "beyond the quota's max",
        {"minMembers": 1, "totalResources": {"memory": "2Gi"}},
        403,
        "spec.totalResources[memory]=2Gi exceeds spec.max[memory]=1Gi of ElasticQuota a/eq",
    ),
    (
        "more members than max",
        {"minMembers": 9},
        403,
        "spec.minMembers=9 exceeds spec.max[pods]=5 of ElasticQuota a/eq",
    ),
    (
        "more than is left",
        {"minMembers": 1, "totalResources": {"cpu": 5}},
        403,
        "PodGroup a/g: exceeded quota: rq, requested: cpu=5, used: cpu=0, reserved: cpu=0, limited: cpu=4",
    ),
]


@pytest.mark.parametrize(("spec", "code", "words"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_group_that_cannot_be_is_refused(spec: Obj, code: int, words: str) -> None:
    api, service = serving(quota(max={"memory": "1Gi", "pods": 5}))
    response = ask(service.validate, {**group(), "spec": spec})
    assert not response["allowed"]
    assert response["status"]["code"] == code
    assert words in response["status"]["message"]
    assert response["status"]["details"]["causes"][0]["field"].startswith("spec.")
    assert api.stored is None


def test_group_without_totals_reserves_nothing_and_makes_no_request() -> None:
    api, service = serving()
    assert denial(service, group()) == ""
    assert api.calls == {}


def test_scoped_quotas_are_named_in_a_warning() -> None:
    scoped = native("low", hard={"cpu": "1"}, scopes=["Terminating"])
    _, service = serving(scoped)
    response = ask(service.validate, group(cpu="2"))
    assert response["warnings"] == [
        "PodGroup a/g: ResourceQuota low has scopes and counts only some pods; nothing is reserved in it"
    ]


@pytest.mark.parametrize("api", ["scheduling.x-k8s.io/v1alpha1", "scheduling.k8s.io/v1beta1"])
def test_other_dialects_are_left_alone(api: str) -> None:
    server, service = serving()
    assert denial(service, group(api=api, members=0, cpu="99")) == ""
    assert server.calls == {}


FOLLOWS = {"minMembersFrom": "Owner"}
FOLLOWING: list[tuple[str, Obj, Obj, str]] = [
    ("more members", FOLLOWS, {"minMembers": 3}, ""),
    ("fewer members", FOLLOWS, {"minMembers": 1}, ""),
    ("beyond the quota", FOLLOWS, {"minMembers": 9}, "spec.minMembers=9 exceeds spec.max[pods]=5"),
    ("another total", FOLLOWS, {"totalResources": {"cpu": "1"}}, "cannot be changed"),
    ("no longer", FOLLOWS, {"minMembersFrom": None, "minMembers": 3}, "cannot be changed"),
    ("from now on", {}, FOLLOWS, "cannot be changed"),
]


@pytest.mark.parametrize(
    ("before", "change", "words"), [f[1:] for f in FOLLOWING], ids=[f[0] for f in FOLLOWING]
)
def test_minimum_that_follows_an_owner_may_change_and_nothing_else(
    before: Obj, change: Obj, words: str
) -> None:
    _, service = serving(quota(min={}, max={"pods": "5"}))
    old = group(members=2)
    old = {**old, "spec": {**old["spec"], **before}}
    spec = {key: value for key, value in {**old["spec"], **change}.items() if value is not None}
    said = denial(service, {**old, "spec": spec}, old)
    assert (words in said) if words else (said == "")


UPDATES: list[tuple[str, Obj, bool]] = [
    ("nothing", {}, True),
    ("other words for the same", {"totalResources": {"cpu": "2000m"}}, True),
    ("fewer members", {"minMembers": 1}, False),
    ("another total", {"totalResources": {"cpu": "3"}}, False),
    ("one more resource", {"totalResources": {"cpu": "2", "memory": "1"}}, False),
]


@pytest.mark.parametrize(("change", "fine"), [u[1:] for u in UPDATES], ids=[u[0] for u in UPDATES])
def test_spec_is_as_it_was_created(change: Obj, fine: bool) -> None:
    _, service = serving()
    old = group(members=2, cpu="2")
    new = {**old, "spec": {**old["spec"], **change}}
    words = denial(service, new, old)
    assert (words == "") is fine
    assert fine or ("PodGroup a/g: spec=" in words and "cannot be changed, create a new group" in words)
    leaving = {**new, "metadata": {**new["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert denial(service, leaving, old) == ""
    assert denial(service, None, old) == ""


def test_pods_draw_on_their_group_and_others_see_the_rest() -> None:
    api, service = serving()
    assert denial(service, group(cpu="3")) == ""
    assert denial(service, cpu_pod("other", "2")) == (
        "Pod a/other: exceeded quota: rq, requested: cpu=2, used: cpu=0, reserved: cpu=3, limited: cpu=4"
    )
    assert denial(service, cpu_pod("member", "3", "g")) == ""
    assert denial(service, cpu_pod("other", "1")) == ""
    assert api.stored is not None
    assert [charge.pod for charge in api.stored.charges] == ["member", "other"]


def test_a_resize_is_judged_by_what_it_asks_for_whatever_became_of_the_last_one() -> None:
    api, service = serving()
    assert denial(service, group(cpu="2")) == ""
    assert denial(service, cpu_pod("p", "1")) == ""
    old, new = cpu_pod("p", "9"), cpu_pod("p", "3")
    infeasible = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    allocated = {"name": "main", "allocatedResources": {"cpu": "1"}}
    for made in (old, new):
        made["status"] = {"conditions": [infeasible], "containerStatuses": [allocated]}
    resize = {"operation": "UPDATE", "subResource": "resize"}
    assert denial(service, new, old, **resize) == (
        "Pod a/p: exceeded quota: rq, requested: cpu=2, used: cpu=1, reserved: cpu=2, limited: cpu=4"
    )
    fits = {**cpu_pod("p", "2"), "status": new["status"]}
    assert denial(service, fits, old, **resize) == ""
    assert api.stored is not None
    assert api.stored.charges[-1].usage["cpu"] == 2000


@pytest.mark.parametrize(
    "there",
    [
        pytest.param((), id="nothing reserved"),
        pytest.param((group(),), id="a group without totals"),
        pytest.param(({**group(cpu="1"), "status": {"phase": "Succeeded"}},), id="a group that ended"),
    ],
)
def test_pods_where_nothing_is_reserved_cost_no_api_call(there: tuple[Obj, ...]) -> None:
    api, service = serving(*there)
    for number in range(100):
        assert denial(service, cpu_pod(f"p{number}", "9")) == ""
    assert api.calls == {}


def test_pods_where_no_quota_limits_cost_no_api_call() -> None:
    api = FakeApi()
    cache = synced(group(cpu="9"))
    replica = Replica(api)
    store = ReservationStore(
        api, cache.reservations, replica.pods, cache.natives, Times(0, 0, 0), replica.slept.append
    )
    assert denial(ReviewDispatcher(cache, store=store), cpu_pod("p", "1")) == ""
    assert api.calls == {}


PASSED: list[tuple[str, Obj]] = [
    ("an update", {"operation": "UPDATE"}),
    ("another subresource", {"operation": "UPDATE", "subResource": "status"}),
    ("a deletion", {"operation": "DELETE"}),
    ("an exempt namespace", {"namespace": "kube-system"}),
]


@pytest.mark.parametrize("request_", [p[1] for p in PASSED], ids=[p[0] for p in PASSED])
def test_a_change_without_effect_on_use_passes(request_: Obj) -> None:
    api, service = serving()
    assert denial(service, group(cpu="4")) == ""
    api.forget_calls()
    assert denial(service, cpu_pod("p", "9"), cpu_pod("p", "1"), **request_) == ""
    assert api.calls == {}


def test_resize_is_judged_by_what_it_adds() -> None:
    _, service = serving()
    assert denial(service, group(cpu="2")) == ""
    assert denial(service, cpu_pod("p", "1")) == ""
    resize = {"operation": "UPDATE", "subResource": "resize"}
    assert denial(service, cpu_pod("p", "2"), cpu_pod("p", "1"), **resize) == ""
    assert "requested: cpu=1, used: cpu=2, reserved: cpu=2" in denial(
        service, cpu_pod("p", "3"), cpu_pod("p", "2"), **resize
    )


@pytest.mark.parametrize("obj", [group(cpu="1"), cpu_pod("p", "1")], ids=["PodGroup", "Pod"])
def test_an_undecided_request_is_refused_with_try_again(obj: Obj) -> None:
    api, service = serving()
    assert denial(service, group("other", cpu="1")) == ""
    api.broken = ServiceUnavailable(503, "ServiceUnavailable", "etcd is away")
    response = ask(service.validate, obj)
    assert (response["allowed"], response["status"]["code"]) == (False, 503)
    assert response["status"]["reason"] == "ServiceUnavailable"
    assert "etcd is away; try again" in response["status"]["message"]


def test_unreadable_pod_is_left_to_the_server() -> None:
    _, service = serving()
    assert denial(service, group(cpu="4")) == ""
    assert denial(service, cpu_pod("p", "nonsense")) == ""


# What a replica remembers


def ledger_event(kind: Any, stored: Any) -> Event:
    return Event(kind, RESERVATION_LEDGERS, "a/reservations", "", stored)


def test_newer_of_watch_and_own_write_counts() -> None:
    api = FakeApi()
    replica = Replica(api)
    assert replica.reserve(hold("g", 1)) == ""
    old = api.stored
    assert replica.reserve(hold("h", 1)) == ""
    replica.ledgers.sink(ledger_event("MODIFIED", old))
    assert replica.ledgers.ledger("a") == api.stored
    replica.ledgers.sink(Event("MODIFIED", RESERVATION_LEDGERS, "a/other", "", old))
    assert replica.ledgers.ledger("a") == api.stored, "one name counts"


def test_namespace_holds_while_ledger_or_group_says_so() -> None:
    ledgers = LedgerCache()
    made = Event("ADDED", POD_GROUPS, "a/g", "uid-g", pod_group("g", 1))
    ledgers.sink(made)
    assert ledgers.has_reservations("a"), "a group whose hold is missing: the ledger may be lost"
    assert ledgers.has_group("a", "g")
    ledgers.sink(Event("DELETED", POD_GROUPS, "a/g", "uid-g", None))
    assert not ledgers.has_reservations("a")
    assert "uid-g" in ledgers.deleted_groups
    assert ledgers.namespaces() == set()


def test_overdue_is_who_was_there_all_the_time() -> None:
    now = [0.0]
    ledgers = LedgerCache(lambda: now[0])
    assert ledgers.overdue("a", ["x", "y"], 60) == set()
    now[0] = 40.0
    assert ledgers.overdue("a", ["y"], 60) == set()
    now[0] = 60.0
    assert ledgers.overdue("a", ["x", "y"], 60) == {"y"}, "x was away in between"
    assert ledgers.overdue("b", ["y"], 60) == set()


def test_memory_of_the_deleted_is_bounded() -> None:
    gone = DeletedUids(2)
    for uid in "abc":
        gone.add(uid)
    assert [uid in gone for uid in "abc"] == [False, True, True]


def test_only_namespaces_with_reservations_are_watched() -> None:
    replica = Replica(FakeApi())
    replica.pods.follow("a")
    replica.pods.follow("b")
    replica.pods.keep({"b"})
    assert {name: watch.running for name, watch in replica.watches.items()} == {"a": False, "b": True}


# Malformed input

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)
PATHS = [
    ("metadata",),
    ("metadata", "uid"),
    ("metadata", "annotations"),
    ("metadata", "labels"),
    ("metadata", "ownerReferences"),
    ("spec",),
    ("spec", "minMembers"),
    ("spec", "totalResources"),
    ("spec", "containers"),
    ("spec", "schedulingGroup"),
    ("status",),
]
FUZZED = serving(namespace("a"), quota(), group("other", cpu="1"))[1]


@settings(max_examples=cases(500))
@given(
    first=st.sampled_from([group(cpu="1"), cpu_pod("p", "1", "g")]),
    path=st.sampled_from(PATHS),
    value=values,
    update=st.booleans(),
)
def test_every_input_gets_an_answer(first: Obj, path: tuple[str, ...], value: Any, update: bool) -> None:
    new = copy.deepcopy(first)
    place = new
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    more = {
        "kind": {"group": first["apiVersion"].rpartition("/")[0], "kind": first["kind"]},
        "namespace": "a",
    }
    body = envelope({"metadata": {}, **new, **({"metadata": {}} if path == ("metadata",) else {})}, **more)
    body["request"]["object"] = new
    if update:
        body["request"] |= {"operation": "UPDATE", "oldObject": first}
    for decide in (FUZZED.mutate, FUZZED.validate):
        answer = review(json.dumps(body).encode(), decide)
        assert answer.status in (200, 400)


IMPOSSIBLE: list[tuple[str, Obj]] = [
    ("a long uid", {**group(cpu="1"), "metadata": {"name": "g", "namespace": "a", "uid": "u" * 129}}),
    ("a long name", {**group(cpu="1"), "metadata": {"name": "g" * 254, "namespace": "a", "uid": "u"}}),
    ("too many members", group(members=2**31, cpu="1")),
    ("a pod with a long uid", pod(meta={"name": "p", "uid": "u" * 129})),
    ("a pod of a long group", cpu_pod("p", "1", "g" * 254)),
]


@pytest.mark.parametrize("obj", [i[1] for i in IMPOSSIBLE], ids=[i[0] for i in IMPOSSIBLE])
def test_a_review_that_the_ledger_cannot_store_is_refused(obj: Obj) -> None:
    api, service = serving()
    assert denial(service, group("base", cpu="1")) == ""
    before = api.stored
    answer = review(json.dumps(envelope(obj)).encode(), service.validate)
    assert answer.status == 400 or b'"allowed":false' in answer.body
    assert api.stored is before


def test_a_group_from_before_the_epoch_is_of_the_epoch() -> None:
    api, service = serving()
    old = group(cpu="1")
    old["metadata"]["creationTimestamp"] = "0001-01-01T00:00:00Z"
    assert denial(service, old) == ""
    assert api.stored is not None
    assert api.stored.holds[0].since == 0.0


def test_a_namespace_without_quota_is_asked_about_now_and_then_and_nothing_is_written() -> None:
    api, service = serving()
    api.native = []
    tell(service.cache, native(hard={"cpu": "4"}), deleted=True)
    for number in range(200):
        assert denial(service, group(f"g{number}", cpu="1")) == ""
    assert api.calls["put"] == 0
    assert set(api.calls) == {"quotas"}
    assert 50 <= api.calls["quotas"] <= 100


def test_too_large_totals_are_refused_with_their_size() -> None:
    _, service = serving()
    fat = group(**{f"example.com/{'x' * 50}-{n}": "1" for n in range(40)})
    words = "spec.totalResources=40 resources in 3,310 bytes is more than the 2,048 bytes that a reservation"
    assert words in denial(service, fat)
