"""Charges between replicas: races, lost writes, our own scheduler in between, and what never appeared."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.kube.errors import ServiceUnavailable
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import RESERVATION_LEDGERS
from scheduler_core.model.pods.use import PodUse
from scheduler_core.model.quotas.reservation_ledger import ELASTIC_NAME, Charge, ReservationLedger
from tests.support.searches import cases
from tests.unit.webhook.reservations.reservations import NAMESPACE, Clock, FakeApi, FakeWatch
from tests.unit.webhook.reservations.test_quota_usage import CPU, charge, quota, use
from webhook.reservations.batches import Undecided
from webhook.reservations.charge_decisions import Claim
from webhook.reservations.charge_store import CHARGE_SECONDS, REST_FACTOR, ChargeStore, QuotaStandings
from webhook.reservations.concurrency_limits import MOST_OF_A_NAMESPACE
from webhook.reservations.ledger_cache import LedgerCache
from webhook.reservations.ledger_writer import Times
from webhook.reservations.pod_watches import PodWatches
from webhook.reservations.provisional_entries import STEP_SECONDS
from webhook.reservations.quota_standing import standing
from webhook.reservations.reservation_store import FLOOD_ATTEMPTS

MAX = quota(max={"cpu": 4})


class Api(FakeApi):
    """The ledger of charges of a small API server."""

    def ledger(self, namespace: str) -> ReservationLedger:
        found = super().ledger(namespace)
        return found if found.resource_version else ReservationLedger(namespace, name=ELASTIC_NAME)

    @property
    def charged(self) -> list[str]:
        """The uids in the stored ledger."""
        return [one.uid for one in self.stored.charges] if self.stored is not None else []


class Replica:
    """One webhook's charges on a fake server; `meanwhile` happens while it waits for the barrier.

    What it admits is stored by the server at once, if that `stores`. `later` happens whenever it waits for
    what is ahead of somebody.
    """

    def __init__(self, api: Api, limit: Any = MAX, *, real: bool = False) -> None:
        self.api = api
        self.later: Callable[[], object] = lambda: None
        self.taken = ExitStack()
        self.limit = limit
        self.clock = Clock()
        self.watches: dict[str, FakeWatch] = {}
        self.ledgers = LedgerCache(time.monotonic if real else self.clock, ELASTIC_NAME)
        self.meanwhile: list[Any] = []
        self.slept: list[float] = []
        self.store = ChargeStore(
            api,
            self.ledgers,
            PodWatches(self._watch),
            QuotaStandings(
                lambda _: standing(NAMESPACE, [self.limit]), lambda _: standing(NAMESPACE, [self.limit])
            ),
            times=Times(gather=0.0, barrier=0.25),
            sleep=time.sleep if real else self._sleep,
            monotonic=time.monotonic if real else self.clock,
        )

    def _watch(self, namespace: str, sink: Any) -> FakeWatch:
        made = self.watches[namespace] = FakeWatch(sink, self.api.members.values())
        return made

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.now += seconds
        if seconds == 0.25 and self.meanwhile:
            self.meanwhile.pop()()
        if seconds == STEP_SECONDS:
            self.later()

    def admit(self, one: Charge, names: frozenset[str] = CPU, **more: Any) -> str:
        found = self.store.charge(NAMESPACE, one, names, **more)
        if found is None and self.api.stores and "dry_run" not in more:
            self.api.create(one)
        return str(found) if found is not None else ""

    @staticmethod
    def claim(one: Charge) -> Claim:
        return Claim(one, dry_run=False, names=CPU)

    def store_pod(self, pod: PodUse) -> None:
        """The pod is written, and the watch tells."""
        self.api.members[pod.uid] = pod
        self.watches[NAMESPACE].tell(pod)


def test_an_admitted_charge_is_written_and_counts_for_all_replicas() -> None:
    api = Api()
    first, second = Replica(api), Replica(api)
    assert first.admit(charge("p", 3)) == ""
    assert api.charged == ["p"]
    said = second.admit(charge("q", 2))
    assert said == "ElasticQuota a/eq: used cpu=3 + requested 2 exceeds max=4"
    assert second.admit(charge("r", 1)) == ""
    assert api.stored is not None
    assert api.stored.name == ELASTIC_NAME


def test_only_what_quotas_govern_is_judged_and_written() -> None:
    """A pod may name hundreds of resources, and the ledger is one object."""
    api = Api()
    replica = Replica(api)
    many = {f"example.com/r{number}": 1 for number in range(500)}
    one = charge("p", 1, **many)
    assert replica.admit(one, frozenset(one.usage)) == ""
    assert api.stored is not None
    assert api.stored.charges[0].usage == {"cpu": 1000}
    api.forget_calls()
    assert replica.admit(charge("q", 9), frozenset({"memory", "pods"})) == ""
    assert not api.calls


def test_a_dry_run_is_judged_and_writes_nothing() -> None:
    api = Api()
    replica = Replica(api)
    assert replica.admit(charge("p", 4), dry_run=True) == ""
    assert "exceeds max=4" in replica.admit(charge("p", 5), dry_run=True)
    assert (api.calls["put"], api.stored) == (0, None)


def test_refusal_writes_nothing_and_comes_after_a_fresh_look() -> None:
    api = Api()
    replica = Replica(api)
    api.members["old"] = use("old", 3)
    replica.watches.clear()
    assert replica.admit(charge("x", 1)) == ""
    # The watch still shows a pod that is gone.
    del api.members["old"]
    assert replica.admit(charge("p", 3)) == ""
    assert "used cpu=4" in replica.admit(charge("q", 1))
    assert "q" not in api.members
    assert api.charged == ["p"], "x was seen"


def test_a_placement_of_our_scheduler_at_the_same_moment_withdraws_the_charge() -> None:
    api = Api()
    replica = Replica(api)
    api.members["own"] = use("own", 2, node="")
    replica.meanwhile.append(lambda: api.members.update(own=use("own", 2)))
    assert replica.admit(charge("p", 3)) == "ElasticQuota a/eq: used cpu=2 + requested 3 exceeds max=4"
    assert api.charged == []


def test_a_charge_that_somebody_took_out_during_the_barrier_is_written_again_or_refused() -> None:
    api = Api()
    first, second = Replica(api), Replica(api)

    def lose() -> None:
        api.stored = ReservationLedger(NAMESPACE, "999", name=ELASTIC_NAME)

    first.meanwhile.append(lose)
    assert first.admit(charge("p", 3)) == ""
    assert api.charged == ["p"]

    def lose_to_another() -> None:
        lose()
        assert second.admit(charge("r", 4)) == ""

    api.stored = None
    api.members.clear()
    first = Replica(api)
    first.meanwhile.append(lose_to_another)
    assert "exceeds max=4" in first.admit(charge("q", 3))
    assert list(api.members) == ["r"]


def test_a_resize_counts_with_the_larger_size_until_it_is_stored() -> None:
    api = Api()
    replica = Replica(api)
    api.members["p"] = use("p", 1)
    grows = frozenset({"cpu"})
    api.stores = False
    assert replica.admit(charge("p", 3), grows) == ""
    assert "used cpu=1 + requested 4 exceeds max=4" in replica.admit(charge("p", 5), grows)
    replica.later = lambda: replica.store_pod(use("p", 3, version="200"))
    assert "used cpu=3 + requested 2" in replica.admit(charge("q", 2))
    assert api.charged == []
    assert api.stored is not None
    assert api.stored.pods_version == "200"


def test_a_replica_whose_watch_is_behind_lists_the_pods() -> None:
    """What was struck out because it is visible elsewhere is not forgotten here."""
    api = Api()
    first, second = Replica(api), Replica(api)
    for replica in (first, second):
        assert replica.admit(charge("x", 1), dry_run=True) == ""
    assert first.admit(charge("p", 4)) == ""
    first.store_pod(use("p", 4, version="300"))
    assert first.store.reconcile(NAMESPACE)
    assert api.charged == []
    assert "used cpu=4" in second.admit(charge("q", 1))


def test_lost_races_are_run_again_and_then_left_undecided() -> None:
    api = Api()
    replica = Replica(api)
    api.rivals = FLOOD_ATTEMPTS - 1
    assert replica.admit(charge("p")) == ""
    api.rivals = FLOOD_ATTEMPTS
    with pytest.raises(Undecided, match="ledger of charges of namespace a was not written in time"):
        replica.admit(charge("q"))


def test_no_pod_is_admitted_after_an_unexpected_error() -> None:
    api = Api()
    replica = Replica(api)
    api.broken = ServiceUnavailable(503, "ServiceUnavailable", "away")
    with pytest.raises(Undecided, match="away"):
        replica.admit(charge("p"))
    api.broken = None

    def away() -> None:
        api.broken = ServiceUnavailable(503, "ServiceUnavailable", "away")

    replica.meanwhile.append(away)
    with pytest.raises(Undecided, match="away"):
        replica.admit(charge("p"))


def test_a_charge_without_a_pod_is_released_after_a_short_time() -> None:
    api = Api()
    api.stores = False
    replica = Replica(api)
    assert replica.admit(charge("p", 4)) == ""
    assert replica.ledgers.namespaces() == {NAMESPACE}
    assert not replica.store.reconcile(NAMESPACE)
    replica.clock.now += CHARGE_SECONDS - 0.1
    assert not replica.store.reconcile(NAMESPACE)
    replica.clock.now += 0.1
    assert replica.store.reconcile(NAMESPACE)
    assert api.charged == []


def test_a_pod_that_was_deleted_gives_its_charge_back_at_once() -> None:
    api = Api()
    replica = Replica(api)
    assert replica.admit(charge("p", 4)) == ""
    made = use("p", 4, version="300")
    replica.watches[NAMESPACE].tell(made)
    replica.watches[NAMESPACE].tell(made, deleted=True)
    assert replica.store.reconcile(NAMESPACE)
    assert api.charged == []


def test_a_reconciler_that_was_slower_takes_what_the_other_wrote() -> None:
    api = Api()
    replica = Replica(api)
    assert replica.admit(charge("p", 1)) == ""
    replica.store_pod(use("p", 1, version="300"))
    api.rivals = 1
    assert replica.store.reconcile(NAMESPACE)
    assert replica.store.reconcile(NAMESPACE)
    assert not replica.store.reconcile(NAMESPACE)
    assert api.charged == []


def test_the_watch_tells_of_ledgers_of_this_name_alone() -> None:
    replica = Replica(Api())
    for name in ("reservations", ELASTIC_NAME):
        ledger = ReservationLedger(NAMESPACE, "7", charges=(charge(name),), name=name)
        replica.ledgers.sink(Event("ADDED", RESERVATION_LEDGERS, f"{NAMESPACE}/{name}", "", ledger))
    known = replica.ledgers.ledger(NAMESPACE)
    assert known is not None
    assert [one.uid for one in known.charges] == [ELASTIC_NAME]


def test_lists_of_many_pods_leave_time_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica(Api())
    ticks = iter([0.0, 0.1, 0.1, 0.1])
    monkeypatch.setattr("webhook.reservations.charge_store.time.thread_time", lambda: next(ticks))
    assert "exceeds" in replica.admit(charge("p", 9))
    assert replica.slept == [0.0, 0.0]
    assert "exceeds" in replica.admit(charge("q", 9))
    assert replica.slept[-1] == pytest.approx(REST_FACTOR * 0.1)


def test_many_requests_of_one_namespace_leave_threads_to_others() -> None:
    replica = Replica(Api())

    def one_more() -> None:
        with pytest.raises(Undecided, match="16 of namespace a, 16 in all are being judged"):
            replica.admit(charge("late", 0))

    def crowd(left: int) -> None:
        """Each that waits for its barrier lets the next one come."""
        if left == 0:
            one_more()
            return
        replica.meanwhile.append(lambda: crowd(left - 1))
        replica.admit(charge(f"q{left}", 0))

    crowd(MOST_OF_A_NAMESPACE)
    assert replica.admit(charge("later", 0)) == ""


def test_ten_at_once_through_two_replicas_never_exceed_max() -> None:
    api = Api()
    replicas = [Replica(api, real=True), Replica(api, real=True)]
    start, said = threading.Barrier(10), {}

    def create(number: int) -> None:
        start.wait()
        try:
            said[number] = replicas[number % 2].admit(charge(f"p{number}", 1))
        except Undecided as error:
            said[number] = str(error)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    admitted = [number for number, words in said.items() if not words]
    assert len(said) == 10
    assert 1 <= len(admitted) <= 4
    assert sorted(f"p{number}" for number in admitted) == sorted(api.members)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["create", "resize", "store", "refuse", "delete", "place", "reconcile", "lag", "dry"]
        ),
        st.integers(0, 1),
        st.integers(0, 5),
        st.integers(1, 4),
    ),
    max_size=25,
)


@settings(max_examples=cases(150), deadline=None)
@given(STEPS)
def test_random_histories_never_exceed_max(steps: list[tuple[str, int, int, int]]) -> None:
    """Two replicas, watches that lag, creations that fail afterwards, and a scheduler that counts charges."""
    api = Api()
    api.stores = False
    replicas = [Replica(api), Replica(api)]
    versions = iter(range(1000, 2000))
    admitted: dict[str, PodUse] = {}

    def appear() -> None:
        """The API server has carried out, before a second is over, what it was allowed to."""
        api.members.update(admitted)
        admitted.clear()

    for replica in replicas:
        replica.later = appear
    for what, which, number, cpu in steps:
        replica, uid = replicas[which], f"p{number}"
        there = api.members.get(uid)
        pod = use(uid, cpu, version=str(next(versions)))
        if what == "create" and there is None and uid not in admitted:
            if replica.admit(charge(uid, cpu)) == "":
                admitted[uid] = pod
        elif what == "dry":
            replica.admit(charge("dry", cpu), dry_run=True)
        elif what == "resize" and there is not None and cpu * 1000 > there.usage["cpu"]:
            if replica.admit(charge(uid, cpu), frozenset({"cpu"})) == "":
                admitted[uid] = pod
        elif what == "store" and uid in admitted:
            api.members[uid] = admitted.pop(uid)
        elif what == "refuse":
            admitted.pop(uid, None)
        elif what == "delete":
            api.members.pop(uid, None)
        elif what == "place" and there is None and uid not in admitted:
            charged = {one.uid: one.usage["cpu"] for one in api.stored.charges} if api.stored else {}
            used = {**{key: one.usage["cpu"] for key, one in api.members.items()}, **charged}
            if sum(used.values()) + cpu * 1000 <= 4000:
                api.members[uid] = pod
        elif what == "lag" and there is not None and NAMESPACE in replica.watches:
            replica.watches[NAMESPACE].tell(there)
        elif what == "reconcile":
            replica.store.reconcile(NAMESPACE)
        assert sum(one.usage["cpu"] for one in {**api.members, **admitted}.values()) <= 4000
