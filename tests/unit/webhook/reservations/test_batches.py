"""Requests that wait together: decided at once, each with its own answer, dry runs without a trace."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from scheduler_core.kube.errors import ServiceUnavailable
from scheduler_core.model.quotas.reservation_ledger import Charge, Hold
from scheduler_core.quota.reservations.usage import Shortage
from tests.unit.webhook.reservations.reservations import NAMESPACE, FakeApi, Replica, charge, hold, pod_group
from webhook.http.deadline import remaining, within
from webhook.reservations import batches
from webhook.reservations.batches import Batches, Undecided, Waiter
from webhook.reservations.ledger_writer import Times
from webhook.reservations.reservation_store import ReservationStore

SHORT = Shortage("rq", {}, {}, {}, {})


def together(*others: Waiter, hard: str = "4") -> tuple[FakeApi, ReservationStore]:
    """A store in which group g holds 2, and whose next request finds these others waiting with it."""
    api = FakeApi(hard)
    replica = Replica(api)
    assert replica.reserve(hold("g", 2)) == ""
    api.existing["uid-g"] = pod_group("g", 2)

    def join(seconds: float) -> None:
        waiting = store.batches.queue(NAMESPACE).waiting
        waiting.extend(other for other in others if not other.done and other not in waiting)

    store = ReservationStore(api, replica.ledgers, replica.pods, lambda _: api.native, Times(barrier=0), join)
    return api, store


def stored(api: FakeApi) -> tuple[list[str], list[str]]:
    assert api.stored is not None
    return [item.uid for item in api.stored.holds], [item.uid for item in api.stored.charges]


@pytest.mark.parametrize("asked", [charge("dry", 1), hold("dry", 1)], ids=["a pod", "a group"])
def test_a_dry_run_that_waits_with_a_real_request_is_answered_and_not_written(asked: Charge | Hold) -> None:
    dry = Waiter(asked, dry_run=True)
    api, store = together(dry)
    assert not store.charge(NAMESPACE, charge("real", 1))
    assert (dry.done, dry.error, list(dry.short)) == (True, "", [])
    assert stored(api) == (["uid-g"], ["real"])
    assert api.stored is not None
    assert api.stored.held == {"cpu": 2000}


def test_a_dry_run_takes_no_room_from_a_real_request_and_sees_it() -> None:
    dry = Waiter(charge("dry", 2), dry_run=True)
    api, store = together(dry)
    assert not store.charge(NAMESPACE, charge("real", 1))
    assert (list(dry.short), dry.conditional, sorted(dry.ahead)) == ([], True, [(False, "real")])
    assert stored(api)[1] == ["real"]


def test_each_request_sees_those_before_it_and_a_refused_one_stops_no_other() -> None:
    others = [
        Waiter(charge("huge", 3), False),
        Waiter(charge("big", 2), False),
        Waiter(charge("q", 1), False),
    ]
    api, store = together(*others)
    assert not store.charge(NAMESPACE, charge("first", 1))
    assert [(bool(other.short), other.conditional) for other in others] == [
        (True, False),
        (False, True),
        (False, True),
    ]
    assert [sorted(uid for _, uid in other.ahead) for other in others[1:]] == [["first"], ["big", "first"]]
    assert [other.error for other in others] == ["", "", ""]
    assert stored(api)[1] == ["first", "big", "q"]


def test_where_only_dry_runs_and_refusals_wait_nothing_is_written() -> None:
    api, store = together(Waiter(charge("dry", 1), True), Waiter(charge("big", 3), False))
    api.forget_calls()
    assert store.charge(NAMESPACE, charge("huge", 9))
    assert api.calls["put"] == 0
    assert stored(api)[1] == []


def test_a_member_and_its_group_may_come_together() -> None:
    member = Waiter(charge("m", 1, "new"), False)
    api, store = together(member)
    api.existing["uid-new"] = pod_group("new", 2)
    assert not store.reserve(NAMESPACE, hold("new", 2))
    assert (list(member.short), stored(api)) == ([], (["uid-g", "uid-new"], ["m"]))
    assert api.stored is not None
    assert api.stored.held["cpu"] == 3000


# The queue itself


def deciding(decide: Callable[[str, Sequence[Waiter]], str]) -> Batches:
    return Batches(decide, lambda: None)


def test_namespaces_are_decided_apart() -> None:
    seen: list[tuple[str, int]] = []

    def decide(namespace: str, batch: Sequence[Waiter]) -> str:
        seen.append((namespace, len(batch)))
        return ""

    made = deciding(decide)
    for namespace in ("a", "b", "a"):
        assert made.submit(namespace, Waiter(charge("p"), False)) == ()
    assert seen == [("a", 1), ("b", 1), ("a", 1)]
    assert made.queue("a") is made.queue("a")
    assert made.queue("a") is not made.queue("b")


def test_the_pause_comes_before_the_batch_is_taken() -> None:
    sizes: list[int] = []
    other = Waiter(charge("q"), False)
    made = Batches(
        lambda _, batch: sizes.append(len(batch)) or "", lambda: made.queue("a").waiting.append(other)
    )
    made.submit("a", Waiter(charge("p"), False))
    assert (sizes, other.done) == ([2], True)


def test_a_request_that_was_decided_in_another_batch_decides_nothing_itself() -> None:
    calls: list[int] = []
    made = deciding(lambda _, batch: calls.append(len(batch)) or "")
    waiter = Waiter(charge("p"), False, short=[SHORT], done=True)
    assert made.submit("a", waiter) == [SHORT]
    assert calls == []


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        pytest.param(
            ServiceUnavailable(503, "ServiceUnavailable", "no"), "cannot be written", id="the server"
        ),
        pytest.param(None, "lost", id="words"),
    ],
)
def test_without_a_decision_no_request_is_admitted_but_a_refusal_stands(
    problem: Exception | None, words: str
) -> None:
    def decide(namespace: str, batch: Sequence[Waiter]) -> str:
        batch[0].short = [SHORT]
        if problem is not None:
            raise problem
        return "lost"

    other = Waiter(charge("q"), False)
    made = Batches(decide, lambda: made.queue("a").waiting.append(other))
    assert made.submit("a", Waiter(charge("p"), False)) == [SHORT]
    assert words in other.error
    with pytest.raises(Undecided, match=words):
        made.submit("a", other)


def test_broken_code_admits_no_request_and_the_next_one_is_tried() -> None:
    outcomes = iter([RuntimeError("bug"), None])

    def decide(namespace: str, batch: Sequence[Waiter]) -> str:
        error = next(outcomes)
        if error is not None:
            raise error
        return ""

    made = deciding(decide)
    first = Waiter(charge("p"), False)
    with pytest.raises(RuntimeError):
        made.submit("a", first)
    assert (first.done, first.error) == (True, "reservations of namespace a were not decided")
    assert made.submit("a", Waiter(charge("q"), False)) == ()


def test_a_request_that_waits_too_long_is_undecided_and_leaves_the_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "DECIDE_SECONDS", 0.01)
    made = deciding(lambda _, batch: "")
    queue = made.queue("a")
    queue.worker.acquire()
    said: list[str] = []

    def wait() -> None:
        try:
            made.submit("a", Waiter(charge("p"), False))
        except Undecided as error:
            said.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(60)
    queue.worker.release()
    assert said == ["reservations of namespace a were not decided in 0.01 s"]
    assert queue.waiting == []


def test_a_batch_has_its_own_time_whoever_works_for_it() -> None:
    """A thread with hardly any time left would let the questions of all others fail."""
    left: list[float] = []
    made = deciding(lambda _, batch: left.append(remaining()) or "")
    with within(0.1):
        made.submit("a", Waiter(charge("p"), False))
        assert 0 < remaining() <= 0.1
    assert 1.0 < left[0] <= batches.DECIDE_SECONDS


def test_queues_of_namespaces_that_anybody_named_are_not_kept() -> None:
    made = deciding(lambda _, batch: "")
    for number in range(100):
        made.submit(f"n{number}", Waiter(charge("p"), False))
    assert len(made) == 0
    assert made.waiting("n1") == 0
