"""Bursts under an API server that answers badly: one scheduler goes through all of it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

import pytest

from tests.support.eventually import eventually
from tests.support.faults.burst import CAPPED, GANG, SETTLE_SECONDS, Losses
from tests.support.faults.rules import Call, Rule, is_binding, is_write, watches
from tests.support.faults.stage import Stage

pytestmark = pytest.mark.timeout(240)

Record = Callable[[str, int, Losses], None]
_ENOUGH = 6
Fault = Callable[[], Rule]

# Sentence, the fault, and how often it must have come before the server is well again.
ANSWERS: list[tuple[str, Fault, int]] = [
    (
        "409 to every second binding",
        lambda: Rule(is_binding, every=2, status=409, reason="Conflict"),
        8,
    ),
    (
        "409 to every second write",
        lambda: Rule(is_write, every=2, status=409, reason="Conflict"),
        15,
    ),
    (
        "409 to nine bindings of ten",
        lambda: Rule(lambda call: is_binding(call) and call.number % 10 > 0, status=409, times=12),
        12,
    ),
    (
        "429 without Retry-After to nine bindings of ten",
        lambda: Rule(lambda call: is_binding(call) and call.number % 10 > 0, status=429, times=12),
        12,
    ),
    (
        "500 to every second write",
        lambda: Rule(is_write, every=2, status=500, reason="InternalError"),
        15,
    ),
    ("lost answers to accepted bindings", lambda: Rule(is_binding, lose=True), 8),
    ("lost answers to accepted writes", lambda: Rule(is_write, lose=True), 15),
    ("bindings lost on their way", lambda: Rule(is_binding, drop=True, every=2), 8),
    ("slow answers to writes", lambda: Rule(is_write, delay=0.7), 15),
    ("slow answers to everything", lambda: Rule(lambda call: call.verb != "watch", delay=0.5), 25),
]


@pytest.mark.parametrize(("sentence", "fault", "hits"), ANSWERS, ids=[fault[0] for fault in ANSWERS])
def test_a_burst_that_is_answered_badly_loses_nothing(
    stage: Stage, record: Record, sentence: str, fault: Fault, hits: int
) -> None:
    rule = fault()
    losses = stage.during(rule, hits=hits)
    record(sentence, rule.hits, losses)


SHARED: list[tuple[str, dict[str, int]]] = [
    ("every third request of HTTP/2 refused", {"refuse_each": 3}),
    ("GOAWAY behind every third request of HTTP/2", {"go_away_each": 3}),
    ("the connection of HTTP/2 broken with every fourth request", {"cut_each": 4}),
]


@pytest.mark.parametrize(("sentence", "fault"), SHARED, ids=[fault[0] for fault in SHARED])
def test_a_burst_over_a_shared_connection_that_fails_loses_nothing(
    stage: Stage, record: Record, sentence: str, fault: dict[str, int]
) -> None:
    burst = stage.burst()
    faults = stage.proxy.door("main").http2
    before = faults.hits
    for name, each in fault.items():
        setattr(faults, name, each)
    burst.begin()

    def enough() -> bool:
        burst.stir()
        return faults.hits - before >= _ENOUGH

    eventually(enough, SETTLE_SECONDS)
    faults.be_well()
    losses = burst.settle(lambda: stage.process)
    record(sentence, faults.hits - before, losses)


def test_retry_after_is_honoured_by_every_write(stage: Stage, record: Record) -> None:
    rule = Rule(is_write, every=2, status=429, reason="TooManyRequests", retry_after=1)
    began = time.monotonic()
    losses = stage.during(rule, hits=15)
    calls = stage.journal.found(is_write, since=began)
    again = [
        min((later.at - call.at for later in calls if same(call, later)), default=None)
        for call in calls
        if call.status == 429
    ]
    assert [wait for wait in again if wait is not None and wait < 1.0] == []
    assert any(again)
    record("429 with Retry-After to every second write", rule.hits, losses)


def same(refused: Call, later: Call) -> bool:
    """Whether it is the same write once more."""
    ours, theirs = (refused.verb, refused.path, refused.body), (later.verb, later.path, later.body)
    return later.number > refused.number and ours == theirs


def test_a_rival_that_writes_the_quota_without_end_holds_up_no_pod(stage: Stage, record: Record) -> None:
    burst = stage.burst()
    ended = threading.Event()
    writes = 0

    def rival() -> None:
        nonlocal writes
        while not ended.is_set():
            writes += 1
            burst.touch_quota(str(writes))

    thread = threading.Thread(target=rival, daemon=True)
    thread.start()
    try:
        burst.begin()
        burst.await_bound(CAPPED + GANG)
    finally:
        ended.set()
        thread.join()
    record("a rival writes the quota without end", writes, burst.settle(lambda: stage.process))


def error_line(code: int, reason: str) -> bytes:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "on demand"}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


def is_watch(call: Call) -> bool:
    return call.verb == "watch"


PODS = watches("pods")
WATCHES: list[tuple[str, Fault, int]] = [
    ("watch of pods cut after every third event", lambda: Rule(PODS, cut_after=3), 4),
    ("410 in the watch of pods", lambda: Rule(PODS, times=3, lines=(error_line(410, "Expired"),)), 3),
    ("410 as the answer to every watch", lambda: Rule(is_watch, times=20, status=410, reason="Expired"), 20),
    ("500 as the answer to every watch", lambda: Rule(is_watch, times=20, status=500), 20),
    ("garbage in the watch of pods", lambda: Rule(PODS, times=3, lines=(b'{"type": "ADD\n',)), 3),
]


@pytest.mark.parametrize(("sentence", "fault", "hits"), WATCHES, ids=[fault[0] for fault in WATCHES])
def test_a_burst_whose_watches_break_loses_nothing(
    stage: Stage, record: Record, sentence: str, fault: Fault, hits: int
) -> None:
    rule = fault()
    losses = stage.amidst(rule, hits=hits)
    record(sentence, rule.hits, losses)
