"""Dear reviews rest before they are answered, large ones go one at a time, usual ones wait for nobody."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from scheduler_core.model.quotas.reservation_ledger import Charge
from tests.support.eventually import eventually
from tests.unit.webhook.http.reviews import envelope, namespace, node, quota, synced
from webhook.http import review_endpoint
from webhook.http.app import create_app
from webhook.http.body import MAX_BODIES
from webhook.http.deadline import within
from webhook.http.throttling import (
    FREE_SECONDS,
    LARGE_BYTES,
    LONGEST_REST,
    MOST_RESTING,
    MOST_WAITING,
    REST,
    ReviewThrottle,
)
from webhook.metrics import WebhookMetrics
from webhook.policy.review_dispatcher import ReviewDispatcher
from webhook.reservations.batches import Batches, Waiter


class Clock:
    """Processor time that passes as told; sleeps are noted."""

    def __init__(self, *spent: float) -> None:
        self._now, self._spent = 0.0, iter(spent)
        self.slept: list[float] = []
        self._begun = False

    def __call__(self) -> float:
        if self._begun:
            self._now += next(self._spent)
        self._begun = not self._begun
        return self._now


RESTS = [
    ("a usual review", 0.0005, 60.0, None),
    ("as much as is free", FREE_SECONDS, 60.0, None),
    ("a dear one", 0.02, 60.0, 0.02 * REST),
    ("a very dear one", 0.9, 60.0, LONGEST_REST),
]


@pytest.mark.parametrize(("spent", "patience", "rest"), [r[1:] for r in RESTS], ids=[r[0] for r in RESTS])
def test_rest_is_in_proportion_and_leaves_time_to_answer(
    spent: float, patience: float, rest: float | None
) -> None:
    clock = Clock(spent)
    with within(patience), ReviewThrottle(clock.slept.append, clock).delaying_costly():
        pass
    assert clock.slept == ([] if rest is None else [pytest.approx(rest, abs=0.01)])


def test_whoever_has_rested_makes_room_for_the_next() -> None:
    count = MOST_RESTING + 1
    clock = Clock(*[0.02] * count)
    throttle = ReviewThrottle(clock.slept.append, clock)
    for _ in range(count):
        with within(60.0), throttle.delaying_costly():
            pass
    assert len(clock.slept) == count


def test_rest_is_at_most_half_of_the_time_that_the_client_still_waits() -> None:
    clock = Clock(0.02)
    with within(0.4), ReviewThrottle(clock.slept.append, clock).delaying_costly():
        pass
    assert 0 < clock.slept[0] <= 0.2


def test_only_so_many_threads_rest() -> None:
    awake = threading.Event()
    asleep: list[float] = []

    def sleep(seconds: float) -> None:
        asleep.append(seconds)
        awake.wait(30)

    throttle = ReviewThrottle(sleep, _each())
    threads = [threading.Thread(target=_rest, args=(throttle,)) for _ in range(MOST_RESTING + 8)]
    for thread in threads:
        thread.start()
    assert eventually(
        lambda: len(asleep) == MOST_RESTING and sum(t.is_alive() for t in threads) == MOST_RESTING
    )
    awake.set()
    for thread in threads:
        thread.join(30)


def _each() -> Any:
    """A clock of each thread on which every look takes a second."""
    local = threading.local()

    def look() -> float:
        local.now = getattr(local, "now", 0.0) + 1.0
        return float(local.now)

    return look


def _rest(throttle: ReviewThrottle) -> None:
    with throttle.delaying_costly():
        pass


def test_large_ones_go_one_after_the_other_and_usual_ones_beside_them() -> None:
    throttle = ReviewThrottle()
    done: list[str] = []

    def second() -> None:
        with throttle.turn(LARGE_BYTES + 1):
            done.append("second")

    with throttle.turn(LARGE_BYTES + 1):
        thread = threading.Thread(target=second)
        thread.start()
        with throttle.turn(LARGE_BYTES):
            done.append("usual")
        done.append("first")
    thread.join(30)
    assert done == ["usual", "first", "second"]


def test_large_one_waits_no_longer_than_its_client() -> None:
    throttle = ReviewThrottle()
    asked = threading.Event()
    turns: list[bool] = []

    def impatient() -> None:
        with within(0.05), throttle.turn(LARGE_BYTES + 1) as turn:
            turns.append(turn)
            asked.set()

    with throttle.turn(LARGE_BYTES + 1) as turn:
        turns.append(turn)
        thread = threading.Thread(target=impatient)
        thread.start()
        assert asked.wait(30)
    thread.join(30)
    assert turns == [True, False]


def test_few_threads_wait_for_their_turn_so_that_usual_reviews_find_one() -> None:
    throttle = ReviewThrottle()
    turns: list[bool] = []
    begun = threading.Semaphore(0)

    def one() -> None:
        begun.release()
        with throttle.turn(LARGE_BYTES + 1) as turn:
            turns.append(turn)

    with throttle.turn(LARGE_BYTES + 1):
        threads = [threading.Thread(target=one) for _ in range(MOST_WAITING + 8)]
        for thread in threads:
            thread.start()
            assert begun.acquire(timeout=30)
        eventually(lambda: len(turns) == 8, 30)
        assert not any(turns)
    for thread in threads:
        thread.join(30)
    assert turns.count(True) == MOST_WAITING


def test_a_large_review_that_waits_for_something_else_lets_the_next_begin() -> None:
    """A pod of another scheduler waits for a quarter of a second and more until it is judged."""
    throttle = ReviewThrottle()
    begun, go = threading.Event(), threading.Event()

    def decide(namespace: str, batch: Sequence[Waiter]) -> str:
        begun.set()
        assert go.wait(30)
        return ""

    batches = Batches(decide, lambda: None)

    def slow() -> None:
        with throttle.turn(LARGE_BYTES + 1):
            batches.submit("a", Waiter(Charge("u", "p", "", {}, best_effort=False), dry_run=False))

    thread = threading.Thread(target=slow)
    thread.start()
    assert begun.wait(30)
    with within(5.0), throttle.turn(LARGE_BYTES + 1) as turn:
        assert turn
    go.set()
    thread.join(30)
    with within(1.0), throttle.turn(LARGE_BYTES + 1) as turn:
        assert turn


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of bodies that are still claimed whenever a review rests, all of which are dear."""
    found: list[int] = []
    made: list[Any] = []

    def throttle() -> ReviewThrottle:
        return ReviewThrottle(lambda seconds: found.append(MAX_BODIES - made[0].left), _each())

    class Memory(review_endpoint.BodyMemory):
        def __init__(self) -> None:
            super().__init__(free=0)
            made.append(self)

    monkeypatch.setattr(review_endpoint, "ReviewThrottle", throttle)
    monkeypatch.setattr(review_endpoint, "BodyMemory", Memory)
    return found


def test_review_that_rests_holds_no_memory(rests: list[int]) -> None:
    app = create_app(ReviewDispatcher(synced(node(cpu="8"), namespace("a"))), WebhookMetrics())
    body = json.dumps(envelope(quota(min={"cpu": 1}, max={"cpu": 2})))
    answer = app.test_client().post("/validate", data=body, content_type="application/json")
    assert answer.get_json()["response"]["allowed"]
    assert rests == [0]
