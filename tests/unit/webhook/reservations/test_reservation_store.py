"""The store between replicas: batches, lost races, lost answers, lost ledgers, and what never appeared."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from scheduler_core.kube.errors import Conflict, ServiceUnavailable, Unreachable
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import POD_GROUPS
from scheduler_core.model.quotas.reservation_ledger import ReservationLedger
from tests.support.eventually import eventually
from tests.support.searches import cases
from tests.unit.webhook.reservations.reservations import (
    NAMESPACE,
    FakeApi,
    Replica,
    charge,
    hold,
    native,
    pod_group,
    use,
)
from webhook.reservations.batches import DECIDE_SECONDS, Undecided
from webhook.reservations.reservation_store import ATTEMPTS

WORDS = "exceeded quota: rq, requested: cpu={}, used: cpu={}, reserved: cpu={}, limited: cpu={}"


def holding(hard: str = "4", reserved: int = 2) -> tuple[FakeApi, Replica]:
    """A namespace in which group g holds something, and a replica that knows it."""
    api = FakeApi(hard)
    replica = Replica(api)
    assert replica.reserve(hold("g", reserved)) == ""
    api.existing["uid-g"] = pod_group("g", reserved)
    api.forget_calls()
    return api, replica


def test_admission_costs_one_write_and_no_reads() -> None:
    api, replica = holding()
    assert replica.admit(charge("p")) == ""
    assert api.calls == {"put": 1}
    assert api.stored is not None
    assert [c.uid for c in api.stored.charges] == ["p"]


def test_refusal_comes_only_after_everything_was_read_anew() -> None:
    api, replica = holding()
    assert replica.admit(charge("p", 3)) == WORDS.format(3, 0, 2, 4)
    assert api.calls == {"get": 1, "pods": 1, "groups": 1, "quotas": 1}

    # The watch of ResourceQuotas is behind: the live one has room.
    stale, api.native = api.native, [native(cpu="8")]
    replica.quotas = lambda: stale
    assert replica.admit(charge("p", 3)) == ""


def test_other_replica_that_lags_is_corrected_by_the_conflict() -> None:
    api, first = holding(hard="3")
    second = Replica(api)
    second.hear_ledger()

    assert first.admit(charge("p")) == ""
    assert second.admit(charge("q")) == WORDS.format(1, 1, 2, 3)
    assert second.admit(charge("m", 2, "g")) == ""


def test_lost_races_are_run_again_three_times() -> None:
    api, replica = holding()
    api.rivals = ATTEMPTS - 1
    assert replica.admit(charge("p")) == ""
    assert api.calls["put"] == ATTEMPTS

    api.rivals = ATTEMPTS
    with pytest.raises(Undecided, match=r"ledger of namespace a was not written in time.*lost"):
        replica.admit(charge("q"))


@pytest.mark.parametrize(
    "error",
    [
        ServiceUnavailable(503, "ServiceUnavailable", "no"),
        Unreachable("connection reset", sent=True, method="PUT"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_request_that_cannot_be_written_is_not_admitted(error: Exception) -> None:
    api, replica = holding()
    api.broken = error
    with pytest.raises(Undecided, match="cannot be written"):
        replica.admit(charge("p"))


def test_lost_answer_is_resolved_by_asking_again() -> None:
    api, replica = holding(hard="3")
    put = api.put

    def lossy(ledger: ReservationLedger) -> ReservationLedger:
        put(ledger)
        raise Unreachable("connection reset", sent=True, method="PUT")

    api.put = lossy  # type: ignore[method-assign]
    with pytest.raises(Undecided):
        replica.admit(charge("p"))
    api.put = put  # type: ignore[method-assign]

    assert replica.admit(charge("p")) == ""
    assert api.stored is not None
    assert [c.uid for c in api.stored.charges] == ["p"]


def test_retries_are_idempotent_by_uid() -> None:
    api, replica = holding(hard="3")
    for _ in range(3):
        assert replica.admit(charge("p")) == ""
        assert replica.reserve(hold("g", 2)) == ""
    assert api.stored is not None
    assert (len(api.stored.charges), len(api.stored.holds)) == (1, 1)


def test_dry_run_is_judged_and_writes_nothing() -> None:
    api, replica = holding(hard="3")
    for _ in range(1000):
        assert replica.admit(charge("p"), dry_run=True) == ""
    assert replica.admit(charge("p", 2), dry_run=True) == WORDS.format(2, 0, 2, 3)
    assert replica.reserve(hold("n", 1), dry_run=True) == ""
    assert replica.reserve(hold("n", 2), dry_run=True) == WORDS.format(2, 0, 2, 3)
    assert api.calls["put"] == 0


def run_together(acts: list[Callable[[], str]]) -> list[str]:
    """What each says, all started at the same moment."""
    barrier = threading.Barrier(len(acts))
    said: list[str] = []

    def run(act: Callable[[], str]) -> None:
        barrier.wait(60)
        said.append(act())

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(said) == len(acts)
    return said


@pytest.mark.parametrize("replicas", [2, 3])
def test_racing_pods_never_take_more_than_there_is(replicas: int) -> None:
    """16 pods and 3 free units in every round: no unit over, none left, and fewer writes than pods.

    How many wait together, and so how few writes there are, depends on the machine.
    """
    writes, rounds = 0, cases(20, least=3)
    for _ in range(rounds):
        api, _ = holding(hard="5")
        api.tells = True
        stores = [Replica(api, real=True, gather=0.002) for _ in range(replicas)]
        for replica in stores:
            replica.hear_ledger()
        acts = [partial(stores[n % replicas].admit, charge(f"p{n}")) for n in range(16)]
        assert run_together(acts).count("") == 3
        writes += api.calls["put"]
    assert writes < 16 * rounds


def test_pods_that_wait_at_the_same_time_are_written_together() -> None:
    api, replica = holding(hard="100")
    began, go_on = threading.Event(), threading.Event()
    put = api.put

    def slow(ledger: ReservationLedger) -> ReservationLedger:
        began.set()
        assert go_on.wait(60)
        return put(ledger)

    api.put = slow  # type: ignore[method-assign]
    first = threading.Thread(target=replica.admit, args=(charge("p0"),))
    first.start()
    assert began.wait(60)
    threads = [threading.Thread(target=replica.admit, args=(charge(f"p{n}"),)) for n in range(1, 17)]
    for thread in threads:
        thread.start()
    queue = replica.store.batches.queue(NAMESPACE)
    eventually(lambda: len(queue.waiting) == 16)
    go_on.set()
    for thread in (first, *threads):
        thread.join(60)

    assert api.calls["put"] == 2
    assert api.stored is not None
    assert len(api.stored.charges) == 17


def test_first_hold_of_a_namespace_waits_for_pods_on_their_way() -> None:
    api = FakeApi("4")
    replica = Replica(api, barrier=0.25)

    def arrive(seconds: float) -> None:
        if seconds == 0.25:
            # Admitted when nothing was reserved here, stored only now.
            api.members["p"] = use("p", 3)

    replica.sleep = arrive
    assert replica.reserve(hold("g", 2)) == WORDS.format(2, 3, 0, 4)
    assert api.stored is not None
    assert api.stored.holds == ()

    api.members.clear()
    assert replica.reserve(hold("h", 1)) == ""
    replica.sleep = replica.slept.append
    assert replica.reserve(hold("i", 1)) == ""
    assert 0.25 not in replica.slept, "only the first waits"


def test_lagging_watch_of_pods_is_not_believed() -> None:
    """A charge that another replica struck out, as it saw the pod, counts for one that did not see it."""
    api, first = holding(hard="3")
    second = Replica(api)
    second.pods.follow(NAMESPACE)
    assert first.admit(charge("p")) == ""
    pod = api.members["p"] = use("p", 1, version="50")
    first.watches[NAMESPACE].tell(pod)
    assert first.store.reconcile(NAMESPACE)
    assert api.stored is not None
    assert api.stored.charges == ()

    second.hear_ledger()
    api.forget_calls()
    assert second.admit(charge("m", 1, "g")) == ""
    assert api.calls == {"pods": 1, "put": 1}
    assert second.admit(charge("q")) == WORDS.format(1, 2, 1, 3)


def test_a_hold_without_an_object_is_released_after_the_time_out() -> None:
    api, replica = holding(hard="4")
    api.stores = False
    assert replica.admit(charge("p", 2)) == ""
    replica.store.reconcile(NAMESPACE)
    replica.clock.now = 59.0
    assert not replica.store.reconcile(NAMESPACE)
    replica.clock.now = 61.0
    assert replica.store.reconcile(NAMESPACE)

    assert api.stored is not None
    assert (api.stored.charges, [h.group for h in api.stored.holds]) == ((), ["g"])
    assert replica.reserve(hold("n", 2)) == ""
    replica.store.reconcile(NAMESPACE)
    replica.clock.now = 130.0
    assert replica.store.reconcile(NAMESPACE)
    assert [h.group for h in api.stored.holds] == ["g"], "n was never created"


def test_slow_pod_that_does_appear_is_not_given_back() -> None:
    api, replica = holding(hard="3")
    assert replica.admit(charge("p", 1)) == ""
    replica.store.reconcile(NAMESPACE)
    replica.clock.now = 61.0
    # The watch has not told yet; the list that is read before anything is dropped shows it.
    api.members["p"] = use("p", 1)
    assert replica.store.reconcile(NAMESPACE)
    assert replica.admit(charge("q")) == WORDS.format(1, 1, 2, 3)


def test_deleted_pod_makes_room_as_soon_as_it_is_known_to_be_gone() -> None:
    api, replica = holding(hard="3")
    api.stores = False
    assert replica.admit(charge("p")) == ""
    watch = replica.watches[NAMESPACE]
    watch.tell(use("p"))
    watch.tell(use("p"), deleted=True)
    replica.slept.clear()
    assert replica.admit(charge("q")) == ""
    assert sum(replica.slept) == 0


@pytest.mark.parametrize("known", [True, False], ids=["watch told", "watch behind"])
def test_lost_ledger_is_made_again_from_groups_and_pods(known: bool) -> None:
    api, replica = holding(hard="4")
    api.members["m"] = use("m", 1, "g", version="40")
    api.stored = None
    if known:
        replica.hear_ledger()

    assert replica.admit(charge("p", 3)) == WORDS.format(3, 1, 1, 4)
    assert replica.admit(charge("p", 2)) == ""
    assert api.stored is not None
    assert [(h.group, h.total) for h in api.stored.holds] == [("g", {"cpu": 2000})]


def test_lost_ledger_comes_back_without_anybody_asking() -> None:
    api, replica = holding()
    api.stored = None
    replica.hear_ledger()
    replica.ledgers.sink(Event("ADDED", POD_GROUPS, "a/g", "uid-g", pod_group("g", 2)))
    assert replica.ledgers.namespaces() == {NAMESPACE}
    assert replica.store.reconcile(NAMESPACE)
    assert api.stored is not None
    assert api.stored.held == {"cpu": 2000}


def test_nothing_is_decided_in_this_process_while_a_ledger_is_reconciled() -> None:
    api, replica = holding()
    api.stored = None
    replica.hear_ledger()
    replica.ledgers.sink(Event("ADDED", POD_GROUPS, "a/g", "uid-g", pod_group("g", 2)))
    put, decided = api.put, []

    def slow_put(ledger: ReservationLedger) -> ReservationLedger:
        api.put = put  # type: ignore[method-assign]
        asking.start()
        asking.join(0.2)
        decided.extend(said)
        return put(ledger)

    said: list[str] = []
    asking = threading.Thread(target=lambda: said.append(replica.admit(charge("p", 1))))
    api.put = slow_put  # type: ignore[method-assign]
    assert replica.store.reconcile(NAMESPACE)
    asking.join(60)
    assert (decided, said) == ([], [""])


def test_room_of_objects_deleted_during_an_outage_is_released_after_a_restart() -> None:
    """A replica admits and dies; of its pods one came and went, one never came, and one is there."""
    api, dead = holding(hard="5")
    api.stores = False
    assert [dead.admit(charge(uid)) for uid in ("gone", "never", "there")] == ["", "", ""]
    api.members["there"] = use("there", version="30")

    born = Replica(api)
    born.ledgers.sink(Event("ADDED", POD_GROUPS, "a/g", "uid-g", pod_group("g", 2)))
    born.hear_ledger()
    born.store.reconcile(NAMESPACE)
    assert born.admit(charge("early", 3)) == WORDS.format(3, 1, 2, 5)
    assert [item.uid for item in (api.stored.charges if api.stored else ())][:2] == ["gone", "never"]
    born.clock.now = 61.0
    assert born.store.reconcile(NAMESPACE)

    assert api.stored is not None
    assert (api.stored.charges, api.stored.held) == ((), {"cpu": 2000})
    api.stores = True
    assert born.admit(charge("p", 2)) == ""
    assert born.admit(charge("q")) == WORDS.format(1, 3, 2, 5)


EDITS = [
    ("a smaller total", {"holds": (hold("g", 1),)}),
    ("no holds", {"holds": ()}),
    ("another sum", {"held": {"cpu": 1}}),
]


@pytest.mark.parametrize("edit", [e[1] for e in EDITS], ids=[e[0] for e in EDITS])
def test_ledger_edited_by_hand_is_repaired(edit: dict[str, object]) -> None:
    api, replica = holding()
    replica.ledgers.sink(Event("ADDED", POD_GROUPS, "a/g", "uid-g", pod_group("g", 2)))
    assert api.stored is not None
    api.stored = msgspec.structs.replace(api.stored, resource_version="900", **edit)
    replica.hear_ledger()

    assert replica.store.reconcile(NAMESPACE)
    assert (api.stored.holds, api.stored.held) == ((hold("g", 2),), {"cpu": 2000})


def test_hold_that_another_replica_repaired_first_is_left_to_it() -> None:
    api, replica = holding()
    assert replica.admit(charge("p")) == ""
    replica.watches[NAMESPACE].tell(use("p", version="30"))
    api.rivals = 1
    assert replica.store.reconcile(NAMESPACE)
    assert replica.store.reconcile(NAMESPACE)
    assert not replica.store.reconcile(NAMESPACE)


def test_decision_that_takes_too_long_is_none() -> None:
    api, replica = holding()
    get = api.ledger

    def slow(namespace: str) -> ReservationLedger:
        replica.clock.now += DECIDE_SECONDS + 1
        return get(namespace)

    api.ledger, api.rivals = slow, 2  # type: ignore[method-assign]
    with pytest.raises(Undecided):
        replica.admit(charge("p"))
    assert api.calls["put"] == 2


def test_reservation_that_cannot_be_confirmed_is_refused_for_now() -> None:
    api = FakeApi("4")
    replica = Replica(api, barrier=0.25)

    def breaks(seconds: float) -> None:
        if seconds == 0.25:
            api.broken = Conflict(409, "Conflict", "busy")

    replica.sleep = breaks
    with pytest.raises(Undecided, match=r"cannot be written: .*busy"):
        replica.reserve(hold("g", 2))


def test_broken_code_admits_no_request() -> None:
    api, replica = holding()
    api.broken = RuntimeError("a bug")
    replica.hear_ledger()
    with pytest.raises(RuntimeError):
        replica.admit(charge("p"))
    api.broken = None
    assert replica.admit(charge("q")) == ""
    assert api.stored is not None
    assert [c.uid for c in api.stored.charges] == ["q"]
