"""Reviews that no API server sent: what they leave behind refuses nobody, and is soon gone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import POD_GROUPS
from scheduler_core.model.quotas.reservation_ledger import Charge, Hold
from tests.unit.webhook.reservations.reservations import (
    NAMESPACE,
    FakeApi,
    Replica,
    charge,
    hold,
    pod_group,
    use,
)
from webhook.reservations.batches import Undecided, Waiter
from webhook.reservations.entry_ages import FLOOD_SECONDS, LONG_SECONDS, MANY
from webhook.reservations.provisional_entries import WaitLimits
from webhook.reservations.reservation_store import ATTEMPTS, FLOOD_ENTRIES, FLOOD_QUEUE

GRACE = WaitLimits().grace


def forge(replica: Replica, asked: Charge | Hold) -> None:
    """A review that is answered, and of which nothing follows."""
    stores, replica.api.stores = replica.api.stores, False
    replica.admit(asked) if isinstance(asked, Charge) else replica.reserve(asked)
    replica.api.stores = stores


def holding(hard: str = "4", reserved: int = 2, replicas: int = 1) -> tuple[FakeApi, list[Replica]]:
    """A namespace in which group g holds something."""
    api = FakeApi(hard)
    api.tells = True
    found = [Replica(api) for _ in range(replicas)]
    assert found[0].reserve(hold("g", reserved)) == ""
    for replica in found:
        replica.hear_ledger()
        replica.ledgers.sink(Event("ADDED", POD_GROUPS, "a/g", "uid-g", pod_group("g", reserved)))
    api.forget_calls()
    return api, found


def entered(api: FakeApi) -> list[str]:
    """The uids in the ledger."""
    assert api.stored is not None
    return [entry.uid for entry in (*api.stored.holds, *api.stored.charges)]


FORGED: list[tuple[str, list[Charge | Hold], Charge | Hold]] = [
    ("a hold of all that is left, and a group", [hold("x", 2)], hold("n", 2)),
    ("a hold of all that is left, and a pod", [hold("x", 2)], charge("p", 2)),
    ("a charge of all that is left, and a group", [charge("x", 2)], hold("n", 2)),
    (
        "a charge that draws on g, and a member of g",
        [charge("x", 2, "g"), charge("y", 2)],
        charge("m", 2, "g"),
    ),
    ("a hold in the name of g, and a pod", [Hold("g", "other", 1, {"cpu": 2000})], charge("p", 2)),
    ("a charge with the uid of g, and a pod", [charge("uid-g", 2)], charge("p", 2)),
    ("many small ones, and a group", [charge(f"x{n}", 1) for n in range(2)], hold("n", 2)),
    ("one behind another, and a pod", [hold("x", 2), hold("y", 1), charge("z", 1)], charge("p", 2)),
]


@pytest.mark.parametrize(("forged", "asked"), [f[1:] for f in FORGED], ids=[f[0] for f in FORGED])
def test_objects_that_do_not_exist_cause_no_refusal(
    forged: list[Charge | Hold], asked: Charge | Hold
) -> None:
    api, (replica,) = holding()
    for one in forged:
        forge(replica, one)
    before = replica.clock.now
    act = replica.admit if isinstance(asked, Charge) else replica.reserve
    assert act(asked) == ""  # type: ignore[arg-type]
    assert replica.clock.now - before <= 2 * GRACE
    assert api.stored is not None
    assert asked.uid in entered(api)
    assert api.stored.holds[0] == hold("g", 2), "what is real stays"
    assert not any(entry.announced for entry in (*api.stored.holds, *api.stored.charges))


def test_old_forged_entries_cause_no_wait() -> None:
    _, (replica,) = holding()
    forge(replica, hold("x", 2))
    replica.clock.now += GRACE
    replica.slept.clear()
    assert replica.reserve(hold("n", 2)) == ""
    assert sum(replica.slept) == 0


def test_a_request_that_does_not_fit_beside_existing_objects_is_refused_without_waiting() -> None:
    api, (replica,) = holding()
    forge(replica, hold("x", 1))
    replica.slept.clear()
    said = replica.reserve(hold("n", 3))
    assert said == "exceeded quota: rq, requested: cpu=3, used: cpu=0, reserved: cpu=2, limited: cpu=4"
    assert sum(replica.slept) == 0
    assert entered(api) == ["uid-g", "uid-x"]


@pytest.mark.parametrize("seconds", [0.0, 0.3, 0.9])
def test_a_creation_that_is_underway_is_waited_for_and_not_robbed(seconds: float) -> None:
    """Of two that are both for real and do not fit together, the one that came first gets in."""
    api, (replica,) = holding()
    first = charge("first", 2)
    forge(replica, first)
    began, sleep = replica.clock.now, replica.sleep

    def stored_later(pause: float) -> None:
        sleep(pause)
        if replica.clock.now >= began + seconds and first.uid not in api.members:
            api.create(first)

    replica.sleep = stored_later
    said = replica.admit(charge("second", 1))
    assert said == "exceeded quota: rq, requested: cpu=1, used: cpu=2, reserved: cpu=2, limited: cpu=4"
    assert replica.clock.now - began <= seconds + 0.1
    assert "second" not in entered(api)


def test_a_group_stored_after_its_time_is_entered_again_and_seen() -> None:
    api, (replica,) = holding()
    late = hold("late", 2)
    forge(replica, late)
    assert replica.reserve(hold("n", 2)) == ""
    assert "uid-late" not in entered(api)
    api.create(late)
    assert replica.store.reconcile(NAMESPACE)
    assert "uid-late" in entered(api)
    assert api.stored is not None
    assert api.stored.held == {"cpu": 6000}, "more than there is, and nobody else gets in"
    assert replica.admit(charge("p", 1)) != ""


def test_a_replica_does_not_release_what_waits_at_another() -> None:
    """n waits at the first replica for x to turn out to be nothing; p came later, to the second one."""
    api = FakeApi("4")
    api.tells = True
    first, second = Replica(api, real=True), Replica(api, real=True)
    assert first.reserve(hold("g", 2)) == ""
    second.hear_ledger()
    forge(first, hold("x", 2))
    second.hear_ledger()
    first.waits.clear()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(first.reserve, hold("n", 2))
        assert first.waits.wait(60)
        said = second.admit(charge("p", 1))
        assert waiting.result(60) == ""
    assert said == "exceeded quota: rq, requested: cpu=1, used: cpu=0, reserved: cpu=4, limited: cpu=4"
    assert sorted(entered(api)) == ["uid-g", "uid-n"]


def test_a_forged_resize_takes_nothing_from_its_pod_and_refuses_no_request() -> None:
    _, (replica,) = holding()
    assert replica.admit(charge("p", 1)) == ""
    forge(replica, charge("p", 2))
    assert replica.admit(charge("q", 1)) == ""
    assert replica.admit(charge("r", 1)) != ""


def test_one_request_about_a_pod_does_not_lose_what_another_wrote_down() -> None:
    api, (replica,) = holding("9")
    api.members["p"] = use("p", 1)
    assert replica.admit(charge("p", 4)) == ""
    api.members["p"] = use("p", 1)
    forge(replica, Charge("p", "p", "", {"memory": 1, "pods": 1}))
    assert api.stored is not None
    assert api.stored.charges[0].usage == {"cpu": 4000, "pods": 1, "memory": 1}


def test_a_dry_run_is_not_refused_by_what_does_not_exist_either() -> None:
    api, (replica,) = holding()
    forge(replica, hold("x", 2))
    api.forget_calls()
    assert replica.reserve(hold("n", 2), dry_run=True) == ""
    assert "uid-n" not in entered(api)


# Floods


def flooded(hard: str = "4") -> tuple[FakeApi, Replica]:
    """A namespace with room for none of the many who were here, all of whom are nothing."""
    api, (replica,) = holding(hard)
    api.stores = False
    for number in range(MANY):
        replica.store.batches.submit(NAMESPACE, Waiter(charge(f"x{number}", 2), dry_run=False))
    replica.clock.now += LONG_SECONDS
    replica.store.batches.submit(NAMESPACE, Waiter(charge("y", 2), dry_run=False))
    assert replica.ledgers.entry_ages.flooded(NAMESPACE)
    api.stores = True
    return api, replica


def test_in_a_flood_too_the_ledger_stays_small_and_who_is_real_gets_in() -> None:
    api, replica = flooded()
    for number in range(3 * FLOOD_ENTRIES):
        waiter = Waiter(charge(f"z{number}", 2), dry_run=False)
        replica.store.batches.submit(NAMESPACE, waiter)
        assert len(entered(api)) <= FLOOD_ENTRIES + 3
    assert replica.admit(charge("p", 2)) == ""
    assert replica.admit(charge("m", 2, "g")) == ""
    assert "uid-g" in entered(api)


def test_in_a_flood_few_wait_and_the_others_are_answered_by_what_is_sure() -> None:
    api, replica = flooded()
    queue = replica.store.batches.queue(NAMESPACE)
    queue.waiting = [Waiter(charge(f"w{number}"), dry_run=False) for number in range(FLOOD_QUEUE)]
    api.forget_calls()
    assert replica.admit(charge("p", 2)) == ""
    with pytest.raises(Undecided, match="namespace a has too many requests whose objects do not appear"):
        replica.admit(charge("q", 3))
    assert api.calls == {}


def test_a_flood_that_is_over_is_forgotten() -> None:
    api, replica = flooded()
    replica.clock.now += FLOOD_SECONDS
    assert not replica.ledgers.entry_ages.flooded(NAMESPACE)
    assert replica.admit(charge("p", 1)) == ""
    assert entered(api) == ["uid-g", "p"]


def test_a_burst_that_is_real_is_no_flood() -> None:
    """Three times as many pods as there is room for, all at once: what is reserved stays reserved."""
    api = FakeApi("20")
    api.tells = True
    replica = Replica(api, real=True, gather=0.002)
    assert replica.reserve(hold("g", 10)) == ""
    said = [replica.admit(charge("p0", 1))]
    barrier = threading.Barrier(30)

    def act(number: int) -> str:
        barrier.wait(60)
        return replica.admit(charge(f"p{number}", 1))

    with ThreadPoolExecutor(30) as pool:
        said += list(pool.map(act, range(1, 31)))
    assert said.count("") == 10
    assert api.stored is not None
    assert api.stored.held == {"cpu": 10000}


def test_in_a_flood_races_between_replicas_are_run_more_often() -> None:
    api, replica = flooded()
    api.rivals = 2 * ATTEMPTS
    assert replica.admit(charge("p", 2)) == ""
    assert "p" in entered(api)
