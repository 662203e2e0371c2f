"""Threads that namespaces share."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from scheduler_core.app.extenders.fair_workers import FairWorkers
from tests.support.eventually import eventually

LONG_SECONDS = 5.0


class Held:
    """Tasks that last until `go`; `begun` are the owners whose task began, in order, `ended` those whose task
    ended. Time passes by `now` alone.
    """

    def __init__(self, count: int, most: int) -> None:
        self.go = threading.Event()
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.now = 0.0
        self.workers = FairWorkers(count, most, "test", LONG_SECONDS, lambda: self.now)

    def submit(self, owner: str, *, quick: bool = False) -> None:
        def act() -> None:
            self.begun.append(owner)
            if not quick:
                self.go.wait(30.0)
            self.ended.append(owner)

        self.workers.submit(owner, act)


@pytest.fixture
def held() -> Held:
    return Held(4, 2)


def test_an_owner_whose_tasks_hang_leaves_threads_to_others(held: Held) -> None:
    for _ in range(20):
        held.submit("busy")
    held.submit("quiet", quick=True)
    eventually(lambda: "quiet" in held.begun, 10)
    assert held.begun.count("busy") == 2
    held.go.set()
    eventually(lambda: len(held.begun) == 21, 10)


def test_tasks_that_come_at_once_each_get_a_thread_though_one_was_idle(held: Held) -> None:
    held.submit("first", quick=True)
    eventually(lambda: held.begun == ["first"], 10)
    for owner in ("a", "b", "c", "d"):
        held.submit(owner)
    eventually(lambda: sorted(held.begun) == ["a", "b", "c", "d", "first"], 10)
    held.go.set()


def test_owners_take_turns() -> None:
    held = Held(1, 1)
    held.submit("first")
    eventually(lambda: held.begun == ["first"], 10)
    for owner in ("a", "a", "a", "b", "c"):
        held.submit(owner)
    held.go.set()
    eventually(lambda: len(held.begun) == 6, 10)
    assert held.begun == ["first", "a", "b", "c", "a", "a"]


def test_a_task_that_fails_is_logged_and_ends_no_thread(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> None:
        raise ValueError("broken")

    for _ in range(8):
        held.workers.submit("a", fails)
    held.submit("a", quick=True)
    eventually(lambda: held.begun == ["a"], 10)
    assert "broken" in caplog.text


def hung(held: Held, owners: Sequence[str]) -> None:
    """Each of these owners had a task that took long, and has ended."""
    for owner in owners:
        held.submit(owner)
    eventually(lambda: len(held.begun) == len(owners), 10)
    held.now += LONG_SECONDS
    held.go.set()
    eventually(lambda: len(held.ended) == len(owners), 10)
    held.go.clear()
    held.begun.clear()
    held.ended.clear()


@pytest.mark.parametrize("hostile", [2, 3, 4], ids=["two owners", "three owners", "four owners"])
def test_owners_whose_tasks_hang_for_the_first_time_leave_a_thread_to_another(hostile: int) -> None:
    """Nobody knows yet that their tasks take long."""
    held = Held(16, 8)
    for owner in range(hostile):
        for _ in range(20):
            held.submit(f"busy-{owner}")
    eventually(lambda: len(held.begun) >= 12, 10)
    held.submit("quiet", quick=True)
    eventually(lambda: "quiet" in held.begun, 10)
    held.go.set()
    eventually(lambda: len(held.ended) == 20 * hostile + 1, 10)


def test_owners_whose_last_task_took_long_share_a_part_of_the_threads() -> None:
    held = Held(16, 8)
    hostile = [f"busy-{number}" for number in range(12)]
    hung(held, hostile)
    for owner in hostile:
        for _ in range(20):
            held.submit(owner)
    for _ in range(8):
        held.submit("quiet")
    eventually(lambda: held.begun.count("quiet") == 8, 10)
    eventually(lambda: len(held.begun) == 12, 10)
    held.submit("another", quick=True)
    eventually(lambda: "another" in held.ended, 10)
    assert len(held.begun) == 13, "four threads for those whose tasks took long, all together"
    held.go.set()
    eventually(lambda: len(held.ended) == 20 * 12 + 9, 10)


def test_an_owner_whose_task_was_quick_again_has_all_its_threads_back() -> None:
    held = Held(16, 8)
    hung(held, ["busy"])
    held.submit("busy", quick=True)
    eventually(lambda: held.ended == ["busy"], 10)
    for _ in range(20):
        held.submit("busy")
    eventually(lambda: len(held.begun) == 9, 10)
    held.go.set()
    eventually(lambda: len(held.ended) == 21, 10)


def test_threads_that_wait_are_woken_when_an_owner_is_quick_again() -> None:
    """Its first quick task lets several others begin at once."""
    held = Held(16, 8)
    hung(held, ["busy"])
    for _ in range(4):
        held.submit("busy", quick=False)
    eventually(lambda: len(held.begun) == 4, 10)
    for _ in range(12):
        held.submit("busy")
    held.go.set()
    eventually(lambda: len(held.ended) == 16, 10)
