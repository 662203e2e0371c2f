"""Threads that namespaces share."""

from __future__ import annotations

import threading

import pytest

from scheduler_core.app.extenders.fair_workers import FairWorkers
from tests.support.eventually import eventually


class Held:
    """Tasks that last until `go`; `begun` are the owners whose task began, in order."""

    def __init__(self, count: int, most: int) -> None:
        self.go = threading.Event()
        self.begun: list[str] = []
        self.workers = FairWorkers(count, most, "test")

    def submit(self, owner: str, *, quick: bool = False) -> None:
        def act() -> None:
            self.begun.append(owner)
            if not quick:
                self.go.wait(30.0)

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
