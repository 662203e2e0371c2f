"""Reviews of foreign pods that no API server sent: what they leave behind refuses nobody for long."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from scheduler_core.model.quotas.reservation_ledger import ELASTIC_NAME, Charge, ReservationLedger
from tests.support.eventually import eventually
from tests.unit.webhook.reservations.reservations import NAMESPACE
from tests.unit.webhook.reservations.test_charge_store import Api, Replica
from tests.unit.webhook.reservations.test_quota_usage import CPU, charge, use
from webhook.http.deadline import within
from webhook.reservations.batches import Undecided
from webhook.reservations.concurrency_limits import (
    MANY_REJECTED,
    MOST_IN_ALL,
    MOST_OF_A_NAMESPACE,
    WINDOW_SECONDS,
)
from webhook.reservations.provisional_entries import STEP_SECONDS, WaitLimits
from webhook.reservations.reservation_store import MANY_CHARGES
from webhook.reservations.server_pace import WINDOW_SECONDS as WINDOW_SECONDS_OF_PACE

GROWS = frozenset({"cpu"})
BARRIER = 0.25
GRACE = WaitLimits().grace + BARRIER


def forge(replica: Replica, *asked: Charge, names: frozenset[str] = CPU) -> None:
    """Reviews that are answered, and of which nothing follows."""
    stores, replica.api.stores = replica.api.stores, False
    for one in asked:
        replica.admit(one, names)
    replica.api.stores = stores


def announced(api: Api) -> list[str]:
    assert api.stored is not None
    return [one.uid for one in api.stored.charges if one.announced]


FORGED = [
    ("all there is, and a pod", [charge("x", 4)], charge("p", 4), CPU),
    ("many small ones, and a pod", [charge(f"x{n}", 1) for n in range(4)], charge("p", 1), CPU),
    ("all there is, and a resize", [charge("x", 3)], charge("old", 4), GROWS),
    ("a resize of what is there, and a pod", [charge("old", 4)], charge("p", 3), CPU),
    ("a resize of what is there, and another", [charge("old", 4)], charge("old", 3), GROWS),
    ("one behind another, and a pod", [charge("x", 3), charge("y", 3), charge("z", 3)], charge("p", 3), CPU),
]


@pytest.mark.parametrize(
    ("forged", "asked", "names"), [(f[1], f[2], f[3]) for f in FORGED], ids=[f[0] for f in FORGED]
)
def test_objects_that_do_not_exist_cause_no_refusal(
    forged: list[Charge], asked: Charge, names: frozenset[str]
) -> None:
    api = Api()
    replica = Replica(api)
    if asked.uid == "old" or any(one.uid == "old" for one in forged):
        api.members["old"] = use("old", 1)
    forge(replica, *forged)
    before = replica.clock.now
    assert replica.admit(asked, names) == ""
    assert replica.clock.now - before <= GRACE + 2 * BARRIER + STEP_SECONDS
    assert asked.uid in api.charged
    assert announced(api) == [], "our schedulers count it now"


def test_old_forged_entries_cause_no_wait() -> None:
    api = Api()
    replica = Replica(api)
    forge(replica, charge("x", 4))
    replica.clock.now += GRACE
    replica.slept.clear()
    assert replica.admit(charge("p", 4)) == ""
    assert sum(replica.slept) == BARRIER
    assert api.charged == ["p"]


def test_a_request_that_does_not_fit_beside_existing_pods_is_refused_at_once_with_numbers() -> None:
    api = Api()
    api.members["old"] = use("old", 2)
    replica = Replica(api)
    forge(replica, charge("x", 1))
    replica.slept.clear()
    assert replica.admit(charge("p", 3)) == "ElasticQuota a/eq: used cpu=2 + requested 3 exceeds max=4"
    assert max(replica.slept) < 0.01
    assert api.charged == ["x"]


@pytest.mark.parametrize("seconds", [0.0, 0.3, 0.9])
def test_a_creation_that_is_underway_is_waited_for_and_not_robbed(seconds: float) -> None:
    api = Api()
    replica = Replica(api)
    forge(replica, charge("first", 3))
    began = replica.clock.now

    def stored_later() -> None:
        if replica.clock.now >= began + seconds and "first" not in api.members:
            replica.store_pod(use("first", 3, version="200"))

    replica.later = stored_later
    said = replica.admit(charge("second", 2))
    assert said == "ElasticQuota a/eq: used cpu=3 + requested 2 exceeds max=4"
    assert replica.clock.now - began <= seconds + 3 * STEP_SECONDS
    assert api.charged == []


def test_a_request_without_time_to_wait_is_refused_with_try_again() -> None:
    """A machine that is busy must not let in what nobody has judged."""
    api = Api()
    replica = Replica(api)
    forge(replica, charge("first", 3))
    with within(0.5), pytest.raises(Undecided, match="1 pods of namespace a come first"):
        replica.admit(charge("second", 2))


def slow(api: Api, replica: Replica, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server takes so long for each write from now on."""
    put = api.put

    def slowly(wanted: ReservationLedger) -> ReservationLedger:
        replica.clock.now += seconds
        return put(wanted)

    monkeypatch.setattr(api, "put", slowly)


@pytest.mark.parametrize(
    "ahead",
    [pytest.param(charge("first", 3), id="a pod"), pytest.param(charge("old", 3), id="a resize")],
)
def test_a_slow_server_has_more_time_to_store_what_was_admitted(
    ahead: Charge, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api()
    if ahead.uid == "old":
        api.members["old"] = use("old", 1)
    replica = Replica(api)
    slow(api, replica, 0.6, monkeypatch)
    forge(replica, ahead)
    with pytest.raises(Undecided, match="1 pods of namespace a come first"):
        replica.admit(charge("second", 2))
    assert ahead.uid in api.charged, "it has 1.25 s, and four times as long as a write took"
    replica.store_pod(use(ahead.uid, 3, version="200"))
    assert "used cpu=3 + requested 2 exceeds max=4" in replica.admit(charge("third", 2))


def test_a_server_that_was_slow_is_waited_for_no_longer_than_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api()
    replica = Replica(api)
    slow(api, replica, 0.6, monkeypatch)
    forge(replica, charge("first", 3))
    monkeypatch.undo()
    replica.clock.now += WINDOW_SECONDS_OF_PACE + 1.0
    forge(replica, charge("other", 3))
    before = replica.clock.now
    assert replica.admit(charge("second", 2)) == ""
    assert replica.clock.now - before <= GRACE + 2 * BARRIER + STEP_SECONDS


def test_the_slow_ledger_of_one_namespace_makes_nobody_wait_in_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tenant decides how large the ledger of its namespace is, and a stranger which one is written."""
    api = Api()
    replica = Replica(api)
    read = api.ledger

    def slowly(namespace: str) -> ReservationLedger:
        if namespace != NAMESPACE:
            replica.clock.now += 0.6
        return read(namespace)

    monkeypatch.setattr(api, "ledger", slowly)
    replica.store.reconcile("slow")
    forge(replica, charge("x", 4))
    before = replica.clock.now
    assert replica.admit(charge("p", 4)) == ""
    assert replica.clock.now - before <= GRACE + 2 * BARRIER + STEP_SECONDS


def test_requests_are_decided_in_order_and_later_ones_do_not_count() -> None:
    api = Api()
    first, second = Replica(api), Replica(api)
    forge(first, charge("x", 4))
    later: list[str] = []

    def another_comes() -> None:
        first.later = lambda: None
        assert announced(api) == ["p"]
        forge(second, charge("y", 4))
        later.append(second.admit(charge("q", 4), dry_run=True))

    first.later = another_comes
    assert first.admit(charge("p", 4)) == ""
    assert "p" in api.members
    assert later == [""], "by its own time what was ahead of it was nothing"
    assert "used cpu=4" in second.admit(charge("r", 1))


def test_placements_of_our_scheduler_during_the_wait_count() -> None:
    api = Api()
    replica = Replica(api)
    forge(replica, charge("x", 4))
    replica.later = lambda: api.members.update(own=use("own", 3))
    assert replica.admit(charge("p", 2)) == "ElasticQuota a/eq: used cpu=3 + requested 2 exceeds max=4"
    assert "p" not in api.charged


def test_placements_of_our_scheduler_after_the_wait_count_as_well() -> None:
    """Only from then on it counts the charge, so that it is looked at once more."""
    api = Api()
    replica = Replica(api)
    forge(replica, charge("x", 4))
    replica.meanwhile.append(lambda: api.members.update(own=use("own", 3)))
    assert replica.admit(charge("p", 2)) == "ElasticQuota a/eq: used cpu=3 + requested 2 exceeds max=4"


def test_a_refused_resize_leaves_what_an_earlier_one_was_promised() -> None:
    api = Api()
    api.members["old"] = use("old", 1)
    replica = Replica(api)
    api.stores = False
    assert replica.admit(charge("old", 2), GROWS) == ""
    forge(replica, charge("x", 2))
    replica.meanwhile.append(lambda: api.members.update(own=use("own", 2)))
    replica.later = lambda: api.members.update(own=use("own", 2))
    assert "exceeds" in replica.admit(charge("old", 4), GROWS)
    assert api.stored is not None
    assert {one.uid: one.usage["cpu"] for one in api.stored.charges}.get("old") in (None, 2000)


def test_a_dry_run_waits_too_and_writes_nothing() -> None:
    api = Api()
    replica = Replica(api)
    forge(replica, charge("x", 4))
    stored = api.stored
    assert replica.admit(charge("p", 4), dry_run=True) == ""
    assert api.stored is stored


def test_unconfirmed_charges_are_bounded_even_if_no_request_needs_the_room() -> None:
    api = Api()
    replica = Replica(api)
    for number in range(4 * MANY_CHARGES):
        forge(replica, charge(f"x{number}", 0))
        assert len(api.charged) <= MANY_CHARGES + 1


# Floods


def sit(replica: Replica, namespace: str, number: int) -> list[str]:
    """Take seats and keep them; what is said of each."""
    return [replica.taken.enter_context(replica.store.limits.acquire(namespace)) for _ in range(number)]


def flooded() -> tuple[Api, Replica]:
    """A namespace whose seats are taken, where one forged charge is known to have come to nothing."""
    api = Api()
    replica = Replica(api)
    forge(replica, charge("x", 4))
    replica.clock.now += GRACE
    forge(replica, charge("y", 4))
    sit(replica, NAMESPACE, MOST_OF_A_NAMESPACE)
    for number in range(MANY_REJECTED + 1):
        with pytest.raises(Undecided):
            replica.admit(charge(f"z{number}", 4))
    # One that sits looks at what the server has.
    replica.store.ask(NAMESPACE, replica.claim(charge("s", 1)))
    return api, replica


def test_a_flood_admits_no_pod_beyond_max() -> None:
    """A tenant can have creations fail in masses, and must not get past `max` by it."""
    api, replica = flooded()
    api.forget_calls()
    written = api.stored
    with pytest.raises(Undecided, match="too many pods past Muster's scheduler at once: 16 of namespace a"):
        replica.admit(charge("p", 1))
    assert (dict(api.calls), api.stored) == ({}, written)


def test_many_at_once_are_no_flood_where_nothing_was_forged() -> None:
    replica = Replica(Api())
    sit(replica, NAMESPACE, MOST_OF_A_NAMESPACE)
    for number in range(2 * MANY_REJECTED):
        with pytest.raises(Undecided):
            replica.admit(charge(f"z{number}", 1))
    assert not replica.ledgers.entry_ages.flooded(NAMESPACE)


def test_a_flood_that_is_over_is_forgotten() -> None:
    _, replica = flooded()
    replica.clock.now += WINDOW_SECONDS + 0.1
    assert not replica.ledgers.entry_ages.flooded(NAMESPACE)
    with pytest.raises(Undecided):
        replica.admit(charge("p", 1))
    assert not replica.ledgers.entry_ages.flooded(NAMESPACE)


def test_a_flood_in_three_namespaces_leaves_a_waiting_thread_to_every_other() -> None:
    replica = Replica(Api())
    for number in range(3):
        assert not any(sit(replica, f"crowded-{number}", MOST_IN_ALL // 3))
    assert all(sit(replica, "crowded-0", 1))
    for number in range(20):
        assert sit(replica, f"quiet-{number}", 2)[0] == ""


def decided(replica: Replica, *asked: Any) -> str:
    """What is said in the end: on a busy machine some may be told to try again."""

    def ask() -> tuple[str]:
        try:
            return (replica.admit(*asked),)
        except Undecided as error:
            raise AssertionError(str(error)) from error

    return eventually(ask)[0]


def test_forgers_without_a_pause_do_not_stop_real_pods_and_resizes() -> None:
    """In real time: twelve clients forge reviews on both replicas."""
    api = Api()
    api.tells = True
    replicas = [Replica(api, real=True), Replica(api, real=True)]
    api.replicas = replicas  # type: ignore[assignment]
    over = threading.Event()

    def run(number: int) -> None:
        count = 0
        while not over.is_set():
            count += 1
            try:
                replicas[number % 2].store.charge(NAMESPACE, charge(f"x{number}-{count}", 4), CPU)
            except Undecided:
                time.sleep(0.01)

    forgers = [threading.Thread(target=run, args=(number,)) for number in range(12)]
    for thread in forgers:
        thread.start()
    try:
        assert [decided(replicas[n % 2], charge(f"p{n}", 1)) for n in range(3)] == [""] * 3
        assert decided(replicas[0], charge("p0", 2), GROWS) == ""
        assert "used cpu=4" in decided(replicas[1], charge("q", 1))
    finally:
        over.set()
        for thread in forgers:
            thread.join(60)
    assert sum(pod.usage["cpu"] for pod in api.members.values()) == 4000
    assert isinstance(api.stored, ReservationLedger)
    assert api.stored.name == ELASTIC_NAME
    assert len(api.charged) <= MANY_CHARGES + 12
