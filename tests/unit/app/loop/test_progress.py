"""A slow loop is told from one that hangs, and how far it is behind."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any

import pytest

from scheduler_core.app.loop.inbox import LagMark
from scheduler_core.app.loop.progress import (
    BEHIND_SECONDS,
    HANG_SECONDS,
    Heartbeat,
    InboxLag,
    Watchdog,
    call_stack,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_slow_loop_that_makes_progress_is_not_ended(clock: Clock) -> None:
    heartbeat = Heartbeat()
    dog = Watchdog(heartbeat, clock)
    for second in range(3600):
        clock.now += 1.0
        heartbeat.beats += second % 59 == 0
        assert dog.look() == ""


def test_a_loop_without_progress_hangs_and_the_report_names_its_step(clock: Clock) -> None:
    heartbeat = Heartbeat()
    dog = Watchdog(heartbeat, clock)
    heartbeat.beats, heartbeat.doing = 5, "deciding"
    assert dog.look() == ""
    for _ in range(int(HANG_SECONDS)):
        clock.now += 1.0
        assert dog.look() == ""
    clock.now += 1.0
    assert dog.look() == "the scheduling loop hangs for 61 s, deciding"
    heartbeat.beats += 1
    assert dog.look() == ""


def test_a_process_that_stood_still_did_not_hang(clock: Clock) -> None:
    dog = Watchdog(Heartbeat(), clock)
    assert dog.look() == ""
    clock.now += 86_400.0
    assert dog.look() == ""
    for _ in range(int(HANG_SECONDS) - 5):
        clock.now += 1.0
        assert dog.look() == ""
    clock.now += 1.0
    assert "hangs" in dog.look()


def test_more_than_one_may_look(clock: Clock) -> None:
    dog = Watchdog(Heartbeat(), clock)
    dog.look()
    for _ in range(int(HANG_SECONDS)):
        for _ in range(4):
            clock.now += 0.25
            assert dog.look() == ""
    clock.now += 0.25
    assert "hangs" in dog.look()


def inbox_of(*items: str) -> SimpleQueue[Any]:
    inbox: SimpleQueue[Any] = SimpleQueue()
    for item in items:
        inbox.put(item)
    return inbox


def test_an_empty_inbox_is_not_behind(clock: Clock) -> None:
    lag = InboxLag(inbox_of(), clock)
    clock.now += 1000.0
    assert (lag.age(), lag.problem()) == (0.0, "")


def test_the_oldest_event_is_as_old_as_the_mark_before_it(clock: Clock) -> None:
    inbox = inbox_of("a", "b")
    lag = InboxLag(inbox, clock)
    clock.now += 3.0
    assert lag.age() == 3.0
    inbox.get()
    lag.note_left()
    clock.now += 2.0
    inbox.put("c")
    assert lag.age() == 5.0, "b is still there"
    inbox.get()
    mark = inbox.get()
    assert mark == LagMark(1003.0)
    lag.reached(mark)
    assert lag.age() == 2.0
    inbox.get()
    lag.note_empty()
    clock.now += 50.0
    assert lag.age() == 0.0
    inbox.put("d")
    assert lag.age() == 50.0, "nobody has looked since"


def test_a_process_that_is_far_behind_is_not_ready(clock: Clock) -> None:
    lag = InboxLag(inbox_of("a"), clock)
    clock.now += BEHIND_SECONDS
    assert lag.problem() == ""
    clock.now += 1.0
    assert lag.problem() == "the oldest event has waited for 31 s"


def test_the_position_of_a_thread_is_shown_in_one_line() -> None:
    there, go = threading.Event(), threading.Event()

    def hanging() -> None:
        there.set()
        go.wait()

    thread = threading.Thread(target=hanging)
    thread.start()
    there.wait()
    said = call_stack(thread)
    go.set()
    thread.join()
    assert " < hanging (test_progress.py:" in said
    assert "\n" not in said
    assert call_stack(threading.Thread()) == call_stack(thread) == ""
